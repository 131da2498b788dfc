"""Raw tables: a file as it is downloaded, what its columns are, and who gets which."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import polars as pl

from cutlayer.data.column_choice import ROW_NUMBER
from cutlayer.data.file_message import FileMessage, listing
from cutlayer.data.packed_text import end_of_records
from cutlayer.data.parquet_table import is_parquet
from cutlayer.data.party_table import LABEL_PARTY, PartyName
from cutlayer.data.preparation.layout import Layout
from cutlayer.data.preparation.options import Progress
from cutlayer.data.preparation.row_source import ParquetRows, RowSource, TextRows
from cutlayer.data.preparation.text_blocks import Position, text_blocks
from cutlayer.data.text_layout import text_layout
from cutlayer.errors import ConfigurationError, DataError

RESERVED: Final = ("id", "part", "label")
"""Columns of the output; no feature may be called so."""

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


@dataclass(frozen=True)
class TableColumns:
    """What the columns of any other table are; names or shell patterns for features."""

    label: str
    id: str = ROW_NUMBER
    positive: str | None = None
    """The label's value that is positive, all others being negative. ``None`` understands 1/0,
    true/false and yes/no."""
    numeric: tuple[str, ...] = ()
    """Columns of numbers: a row with text in one of them is a reject."""
    categorical: tuple[str, ...] = ()
    """Columns of categories. A column that neither list names is numeric if all its cells are."""
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Texts that mean "missing", apart from an empty cell."""
    label_party: tuple[str, ...] = ()
    """Features of the label party; by default it gets none."""
    delimiter: str | None = None
    """``None``: found from the first lines."""


def table(path: Path, columns: TableColumns, progress: Progress | None = None) -> RawTable:
    """Any table with a header: CSV (UTF-8, plain or gzip) or Parquet.

    Where a column's kind is not named, the file is gone through once to find it.

    Raises:
        ConfigurationError: a column or pattern fits nothing, a feature has a reserved name, or
            nothing is left for the non-label party.
        DataError: the file cannot be read.
    """
    require_file(path)
    if columns.delimiter is not None and len(columns.delimiter) != 1:
        raise ConfigurationError(f"delimiter must be one sign, got {columns.delimiter!r}.")
    message = FileMessage(LABEL_PARTY, path)
    if is_parquet(path, message):
        delimiter, start = "", Position()
        names = ParquetRows(path, message).names
    else:
        names, delimiter, start = header_of(path, delimiter=columns.delimiter, quote='"')
    layout, features = _declared(names, columns, message)
    if delimiter:
        raw = text_table("table", path, layout, (), delimiter=delimiter, start=start, quote='"')
    else:
        raw = RawTable("table", path, layout, (), lambda _: ParquetRows(path, message))
    raw = replace(raw, layout=_with_kinds(raw, features, progress))
    return replace(raw, label_party=_cut(raw.layout, columns.label_party))


def _declared(
    names: tuple[str, ...], columns: TableColumns, message: FileMessage
) -> tuple[Layout, list[str]]:
    """The layout as far as it was declared, and all features in the order of the file."""
    row_numbers = columns.id == ROW_NUMBER
    roles = [columns.label] if row_numbers else [columns.label, columns.id]
    for name in roles:
        if name not in names:
            raise message.no_such_column(name, names)
    free = [name for name in names if name not in roles]
    dropped = matched(columns.drop, free, "drop")
    free = [name for name in free if name not in dropped]
    numeric = matched(columns.numeric, free, "numeric")
    categorical = matched(columns.categorical, free, "categorical")
    both, reserved = numeric & categorical, set(free) & set(RESERVED)
    if both:
        raise ConfigurationError(f"{listing(sorted(both))} cannot be both numeric and categorical.")
    if reserved:
        raise ConfigurationError(
            f"No feature may be called {listing(sorted(reserved))}. Rename or drop it."
        )
    if columns.id == columns.label:
        raise ConfigurationError(f"id and label must differ, both are {columns.label!r}.")
    layout = Layout(
        names=names,
        id_column=None if row_numbers else columns.id,
        label_column=columns.label,
        numbers=tuple(name for name in free if name in numeric),
        categories=tuple(name for name in free if name in categorical),
        positive=columns.positive,
        missing=columns.missing,
        strip=True,
    )
    return layout, free


