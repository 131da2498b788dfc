"""Delimited text: CSV and its relatives as batches of text columns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from cutlayer.data.tables.csv_dialect import csv_dialect, looks_like_data
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.header_names import header_names
from cutlayer.data.tables.record_blocks import BLOCK_BYTES, Encoding, RecordBlock, record_blocks
from cutlayer.data.tables.row_validation import CheckedRows, checked_rows, rows_look_whole
from cutlayer.data.tables.table_source import RowBatch
from cutlayer.errors import DataError


@dataclass(frozen=True)
class TextFormat:
    """How a delimited text is written."""

    delimiter: str | None = None
    """``None``: found from the first lines."""
    quote: str = '"'
    encoding: Encoding = "utf-8"
    header: bool = True
    column_names: tuple[str, ...] | None = None
    """For a file without a header; ``None``: ``c1``, ``c2`` ..."""
    may_stand_alone: tuple[str, ...] = ()
    """Columns of which one may be the file's only column."""


class DelimitedText:
    """One file, its delimiter and column names known. A ``TableSource``.

    Raises:
        DataError: the file cannot be read as such a text, is empty, has no rows below the header,
            has only one column and not one that may stand alone, two columns of one name, or
            another number of columns than names.
    """

    def __init__(
        self,
        path: Path,
        form: TextFormat,
        message: FileMessage,
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._path, self._form, self._message = path, form, message
        self._block_bytes = block_bytes
        first = next((block for block in self._blocks() if block.data.strip()), None)
        if first is None:
            raise message.error("must hold a table, but is empty. Give the file with the rows.")
        _require_line_feeds(first.data, message)
        layout = csv_dialect(
            first.data,
            message,
            delimiter=form.delimiter,
            quote=form.quote,
            alone=self._may_stand_alone,
        )
        self.delimiter: str = layout.delimiter
        self._first_cells, self._header_bytes = layout.first, layout.first_end
        self._header_line = first.first_line
        self._blank_lines = 0
        self._names, self._header_notices = self._named_columns()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in the order of the file, unique."""
        return self._names

    @property
    def notices(self) -> tuple[str, ...]:
        """Columns that had to be named, and blank lines of the last pass."""
        if not self._blank_lines:
            return self._header_notices
        blank = self._message.notice(f"{self._blank_lines:,} blank line(s) are left out.")
        return (*self._header_notices, blank)

    @property
    def hint(self) -> str:
        """What may be wrong where a column is not found."""
        if self._form.header and looks_like_data(self._first_cells):
            return (
                " The first line looks like a row: if the file has no header, set header=False; "
                "the columns are then c1, c2 and so on."
            )
        return f" The columns were split at {self.delimiter!r}."

    def batches(self, columns: Sequence[str]) -> Iterator[RowBatch]:
        """Every row of these columns as texts, block by block; an empty cell is null or "".

        Raises:
            DataError: a row has more or fewer fields than there are columns, a quote is wrong, or
                there is no row below the header.
        """
        place = {name: number for number, name in enumerate(self._names)}
        taken = {place[name]: name for name in columns}
        rows = blank = 0
        for block in self._row_blocks():
            batch, blank_here = self._batch(block, taken)
            rows, blank = rows + batch.frame.height, blank + blank_here
            if batch.frame.height:
                yield batch
        self._blank_lines = blank
        if rows == 0:
            raise self._message.error(
                "must hold rows, but has only a header. If the first line is a row already, set "
                "header=False."
            )

    def _may_stand_alone(self, first_cell: str) -> bool:
        """Whether the file may hold nothing but the column of this cell, in its first line."""
        form = self._form
        names = (first_cell,) if form.header else form.column_names or ("c1",)
        return len(names) == 1 and names[0] in form.may_stand_alone

    def _blocks(self) -> Iterator[RecordBlock]:
        """The whole file."""
        form = self._form
        return record_blocks(
            self._path,
            self._message,
            quote=form.quote,
            encoding=form.encoding,
            block_bytes=self._block_bytes,
        )

    def _row_blocks(self) -> Iterator[RecordBlock]:
        """The file from the first row on, trailing blank lines left out without a word."""
        pending: RecordBlock | None = None
        for block in self._blocks():
            if block.first_line < self._header_line:
                continue
            if block.first_line == self._header_line and self._form.header:
                line = block.line_at(self._header_bytes)
                block = RecordBlock(block.data[self._header_bytes :], line)
            if not block.data.strip(b"\r\n"):
                continue
            if pending is not None:
                yield pending
            pending = block
        if pending is not None:
            yield RecordBlock(pending.data.rstrip(b"\r\n") + b"\n", pending.first_line)

    def _batch(self, block: RecordBlock, taken: dict[int, str]) -> tuple[RowBatch, int]:
        """The rows of one block, and how many blank lines it held."""
        form, width = self._form, len(self._names)
        shape = {"delimiter": self.delimiter, "quote": form.quote}
        if rows_look_whole(block, **shape, width=width):
            try:
                frame = self._parsed(block.data, taken)
                return RowBatch(frame, lambda row: f"line {block.first_line + row}"), 0
            except PolarsError:
                pass  # A row is too long and another too short; the count below names it.
        rows = checked_rows(block, self._message, **shape, width=width)
        try:
            frame = self._parsed(rows.data, taken)
        except PolarsError as error:
            raise self._unreadable(block, str(error).partition("\n")[0]) from error
        if frame.height != rows.rows:
            raise self._unreadable(block, f"{rows.rows} rows were read as {frame.height}")
        return RowBatch(frame, _place_in(rows)), rows.blank_lines

    def _unreadable(self, block: RecordBlock, why: str) -> DataError:
        """The error for rows in whose structure we find no fault, while polars does."""
        return self._message.error(
            f"the rows from line {block.first_line} on must be a delimited text, but: {why}. Check "
            "delimiter and quote."
        )

    def _parsed(self, data: bytes, taken: dict[int, str]) -> pl.DataFrame:
        """Whole rows through polars; columns go by position, since names may be anything."""
        frame = pl.read_csv(
            data,
            has_header=False,
            separator=self.delimiter,
            quote_char=self._form.quote or None,
            schema={str(number): pl.String for number in range(len(self._names))},
            columns=list(taken),
        )
        return frame.rename({str(number): name for number, name in taken.items()})

    def _named_columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names from the header or the options, and what was decided about them."""
        form, message, width = self._form, self._message, len(self._first_cells)
        if not form.header:
            names = form.column_names or tuple(f"c{number}" for number in range(1, width + 1))
            if len(names) != width:
                raise message.error(
                    f"column_names must name every column, but there are {len(names)} names for "
                    f"{width} columns. Give one name for each."
                )
            return names, ()
        return header_names(self._first_cells, message, hint=self.hint)


def _place_in(rows: CheckedRows) -> Callable[[int], str]:
    """Where a row stands, by its line."""
    return lambda row: f"line {rows.line_of(row)}"


def _require_line_feeds(data: bytes, message: FileMessage) -> None:
    """Refuse a file of old Macintosh lines, which would be one long record."""
    if b"\n" not in data and b"\r" in data:
        raise message.error(
            "lines must end with a line feed, but they end with a carriage return alone. Convert "
            "the file: tr '\\r' '\\n'."
        )
