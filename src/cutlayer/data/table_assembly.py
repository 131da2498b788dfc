"""Table assembly: from the columns of a file to a party table, with a notice for each decision."""

from dataclasses import dataclass
from typing import Literal

import polars as pl
from torch import Tensor

from cutlayer.data.category_notices import many_categories
from cutlayer.data.cell_values import CellRules
from cutlayer.data.column_choice import ROW_NUMBER, ColumnChoice
from cutlayer.data.column_reading import ReadColumns
from cutlayer.data.feature_screening import mostly_numbers, reason_to_drop
from cutlayer.data.file_message import FileMessage, listing
from cutlayer.data.label_giveaway import column_giveaway, order_giveaway
from cutlayer.data.label_values import Positive, labels_from
from cutlayer.data.party_table import NON_LABEL_PARTY, PartyTable
from cutlayer.data.record_ids import canonical_ids
from cutlayer.data.text_sequence import TextSequence


@dataclass(frozen=True)
class TableReading:
    """A table, and what was decided on the way to it without being asked."""

    table: PartyTable
    notices: tuple[str, ...]
    """One or two sentences each, beginning with party and file: columns left out, values of the
    label, columns that give the label away. Those of the label party tell about labels: they are
    for its eyes only."""
    giveaways: tuple[str, ...] = ()
    """Names of the columns that give the label away; that of the ids, if their order does."""


def require_unique(ids: TextSequence, message: FileMessage, column: str) -> None:
    """Refuse an id column in which an id repeats.

    Raises:
        DataError: one does.
    """
    repeated = ids.repeated()
    if repeated:
        raise message.error(
            f"ids must be unique, but {len(repeated):,} of them repeat: {listing(repeated)}. "
            "Keep one row for each id, or name another id column.",
            column=column,
        )


@dataclass(frozen=True)
class TableAssembly:
    """What a file holds, on its way to a table."""

    columns: ReadColumns
    choice: ColumnChoice
    rules: CellRules
    message: FileMessage
    notices: list[str]
    """Those of the file so far; decisions add theirs."""
    screened: bool = True
    """Whether columns that nothing can be learned from are left out."""

    def reading(
        self, *, positive: Positive | None, negative: Literal["rest"] | None
    ) -> TableReading:
        """The finished table.

        Raises:
            DataError: the non-label party has no column left, an id repeats, or the label has other
                values than the options allow.
        """
        features = self._features()
        ids = self._ids()
        labels: Tensor | None = None
        giveaways: tuple[str, ...] = ()
        if self.choice.label_column is not None:
            column = self.columns.texts[self.choice.label_column]
            labels, made = labels_from(column, self.message, positive=positive, negative=negative)
            self._note(made, column.name)
            giveaways = self._point_out(features, ids, labels)
        group = self.choice.group_column
        table = PartyTable(
            party=self.message.party,
            ids=ids,
            features=features,
            labels=labels,
            groups=None if group is None else TextSequence(self.columns.texts[group]),
        )
        return TableReading(table, tuple(self.notices), giveaways)

    def _features(self) -> pl.DataFrame:
        """The columns that something can be learned from."""
        if not self.screened:
            return pl.DataFrame(self.columns.features)
        for name, stored in self.columns.unusable.items():
            self._note(f"left out, because {stored} values are neither numbers nor texts.", name)
        kept = []
        for column in self.columns.features:
            reason = reason_to_drop(column, self.choice.features[column.name])
            other = self.columns.no_numbers.get(column.name)
            doubt = None if other is None else mostly_numbers(column, other, self.rules)
            if reason is not None:
                cause = "" if doubt is None else f" It is {doubt}"
                self._note(f"left out, because {reason}.{cause}", column.name)
                continue
            kept.append(column)
            if doubt is not None:
                self._note(doubt, column.name)
            elif other is not None and (crowd := many_categories(column)) is not None:
                self._note(crowd, column.name)
            code = self.columns.leading_zero.get(column.name)
            if code is not None:
                self._note(
                    f"read as numbers, though {code.first}, as codes begin. List it under "
                    "categorical if it holds codes, or under numeric if not.",
                    column.name,
                )
        if self.message.party == NON_LABEL_PARTY and not kept:
            raise self.message.error(
                "must hold a column to learn from, but none is left. Look at the options keep and "
                f"drop.{' Notices: ' if self.notices else ''}{' '.join(self.notices)}"
            )
        return pl.DataFrame(kept)

    def _ids(self) -> TextSequence:
        """The ids, unique, or the numbers of the rows."""
        name = self.choice.id_column
        if name is None:
            self._note(
                "the records are called by their row number, so both parties' files must list the "
                "same records in the same order."
            )
            rows = pl.int_range(1, self.columns.rows + 1, eager=True)
            return TextSequence(rows.cast(pl.String))
        ids = canonical_ids(self.columns.texts[name])
        require_unique(ids, self.message, name)
        if ids.series.str.ends_with(".0").all():
            self._note(
                "every id ends with '.0', as if whole numbers had been stored as fractions; ids "
                "are compared letter for letter.",
                name,
            )
        return ids

    def _point_out(
        self, features: pl.DataFrame, ids: TextSequence, labels: Tensor
    ) -> tuple[str, ...]:
        """Add a notice for each column that gives the label away, and name them."""
        known, giveaways = labels.numpy(), []
        for column in features:
            reason = column_giveaway(column, known)
            if reason is not None:
                giveaways.append(column.name)
                self._note(
                    f"gives the label away: it {reason}. If it is only known after the outcome, "
                    "list it under drop.",
                    column.name,
                )
        reason = order_giveaway(ids.series, known)
        if reason is not None:
            giveaways.append(self.choice.id_column or ROW_NUMBER)
            self._note(
                f"the ids give the label away, and the peer knows them: their order {reason}. Call "
                "the records otherwise, at both parties.",
                self.choice.id_column,
            )
        return tuple(giveaways)

    def _note(self, text: str, column: str | None = None) -> None:
        """Add a notice."""
        self.notices.append(self.message.notice(text, column=column))
