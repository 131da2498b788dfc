"""Cell values: what a cell of a file says, before anything is decided about its column."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal as ExactNumber
from decimal import InvalidOperation
from typing import Any, Final, Literal

import numpy as np
import polars as pl

Decimal = Literal[".", ","]

_EXACT: Final = 2.0**53
_MOST_DIGITS: Final = 39
"""Of a whole number or a decimal that polars stores."""
_FLOATS: Final[dict[pl.DataType, type[np.floating[Any]]]] = {
    pl.Float16(): np.float16,
    pl.Float32(): np.float32,
}
"""What rounds a number as a column of this kind does."""
_TRAILING_ZEROS: Final = r"\.0*$|(\.\d*?[1-9])0+$"
_TEXTS: Final = (pl.String, pl.Categorical, pl.Enum)
_NAMES: Final = (*_TEXTS, pl.Boolean, pl.Null, pl.Date, pl.Time, pl.Datetime)
_WHOLE_BELOW: Final[dict[pl.DataType, float]] = {pl.Float16(): 2.0**11, pl.Float32(): 2.0**24}
"""Floats that tell fewer whole numbers from their neighbours than float64 does."""


@dataclass(frozen=True)
class CellRules:
    """Which cells are missing, and how texts and numbers are written."""

    missing: tuple[str, ...] = ("",)
    """Texts that mean "missing", letter for letter; where numbers are stored and no texts
    (Parquet), the numbers that they write. An empty cell is missing in any case."""
    strip: bool = True
    """Whether spaces around a text belong to the file and not to the text."""
    decimal: Decimal = "."

    def texts(self, column: pl.Series) -> pl.Series:
        """The column as texts, null where missing; numbers as one would type them."""
        texts = as_text(self._without_missing(column) if column.dtype.is_numeric() else column)
        if self.strip:
            texts = texts.str.strip_chars()
        gone = list(dict.fromkeys([*self.missing, ""]))
        return texts.replace(gone, [None] * len(gone))

    def numbers_from(self, texts: pl.Series) -> pl.Series:
        """The texts as float64, null where a text is no number."""
        trimmed = texts if self.strip else texts.str.strip_chars()
        if self.decimal == ",":
            frame = trimmed.alias("text").to_frame()
            written = with_point(pl.col("text"), self.decimal)
            trimmed = frame.select(written.alias("text"))["text"].alias(texts.name)
        return trimmed.cast(pl.Float64, strict=False)

    def leading_zero(self, texts: pl.Series) -> pl.Series:
        """Where a text begins with a 0 that its number does not need, as codes do (``01234``)."""
        return texts.str.contains(r"^\s*0[0-9]").fill_null(value=False)

    def numbers(self, column: pl.Series) -> pl.Series:
        """A column that is stored as numbers, null where it holds a missing one."""
        column = self._without_missing(column)
        return column.cast(pl.Float64) if column.dtype.is_decimal() else column

    def _without_missing(self, column: pl.Series) -> pl.Series:
        """The stored numbers, null where one equals a missing number as its own type writes it."""
        written = (self._written(text) for text in self.missing)
        gone = [as_stored for one in written for as_stored in stored(one, column.dtype)]
        column = _widened(column)
        if not gone:
            return column
        return column.set(column.is_in(pl.Series(gone, dtype=column.dtype).implode()), None)

    def _written(self, text: str) -> ExactNumber | None:
        """The number that a text writes, if it does."""
        if self.decimal == "," and "." not in text:
            text = text.replace(",", ".")
        try:
            number = ExactNumber(text)
        except InvalidOperation:
            return None
        return None if number.is_snan() else number


def with_point(cell: pl.Expr, decimal: Decimal) -> pl.Expr:
    """A number's text with a point before its fraction, as polars reads it; null where it is none.

    Where a comma stands there, a point would be the mark of thousands; better no number than a
    thousandth of one.
    """
    if decimal == ".":
        return cell
    plain = ~cell.str.contains(".", literal=True)
    return pl.when(plain).then(cell.str.replace(",", ".", literal=True))


def stored(number: ExactNumber | None, kind: pl.DataType) -> list[float | int | ExactNumber]:
    """The values by which columns of this kind hold a number; none where they cannot hold it.

    A float32 holds the nearest one to -999.9, and as a float64 that is another number than the one
    nearest to -999.9 there; so a float64 has two.

    >>> stored(ExactNumber("-999.9"), pl.Float32())
    [-999.9000244140625]
    >>> stored(ExactNumber("-999.9"), pl.Int64())
    []
    """
    if number is None:
        return []
    if kind.is_float():
        with np.errstate(over="ignore"):
            shorter = _FLOATS.get(kind, np.float32)(number)
        values = [float(shorter)] if kind in _FLOATS else [float(number), float(shorter)]
        # Rounding must not make infinity of a large number, or 0 of a small one.
        return [
            v for v in values if math.isfinite(v) == number.is_finite() and bool(v) == bool(number)
        ]
    if not number.is_finite() or number.adjusted() >= _MOST_DIGITS:
        return []
    if isinstance(kind, pl.Decimal):
        rounded = ExactNumber(f"{number:.{kind.scale}f}")
        return [rounded] if rounded == number else []
    if number != int(number):
        return []
    held = pl.Series([int(number)], dtype=kind, strict=False)
    return [int(number)] if held.null_count() == 0 else []


def is_text(kind: pl.DataType) -> bool:
    """Whether a column of this kind holds texts."""
    return kind in _TEXTS


def can_name(kind: pl.DataType) -> bool:
    """Whether every value of this kind has one text by which records can be called or labelled.

    Durations, bytes, lists and structures have none.
    """
    return kind in _NAMES or kind.is_numeric()


def whole_below(kind: pl.DataType) -> float:
    """Below which size floats of this kind are told from their neighbours where they are whole."""
    return _WHOLE_BELOW.get(kind, _EXACT)


def as_text(column: pl.Series) -> pl.Series:
    """Every value as text; whole floats without a point, since they were whole numbers once.

    Of a decimal the zeros behind its last digit belong to the column's type, not to the number:
    1.50 in a column of two digits is 1.5 in one of ten.
    """
    column = _widened(column)
    if column.dtype.is_decimal():
        return column.cast(pl.String).str.replace(_TRAILING_ZEROS, "${1}")
    if not column.dtype.is_float():
        return column.cast(pl.String)
    frame = pl.DataFrame({"value": column, "whole": is_whole(column)})
    as_whole = pl.col("value").cast(pl.Int64, strict=False).cast(pl.String)
    texts = pl.when("whole").then(as_whole).otherwise(pl.col("value").cast(pl.String))
    return frame.select(texts.alias(column.name)).to_series()


def is_whole(numbers: pl.Series) -> pl.Series:
    """Where a float is a whole number that float64 tells from its neighbours."""
    return (numbers == numbers.floor()) & (numbers.abs() < _EXACT)


def compact(numbers: pl.Series) -> pl.Series:
    """The same numbers in the fewest bytes that hold them exactly: whole ones as integers."""
    if numbers.dtype.is_float():
        if not is_whole(numbers).all():
            return numbers
        numbers = numbers.cast(pl.Int64)
    return numbers.shrink_dtype()


def joined(chunks: Iterable[pl.Series]) -> pl.Series:
    """One column of all chunks, wide enough for each; empties the list that it is given."""
    frames = [chunk.to_frame() for chunk in chunks]
    return pl.concat(frames, how="vertical_relaxed", rechunk=True).to_series()


def _widened(column: pl.Series) -> pl.Series:
    """A float16 column as float32, since polars rounds and compares no float16."""
    return column.cast(pl.Float32) if column.dtype == pl.Float16 else column
