import math

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from cutlayer.data.column_encoding import CategoricalColumn, NumericColumn, numbers
from cutlayer.errors import DataError

PARTY = "non-label party"


def fit_numeric(values, dtype=None):
    return NumericColumn.fit(pl.Series("age", values, dtype=dtype), party=PARTY)


def fit_categorical(values, *, min_count=1, max_categories=100):
    series = pl.Series("job", values)
    return CategoricalColumn.fit(series, min_count=min_count, max_categories=max_categories)


def test_numbers_by_hand():
    # 1, 3 and two missing: mean 2, deviation 1 (population), and a column for "missing".
    column = fit_numeric([1.0, None, 3.0, math.nan])
    assert column == NumericColumn("age", 2.0, 1.0, marks_missing=True)
    assert column.slots == ("age", "age is missing")
    encoded = column.encode(pl.Series("age", [4.0, None]), party=PARTY)
    assert encoded.tolist() == [[2.0, 0.0], [0.0, 1.0]]


def test_missing_only_after_training_becomes_the_mean():
    column = fit_numeric([1, 3])
    assert column.slots == ("age",)
    assert column.encode(pl.Series([None, 2], dtype=pl.Int64), party=PARTY).tolist() == [[0], [0]]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float32, pl.Decimal(10, 2)])
def test_every_number_type_counts(dtype):
    column = fit_numeric([1, 3], dtype)
    assert (column.mean, column.deviation) == (2.0, 1.0)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_scaled_like_scikit_learn(scale):
    values = np.random.default_rng(3).gamma(2.0, size=400)
    values[::7] = math.nan
    fresh = np.linspace(-5, 5, 11)
    expected = StandardScaler().fit(values[:, None]).transform(fresh[:, None])
    column = fit_numeric(values * scale)
    encoded = column.encode(pl.Series(fresh * scale), party=PARTY)
    np.testing.assert_allclose(encoded[:, :1], expected, rtol=1e-6)


def test_a_large_offset_keeps_its_digits():
    # 1e9 seconds apart from 0, the values still differ by whole deviations: mean 1e9 + 1.
    column = fit_numeric([1e9, 1e9 + 2])
    assert column.encode(pl.Series([1e9 + 1.25]), party=PARTY).item() == 0.25


@pytest.mark.parametrize("values", [[5, 5, 5], [0.1, 0.1, 0.1], [None, None], [math.nan], []])
def test_numbers_that_do_not_differ_are_dropped(values):
    assert fit_numeric(values, pl.Float64) is None


def test_one_value_or_missing_leaves_only_the_mark():
    column = fit_numeric([5.0, None, 5.0])
    assert column.slots == ("age is missing",)
    assert column.encode(pl.Series([7.0, None]), party=PARTY).tolist() == [[0.0], [1.0]]


def test_infinity_is_an_error_with_party_column_rule_and_fix():
    with pytest.raises(
        DataError, match=r"^non-label party, column 'age': .*finite, but 2 of 3 .*empty"
    ):
        fit_numeric([1.0, math.inf, -math.inf])


def test_a_placeholder_far_away_is_an_error():
    column = fit_numeric([0.0, 1e-3])
    for value in (1e99, -1e308):
        with pytest.raises(DataError, match=r"column 'age': .*1e38 deviations"):
            column.encode(pl.Series([value]), party=PARTY)


def test_text_among_numbers_is_an_error():
    with pytest.raises(DataError, match=r"column 'age': must hold numbers.*String"):
        numbers(pl.Series("age", ["4", "x"]), party=PARTY)


def test_categories_by_hand():
    # b three times, a and c twice, d once: with min_count 2 the order is b, a, c (a tie, by name).
    column = fit_categorical(["c", "b", "a", "b", "d", "c", "a", "b"], min_count=2)
    assert column == CategoricalColumn("job", ("b", "a", "c"))
    assert column.slots == ("job=b", "job=a", "job=c", "job=(other)")
    encoded = column.encode(pl.Series(["a", "d", "never seen", None]))
    assert encoded.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]]


def test_categories_like_scikit_learn():
    draws = np.random.default_rng(5).zipf(1.5, size=3000)
    train, fresh = draws[:2000].astype(str), draws[2000:].astype(str)
    counts = np.unique(train, return_counts=True)[1]
    assert len(counts) > 40  # or the test would test nothing
    reference = OneHotEncoder(
        min_frequency=7, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    expected = reference.fit(train[:, None]).transform(fresh[:, None])
    column = fit_categorical(train.tolist(), min_count=7)
    encoded = column.encode(pl.Series(fresh.tolist()))
    names = [str(name).removeprefix("x0_") for name in reference.get_feature_names_out()]
    order = [(*column.categories, "infrequent_sklearn").index(name) for name in names]
    np.testing.assert_array_equal(encoded[:, order], expected)


def test_only_the_most_frequent_get_a_slot():
    assert fit_categorical([*"aaabbc"], max_categories=2).categories == ("a", "b")


@pytest.mark.parametrize(
    ("series", "categories"),
    [
        (pl.Series("job", [True, False, False]), ("false", "true")),
        (pl.Series("job", ["x", "y", "y"], dtype=pl.Categorical), ("y", "x")),
        (pl.Series("job", ["x", "y", "y"], dtype=pl.Enum(["y", "x", "z"])), ("y", "x")),
    ],
)
def test_booleans_and_enumerations_are_categories(series, categories):
    column = CategoricalColumn.fit(series, min_count=1, max_categories=9)
    assert column is not None
    assert column.categories == categories
    assert column.encode(series).sum(axis=1).tolist() == [1, 1, 1]


@pytest.mark.parametrize("values", [["a", "a"], ["a", "b"], [None, None], []])
def test_categories_that_do_not_differ_are_dropped(values):
    # "a", "b" once each are both rare at min_count 2, so both rows fall into the last slot.
    series = pl.Series("job", values, dtype=pl.String)
    assert CategoricalColumn.fit(series, min_count=2, max_categories=9) is None


def test_a_category_or_missing_is_kept():
    assert fit_categorical(["a", None, "a"]) == CategoricalColumn("job", ("a",))


@pytest.mark.parametrize("name", ["times", "value", "^n$", "*", ""])
def test_a_column_may_have_any_name(name):
    column = pl.Series(name, ["a", "b", "a", None])
    for kind in (pl.String, pl.Categorical):
        fitted = CategoricalColumn.fit(column.cast(kind), min_count=1, max_categories=5)
        assert fitted is not None
        assert fitted.categories == ("a", "b")
        assert fitted.slot_of(column.cast(kind)).tolist() == [0, 1, 0, 2]
    assert numbers(pl.Series(name, [1, None]), party="label party")[0] == 1
