"""Column reading: from batches of cells to one compact column each, its kind inferred."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from cutlayer.data.tables.cell_values import (
    CellRules,
    as_text,
    can_name,
    compact,
    is_text,
    is_whole,
    joined,
    whole_below,
)
from cutlayer.data.tables.column_choice import ColumnChoice, Kind
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.table_source import RowBatch, TableSource
from cutlayer.data.tables.text_patterns import look_of

_NAMED_PLACES = 3


@dataclass
class Cells:
    """Some cells of one column that share a fault: how many, and where the first ones stand."""

    count: int = 0
    places: list[str] = field(default_factory=list)
    text: str = ""
    """What the first one holds."""

    def add(self, where: pl.Series, texts: pl.Series, batch: RowBatch) -> None:
        """Count the rows where ``where`` is true."""
        rows = where.arg_true()
        if len(rows) == 0:
            return
        if not self.places:
            self.text = str(texts[int(rows[0])])
        for row in rows.head(_NAMED_PLACES - len(self.places)):
            self.places.append(batch.place_of(row))
        self.count += len(rows)

    @property
    def first(self) -> str:
        """Where the first one stands and what it holds."""
        return f"{self.places[0]} holds {self.text!r}"


class FeatureReader:
    """One feature: numbers as long as every cell is one, categories from then on.

    A column may turn out to be text after numbers were taken from earlier batches. Their texts
    ("007") are gone by then, so the column asks for a second pass.
    """

    def __init__(self, name: str, kind: Kind, rules: CellRules) -> None:
        self.name, self.kind, self._rules = name, kind, rules
        self.as_text = kind == "categorical"
        self.needs_second_pass = False
        self.no_numbers, self.not_finite, self.leading_zero = Cells(), Cells(), Cells()
        self.unusable: pl.DataType | None = None
        self._chunks: list[pl.Series] = []
        self._held_numbers = False

    def add(self, batch: RowBatch) -> None:
        """Take the column's cells from a batch."""
        column = _nameless(batch.frame[self.name])
        kind = column.dtype
        if kind == pl.Boolean and self.kind == "numeric":
            self._add_numbers(column.cast(pl.Int8), column, batch)
        elif kind.is_numeric() and not self.as_text:
            self._add_numbers(self._rules.numbers(column), column, batch)
        elif is_text(kind) or kind == pl.Boolean or kind.is_numeric() or kind == pl.Null:
            self._add_texts(self._rules.texts(column), batch)
        else:
            self.unusable = kind
            self._chunks.append(_filled(column))

    def start_again(self) -> None:
        """Prepare for the second pass, as texts."""
        self.needs_second_pass = False
        self.as_text = True

    def column(self) -> pl.Series:
        """The whole column; call it once, it hands over the memory."""
        chunks, self._chunks = self._chunks, []
        return joined(chunks).alias(self.name)

    def _add_texts(self, texts: pl.Series, batch: RowBatch) -> None:
        """Take texts, as numbers if all of them are."""
        if self.needs_second_pass:
            return
        if self.as_text:
            self._chunks.append(texts.cast(pl.Categorical))
            return
        numbers = self._rules.numbers_from(texts)
        if numbers.null_count() > texts.null_count():
            self.no_numbers.add(numbers.is_null() & texts.is_not_null(), texts, batch)
            if self.kind == "infer":
                self.needs_second_pass = self._held_numbers
                self._turn_to_text(texts)
                return
        self._add_numbers(numbers, texts, batch)
        if self._chunks[-1].dtype.is_integer():
            self.leading_zero.add(self._rules.leading_zero(texts), texts, batch)

    def _add_numbers(self, numbers: pl.Series, cells: pl.Series, batch: RowBatch) -> None:
        """Take numbers; those that are not finite are counted and later refused."""
        self._held_numbers = self._held_numbers or numbers.null_count() < len(numbers)
        if numbers.dtype.is_float():
            finite = numbers.is_finite()
            if not finite.all():
                self.not_finite.add(~finite.fill_null(value=True), as_text(cells), batch)
                numbers = numbers.set(~finite, None)
        self._chunks.append(compact(numbers))

    def _turn_to_text(self, texts: pl.Series) -> None:
        """Keep what is known of earlier batches: nothing, or that all of it was missing."""
        self.as_text = True
        empty = sum(len(chunk) for chunk in self._chunks)
        self._chunks = []
        if not self.needs_second_pass:
            if empty:
                self._chunks.append(texts.clear(empty).cast(pl.Categorical))
            self._chunks.append(texts.cast(pl.Categorical))


