import json

import numpy as np
import polars as pl
import pytest
import torch

from cutlayer.data.prepared import PreparedData
from cutlayer.errors import DataError
from cutlayer.preparation import SplitOptions, TableColumns, TableOptions, prepare_table, table

LABEL, OTHER = "label party", "non-label party"
ROWS = 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """2,000 rows in shards of about 300: x is the row number, c one of three words."""
    place = tmp_path_factory.mktemp("table")
    rows = np.arange(ROWS)
    frame = pl.DataFrame(
        {
            "who": [f"r{row}" for row in rows],
            "c": [("a", "b", "b")[row % 3] for row in rows],
            "x": rows,
            "y": rows % 4 == 0,
        }
    )
    frame.write_csv(place / "rows.csv")
    columns = TableColumns("y", "who", label_party=())
    options = TableOptions(numbers="as-is", min_count=1, shard_rows=300, block_bytes=1000)
    prepare_table(table(place / "rows.csv", columns), place / "out", options)
    return place / "out"


def test_numbers_come_before_codes(folder):
    data = PreparedData(folder)
    records = data.party_records(OTHER)
    assert len(data) == len(records) == ROWS
    assert records.ids[7] == "r7"
    assert records.features.dtype == torch.float32
    # b is the more frequent word: code 1.
    assert records.features[:4].tolist() == [[0, 2], [1, 1], [2, 1], [3, 2]]
    assert data.numbers == {LABEL: (), OTHER: ("x",)}
    assert data.categories == {LABEL: {}, OTHER: {"c": 3}}
    labels = data.party_records(LABEL)
    assert labels.ids == records.ids
    assert labels.labels is not None
    assert labels.labels.tolist() == [int(row % 4 == 0) for row in range(ROWS)]


@pytest.mark.parametrize("rows", [0.1, 137, 1, 1999])
def test_both_parties_choose_the_same_records(folder, rows):
    data = PreparedData(folder)
    records, labels = data.party_records(OTHER, rows=rows), data.party_records(LABEL, rows=rows)
    assert records.ids == labels.ids
    if isinstance(rows, int):
        assert len(records) == rows
    else:
        assert abs(len(records) - 200) < 5 * (ROWS * 0.1 * 0.9) ** 0.5
    numbers = [int(name[1:]) for name in records.ids]
    assert numbers == sorted(numbers)
    assert records.features[:, 0].tolist() == numbers
    assert labels.labels is not None
    assert labels.labels.tolist() == [int(number % 4 == 0) for number in numbers]


@pytest.mark.parametrize("rows", [None, 1.0, ROWS, ROWS + 1])
def test_all_records(folder, rows):
    assert len(PreparedData(folder).party_records(OTHER, rows=rows)) == ROWS


def test_the_choice_hangs_on_the_seed_and_not_on_the_split(folder):
    data = PreparedData(folder)
    first = set(data.party_records(OTHER, rows=200, seed=0).ids)
    assert first != set(data.party_records(OTHER, rows=200, seed=1).ids)
    tested = len(first & set(data.parts["test"]))
    assert abs(tested - 40) < 5 * (200 * 0.2 * 0.8) ** 0.5


def test_parts_are_disjoint_and_complete(folder):
    parts = PreparedData(folder).parts
    assert list(parts) == ["train", "validation", "test"]
    together = [name for part in parts.values() for name in part]
    assert sorted(together) == sorted(f"r{row}" for row in range(ROWS))
    expected = SplitOptions().parts_of(pl.Series([f"r{row}" for row in range(ROWS)]))
    assert len(parts["test"]) == int((expected == "test").sum())


def test_the_description_counts(folder):
    data = PreparedData(folder)
    assert data.description.startswith("table, 2,000 records (")
    assert "non-label party: 1 numbers, 1 categories; label party: 0 numbers" in data.description
    assert not data.is_images


@pytest.mark.parametrize("rows", [0, -1, 0.0, 1.5, float("nan"), True])
def test_a_wrong_number_of_rows(folder, rows):
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1, or a float"):
        PreparedData(folder).party_records(OTHER, rows=rows)


def test_a_share_that_chooses_nothing_is_an_error(folder):
    with pytest.raises(DataError, match="no record is chosen"):
        PreparedData(folder).party_records(OTHER, rows=1e-9)


def test_what_is_no_prepared_folder(tmp_path, folder):
    with pytest.raises(DataError, match="must be a folder that `cutlayer prepare` finished"):
        PreparedData(tmp_path)
    schema = json.loads((folder / "schema.json").read_text())
    schema["plan"]["versions"]["format"] = 99
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    with pytest.raises(DataError, match="has format 99"):
        PreparedData(tmp_path)


def test_a_shard_that_is_missing_or_too_many_codes(tmp_path, folder):
    schema = json.loads((folder / "schema.json").read_text())
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    with pytest.raises(DataError, match="is missing or damaged"):
        PreparedData(tmp_path).party_records(OTHER)
    schema["parties"][OTHER]["categories"]["c"] = 2**24 + 1
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    with pytest.raises(DataError, match="has 16,777,217 codes"):
        PreparedData(tmp_path).party_records(OTHER)
