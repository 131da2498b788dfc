"""Giveaways of a sweep: columns of either party that tell the label nearly without fail.

Two parties cannot look for those of the non-label party; a sweep holds both halves.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cutlayer.data import PartyName, PartyTable, TextSequence
from cutlayer.data.tables.target_leakage import column_giveaway
from cutlayer.data.tensor_records import Records


def giveaways_in(
    label: Records, other: Records, names: Mapping[PartyName, Sequence[str]]
) -> tuple[str, ...]:
    """A line for each column that gives the label away.

    Args:
        label: records of the label party.
        other: records of the non-label party.
        names: of the columns of prepared records, by party.

    Returns:
        Sentences that begin with party and column.
    """
    if label.labels is None:
        return ()
    known = label.labels.numpy()
    told = []
    for records in (label, other):
        rows = _rows_in(label, records)
        shared = rows >= 0
        labels = known[rows[shared]]
        for column in _columns(records, names):
            held = column if shared.all() else column.filter(pl.Series(shared))
            reason = column_giveaway(held, labels)
            if reason is not None:
                told.append(
                    f"{records.party}, column {column.name!r}: gives the label away: it {reason}. "
                    "If it is only known after the outcome, list it under drop: nothing that was "
                    "measured with it holds."
                )
    return tuple(told)


def _rows_in(label: Records, records: Records) -> NDArray[np.int64]:
    """The row of the label party's records for each of these; -1 where it has none."""
    if records is label:
        return np.arange(len(label.ids))
    return TextSequence(label.ids).rows_of(TextSequence(records.ids))


def _columns(records: Records, names: Mapping[PartyName, Sequence[str]]) -> Iterator[pl.Series]:
    """The columns of a party; those of prepared records as numbers, codes too."""
    if isinstance(records, PartyTable):
        yield from records.features
        return
    for place, name in enumerate(names[records.party]):
        yield pl.Series(name, records.features[:, place].numpy())
