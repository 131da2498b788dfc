import math

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from cutlayer.data.bundled.click_model import zipf_shares
from cutlayer.data.bundled.synthetic_ctr import CHUNK_ROWS, SyntheticCtr
from cutlayer.data.encoding import Encoder
from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY

PARTIES = [LABEL_PARTY, NON_LABEL_PARTY]


@pytest.fixture(scope="module")
def data():
    return SyntheticCtr(rows=40_000, positive_share=0.1, seed=3)


@pytest.fixture(scope="module")
def tables(data):
    return data.load()


@pytest.fixture(scope="module")
def chance(data):
    return np.concatenate([data.chunk_probabilities(i) for i in range(data.chunk_count)])


def test_the_columns_are_dealt_out_in_turn(tables):
    numbers = [f"number_{i:02d}" for i in range(10)]
    categories = [f"category_{i:02d}" for i in range(6)]
    assert tables.non_label_party.features.columns == numbers[::2] + categories[::2]
    assert tables.label_party.features.columns == numbers[1::2] + categories[1::2]
    assert tables.non_label_party.ids == tables.label_party.ids
    assert len(tables.non_label_party) == 40_000


@pytest.mark.parametrize("party", PARTIES)
def test_a_chunk_needs_no_earlier_one_and_no_length(party):
    short = SyntheticCtr(rows=CHUNK_ROWS + 100, seed=1)
    long = SyntheticCtr(rows=3 * CHUNK_ROWS, seed=1)
    assert (short.chunk_count, long.chunk_count) == (2, 3)
    first, second = short.chunks(party)
    assert (first.height, second.height) == (CHUNK_ROWS, 100)
    assert_frame_equal(long.chunk(party, 1).head(100), second)
    assert_frame_equal(short.chunk(party, 0), first)
    with pytest.raises(ValueError, match="index must be below 2 chunks, got 2"):
        short.chunk(party, 2)


def test_more_columns_leave_the_features_of_the_others_alone():
    few, many = SyntheticCtr(rows=50, numeric=2), SyntheticCtr(rows=50, numeric=8)
    ours, theirs = few.chunk(NON_LABEL_PARTY, 0), many.chunk(NON_LABEL_PARTY, 0)
    assert_frame_equal(ours, theirs.select(ours.columns))


def test_seeds_differ():
    one, other = SyntheticCtr(rows=50, seed=0), SyntheticCtr(rows=50, seed=1)
    assert not one.chunk(LABEL_PARTY, 0).equals(other.chunk(LABEL_PARTY, 0))


def test_clicks_are_as_frequent_as_asked(tables):
    clicks = int(tables.label_party.labels.sum())
    assert abs(clicks - 4000) < 5 * math.sqrt(40_000 * 0.1 * 0.9)


def test_clicks_follow_their_chances(tables, chance):
    # In each fifth of the chances the number of clicks is their sum, up to the coins' deviation.
    clicks = tables.label_party.labels.numpy()
    for rows in np.array_split(np.argsort(chance), 5):
        deviation = math.sqrt((chance[rows] * (1 - chance[rows])).sum())
        assert abs(clicks[rows].sum() - chance[rows].sum()) < 5 * deviation


def test_bayes_auc_is_met_by_the_true_chances(tables, chance):
    clicks = tables.label_party.labels.numpy()
    positive, negative = chance[clicks == 1], chance[clicks == 0]
    # DeLong, DeLong and Clarke-Pearson (1988): the variance from each record's share of wins.
    wins = np.searchsorted(np.sort(negative), positive) / len(negative)
    losses = 1 - np.searchsorted(np.sort(positive), negative) / len(positive)
    error = math.sqrt(wins.var() / len(positive) + losses.var() / len(negative))
    assert tables.bayes_auc is not None
    assert 0.8 < tables.bayes_auc < 0.9
    assert abs(roc_auc_score(clicks, chance) - tables.bayes_auc) < 5 * error


def test_categories_follow_zipfs_law(tables):
    column = tables.label_party.features["category_01"]
    times = dict(column.value_counts().iter_rows())
    for rank, share in enumerate(zipf_shares(40)):
        deviation = math.sqrt(40_000 * share * (1 - share))
        assert abs(times.get(f"v{rank}", 0) - 40_000 * share) < 5 * deviation


def test_numbers_are_standard_normal_and_unrelated(tables):
    halves = [tables.non_label_party.features, tables.label_party.features]
    numbers = pl.concat(
        [half.select(pl.col("^number_.*$")) for half in halves], how="horizontal"
    ).to_numpy()
    assert abs(numbers.mean(axis=0)).max() < 5 / math.sqrt(40_000)
    assert abs(numbers.var(axis=0) - 1).max() < 5 * math.sqrt(2 / 40_000)
    between = np.corrcoef(numbers.T) - np.eye(10)
    assert abs(between).max() < 5 / math.sqrt(40_000)


def test_a_fitted_model_comes_close_to_the_bayes_auc(tables, chance):
    halves = (tables.non_label_party, tables.label_party)
    encoded = [Encoder.fit(half).encode(half).numpy() for half in halves]
    clicks = tables.label_party.labels.numpy()

    def test_auc(features):
        model = LogisticRegression(C=0.1, max_iter=500).fit(features[:30_000], clicks[:30_000])
        return roc_auc_score(clicks[30_000:], model.decision_function(features[30_000:]))

    together, alone = test_auc(np.hstack(encoded)), test_auc(encoded[1])
    best = roc_auc_score(clicks[30_000:], chance[30_000:])
    # Rare categories cost a little; without the other party's columns much is lost.
    assert best - 0.03 < together < best + 0.005
    assert alone < together - 0.03


def test_a_party_may_hold_no_column():
    data = SyntheticCtr(rows=30, numeric=1, categorical=0, positive_share=0.5)
    assert data.load().label_party.features.width == 0


@pytest.mark.parametrize("wrong", [{"rows": 1}, {"numeric": 0, "categorical": 0}, {"signal": 0.0}])
def test_options_outside_their_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        SyntheticCtr(**wrong)
