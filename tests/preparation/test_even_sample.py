import polars as pl
import pytest

from cutlayer.preparation.even_sample import EvenSample


@pytest.mark.parametrize("sizes", [[100], [1] * 100, [7, 0, 50, 43], [0, 99, 1]])
def test_rows_are_kept_at_even_distances_whatever_the_blocks(sizes):
    sample, begin = EvenSample(10), 0
    for size in sizes:
        sample.add(pl.DataFrame({"n": range(begin, begin + size)}, schema={"n": pl.Int64}))
        begin += size
        assert sample.rows().height <= 10
    # 100 rows and room for 10: every second row goes four times, so every 16th stays.
    assert sample.rows()["n"].to_list() == [0, 16, 32, 48, 64, 80, 96]


def test_few_rows_are_all_kept():
    sample = EvenSample(10)
    assert sample.rows() is None
    sample.add(pl.DataFrame({"n": range(10)}))
    assert sample.rows()["n"].to_list() == list(range(10))
