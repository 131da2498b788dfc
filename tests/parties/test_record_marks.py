"""The labelling: what the noise of the residual knows a label party's labels by."""

from dataclasses import replace

import pytest
import torch

from cutlayer.parties.canaries import Canaries
from cutlayer.parties.record_marks import labelling_of
from tests.parties.conftest import tables

TABLE = tables(50)[0]
NONE = Canaries(torch.zeros(40, dtype=torch.int64), torch.zeros(40, dtype=torch.bool))


def test_the_order_of_the_rows_does_not_matter():
    assert labelling_of(TABLE, NONE) == labelling_of(TABLE.ordered_by(TABLE.ids[::-1]), NONE)


def test_what_the_peer_brings_does_not_matter():
    """The canaries' labels are those of the shared records; without coins they do not count."""
    fewer = Canaries(torch.ones(7, dtype=torch.int64), torch.zeros(7, dtype=torch.bool))
    assert labelling_of(TABLE, NONE) == labelling_of(TABLE, fewer)


def changed(place, *, labels=None, ids=None):
    table = TABLE
    if labels is not None:
        flipped = TABLE.labels.clone()
        flipped[place] = labels
        table = replace(table, labels=flipped)
    if ids is not None:
        named = list(TABLE.ids)
        named[place] = ids
        table = replace(table, ids=tuple(named))
    return table


def swapped():
    """The labels of a positive and of a negative, exchanged."""
    positive, negative = (int((TABLE.labels == one).nonzero()[0]) for one in (1, 0))
    labels = TABLE.labels.clone()
    labels[[positive, negative]] = labels[[negative, positive]]
    return replace(TABLE, labels=labels)


def test_a_label_an_id_a_record_and_a_coin_do():
    coins = Canaries(NONE.labels, NONE.mask.clone())
    coins.mask[3] = True
    other_coin = Canaries(coins.labels.clone(), coins.mask)
    other_coin.labels[3] = 1
    elsewhere = Canaries(NONE.labels, NONE.mask.roll(1) | NONE.mask)
    elsewhere.mask[4] = True
    digests = [
        labelling_of(TABLE, NONE),
        *(labelling_of(changed(row, labels=1 - TABLE.labels[row]), NONE) for row in range(50)),
        labelling_of(changed(0, ids="new"), NONE),
        labelling_of(swapped(), NONE),
        labelling_of(TABLE.ordered_by(TABLE.ids[1:]), NONE),
        labelling_of(TABLE, coins),
        labelling_of(TABLE, other_coin),
        labelling_of(TABLE, elsewhere),
    ]
    assert len(set(digests)) == len(digests)
    assert {len(digest) for digest in digests} == {32}


def test_an_id_counts_also_where_all_labels_are_alike():
    negative = replace(TABLE, labels=torch.zeros(50, dtype=torch.int64))
    renamed = replace(negative, ids=("new", *TABLE.ids[1:]))
    assert labelling_of(negative, NONE) != labelling_of(renamed, NONE)


def test_records_without_labels_are_refused():
    with pytest.raises(ValueError, match="no labels"):
        labelling_of(replace(TABLE, labels=None), NONE)