def column_names(path: Path) -> tuple[str, ...]:
    """The columns of a CSV with a header, or of Parquet, that can be read as texts.

    Raises:
        DataError: the file cannot be read.
    """
    require_file(path)
    message = FileMessage(LABEL_PARTY, path)
    if is_parquet(path, message):
        return ParquetRows(path, message).names
    return header_of(path, delimiter=None, quote='"')[0]


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


def _cut(layout: Layout, patterns: Sequence[str]) -> tuple[str, ...]:
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
        )

    chosen = _cut(layout, label_party) if label_party else ()
    return RawTable(name, path, layout, chosen, opened)


def header_of(
    path: Path, *, delimiter: str | None, quote: str
) -> tuple[tuple[str, ...], str, Position]:
    """Names of the columns, the delimiter, and where the rows begin."""
    require_file(path)
    message = FileMessage(LABEL_PARTY, path)
    blocks = text_blocks(path, message, offset=0, quote=quote, block_bytes=_HEAD_BYTES)
    first = next(blocks, None)
    if first is None or not first.data.strip():
        raise message.error("must hold a table, but is empty or begins with a blank line.")
    mark = first.end - len(first.data)  # a byte order mark, perhaps
    sample = first.data.decode(errors="replace").encode()
    layout = text_layout(sample, message, delimiter=delimiter, quote=quote)
    header = _first_record(first.data, quote.encode())
    try:
        header.decode()
    except UnicodeDecodeError as error:
        raise message.error(
            "the header must be UTF-8 text, but holds other bytes. Convert the file, for example "
            "with iconv."
        ) from error
    twice = [name for name in dict.fromkeys(layout.first) if layout.first.count(name) > 1]
    if twice or not all(layout.first):
        found = f"{listing(twice)} stands there twice" if twice else "one is empty"
        raise message.error(
            f"every column must have a name of its own in the header, but {found}. Rename it."
        )
    start = Position(mark + len(header), 1 + header.count(b"\n"), 0)
    return layout.first, layout.delimiter, start


def _first_record(data: bytes, mark: bytes) -> bytes:
    """The first record with its line end."""
    end = data.find(b"\n") + 1
    while end and not end_of_records(data[:end], mark):
        end = data.find(b"\n", end) + 1
    return data[:end] if end else data


def _with_kinds(raw: RawTable, names: Sequence[str], progress: Progress | None) -> Layout:
    """The layout with every feature numeric or categorical, in the order of the file."""
    layout = raw.layout
    open_ones = [name for name in names if name not in layout.features]
    undecided = {name: layout.names.index(name) for name in open_ones}
    filled: set[str] = set()
    source = raw.open(_HEAD_BYTES << 7)
    for block in source.blocks(source.start) if undecided else ():
        for name, place in list(undecided.items()):
            cells = block.frame[str(place)].str.strip_chars()
            cells = cells.set(cells.is_in([*layout.missing, ""]).fill_null(value=False), None)
            numbers = cells.cast(pl.Float64, strict=False)
            if numbers.null_count() > cells.null_count():
                del undecided[name]
            elif cells.null_count() < len(cells):
                filled.add(name)
        if progress is not None:
            rows = block.end.row
            progress("kinds of columns", rows=rows, done=block.read, total=source.size)
        if not undecided:
            break
    numeric = {*layout.numbers, *(set(undecided) & filled)}
    return replace(
        layout,
        numbers=tuple(name for name in names if name in numeric),
        categories=tuple(name for name in names if name not in numeric),
    )


def require_file(path: Path) -> None:
    """Refuse a path that leads to no regular file."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "there is none"
        raise DataError(f"{path} must be a file, but {found}. Mend the path.")
