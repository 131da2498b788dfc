"""CSV dialect: the delimiter and the first record of a delimited text, from its first lines."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cutlayer.data.tables.file_message import FileMessage, listing

DELIMITERS: Final = (",", ";", "\t", "|")
"""What is tried where no delimiter is given."""

_SAMPLE_BYTES: Final = 1 << 16
_SAMPLE_ROWS: Final = 100
_NUMBER: Final = re.compile(r"\s*[-+]?\d+([.,]\d*)?\s*")


@dataclass(frozen=True)
class TextLayout:
    """What the first lines tell."""

    delimiter: str
    first: tuple[str, ...]
    """The fields of the first record, without spaces around them."""
    first_end: int
    """Behind the first record, in bytes."""


def csv_dialect(
    data: bytes,
    message: FileMessage,
    *,
    delimiter: str | None,
    quote: str,
    alone: Callable[[str], bool] = lambda _: False,
) -> TextLayout:
    """Split the first lines with each possible delimiter, and keep the one that fits.

    A delimiter is possible if it splits the first line; of several, the one is taken that splits
    all of the first 100 rows into equally many fields. If that leaves none or several, it is an
    error: nothing is guessed.

    Args:
        data: the beginning of the file, as UTF-8.
        message: words the errors.
        delimiter: the one to use; ``None`` tries comma, semicolon, tabulator and vertical bar.
        quote: the sign that texts stand between, or ``""``.
        alone: whether a file may have no other column than that of this first cell.

    Raises:
        DataError: everything falls into one column, or more than one delimiter fits.
    """
    sample = _sample(data)
    cut_off = len(sample.encode()) < len(data)
    tried = (delimiter,) if delimiter else DELIMITERS
    rows = {sign: _rows(sample, sign, quote, message) for sign in tried}
    if cut_off:  # within the quotes of its last row, perhaps
        rows = {sign: found[:-1] or found for sign, found in rows.items()}
    possible = [sign for sign in tried if len(rows[sign][0][0]) > 1]
    single = all(len(row) == 1 for found in rows.values() for row, _ in found)
    if single and alone(rows[tried[0]][0][0][0].strip()):
        possible = [tried[-1]]  # no row of the first ones holds it; the last one is the rarest
    if not possible:
        raise message.error(_one_column(sample, delimiter))
    if len(possible) > 1:
        possible = [sign for sign in possible if len({len(row) for row, _ in rows[sign]}) == 1]
    if len(possible) != 1:
        fitting = listing(possible) if possible else "none of them throughout"
        raise message.error(
            f"the delimiter must be plain from the first lines, but of {listing(DELIMITERS)} "
            f"{fitting} would fit. Set delimiter."
        )
    chosen = possible[0]
    first, lines = rows[chosen][0]
    return TextLayout(chosen, tuple(cell.strip() for cell in first), _behind_line(data, lines))


def looks_like_data(cells: tuple[str, ...]) -> bool:
    """Whether a header has a cell that is a number, as no header should."""
    return any(_NUMBER.fullmatch(cell) for cell in cells)


def _sample(data: bytes) -> str:
    """The first whole lines, at least one."""
    if len(data) > _SAMPLE_BYTES:
        end = data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1 or data.find(b"\n", _SAMPLE_BYTES) + 1
        data = data[: end or len(data)]
    return data.decode()


def _rows(
    sample: str, delimiter: str, quote: str, message: FileMessage
) -> list[tuple[list[str], int]]:
    """Rows that are not blank, each with the number of lines up to its end."""
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, **quoting)
    rows: list[tuple[list[str], int]] = []
    try:
        for row in reader:
            if row:
                rows.append((row, reader.line_num))
            if len(rows) == _SAMPLE_ROWS + 1:
                break
    except csv.Error as error:
        if not rows:
            raise message.error(
                f"must be a delimited text, but line {reader.line_num} cannot be split: {error}. "
                "Give a delimited text file, or Parquet."
            ) from error
    return rows


def _behind_line(data: bytes, lines: int) -> int:
    """The offset behind so many lines."""
    end = 0
    for _ in range(lines):
        end = data.find(b"\n", end) + 1 or len(data)
    return end


def _one_column(sample: str, delimiter: str | None) -> str:
    """The message for a text that no delimiter splits."""
    line = sample.strip().splitlines()[0]
    if delimiter is None:
        return (
            f"must have at least two columns, but none of {listing(DELIMITERS, shown=4)} splits "
            f"the first line {line[:60]!r}. Set delimiter, or give a file with more columns."
        )
    likely = max(DELIMITERS, key=line.count)
    found = f" holds {line.count(likely)} of {likely!r}" if likely in line else " has none of them"
    return (
        f"delimiter {delimiter!r} must split the columns, but everything falls into one column; "
        f"the first line{found}. Set another delimiter, or none to have it found."
    )
