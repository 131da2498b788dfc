"""Column judgement: which columns are kept, and at most one notice of each."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from cutlayer.data.tables.cell_values import CellRules
from cutlayer.data.tables.column_choice import Kind
from cutlayer.data.tables.column_notices import ColumnNotice
from cutlayer.data.tables.column_reading import ReadColumns
from cutlayer.data.tables.feature_screening import screened
from cutlayer.data.tables.target_leakage import KnownLabels, column_giveaway


@dataclass(frozen=True)
class Judgement:
    """What was decided about the columns of a table."""

    kept: tuple[pl.Series, ...]
    notices: tuple[ColumnNotice, ...]
    """One for each column that is left out, or doubtful, and does not give the label away."""
    giveaways: tuple[ColumnNotice, ...]
    """One for each column that gives the label away, left out or not."""


def judged_columns(
    columns: ReadColumns,
    kinds: Mapping[str, Kind],
    rules: CellRules,
    labels: KnownLabels | None,
    *,
    leaves_out: bool = True,
) -> Judgement:
    """Screen each column, and hold it against the labels where they are known.

    Args:
        columns: as read.
        kinds: what the user says of each column.
        rules: how a number is written.
        labels: of the rows; ``None`` at the non-label party.
        leaves_out: whether columns that nothing can be learned from are left out, or only named.
    """
    kept: list[pl.Series] = []
    notices: list[ColumnNotice] = []
    giveaways: list[ColumnNotice] = []
    for name, unusable in columns.unusable.items():
        text = f"left out, because {unusable.kind} values are neither numbers nor texts."
        notice = ColumnNotice(name, text, text)
        _sort(unusable.filled.alias(name), notice, labels, notices, giveaways, keep=False)
    for column in columns.features:
        keep, doubt = screened(
            column,
            kinds[column.name],
            rules,
            other=columns.no_numbers.get(column.name),
            leading_zero=columns.leading_zero.get(column.name),
            leaves_out=leaves_out,
        )
        if keep:
            kept.append(column)
        _sort(column, doubt, labels, notices, giveaways, keep=keep)
    return Judgement(tuple(kept), tuple(notices), tuple(giveaways))


def _sort(
    column: pl.Series,
    notice: ColumnNotice | None,
    labels: KnownLabels | None,
    notices: list[ColumnNotice],
    giveaways: list[ColumnNotice],
    *,
    keep: bool,
) -> None:
    """Put what is said of a column where it belongs; that it gives the label away goes first."""
    reason = None
    if labels is not None:
        share = labels.positive_share
        reason = column_giveaway(column, labels.values, positive_share=share)
    if reason is None:
        if notice is not None:
            notices.append(notice)
        return
    told = f"gives the label away: it {reason}."
    if keep:
        told += " If it is only known after the outcome, list it under drop."
    elif notice is not None:
        told += f" It is {notice.alone}"
    giveaways.append(ColumnNotice(column.name, told, told))
