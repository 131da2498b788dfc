"""A survey: one pass over a raw table that finds kinds and labels, and judges the columns.

The rules are those of a party's reader: which texts are numbers, which labels are positive, which
notices a column gets. Memory does not grow with the rows: columns are judged by a sample of the
rows of each label.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cutlayer.data.tables.cell_values import CellRules, compact
from cutlayer.data.tables.column_choice import Kind
from cutlayer.data.tables.column_judgement import judged_columns
from cutlayer.data.tables.column_notices import ColumnNotice, lines_of
from cutlayer.data.tables.column_reading import Cells, ReadColumns
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.label_values import label_of, positive_texts, understood_texts
from cutlayer.data.tables.table_source import RowBatch
from cutlayer.data.tables.target_leakage import KnownLabels, order_giveaway
from cutlayer.preparation.options import Progress
from cutlayer.preparation.row_sample import RowSample
from cutlayer.preparation.row_source import RowBlock, RowSource

STAGE: Final = "looking at columns"
MAX_LABELS: Final = 10_000
"""So many different texts of a label are counted one by one."""

_MOST_ROWS, _LEAST_ROWS, _MOST_CELLS = 25_000, 1_000, 2_000_000
_OTHER_TEXTS: Final = "(other texts)"
_IDS: Final = "ids"  # other columns are called by their position


@dataclass(frozen=True)
class Survey:
    """What a pass over the whole table found."""

    numeric: frozenset[str]
    """Features whose every filled cell is a number."""
    label_values: Mapping[str, int]
    """What each text of the label means; empty where ``positive`` says it."""
    positive: tuple[str, ...]
    """All spellings of the positive value, every other one being negative."""
    notices: tuple[str, ...]
    """One line each."""
    noticed: frozenset[str]
    """The columns that these are about."""


@dataclass(frozen=True)
class SurveyPlan:
    """What is asked of the table."""

    names: tuple[str, ...]
    """All columns, in the order of the file."""
    label: str
    positive: str | None
    id_column: str | None
    """``None``: rows are numbered."""
    kinds: Mapping[str, Kind]
    """Features, in the order of the file, and what the user says of them."""
    rules: CellRules


def surveyed(
    source: RowSource, plan: SurveyPlan, message: FileMessage, progress: Progress | None
) -> Survey:
    """Go through the table once.

    Raises:
        DataError: the file breaks a rule of its format; the label has one value, none that is
            understood, or not the one that was named.
    """
    columns = [_Column(name, kind, plan) for name, kind in plan.kinds.items()]
    labels = _Labels(plan)
    for block in source.blocks(source.start):
        batch = RowBatch(block.frame, _place_of(block, source.row_word))
        cells = [column.add(batch) for column in columns]
        labels.add(block, pl.DataFrame([*cells, _ids(block, plan)]))
        if progress is not None:
            progress(STAGE, rows=block.end.row, done=block.read, total=source.size)
    if not labels.counts:
        # Nothing to survey: the pass that follows says why.
        return Survey(frozenset(), {}, (), (), frozenset())
    values, positive, made = labels.meaning(message)
    judged = _judged(columns, labels, plan)
    lines = lines_of(judged, lambda text, column: message.notice(text, column=column))
    rows, _ = labels.sample()
    if judged and rows.height < labels.seen:
        told = f"columns are judged by a sample of {rows.height:,} of the {labels.seen:,} rows."
        lines.append(message.notice(told))
    lines += _order_of_ids(labels, plan, message)
    lines.append(message.notice(made, column=plan.label))
    numeric = frozenset(column.name for column in columns if column.is_numeric)
    noticed = frozenset(notice.column for notice in judged)
    return Survey(numeric, values, positive, tuple(lines), noticed)


class _Column:
    """One feature: whether all of its cells are numbers."""

    def __init__(self, name: str, kind: Kind, plan: SurveyPlan) -> None:
        self.name, self.kind, self._rules = name, kind, plan.rules
        self.place = str(plan.names.index(name))  # as a name "^n$" would be a pattern
        self.no_numbers, self.leading_zero = Cells(), Cells()
        self._filled = False
        self._first: str | None = None
        self.varies = False
        """Whether two filled cells differ."""

    @property
    def is_numeric(self) -> bool:
        """Whether it is a column of numbers."""
        inferred = self._filled and not self.no_numbers.count
        return self.kind == "numeric" or (self.kind == "infer" and inferred)

    def add(self, batch: RowBatch) -> pl.Series:
        """Look at the cells of a block; returns them as texts, null where missing."""
        texts = self._rules.texts(batch.frame[self.place])
        self._filled = self._filled or texts.null_count() < len(texts)
        self._compare(texts)
        if self.kind == "infer" and not self.no_numbers.count:
            numbers = self._rules.numbers_from(texts)
            if numbers.null_count() > texts.null_count():
                self.no_numbers.add(numbers.is_null() & texts.is_not_null(), texts, batch)
            self.leading_zero.add(self._rules.leading_zero(texts), texts, batch)
        return texts.alias(self.place)

    def _compare(self, texts: pl.Series) -> None:
        """Hold the cells against the first one, until one differs."""
        if self.varies or texts.null_count() == len(texts):
            return
        if self._first is None:
            self._first = texts.drop_nulls()[0]
        self.varies = bool((texts != self._first).any())

    def shown_by(self, cells: pl.Series) -> bool:
        """Whether a sample varies if the column does; of one value it would tell an untruth."""
        # A plain name: polars takes one such as "^n$" for a pattern.
        return not self.varies or cells.alias("cells").drop_nulls().n_unique() > 1

    def column(self, texts: pl.Series) -> pl.Series:
        """Some of its cells as a party's reader has them."""
        if not self.is_numeric:
            return texts.cast(pl.Categorical).alias(self.name)
        numbers = self._rules.numbers_from(texts)
        finite = numbers.is_finite().fill_null(value=True)
        return compact(numbers.set(~finite, None)).alias(self.name)


