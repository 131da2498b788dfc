"""Any table: a file with a header, whose columns are declared or found by a pass over it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, get_args

from cutlayer.data.party_table import LABEL_PARTY
from cutlayer.data.tables.cell_values import CellRules, Decimal, can_name
from cutlayer.data.tables.column_choice import ROW_NUMBER, Kind
from cutlayer.data.tables.column_notices import ColumnNotice, lines_of
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.data.tables.parquet_table import is_parquet
from cutlayer.data.tables.record_blocks import ENCODINGS, Encoding
from cutlayer.errors import ConfigurationError
from cutlayer.preparation.layout import Layout
from cutlayer.preparation.options import Progress
from cutlayer.preparation.parquet_rows import ParquetRows
from cutlayer.preparation.raw_table import (
    RawTable,
    cut_of,
    header_of,
    matched,
    require_file,
    text_table,
)
from cutlayer.preparation.row_source import RowSource
from cutlayer.preparation.table_survey import SurveyPlan, surveyed

RESERVED: Final = ("id", "part", "label")
"""Columns of the output; no feature may be called so."""

_SURVEY_BYTES: Final = 1 << 23


@dataclass(frozen=True)
class TableColumns:
    """What the columns of any other table are; names or shell patterns for features."""

    label: str
    id: str = ROW_NUMBER
    positive: str | None = None
    """The label's value that is positive, all others being negative; ``1`` and ``1.0`` are one
    value, as at a party. ``None`` understands 1/0, true/false and yes/no."""
    numeric: tuple[str, ...] = ()
    """Columns of numbers: a row with text in one of them is a reject."""
    categorical: tuple[str, ...] = ()
    """Columns of categories. A column that neither list names is numeric if all its cells are."""
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Texts that mean "missing", apart from an empty cell; where Parquet stores numbers, the
    numbers that they write."""
    label_party: tuple[str, ...] = ()
    """Features of the label party; by default it gets none."""
    delimiter: str | None = None
    """``None``: found from the first lines."""
    decimal: Decimal = "."
    """What stands in front of a number's fraction."""
    quote: str = '"'
    """What a text that holds a delimiter or a line end stands between; ``""`` for nothing."""
    encoding: Encoding = "utf-8"

    @property
    def rules(self) -> CellRules:
        """Which cells are missing, and how numbers are written."""
        return CellRules(missing=self.missing, decimal=self.decimal)


def table(path: Path, columns: TableColumns, progress: Progress | None = None) -> RawTable:
    """Any table with a header: CSV (plain or gzip) or Parquet.

    The file is gone through once, to find the columns' kinds and the label's values, and what a
    party would be told about them.

    Raises:
        ConfigurationError: a column or pattern fits nothing, a feature has a reserved name, or
            nothing is left for the non-label party.
        DataError: the file cannot be read; an id or the label is of a kind that names nothing; the
            label has one value, none that is understood, or two spellings of one.
    """
    require_file(path)
    _check_signs(columns)
    message = FileMessage(LABEL_PARTY, path)
    if is_parquet(path, message):
        raw, features = _parquet_table(path, columns, message)
    else:
        header = header_of(
            path, delimiter=columns.delimiter, quote=columns.quote, encoding=columns.encoding
        )
        layout, features = _declared(header.names, columns, message)
        raw = text_table(
            "table",
            path,
            layout,
            (),
            delimiter=header.delimiter,
            start=header.start,
            quote=columns.quote,
            encoding=columns.encoding,
        )
        raw = replace(raw, notices=header.notices)
    raw = _surveyed(raw, features, columns, progress)
    return replace(raw, label_party=cut_of(raw.layout, columns.label_party))


def _parquet_table(
    path: Path, columns: TableColumns, message: FileMessage
) -> tuple[RawTable, list[str]]:
    """A table in Parquet, and its features; those that are neither numbers nor texts are left out.

    Raises:
        DataError: the id, the label, or a column that was listed as numeric is such a column.
    """
    kinds = ParquetRows(path, message).kinds
    layout, features = _declared(tuple(kinds), columns, message)
    for name in filter(None, (layout.id_column, layout.label_column)):
        if not can_name(kinds[name]):
            raise message.error(
                f"must hold texts or numbers, but holds {kinds[name]}. Name another column.",
                column=name,
            )
    useless = [name for name in features if not can_name(kinds[name])]
    for name in useless:
        if name in layout.features:
            raise message.error(
                f"must hold numbers or texts, as it is listed, but holds {kinds[name]}. Take it "
                "out of the list.",
                column=name,
            )
    told = [
        ColumnNotice(name, text, text)
        for name in useless
        for text in [f"left out, because {kinds[name]} values are neither numbers nor texts."]
    ]
    features = [name for name in features if name not in useless]
    read = [*filter(None, (layout.id_column, layout.label_column)), *features]

    def opened(_: int) -> RowSource:
        return ParquetRows(
            path, message, columns=read, id_column=layout.id_column, rules=columns.rules
        )

    notices = lines_of(told, lambda text, column: message.notice(text, column=column))
    return RawTable("table", path, layout, (), opened, tuple(notices)), features


def _surveyed(
    raw: RawTable, features: Sequence[str], columns: TableColumns, progress: Progress | None
) -> RawTable:
    """The table with every feature numeric or categorical, and what its labels mean."""
    layout = raw.layout
    declared: dict[str, Kind] = dict.fromkeys(features, "infer")
    declared |= dict.fromkeys(layout.numbers, "numeric")
    declared |= dict.fromkeys(layout.categories, "categorical")
    plan = SurveyPlan(
        layout.names,
        columns.label,
        columns.positive,
        layout.id_column,
        {name: declared[name] for name in features},
        columns.rules,
    )
    survey = surveyed(raw.open(_SURVEY_BYTES), plan, raw.message, progress)
    layout = replace(
        layout,
        numbers=tuple(name for name in features if name in survey.numeric),
        categories=tuple(name for name in features if name not in survey.numeric),
        label_values=survey.label_values,
        positive=survey.positive,
    )
    notices = (*raw.notices, *survey.notices)
    return replace(raw, layout=layout, notices=notices, noticed=survey.noticed)


def _check_signs(columns: TableColumns) -> None:
    """Hold the options about how the text is written to their rules."""
    if columns.delimiter is not None and len(columns.delimiter) != 1:
        raise ConfigurationError(f"delimiter must be one sign, got {columns.delimiter!r}.")
    if len(columns.quote) > 1 or columns.quote == columns.delimiter:
        raise ConfigurationError(
            f"quote must be one sign other than the delimiter, or empty, got {columns.quote!r}."
        )
    for name, value, known in (
        ("decimal", columns.decimal, get_args(Decimal)),
        ("encoding", columns.encoding, ENCODINGS),
    ):
        if value not in known:
            raise ConfigurationError(f"{name} must be one of {listing(known)}, got {value!r}.")


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
        missing=columns.missing,
        strip=True,
        decimal=columns.decimal,
    )
    return layout, free
