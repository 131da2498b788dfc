"""What every registered data set promises, and how the two halves are held."""

import importlib.util

import pytest
import torch
from polars.testing import assert_frame_equal

from cutlayer.alignment.shared_ids import id_digests, shared_ids
from cutlayer.data import DATASETS, LABEL_PARTY, NON_LABEL_PARTY, Encoder, Split, VerticalData
from cutlayer.errors import ConfigurationError, UnknownNameError

needs_islp = pytest.mark.skipif(
    importlib.util.find_spec("ISLP") is None,
    reason="the ISLP wheel is not installed: pip install --no-deps ISLP",
)
every_data_set = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=needs_islp if n == "caravan" else ()) for n in DATASETS]
)


@every_data_set
def test_both_parties_can_train_on_it(name):
    data = DATASETS[name]().load()
    here, there = data.non_label_party, data.label_party
    matched = shared_ids(
        here.ids, id_digests(here.ids, salt=b"s"), id_digests(there.ids, salt=b"s")
    )
    assert (matched.only_here, matched.only_there) == (0, 0)
    split = Split.by_fold(matched.shared, seed=0, folds=5, test_fold=0)
    trained = [matched.shared[i] for i in split.train.tolist()]
    for table in (here, there):
        encoder = Encoder.fit(table.ordered_by(trained))
        encoded = encoder.encode(table.ordered_by(matched.shared))
        assert encoded.shape == (len(matched.shared), encoder.width)
        assert encoder.width > 0
        assert torch.isfinite(encoded).all()
    labels = there.ordered_by(matched.shared).labels
    assert labels is not None
    for part in (split.train, split.test):
        assert 0 < int(labels[part].sum()) < len(part)


@every_data_set
def test_a_party_gets_its_half_alone(name):
    data_set = DATASETS[name]()
    whole = data_set.load()
    for party, table in (
        (NON_LABEL_PARTY, whole.non_label_party),
        (LABEL_PARTY, whole.label_party),
    ):
        alone = data_set.party_table(party)
        assert alone.party == party
        assert alone.ids == table.ids
        assert_frame_equal(alone.features, table.features)
    assert not set(whole.non_label_party.features.columns) & set(whole.label_party.features.columns)


@every_data_set
def test_it_says_what_it_is(name):
    data_set = DATASETS[name]()
    assert data_set.name == name
    assert "positive" in data_set.description
    with pytest.raises(ConfigurationError, match="No party is called 'guest'"):
        data_set.party_table("guest")


def test_the_default_click_data_have_20_000_rows():
    assert len(DATASETS["synthetic-ctr"]().label_party_table()) == 20_000
    assert len(DATASETS["synthetic-ctr"](rows=10).label_party_table()) == 10


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="Known: caravan, breast-cancer, synthetic-ctr"):
        DATASETS["iris"]


def test_swapped_halves_are_refused():
    data = DATASETS["breast-cancer"]().load()
    with pytest.raises(ConfigurationError, match="data set 'x'"):
        VerticalData("x", data.label_party, data.non_label_party, "swapped")
