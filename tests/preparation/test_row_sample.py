import numpy as np
import polars as pl
import pytest

from cutlayer.preparation.row_sample import RowSample


def sampled(limit, sizes):
    sample, begin = RowSample(limit), 0
    for size in sizes:
        sample.add(pl.DataFrame({"n": range(begin, begin + size)}, schema={"n": pl.Int64}))
        begin += size
        assert sample.rows().height <= limit
    assert sample.seen == begin
    return sample.rows()["n"].to_list()


def splitmix64(state):
    """As its authors write it, in whole numbers of Python."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("sizes", [[100], [1] * 100, [7, 0, 50, 43], [0, 99, 1]])
def test_which_rows_are_held_does_not_depend_on_the_blocks(sizes):
    marks = [splitmix64(n * 0x9E3779B97F4A7C15 % 2**64) for n in range(100)]
    expected, bits = list(range(100)), 0
    while len(expected) > 10:
        bits += 1
        expected = [n for n in range(100) if marks[n] % 2**bits == 0]
    assert sampled(10, sizes) == expected


def test_a_file_with_a_period_is_sampled_all_the_same():
    held = sampled(2000, [10_000] * 10)
    for period in (2, 4, 7, 64):
        counts = np.bincount(np.array(held) % period, minlength=period)
        expected = len(held) / period
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_few_rows_are_all_kept():
    assert RowSample(10).rows() is None
    assert sampled(10, [4, 6]) == list(range(10))
