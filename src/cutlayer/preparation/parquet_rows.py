"""Parquet rows: some columns of a Parquet file as texts, a bounded number of rows at a time."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from cutlayer.data.tables.cell_values import CellRules, as_text, is_whole, whole_below
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.parquet_table import damaged, require_readable
from cutlayer.preparation.row_source import RowBlock
from cutlayer.preparation.text_blocks import Position

_ROWS_AT_ONCE: Final = 50_000


class ParquetRows:
    """A Parquet file whose columns are read as texts. A ``RowSource``.

    Args:
        path: of the file.
        message: words the errors.
        columns: the ones to read; all others are not looked at. ``None`` reads none, which is
            enough to learn their names and kinds.
        id_column: which of them holds the ids: no number means "missing" there, and fractions
            are refused.
        rules: which numbers mean "missing", and how a number's text is to be written.

    Raises:
        DataError: the file cannot be read as Parquet, or a column holds numbers of too many digits.
    """

    row_word = "row"

    def __init__(
        self,
        path: Path,
        message: FileMessage,
        *,
        columns: Sequence[str] = (),
        id_column: str | None = None,
        rules: CellRules | None = None,
    ) -> None:
        self._path, self._message = path, message
        self._rules = rules or CellRules()
        self._id_column = id_column
        self.start = Position()
        try:
            self.kinds: Mapping[str, pl.DataType] = pl.scan_parquet(
                path, glob=False
            ).collect_schema()
            self._rows: int = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        except (PolarsError, PanicException, OSError) as error:
            raise damaged(error, message) from error
        self.names: tuple[str, ...] = tuple(self.kinds)
        for name in columns:
            require_readable(name, self.kinds[name], message)
        self._places = {self.names.index(name): name for name in columns}
        self.size: int = self._rows

    def blocks(self, start: Position) -> Iterator[RowBlock]:
        """All rows from there on, 50,000 at a time."""
        for first in range(start.row, self._rows, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, self._rows - first)
            try:
                frame = self._slice(first, count)
            except (PolarsError, PanicException, OSError) as error:
                raise damaged(error, self._message) from error
            texts = {
                str(place): self._texts(column, name, first)
                for (place, name), column in zip(self._places.items(), frame, strict=True)
            }
            rows = np.arange(first + 1, first + count + 1, dtype=np.int64)
            end = Position(first + count, first + count + 1, first + count)
            yield RowBlock(pl.DataFrame(texts), rows, rows, (), end, first + count)

    def _slice(self, first: int, count: int) -> pl.DataFrame:
        """Some rows; groups of rows before them are skipped."""
        lazy = pl.scan_parquet(self._path, glob=False).slice(first, count)
        return lazy.select(pl.nth(list(self._places))).collect()

    def _texts(self, column: pl.Series, name: str, first: int) -> pl.Series:
        """A column as texts; stored numbers as they would be typed."""
        column = column.alias("cells")
        if name == self._id_column:
            self._require_whole(column, name, first)
            return as_text(column)
        if not column.dtype.is_numeric():
            return as_text(column)
        texts = as_text(self._rules.numbers(column))
        return texts.str.replace(".", ",", literal=True) if self._rules.decimal == "," else texts

    def _require_whole(self, ids: pl.Series, name: str, first: int) -> None:
        """Refuse ids that are fractions, or too large for their kind to tell them apart."""
        if not ids.dtype.is_float():
            return
        below = whole_below(ids.dtype)
        wrong = ~(is_whole(ids) & (ids.abs() < below)).fill_null(value=True)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise self._message.error(
                f"must hold texts or whole numbers below 2**{math.log2(below):.0f}, but row "
                f"{first + row + 1} holds {as_text(ids)[row]!r}. Store the column as texts.",
                column=name,
            )
