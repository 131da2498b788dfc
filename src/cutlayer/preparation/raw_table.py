"""Raw tables: a file as it is downloaded, what its columns are, and who gets which."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from cutlayer.data.party_table import LABEL_PARTY, PartyName
from cutlayer.data.tables.csv_dialect import csv_dialect
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.data.tables.header_names import header_names
from cutlayer.data.tables.packed_text import end_of_records
from cutlayer.data.tables.parquet_table import is_parquet
from cutlayer.data.tables.record_blocks import ENCODINGS, Encoding
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.preparation.layout import Layout
from cutlayer.preparation.parquet_rows import ParquetRows
from cutlayer.preparation.row_source import RowSource, TextRows, in_utf_8
from cutlayer.preparation.text_blocks import Position, text_blocks

_HEAD_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class RawTable:
    """One file, what its columns are, and which of them the label party gets."""

    name: str
    path: Path
    layout: Layout
    label_party: tuple[str, ...]
    """Features of the label party; all others are the non-label party's."""
    open: Callable[[int], RowSource]
    """The file in blocks of so many bytes."""
    notices: tuple[str, ...] = ()
    """What was decided about the columns unasked, and which of them give the label away."""
    noticed: frozenset[str] = frozenset()
    """The columns that these are about."""

    @property
    def message(self) -> FileMessage:
        """Words the errors."""
        return FileMessage(LABEL_PARTY, self.path)

    def features_of(self, party: PartyName) -> tuple[str, ...]:
        """Features of one party, numbers first."""
        of_label_party = party == LABEL_PARTY
        return tuple(
            name for name in self.layout.features if (name in self.label_party) == of_label_party
        )


def column_names(path: Path) -> tuple[str, ...]:
    """The columns of a CSV with a header, or of Parquet, that can be read as texts.

    Raises:
        DataError: the file cannot be read.
    """
    require_file(path)
    message = FileMessage(LABEL_PARTY, path)
    if is_parquet(path, message):
        return ParquetRows(path, message).names
    return header_of(path, delimiter=None, quote='"').names


def matched(patterns: Sequence[str], names: Sequence[str], option: str) -> set[str]:
    """All names that one of the patterns fits; a name in full goes before a pattern.

    Raises:
        ConfigurationError: a pattern fits nothing.

    >>> sorted(matched(["I*", "C2"], ["I1", "I2", "C1", "C2"], "label_party"))
    ['C2', 'I1', 'I2']
    """
    found: set[str] = set()
    for pattern in filter(None, patterns):
        hits = {pattern} if pattern in names else {n for n in names if fnmatchcase(n, pattern)}
        if not hits:
            raise ConfigurationError(
                f"{option}: {pattern!r} fits none of the columns {listing(names, shown=40)}."
            )
        found |= hits
    return found


def cut_of(layout: Layout, patterns: Sequence[str]) -> tuple[str, ...]:
    """Features of the label party."""
    chosen = matched(patterns, layout.features, "label_party")
    if chosen and len(chosen) == len(layout.features):
        raise ConfigurationError(
            "label_party must leave a column to the non-label party, but it names all "
            f"{len(chosen)} of them."
        )
    return tuple(name for name in layout.features if name in chosen)


def text_table(
    name: str,
    path: Path,
    layout: Layout,
    label_party: Sequence[str],
    *,
    delimiter: str,
    start: Position,
    quote: str = "",
    encoding: Encoding = "utf-8",
) -> RawTable:
    """A table in a delimited text."""

    def opened(block_bytes: int) -> RowSource:
        return TextRows(
            path,
            layout.names,
            FileMessage(LABEL_PARTY, path),
            delimiter=delimiter,
            quote=quote,
            block_bytes=block_bytes,
            start=start,
            encoding=encoding,
        )

    chosen = cut_of(layout, label_party) if label_party else ()
    return RawTable(name, path, layout, chosen, opened)


@dataclass(frozen=True)
class Header:
    """What the first record of a text tells."""

    names: tuple[str, ...]
    delimiter: str
    start: Position
    """Where the rows begin."""
    notices: tuple[str, ...]


def header_of(
    path: Path, *, delimiter: str | None, quote: str, encoding: Encoding = "utf-8"
) -> Header:
    """Names of the columns, the delimiter, and where the rows begin."""
    require_file(path)
    message = FileMessage(LABEL_PARTY, path)
    blocks = text_blocks(path, message, offset=0, quote=quote, block_bytes=_HEAD_BYTES)
    first = next(blocks, None)
    if first is None or not first.data.strip():
        raise message.error("must hold a table, but is empty or begins with a blank line.")
    mark = first.end - len(first.data)  # a byte order mark, perhaps
    data = in_utf_8(first.data, encoding)
    sample = data.decode(errors="replace").encode()
    layout = csv_dialect(sample, message, delimiter=delimiter, quote=quote)
    header = _first_record(first.data, quote.encode())
    try:
        in_utf_8(header, encoding).decode()
    except UnicodeDecodeError as error:
        raise message.error(
            f"the header must be {encoding} text, but holds other bytes. If the file is in another "
            f"encoding, set encoding ({', '.join(ENCODINGS)}), or convert it, for example with "
            "iconv."
        ) from error
    names, notices = header_names(layout.first, message)
    start = Position(mark + len(header), 1 + header.count(b"\n"), 0)
    return Header(names, layout.delimiter, start, notices)


def _first_record(data: bytes, mark: bytes) -> bytes:
    """The first record with its line end."""
    end = data.find(b"\n") + 1
    while end and not end_of_records(data[:end], mark):
        end = data.find(b"\n", end) + 1
    return data[:end] if end else data


def require_file(path: Path) -> None:
    """Refuse a path that leads to no regular file."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "there is none"
        raise DataError(f"{path} must be a file, but {found}. Mend the path.")
