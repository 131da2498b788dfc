"""The file of a private alignment: the ids that both parties hold, with their hash."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from cutlayer.alignment.shared_ids import alignment_hash
from cutlayer.data.text_sequence import TextSequence
from cutlayer.durable import whole_file
from cutlayer.errors import DataError

_COLUMN: Final = "id"
_HASH_KEY: Final = "cutlayer_alignment_hash"


def write_aligned_ids(path: Path, ids: TextSequence) -> str:
    """Write the shared ids. The file is whole once it has its name, and for its owner alone.

    Args:
        path: the file; its folder is made where it is missing.
        ids: shared ids, ascending by code point.

    Returns:
        Their :func:`~cutlayer.alignment.shared_ids.alignment_hash`, which the file holds as well.

    Raises:
        StorageError: the disk is full or broken, or access is denied.
    """
    mark = alignment_hash(ids)
    buffer = io.BytesIO()  # polars words a full disk as an error of the format
    ids.series.alias(_COLUMN).to_frame().write_parquet(buffer, metadata={_HASH_KEY: mark})
    with whole_file(path) as partial:
        partial.write_bytes(buffer.getbuffer())
    return mark


def read_aligned_ids(path: Path) -> Sequence[str]:
    """The shared ids that an alignment wrote.

    Returns:
        The ids, ascending by code point.

    Raises:
        DataError: there is no such file, or it is damaged: not a whole Parquet file of one column
            of texts, not ascending, or of another hash than it says.
    """
    if not path.is_file():
        raise DataError(
            f"There are no shared ids at {path}. Run `cutlayer align CONFIG` at both parties first."
        )
    try:
        frame = pl.read_parquet(path, glob=False)
        mark = pl.read_parquet_metadata(path).get(_HASH_KEY)
    except (PolarsError, PanicException, OSError) as error:
        raise _damaged(path, str(error).partition("\n")[0][:200] or "unreadable") from error
    if frame.schema != {_COLUMN: pl.String} or frame[_COLUMN].null_count():
        raise _damaged(path, f"it must hold one column {_COLUMN!r} of texts")
    ids = TextSequence(frame[_COLUMN])
    if not ids.series.is_sorted() or ids.repeated():
        raise _damaged(path, "its ids must ascend")
    if mark != alignment_hash(ids):
        raise _damaged(path, "its ids do not have the hash that it says")
    return ids


def _damaged(path: Path, why: str) -> DataError:
    """The error for a file that no alignment wrote."""
    return DataError(
        f"The shared ids in {path} are damaged: {why}. Run `cutlayer align CONFIG` at both parties "
        "again."
    )
