"""Cell values: what a cell of a file says, before anything is decided about its column."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

Decimal = Literal[".", ","]

_EXACT: Final = 2.0**53
_TEXTS: Final = (pl.String, pl.Categorical, pl.Enum)


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
        texts = as_text(column)
        if self.strip:
            texts = texts.str.strip_chars()
        gone = list(dict.fromkeys([*self.missing, ""]))
        return texts.replace(gone, [None] * len(gone))

    def numbers_from(self, texts: pl.Series) -> pl.Series:
        """The texts as float64, null where a text is no number."""
        trimmed = texts if self.strip else texts.str.strip_chars()
        if self.decimal == ",":
            # A point would be the mark of thousands; better no number than a thousandth of one.
            frame = trimmed.alias("text").to_frame()
            plain = ~pl.col("text").str.contains(".", literal=True)
            comma = pl.col("text").str.replace(",", ".", literal=True)
            trimmed = frame.select(pl.when(plain).then(comma))["text"].alias(texts.name)
        return trimmed.cast(pl.Float64, strict=False)

    def leading_zero(self, texts: pl.Series) -> pl.Series:
        """Where a text begins with a 0 that its number does not need, as codes do (``01234``)."""
        return texts.str.contains(r"^\s*0[0-9]").fill_null(value=False)

    def numbers(self, column: pl.Series) -> pl.Series:
        """A column that is stored as numbers, null where it holds a missing one."""
        gone = [number for text in self.missing if (number := _number(text)) is not None]
        if column.dtype.is_decimal():
            column = column.cast(pl.Float64)
        if not gone:
            return column
        return column.set(column.cast(pl.Float64).is_in(gone), None)


def is_text(kind: pl.DataType) -> bool:
    """Whether a column of this kind holds texts."""
    return kind in _TEXTS


def as_text(column: pl.Series) -> pl.Series:
    """Every value as text; whole floats without a point, since they were whole numbers once."""
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


def _number(text: str) -> float | None:
    """The number that a text writes, if it does."""
    try:
        return float(text)
    except ValueError:
        return None
