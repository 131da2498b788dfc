import numpy as np
import polars as pl
import pytest

from cutlayer.data.tables.target_leakage import column_giveaway, order_giveaway


@pytest.fixture
def labels():
    """10 % positive, in no order."""
    return (np.random.default_rng(1).random(4000) < 0.1).astype(np.int64)


@pytest.fixture
def noise():
    return np.random.default_rng(2).normal(size=4000)


def categories(values):
    return pl.Series("c", np.asarray(values).astype(str)).cast(pl.Categorical)


def test_a_score_that_orders_the_label(labels, noise):
    # Normal scores whose means lie 4 deviations apart: AUC = Phi(4 / sqrt 2) = .9977.
    assert "orders the label" in (column_giveaway(pl.Series(noise + 4 * labels), labels) or "")
    assert "orders the label" in (column_giveaway(pl.Series(noise - 4 * labels), labels) or "")
    # 2.5 apart: Phi(2.5 / sqrt 2) = .961, strong and yet no giveaway.
    assert column_giveaway(pl.Series(noise + 2.5 * labels), labels) is None


def test_the_label_itself_under_another_name(labels):
    for column in (pl.Series(labels), categories(labels), categories(np.where(labels, "x", "y"))):
        assert column_giveaway(column, labels) is not None


def test_a_score_with_gaps(labels, noise):
    column = pl.Series(noise + 5 * labels).scatter(range(0, 4000, 3), None)
    assert "orders the label" in (column_giveaway(column, labels) or "")


def test_codes_without_an_order(labels):
    draw = np.random.default_rng(3)
    # Positive for the middle code only: no score, but a code.
    codes = np.where(labels, 5, draw.choice([1, 2, 8, 9], 4000))
    assert "value by value" in (column_giveaway(pl.Series(codes), labels) or "")
    assert "value by value" in (column_giveaway(categories(codes), labels) or "")


def test_being_missing_may_tell(labels, noise):
    only_positives = pl.Series(noise).set(pl.Series(labels == 0), None)
    told = column_giveaway(only_positives, labels)
    assert told == "is filled in 100.0% of the positive rows and in 0.0% of the negative rows"
    told = column_giveaway(pl.Series(noise).set(pl.Series(labels == 1), None), labels)
    assert told == "is filled in 0.0% of the positive rows and in 100.0% of the negative rows"
    at_random = pl.Series(noise).set(pl.Series(noise > 1), None)
    assert column_giveaway(at_random, labels) is None


@pytest.mark.parametrize("kind", [pl.Float64, pl.Categorical])
def test_a_time_that_only_positives_have(labels, kind):
    """Every value differs, so none of them tells; that there is one does."""
    times = pl.Series([f"{1_510_000_000 + n}" for n in range(4000)]).cast(pl.Categorical)
    if kind == pl.Float64:
        times = times.cast(pl.String).cast(kind)
    half = np.flatnonzero(labels)[::2]
    filled = np.zeros(4000, dtype=bool)
    filled[half] = True
    # Half of the positives have one: no AUC of .99, and nearly no negative.
    told = column_giveaway(times.set(pl.Series(~filled), None), labels) or ""
    share = len(half) / labels.sum()
    assert told.startswith(f"is filled in {share:.1%} of the positive rows and in 0.0% of the neg")
    filled[np.flatnonzero(labels == 0)[: len(half)]] = True
    assert column_giveaway(times.set(pl.Series(~filled), None), labels) is None


def test_a_sample_of_each_class_is_weighed_by_the_share_of_all_rows():
    # x: 300 of 1,000 positives and 2 of 1,000 negatives, so 99.3 % positive if all rows are these.
    # Where 2 % of all rows are positive, 300 * .02 against 2 * .98: 75 %.
    labels = np.repeat([1, 0], 1000)
    held = categories(np.where(np.arange(2000) % 1000 < np.where(labels, 300, 2), "x", "z"))
    assert "has 'x' in 30% of the" in (column_giveaway(held, labels) or "")
    assert column_giveaway(held, labels, positive_share=0.02) is None


def test_many_rare_values_do_not_look_perfect(labels):
    # Two rows a value: by its own rows each would be known nearly at once.
    draw = np.random.default_rng(4)
    for count in (2000, 4000, 50):
        assert column_giveaway(categories(draw.integers(0, count, 4000)), labels) is None


def test_a_pure_value_of_the_rarer_class(labels):
    draw = np.random.default_rng(5)
    held = np.where(labels & (draw.random(4000) < 0.4), "defaulted", draw.choice(["a", "b"], 4000))
    found = column_giveaway(categories(held), labels) or ""
    assert found.startswith("has 'defaulted' in ")
    share = (held[labels == 1] == "defaulted").mean()
    assert f"{share:.0%} of the positive rows and in nearly no other row" in found
    assert "of the negative rows" in (column_giveaway(categories(held), 1 - labels) or "")


def test_a_pure_value_of_the_common_class_is_common(labels):
    draw = np.random.default_rng(5)
    held = np.where(~labels.astype(bool) & (draw.random(4000) < 0.4), "dead", "alive")
    assert column_giveaway(categories(held), labels) is None


def test_a_small_pure_value_is_no_giveaway(labels):
    held = np.full(4000, "a")
    held[np.flatnonzero(labels)[:25]] = "b"  # 25 of some 400 positives
    assert column_giveaway(categories(held), labels) is None


def test_few_rows_prove_nothing():
    labels = np.array([0] * 19 + [1] * 500)
    assert column_giveaway(pl.Series(labels), labels) is None
    assert order_giveaway(pl.Series([f"{i:03d}" for i in range(519)]), labels) is None
    more = np.array([0] * 20 + [1] * 500)
    assert column_giveaway(pl.Series(more), more) is not None


def test_large_classes_are_thinned_out_alike():
    labels = np.repeat([0, 1, 0], [150_000, 60_000, 150_000])
    column = pl.Series(np.where(labels, "x", np.tile(["y", "z"], 180_000))).cast(pl.Categorical)
    assert "1.0000" in (column_giveaway(column, labels) or "")
    # Half of the positives hold 'x', and one in 300 of the negatives: 30,000 rows to 1,000.
    held = np.full(360_000, "y")
    held[150_000:180_000] = "x"
    held[:150_000:150] = "x"
    # 30,000 of 31,000 are 96.8 %: not pure, though it would be if classes were weighed alike.
    assert column_giveaway(pl.Series(held).cast(pl.Categorical), labels) is None


def test_ids_in_the_order_of_the_label():
    labels = np.repeat([0, 1], [300, 100])
    counted = pl.Series([str(i) for i in range(400)])
    named = pl.Series([f"client-{i:04d}" for i in range(400)])
    for ids in (counted, named, counted.reverse()):
        assert "orders the label with an AUC of 1.0000" in (order_giveaway(ids, labels) or "")
    # As texts "10" comes before "9"; as numbers the order is seen.
    shuffled = counted.gather(np.random.default_rng(0).permutation(400))
    assert order_giveaway(shuffled, labels) is None