class _Labels:
    """Texts of the label, counted, and a sample of the rows of each class."""

    def __init__(self, plan: SurveyPlan) -> None:
        self._plan = plan
        self._place = str(plan.names.index(plan.label))
        self.counts: Counter[str] = Counter()
        limit = min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_CELLS // max(1, len(plan.kinds))))
        self._samples = {label: RowSample(limit) for label in (0, 1)}

    def add(self, block: RowBlock, rows: pl.DataFrame) -> None:
        """Count the labels of a block, and keep some of its rows."""
        texts = self._plan.rules.texts(block.frame[self._place]).alias("text")
        counts = texts.drop_nulls().value_counts(name="rows")
        known = {text: label_of(text, self._plan.positive) for text in counts["text"]}
        for text, times in counts.iter_rows():
            counted = text in self.counts or len(self.counts) < MAX_LABELS or known[text] == 1
            self.counts[text if counted else _OTHER_TEXTS] += times
        label = texts.replace_strict(known, default=None, return_dtype=pl.Int8)
        for value, sample in self._samples.items():
            sample.add(rows.filter((label == value).fill_null(value=False)))

    def meaning(self, message: FileMessage) -> tuple[Mapping[str, int], tuple[str, ...], str]:
        """What the texts mean, or which of them are positive; and a sentence on that."""
        plan = self._plan
        if plan.positive is None:
            values, made = understood_texts(self.counts, message, plan.label)
            return values, (), made
        positive, made = positive_texts(
            self.counts, message, plan.label, positive=plan.positive, negative="rest"
        )
        return {}, tuple(positive), made

    @property
    def seen(self) -> int:
        """Rows whose label is known."""
        return sum(sample.seen for sample in self._samples.values())

    @property
    def positive_share(self) -> float:
        """Of all these rows."""
        return self._samples[1].seen / max(1, self.seen)

    def sample(self) -> tuple[pl.DataFrame, NDArray[np.int64]]:
        """Rows of both classes as texts, and their labels."""
        held = {label: sample.rows() for label, sample in self._samples.items()}
        frames = {label: frame for label, frame in held.items() if frame is not None}
        labels = np.repeat(list(frames), [frame.height for frame in frames.values()])
        return pl.concat(frames.values()), labels


def _judged(columns: Sequence[_Column], labels: _Labels, plan: SurveyPlan) -> list[ColumnNotice]:
    """Notices about the columns, as a party gets them, by the sampled rows."""
    rows, values = labels.sample()
    taken = [(column, column.column(rows[column.place])) for column in columns]
    read = ReadColumns(
        rows=rows.height,
        texts={},
        features=tuple(cells for column, cells in taken if column.shown_by(cells)),
        no_numbers={c.name: c.no_numbers for c in columns if c.no_numbers.count},
        leading_zero={
            c.name: c.leading_zero for c in columns if c.is_numeric and c.leading_zero.count
        },
        unusable={},
    )
    known = KnownLabels(values, labels.positive_share)
    judgement = judged_columns(read, plan.kinds, plan.rules, known, leaves_out=False)
    return [*judgement.notices, *judgement.giveaways]


def _ids(block: RowBlock, plan: SurveyPlan) -> pl.Series:
    """What the rows of a block are called."""
    if plan.id_column is None:
        return pl.Series(_IDS, block.numbers).cast(pl.String)
    return block.frame[str(plan.names.index(plan.id_column))].str.strip_chars().alias(_IDS)


def _order_of_ids(labels: _Labels, plan: SurveyPlan, message: FileMessage) -> list[str]:
    """A line where the order of the ids gives the label away."""
    rows, known = labels.sample()
    named = rows[_IDS].is_not_null()
    reason = order_giveaway(rows[_IDS].filter(named), known[named.to_numpy()])
    if reason is None:
        return []
    text = f"the ids give the label away: their order {reason}."
    return [message.notice(text, column=plan.id_column)]


def _place_of(block: RowBlock, word: str) -> Callable[[int], str]:
    """Where a row of a block stands."""
    return lambda row: f"{word} {block.lines[row]}"
