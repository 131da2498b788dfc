"""Row validation: proof that every row of a block has as many fields as there are columns.

Polars fills short rows with nulls without a word, so the count is made here, from the bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.record_blocks import RecordBlock

_NEW_LINE, _CARRIAGE_RETURN = b"\n"[0], b"\r"[0]


@dataclass(frozen=True)
class CheckedRows:
    """A block without blank lines, whose rows all have the same number of fields."""

    data: bytes
    rows: int
    line_of: Callable[[int], int]
    """Line of the file on which a row of this block begins."""
    blank_lines: int
    """How many were taken out."""


def rows_look_whole(block: RecordBlock, *, delimiter: str, quote: str, width: int) -> bool:
    """Whether the number of delimiters fits, where a quote cannot hide one.

    Quick, and half of a proof: what is too short in one row may be too long in another. Polars
    refuses a row with too many fields, and if it finds none, none is too short either.
    """
    data = block.data
    if width == 1 or (quote and quote.encode() in data):  # a blank line has no delimiter either
        return False
    rows = data.count(b"\n") + (not data.endswith(b"\n"))
    return data.count(delimiter.encode()) == rows * (width - 1)


def checked_rows(
    block: RecordBlock, message: FileMessage, *, delimiter: str, quote: str, width: int
) -> CheckedRows:
    """Count the fields of every row, quotes respected, and leave blank lines out.

    Raises:
        DataError: a row has more or fewer than ``width`` fields, or a quote stands where none may.
    """
    shape = _Shape(block.data, delimiter.encode(), quote.encode())
    stray = shape.stray_quote
    if stray is not None:
        raise message.error(
            f"a quote must open and close a field, but on line {block.line_at(stray)} one stands "
            f"elsewhere. Double the quote {quote!r} inside a quoted text, or set quote='' if texts "
            "stand without quotes."
        )
    filled = ~shape.blank
    wrong = np.flatnonzero(filled & (shape.fields != width))
    if len(wrong):
        first = int(wrong[0])
        fields = "1 field" if width == 1 else f"{width} fields"
        raise message.error(
            f"every row must have {fields}, but line {block.line_at(shape.starts[first])} "
            f"has {shape.fields[first]}{_more(len(wrong) - 1)}. Look there for a delimiter "
            f"{delimiter!r} too many or too few; a text that holds one must stand in quotes."
        )
    starts = shape.starts[filled]
    return CheckedRows(
        data=shape.without_blank_lines(),
        rows=len(starts),
        line_of=lambda row: block.line_at(int(starts[row])),
        blank_lines=int(shape.blank.sum()),
    )


class _Shape:
    """Where rows begin and end in a block, and how many fields they have."""

    def __init__(self, data: bytes, delimiter: bytes, quote: bytes) -> None:
        self._data = data if data.endswith(b"\n") else data + b"\n"
        self._signs = np.frombuffer(self._data, dtype=np.uint8)
        self._delimiter, self._quote = delimiter[0], quote[0] if quote else None
        outside = self._outside
        self._ends = np.flatnonzero((self._signs == _NEW_LINE) & outside)
        self.starts: NDArray[np.intp] = np.concatenate([[0], self._ends[:-1] + 1]).astype(np.intp)
        delimiters = np.flatnonzero((self._signs == self._delimiter) & outside)
        before = np.searchsorted(delimiters, self._ends)
        self.fields: NDArray[np.intp] = np.diff(before, prepend=0) + 1
        length = self._ends - self.starts
        only_return = (length == 1) & (self._signs[self.starts] == _CARRIAGE_RETURN)
        self.blank: NDArray[np.bool_] = (length == 0) | only_return

    @cached_property
    def _quotes(self) -> NDArray[np.intp]:
        """Where quotes stand."""
        if self._quote is None:
            return np.empty(0, dtype=np.intp)
        return np.flatnonzero(self._signs == self._quote)

    @property
    def _outside(self) -> NDArray[np.bool_]:
        """Which bytes stand outside quotes; a doubled quote closes and opens again."""
        if len(self._quotes) == 0:
            return np.ones(len(self._signs), dtype=np.bool_)
        # uint8 wraps at 256, which is even: the last bit stays right.
        crossed = np.cumsum(self._signs == self._quote, dtype=np.uint8)
        return (crossed & 1) == 0

    @property
    def stray_quote(self) -> int | None:
        """The first quote that neither opens nor closes a field, nor is one of a pair within."""
        quotes = self._quotes
        if len(quotes) == 0:
            return None
        doubled = np.diff(quotes) == 1
        opening, closing = quotes[::2], quotes[1::2]
        before = self._signs[opening - 1]
        good_start = np.isin(before, [self._delimiter, _NEW_LINE]) | (opening == 0)
        good_start[1:] |= doubled[1::2][: len(opening) - 1]
        after = self._signs[closing + 1]  # the data end with a line end, so there is one
        good_end = np.isin(after, [self._delimiter, _NEW_LINE, _CARRIAGE_RETURN])
        reopened = doubled[1::2]
        good_end[: len(reopened)] |= reopened
        bad = np.concatenate([opening[~good_start], closing[~good_end]])
        return int(bad.min()) if len(bad) else None

    def without_blank_lines(self) -> bytes:
        """The data, blank lines taken out."""
        if not self.blank.any():
            return self._data
        kept = np.ones(len(self._signs), dtype=np.bool_)
        for start, end in zip(self.starts[self.blank], self._ends[self.blank], strict=True):
            kept[start : end + 1] = False
        return self._signs[kept].tobytes()


def _more(count: int) -> str:
    """How many other lines are wrong."""
    return f", as have {count:,} more lines a wrong number" if count else ""
