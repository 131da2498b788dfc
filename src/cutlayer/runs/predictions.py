"""Predictions of a label party as a CSV file: for programs exactly, for spreadsheets safely."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from cutlayer.durable import whole_file
from cutlayer.parties import Agreement

_OBEYED = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
"""What a spreadsheet takes for the beginning of a formula; and the mark that stops it from that."""


def write_predictions(
    agreement: Agreement,
    logit: Tensor,
    path: Path,
    last_part: str = "test",
    *,
    safe_csv: bool = False,
) -> None:
    """Write id, part of the split, and probability of the positive class, as CSV.

    The file is whole once it has its name.

    Args:
        agreement: which records were predicted.
        logit: of each of them.
        path: the file.
        last_part: how records that neither trained nor validate are called.
        safe_csv: whether ids are written by :func:`safe_texts`, and every text between quotes.
    """
    records = agreement.held_out.tolist()
    ids = [agreement.ids[number] for number in records]
    parts = ["validation"] * len(agreement.validation) + [last_part] * len(agreement.test)
    table = pl.DataFrame(
        {
            "id": safe_texts(ids) if safe_csv else ids,
            "part": parts,
            "probability": torch.sigmoid(logit.double()).tolist(),
        }
    )
    with whole_file(path) as partial:
        table.write_csv(partial, quote_style="non_numeric" if safe_csv else "necessary")


def safe_texts(texts: Iterable[str]) -> list[str]:
    """Texts that a spreadsheet does not run: an apostrophe stands before what it would.

    It also stands before a text that begins with one, so that whoever cuts one apostrophe off has
    every text as it was.

    >>> safe_texts(["7", "=1+1", "-5", "'x"])
    ['7', "'=1+1", "'-5", "''x"]
    """
    return [f"'{text}" if text.startswith(_OBEYED) else text for text in texts]
