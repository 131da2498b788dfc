from collections import Counter

import numpy as np
import polars as pl
import pytest

from cutlayer.preparation.category_counts import CategoryCounts
from cutlayer.preparation.vocabulary import ExactCoding, HashedCoding


def counted(columns, blocks, folder, *, budget, min_count):
    counts = CategoryCounts(columns, folder, budget=budget)
    for block in blocks:
        counts.add([pl.Series(values, dtype=pl.String) for values in block])
    return [frame.rows() for frame in counts.frequent(min_count)]


def by_definition(values, min_count):
    times = {value: n for value, n in Counter(values).items() if n >= min_count}
    order = sorted(times, key=lambda value: (-times[value], value is not None, value or ""))
    return [(value, times[value]) for value in order]


def test_counts_by_hand(tmp_path):
    block = [["b", "a", "a", None, None, "c"]]
    assert counted(1, [block], tmp_path, budget=100, min_count=1) == [
        [(None, 2), ("a", 2), ("b", 1), ("c", 1)]
    ]


@pytest.mark.parametrize("budget", [3, 20, 100, 10_000])
@pytest.mark.parametrize("min_count", [1, 2, 7])
def test_spilling_changes_nothing(tmp_path, budget, min_count):
    draw = np.random.default_rng(budget)
    blocks = []
    for _ in range(12):
        common = [f"w{value}" for value in draw.integers(0, 9, 40)]
        rare = [None if value < 5 else str(value) for value in draw.integers(0, 200, 40)]
        blocks.append([common, rare])
    found = counted(2, blocks, tmp_path, budget=budget, min_count=min_count)
    for column in range(2):
        everything = [value for block in blocks for value in block[column]]
        assert found[column] == by_definition(everything, min_count)
    assert bool(list(tmp_path.glob("*.parquet"))) == (budget < 200)


def test_spills_of_an_earlier_process_do_not_count(tmp_path):
    blocks = [[[str(value) for value in range(50)]]]
    counted(1, blocks, tmp_path, budget=5, min_count=1)
    assert counted(1, [[["x"]]], tmp_path, budget=5, min_count=1) == [[("x", 1)]]


def test_no_rows(tmp_path):
    assert counted(1, [], tmp_path, budget=5, min_count=1) == [[]]


def test_codes_begin_with_the_most_frequent_and_0_is_for_all_others():
    table = pl.DataFrame({"value": ["x", None, "y"], "times": [9, 5, 5]})
    coding = ExactCoding.from_counts([table], ["c"])
    codes = coding.codes(0, pl.Series(["y", "new", None, "x", "x"]))
    assert codes.to_list() == [3, 0, 2, 1, 1]
    assert codes.dtype == pl.Int32
    assert coding.sizes == (4,)


def test_a_vocabulary_survives_its_file():
    tables = [
        pl.DataFrame({"value": ["x", None], "times": [3, 2]}),
        pl.DataFrame({"value": [], "times": []}, schema={"value": pl.String, "times": pl.Int64}),
    ]
    coding = ExactCoding.from_counts(tables, ["a", "b"])
    again = ExactCoding.from_frame(coding.as_frame(["a", "b"]), ["a", "b"])
    assert again.sizes == coding.sizes == (3, 1)
    assert again.codes(0, pl.Series(["x", None, "z"])).to_list() == [1, 2, 0]
    assert again.codes(1, pl.Series(["x"])).to_list() == [0]


def crc32_by_definition(data, crc):
    """Bit by bit, with the reversed polynomial of ISO 3309."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_hashed_codes_are_those_of_the_definition():
    coding = HashedCoding(("C1", "C2"), 10)
    values = ["68fd1e64", "80e26c9b", None, "68fd1e64", "é"]
    for place, name in enumerate(coding.names):
        start = crc32_by_definition(name.encode(), 0)
        checksums = [crc32_by_definition((v or "").encode(), start) for v in values]
        expected = [checksum * 0x9E3779B1 % 2**32 // 2**22 for checksum in checksums]
        assert coding.codes(place, pl.Series(values)).to_list() == expected
    assert coding.sizes == (1024, 1024)


def test_hashed_codes_spread_evenly():
    # 2,000 values into 1,024 cells: 1024 (1 - (1 - 1/1024)^2000) = 879 cells are expected to be
    # used; the standard deviation is below sqrt(1024) / 2 = 16.
    values = pl.Series([f"{value:08x}" for value in range(2000)])
    used = HashedCoding(("C1",), 10).codes(0, values).n_unique()
    assert abs(used - 879) < 5 * 16