class TextReader:
    """A column that must have a text in every row: id, label or group."""

    def __init__(self, name: str, rules: CellRules, kind: type[pl.DataType]) -> None:
        self.name, self._rules, self._kind = name, rules, kind
        self.missing, self.fractions = Cells(), Cells()
        self.whole_below = 0.0
        """Of floats: below which size whole ones are told apart."""
        self.unusable: pl.DataType | None = None
        self._chunks: list[pl.Series] = []

    def add(self, batch: RowBatch) -> None:
        """Take the column's cells from a batch."""
        column = _nameless(batch.frame[self.name])
        kind = column.dtype
        if not can_name(kind):
            self.unusable = kind
            return
        texts = self._rules.texts(column)
        if kind.is_float():
            self.whole_below = whole_below(kind)
            whole = is_whole(column) & (column.abs() < self.whole_below)
            self.fractions.add(~whole.fill_null(value=True), texts, batch)
        if texts.null_count():
            self.missing.add(texts.is_null(), texts, batch)
        self._chunks.append(texts.cast(self._kind))

    def column(self) -> pl.Series:
        """The whole column; call it once, it hands over the memory."""
        chunks, self._chunks = self._chunks, []
        return joined(chunks).alias(self.name)


@dataclass(frozen=True)
class UnusableColumn:
    """A column whose values are neither numbers nor texts."""

    kind: pl.DataType
    filled: pl.Series
    """``"filled"`` in each row that has a value, null in the others."""


@dataclass(frozen=True)
class ReadColumns:
    """What a file holds of the columns that were chosen."""

    rows: int
    texts: Mapping[str, pl.Series]
    """Id, label and group by name, without nulls: ids and groups as texts, the label's as
    categories."""
    features: tuple[pl.Series, ...]
    """Numbers, or categories; null where missing."""
    no_numbers: Mapping[str, Cells]
    """Columns that became categories by inference: the cells of one batch that are no numbers."""
    leading_zero: Mapping[str, Cells]
    """Columns that became numbers by inference although some are written as codes are."""
    unusable: Mapping[str, "UnusableColumn"]
    """Columns that are left out, since their kind can be neither."""


def read_columns(
    source: TableSource, choice: ColumnChoice, message: FileMessage, rules: CellRules
) -> ReadColumns:
    """Go through the file, a second time where a column turned out late to be text.

    Raises:
        DataError: an id, label or group is missing; a column listed as numeric holds text; a
            number is not finite; the file breaks a rule of its format.
    """
    texts = {name: _text_reader(name, choice, rules) for name in choice.texts}
    features = {name: FeatureReader(name, kind, rules) for name, kind in choice.features.items()}
    readers: dict[str, TextReader | FeatureReader] = {**texts, **features}
    rows = _pass(source, readers)
    late = {name: reader for name, reader in features.items() if reader.needs_second_pass}
    if late:
        for reader in late.values():
            reader.start_again()
        if _pass(source, late) != rows:
            raise message.error("the file must not change while it is read. Read it again.")
    for text_reader in texts.values():
        _require_texts(text_reader, message, named=text_reader.name != choice.label_column)
    for reader in features.values():
        _require_numbers(reader, message, rules, trained=choice.trained)
    usable = [reader for reader in features.values() if reader.unusable is None]
    return ReadColumns(
        rows=rows,
        texts={name: reader.column() for name, reader in texts.items()},
        features=tuple(reader.column() for reader in usable),
        no_numbers={r.name: r.no_numbers for r in usable if r.as_text and r.no_numbers.count},
        leading_zero={
            r.name: r.leading_zero
            for r in usable
            if r.kind == "infer" and not r.as_text and r.leading_zero.count
        },
        unusable={
            reader.name: UnusableColumn(reader.unusable, reader.column())
            for reader in features.values()
            if reader.unusable is not None
        },
    )


