"""Label values: which text of the label column is the positive one."""

import math
from collections.abc import Iterable
from typing import Final, Literal

import polars as pl
import torch
from torch import Tensor

from cutlayer.data.file_message import FileMessage, listing

Positive = str | int | float | bool

_UNDERSTOOD: Final = (("1", "0"), ("true", "false"), ("yes", "no"))
_SHOWN: Final = 5


def labels_from(
    column: pl.Series,
    message: FileMessage,
    *,
    positive: Positive | None,
    negative: Literal["rest"] | None,
) -> tuple[Tensor, str]:
    """1 where the label has the positive value.

    Two texts are one value if they are the same number (``1`` and ``1.0``) or the same text.

    Args:
        column: the label column as texts, without nulls.
        message: words the errors.
        positive: the positive value; ``None`` where the values are 1/0, true/false or yes/no in
            any capitals.
        negative: ``"rest"``: every other value is negative, however many there are. ``None``:
            there must be one other value.

    Returns:
        Labels 0 or 1, int64, shape ``(rows,)``, and a sentence that says how they were made.

    Raises:
        DataError: there is one value, or more than two without ``negative="rest"``; ``positive``
            is not among the values; no positive value was named and none is understood.
    """
    name = column.name
    values = _counted_values(column)
    found = listing(values, shown=_SHOWN)
    if len(values) == 1:
        raise message.error(
            f"the label must have two values, but all {len(column):,} rows hold {found}. Name "
            "another label column, or bring rows of both kinds.",
            column=name,
        )
    if len(values) > 2 and negative is None:
        raise message.error(
            f"the label must have two values, but has {len(values):,}: {found}. If one of them is "
            "positive and all others are not, set positive to it and negative='rest'; else name "
            "another label column.",
            column=name,
        )
    wanted = _positive_among(values, positive)
    if wanted is None:
        rule = (
            "must be 1 and 0, true and false, or yes and no where positive is not set"
            if positive is None
            else f"must have the positive value {_value(positive)!r} among its values"
        )
        raise message.error(
            f"the label {rule}, but its values are {found}. Set positive to one of them.",
            column=name,
        )
    texts = [text for text in column.unique().cast(pl.String) if _value(text) == wanted]
    is_positive = column.is_in(texts)
    labels = torch.from_numpy(is_positive.cast(pl.Int64).to_numpy(writable=True))
    return labels, _made(values, wanted)


def _counted_values(column: pl.Series) -> dict[str, int]:
    """The different values, most frequent first, and their rows."""
    counts = column.alias("value").value_counts(name="rows").cast({"value": pl.String})
    values: dict[str, int] = {}
    for text, rows in counts.sort("rows", "value", descending=[True, False]).iter_rows():
        values[_value(text)] = values.get(_value(text), 0) + rows
    return values


def _positive_among(values: Iterable[str], positive: Positive | None) -> str | None:
    """The positive one of these values; ``None`` where there is none or none is understood."""
    if positive is None:
        by_lower = {value.lower(): value for value in values}
        pair = next((pair for pair in _UNDERSTOOD if by_lower.keys() == set(pair)), None)
        return None if pair is None else by_lower[pair[0]]
    wanted = _value(positive)
    if isinstance(positive, bool):
        return next((value for value in values if value.lower() == wanted), None)
    return wanted if wanted in values else None


def _value(value: Positive) -> str:
    """One spelling for each value: ``1``, ``1.0`` and `` 1`` are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).strip()
    try:
        number = float(text.replace("_", "?"))  # Python alone reads 1_0 as a number
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _made(values: dict[str, int], wanted: str) -> str:
    """Which value became 1 and which 0."""
    others = [value for value in values if value != wanted]
    rest = sum(values[value] for value in others)
    return (
        f"{wanted!r} is positive ({values[wanted]:,} rows), {listing(others)} "
        f"{'is' if len(others) == 1 else 'are'} negative ({rest:,} rows)."
    )
