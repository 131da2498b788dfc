"""Whole numbers that may be codes: known columns by their published counts, and drawn ones."""

import numpy as np
import polars as pl
import pytest

from cutlayer.data.tables.code_columns import different_codes


def counted(counts):
    """A column that holds each value so many times."""
    return pl.Series("^c$", [value for value, rows in counts.items() for _ in range(rows)])


def test_the_ratio_by_hand():
    # 10 values, so that the ratio decides. Frequencies 10, 20 ... 100: ranks 1 to 10, their
    # differences 1, so 9 / 82.5 = .11. Ranks 1, 10, 2, 9 ...: differences 9, 8 ... 1, so
    # 285 / 82.5 = 3.5.
    smooth = counted({value: 10 * value for value in range(1, 11)})
    assert different_codes(smooth) is None
    ranks = [1, 10, 2, 9, 3, 8, 4, 7, 5, 6]
    assert different_codes(counted({v: 10 * rank for v, rank in enumerate(ranks)})) == 10


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        ({2: 14030, 1: 10585, 3: 4917, 5: 280, 4: 123, 6: 51, 0: 14}, 7),  # EDUCATION, UCI credit
        ({0: 14737, -1: 5686, 1: 3688, -2: 2759, 2: 2667, 3: 322, 4: 76, 5: 26, 8: 19, 6: 11, 7: 9},
         None),  # PAY_0 of the same: months of delay
        ({1: 53990, 3: 18869, 2: 18480, 6: 5291, 5: 4785, 8: 320, 7: 21, 4: 10}, 8),  # admissions
        ({0: 50, 1: 20, 2: 9, 3: 4, 4: 1}, None),  # how many of something
        ({1: 50, 2: 20, 3: 9}, None),
        ({0: 50, 1: 30}, None),  # two values
        ({1002: 264, 1005: 2465, 1010: 271}, 3),
        ({17264: 3, 17265: 3, 17300: 3}, None),  # fewer than 5 rows a value
    ],
)  # fmt: skip
def test_columns_by_their_counts(counts, codes):
    assert different_codes(counted(counts)) == codes


def test_drawn_quantities_and_codes():
    draw = np.random.default_rng(0)
    ages = pl.Series(np.clip(draw.normal(40, 12, 20_000), 17, 90).round().astype(int))
    assert different_codes(ages) is None
    visits = pl.Series(draw.poisson(6, 20_000))
    assert different_codes(visits) is None
    channels = pl.Series(draw.integers(100, 501, 4_000))
    assert different_codes(channels) == channels.n_unique()
    popular = pl.Series(draw.choice(np.arange(200), 20_000, p=draw.dirichlet(np.full(200, 0.5))))
    assert different_codes(popular) == popular.n_unique()


def test_only_whole_numbers_are_looked_at():
    assert different_codes(pl.Series([1.5, 2.5, 9.5] * 10)) is None
    assert different_codes(pl.Series([None] * 30, dtype=pl.Int8)) is None
    with_gaps = pl.Series([1005, None, 1002, 1010] * 10)
    assert different_codes(with_gaps) == 3