def _text_reader(name: str, choice: ColumnChoice, rules: CellRules) -> TextReader:
    """The reader of an id, label or group column."""
    if name == choice.label_column:
        return TextReader(name, rules, pl.Categorical)
    # An id may be "?" or "0", whatever that means elsewhere.
    return TextReader(name, CellRules() if name == choice.id_column else rules, pl.String)


def _pass(source: TableSource, readers: Mapping[str, TextReader | FeatureReader]) -> int:
    """Hand every batch to the readers of its columns; returns the number of rows."""
    rows: dict[str, int] = dict.fromkeys(readers, 0)
    for batch in source.batches(tuple(readers)):
        for name in batch.frame.columns:
            readers[name].add(batch)
            rows[name] += batch.frame.height
    return max(rows.values(), default=0)


def _require_texts(reader: TextReader, message: FileMessage, *, named: bool) -> None:
    """Refuse an id, label or group column with a gap, and what names no record for sure."""
    if reader.unusable is not None:
        raise message.error(
            f"must hold texts or numbers, but holds {reader.unusable}. Name another column.",
            column=reader.name,
        )
    bad = reader.fractions
    if named and bad.count:
        raise message.error(
            f"must hold texts or whole numbers below 2**{math.log2(reader.whole_below):.0f}, but "
            f"{bad.first}{_others(bad)}. Store the column as texts.",
            column=reader.name,
        )
    gap = reader.missing
    if gap.count:
        raise message.error(
            f"every row must have a value, but {gap.count:,} have none: {_places(gap)}. Fill them, "
            "or take these rows out of the file.",
            column=reader.name,
        )


def _require_numbers(
    reader: FeatureReader, message: FileMessage, rules: CellRules, *, trained: bool
) -> None:
    """Refuse text in a numeric column, and numbers that are not finite."""
    why = "as in training" if trained else "as it is listed under numeric"
    if reader.kind == "numeric" and reader.unusable is not None:
        fix = "Store numbers" if trained else "Take it out of numeric, or store numbers"
        raise message.error(
            f"must hold numbers, {why}, but holds {reader.unusable}. {fix}.", column=reader.name
        )
    bad = reader.no_numbers
    if reader.kind == "numeric" and bad.count:
        raise message.error(
            f"must hold numbers, {why}, but {bad.first}{_others(bad)}. "
            f"{_fix_of(bad.text, rules, trained=trained)}",
            column=reader.name,
        )
    bad = reader.not_finite
    if not reader.as_text and bad.count:
        raise message.error(
            f"numbers must be finite, but {bad.first}{_others(bad)}. Leave such cells empty, or "
            f"list {bad.text!r} under missing.",
            column=reader.name,
        )


def _fix_of(text: str, rules: CellRules, *, trained: bool) -> str:
    """What to do about a text where a number must stand."""
    look = look_of(pl.Series([text]), rules.decimal)
    if look is not None:
        return f"Such texts look like {look.what}. {look.fix}"
    if trained:
        return f"Mend the cells, leave them empty, or list {text!r} under missing."
    return f"Mend the cells, list {text!r} under missing, or take the column out of numeric."


def _filled(column: pl.Series) -> pl.Series:
    """A category for "filled", null where a cell is empty."""
    frame = column.is_not_null().to_frame("filled")
    return frame.select(pl.when("filled").then(pl.lit("filled")).cast(pl.Categorical)).to_series()


def _nameless(column: pl.Series) -> pl.Series:
    """The column under a plain name: polars takes a name such as ``^n$`` for a pattern."""
    return column.alias("cells")


def _places(cells: Cells) -> str:
    """The first places, and that there are more."""
    return ", ".join(cells.places) + (" and others" if cells.count > len(cells.places) else "")


def _others(cells: Cells) -> str:
    """How many more cells share the fault."""
    return f" (and {cells.count - 1:,} more cells)" if cells.count > 1 else ""
