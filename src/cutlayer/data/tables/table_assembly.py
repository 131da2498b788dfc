"""Table assembly: from the columns of a file to a party table, with a notice for each decision."""

from dataclasses import dataclass
from typing import Literal

import polars as pl
from torch import Tensor

from cutlayer.data.party_table import NON_LABEL_PARTY, PartyTable
from cutlayer.data.tables.cell_values import CellRules
from cutlayer.data.tables.column_choice import ROW_NUMBER, ColumnChoice
from cutlayer.data.tables.column_judgement import judged_columns
from cutlayer.data.tables.column_notices import ColumnNotice, lines_of
from cutlayer.data.tables.column_reading import ReadColumns
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.data.tables.label_values import Positive, labels_from
from cutlayer.data.tables.lost_ids import float_ids
from cutlayer.data.tables.record_ids import canonical_ids
from cutlayer.data.tables.target_leakage import KnownLabels, order_giveaway
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
    whole: PartyTable | None = None
    """Ids and labels of all rows of the file, where ``table`` holds only those that are shared."""


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
        labels: Tensor | None = None
        made: str | None = None
        label_column = self.choice.label_column
        ids = self._ids()
        if label_column is not None:
            column = self.columns.texts[label_column]
            labels, made = labels_from(column, self.message, positive=positive, negative=negative)
        features, giveaways = self._features(labels)
        if made is not None and labels is not None:
            self._note(made, label_column)
            giveaways = self._point_out(giveaways, ids, labels)
        group = self.choice.group_column
        table = PartyTable(
            party=self.message.party,
            ids=ids,
            features=features,
            labels=labels,
            groups=None if group is None else TextSequence(self.columns.texts[group]),
            numbered=self.choice.id_column is None,
        )
        names = tuple(one.column for one in giveaways)
        return TableReading(table, tuple(self.notices), names)

    def _features(self, labels: Tensor | None) -> tuple[pl.DataFrame, tuple[ColumnNotice, ...]]:
        """The columns that something can be learned from, and what is to be said of the label."""
        if not self.screened:
            return pl.DataFrame(self.columns.features), ()
        known = None if labels is None else KnownLabels(labels.numpy())
        judgement = judged_columns(self.columns, self.choice.features, self.rules, known)
        self.notices.extend(lines_of(judgement.notices, self._worded))
        if self.message.party == NON_LABEL_PARTY and not judgement.kept:
            raise self.message.error(
                "must hold a column to learn from, but none is left. Look at the options keep and "
                f"drop.{' Notices: ' if self.notices else ''}{' '.join(self.notices)}"
            )
        return pl.DataFrame(judgement.kept), judgement.giveaways

    def _ids(self) -> TextSequence:
        """The ids, unique, or the numbers of the rows."""
        name = self.choice.id_column
        if name is None:
            self._note(
                "records are matched by their position, since id is the row number: both parties' "
                "files must list the same records in the same order. Only the number of rows can "
                "be compared, so rows in another order train a wrong model without a word. If both "
                "files have an id, name its column."
            )
            rows = pl.int_range(1, self.columns.rows + 1, eager=True)
            return TextSequence(rows.cast(pl.String))
        ids = canonical_ids(self.columns.texts[name])
        require_unique(ids, self.message, name)
        doubt = float_ids(ids)
        if doubt is not None:
            self._note(doubt, name)
        return ids

    def _point_out(
        self, giveaways: tuple[ColumnNotice, ...], ids: TextSequence, labels: Tensor
    ) -> tuple[ColumnNotice, ...]:
        """Add a notice for each column that gives the label away, and for the order of the ids."""
        self.notices.extend(lines_of(giveaways, self._worded))
        reason = order_giveaway(ids.series, labels.numpy())
        if reason is None:
            return giveaways
        text = (
            f"the ids give the label away, and the peer knows them: their order {reason}. Call the "
            "records otherwise, at both parties."
        )
        self._note(text, self.choice.id_column)
        return (*giveaways, ColumnNotice(self.choice.id_column or ROW_NUMBER, text, text))

    def _worded(self, text: str, column: str | None) -> str:
        """One line."""
        return self.message.notice(text, column=column)

    def _note(self, text: str, column: str | None = None) -> None:
        """Add a notice."""
        self.notices.append(self.message.notice(text, column=column))
