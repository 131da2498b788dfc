"""Row sources: a file as blocks of text columns, rows that cannot be split set aside."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.record_blocks import Encoding
from cutlayer.preparation.rejects import Reject
from cutlayer.preparation.text_blocks import Position, text_blocks


@dataclass(frozen=True)
class RowBlock:
    """Rows with the right number of fields, and those without."""

    frame: pl.DataFrame
    """Texts; columns are called by their position, ``"0"``, ``"1"`` ...; null where empty."""
    lines: NDArray[np.int64]
    """Line of the file on which each row begins."""
    numbers: NDArray[np.int64]
    """Number of each row among all rows of the file, from 1, rejected ones counted."""
    rejects: tuple[Reject, ...]
    end: Position
    """Where the next block begins."""
    read: int
    """Bytes of the file that were read up to here."""


class RowSource(Protocol):
    """A file that can be read from any block's end on."""

    names: tuple[str, ...]
    """All columns in the order of the file."""
    start: Position
    """Where the first row begins."""
    size: int
    """Of the file, in the unit of ``RowBlock.read``."""
    row_word: str
    """What a row of the file is called: ``line`` or ``row``."""

    def blocks(self, start: Position) -> Iterator[RowBlock]:
        """All rows from there on. Where a block ends depends on the file alone."""
        ...


class TextRows:
    """A delimited text. A ``RowSource``."""

    row_word = "line"

    def __init__(
        self,
        path: Path,
        names: tuple[str, ...],
        message: FileMessage,
        *,
        delimiter: str,
        quote: str,
        block_bytes: int,
        start: Position,
        encoding: Encoding = "utf-8",
    ) -> None:
        self.names, self.start = names, start
        self._path, self._message, self._block_bytes = path, message, block_bytes
        self._splitter = RowSplitter(delimiter, quote, len(names))
        self._encoding = encoding
        self.size: int = path.stat().st_size

    def blocks(self, start: Position) -> Iterator[RowBlock]:
        """All rows from there on, a bounded part of the file at a time."""
        line, row = start.line, start.row
        for block in text_blocks(
            self._path,
            self._message,
            offset=start.offset,
            quote=self._splitter.quote,
            block_bytes=self._block_bytes,
        ):
            split = self._splitter.split(in_utf_8(block.data, self._encoding))
            line_ends = block.data.count(b"\n")
            rejects = tuple(Reject(line + one.line, one.reason) for one in split.rejects)
            end = Position(block.end, line + line_ends, row + split.count)
            yield RowBlock(
                split.frame, line + split.lines, row + 1 + split.numbers, rejects, end, block.read
            )
            line, row = end.line, end.row


@dataclass(frozen=True)
class SplitRows:
    """The rows of one piece of text; lines and row numbers from 0."""

    frame: pl.DataFrame
    lines: NDArray[np.int64]
    numbers: NDArray[np.int64]
    rejects: tuple[Reject, ...]
    count: int
    """Rows, rejected ones counted."""


@dataclass(frozen=True)
class RowSplitter:
    """Splits lines into fields, and sets aside lines that have too many or too few."""

    delimiter: str
    quote: str
    """``""`` where quotes are ordinary signs."""
    width: int

    def split(self, data: bytes) -> SplitRows:
        """Split whole records. Blank lines are rejects, too."""
        quick = self._quick(data)
        if quick is not None:
            rows = np.arange(quick.height, dtype=np.int64)
            return SplitRows(quick, rows, rows, (), quick.height)
        if self.quote and self.quote.encode() in data:
            return self._record_by_record(data)
        return self._line_by_line(data)

    def _quick(self, data: bytes) -> pl.DataFrame | None:
        """All rows at once; ``None`` where one of them may be dirty."""
        rows = data.count(b"\n") + (not data.endswith(b"\n"))
        fits = data.count(self.delimiter.encode()) == rows * (self.width - 1)
        quoted = bool(self.quote) and self.quote.encode() in data
        if quoted or not fits or b"\0" in data or not _is_text(data):
            return None
        # A row too short means another too long, and that polars refuses.
        try:
            frame = self._parsed(data)
        except PolarsError:
            return None
        return frame if frame.height == rows else None

    def _parsed(self, data: bytes) -> pl.DataFrame:
        """Whole rows through polars."""
        return pl.read_csv(
            data,
            has_header=False,
            separator=self.delimiter,
            quote_char=None,
            schema={str(place): pl.String for place in range(self.width)},
        )

    def _line_by_line(self, data: bytes) -> SplitRows:
        """Set dirty lines aside and parse the rest."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        faults = [self._fault(line) for line in lines]
        kept = np.array([row for row, fault in enumerate(faults) if not fault], dtype=np.int64)
        rejects = tuple(Reject(row, fault) for row, fault in enumerate(faults) if fault)
        good = b"\n".join([line for line, fault in zip(lines, faults, strict=True) if not fault])
        frame = self._parsed(good + b"\n") if good else self._empty()
        return SplitRows(frame, kept, kept, rejects, len(lines))

    def _fault(self, line: bytes) -> str:
        """Why a line cannot be used; empty where it can."""
        if not line.strip(b"\r"):
            return "blank line"
        fields = line.count(self.delimiter.encode()) + 1
        if fields != self.width:
            return _wrong_count(fields, self.width)
        if b"\0" in line:
            return "holds a zero byte"
        return "" if _is_text(line) else "is no UTF-8 text"

    def _record_by_record(self, data: bytes) -> SplitRows:
        """Split text with quotes, which may hold delimiters and line ends."""
        text = io.StringIO(data.decode(errors="surrogateescape"), newline="")
        reader = csv.reader(text, delimiter=self.delimiter, quotechar=self.quote, strict=True)
        rows: list[list[str]] = []
        lines, numbers, rejects = [], [], []
        count = 0
        while True:
            line = reader.line_num
            try:
                cells = next(reader)
                fault = self._record_fault(cells)
            except StopIteration:
                break
            except csv.Error:
                cells, fault = [], "a quote stands where none may, or a field is too long"
            if fault:
                rejects.append(Reject(line, fault))
            else:
                rows.append(cells)
                lines.append(line)
                numbers.append(count)
            count += 1
        columns = {
            str(place): pl.Series([cells[place] or None for cells in rows], dtype=pl.String)
            for place in range(self.width)
        }
        return SplitRows(
            frame=pl.DataFrame(columns),
            lines=np.array(lines, dtype=np.int64),
            numbers=np.array(numbers, dtype=np.int64),
            rejects=tuple(rejects),
            count=count,
        )

    def _record_fault(self, cells: list[str]) -> str:
        """Why a record cannot be used; empty where it can."""
        if not cells:
            return "blank line"
        if len(cells) != self.width:
            return _wrong_count(len(cells), self.width)
        whole = "".join(cells)
        if "\0" in whole:
            return "holds a zero byte"
        try:
            whole.encode()
        except UnicodeEncodeError:
            return "is no UTF-8 text"
        return ""

    def _empty(self) -> pl.DataFrame:
        """No row."""
        return pl.DataFrame(schema={str(place): pl.String for place in range(self.width)})


def in_utf_8(data: bytes, encoding: Encoding) -> bytes:
    """Text of another encoding as UTF-8; bytes that it does not allow stay, and are no UTF-8."""
    if encoding == "utf-8" or data.isascii():
        return data
    return data.decode(encoding, errors="surrogateescape").encode(errors="surrogateescape")


def _wrong_count(fields: int, width: int) -> str:
    """The reason for a row that is too long or too short."""
    return f"has {fields} fields, not {width}"


def _is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
