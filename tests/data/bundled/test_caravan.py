import csv
import importlib.util
import sys
from pathlib import Path

import polars as pl
import pytest

from cutlayer.data.bundled.caravan import Caravan
from cutlayer.errors import DataError

ISLP = importlib.util.find_spec("ISLP")
needs_islp = pytest.mark.skipif(
    ISLP is None, reason="the ISLP wheel is not installed: pip install --no-deps ISLP"
)


def clients():
    """The file as the csv module reads it, by id."""
    path = Path(ISLP.submodule_search_locations[0]) / "data" / "Caravan.csv"
    with path.open(newline="") as file:
        return {f"client-{row:05d}": line for row, line in enumerate(csv.DictReader(file), start=1)}


@needs_islp
def test_each_party_gets_its_columns_of_every_client():
    known = clients()
    data = Caravan().load()
    seen = set()
    for table, width in ((data.non_label_party, 43), (data.label_party, 42)):
        assert table.features.width == width
        assert len(table) == 5822
        for name, row in zip(table.ids, table.features.iter_rows(named=True), strict=True):
            assert {k: str(v) for k, v in row.items()} == {k: known[name][k] for k in row}
        seen |= set(table.features.columns)
    assert seen | {"Purchase"} == set(known["client-00001"])
    assert all(name.startswith("M") for name in data.non_label_party.features.columns)
    assert all(name[0] in "PA" for name in data.label_party.features.columns)


@needs_islp
def test_labels_are_the_purchases():
    known = clients()
    table = Caravan().label_party_table()
    expected = [int(known[name]["Purchase"] == "Yes") for name in table.ids]
    assert table.labels is not None
    assert table.labels.tolist() == expected
    assert sum(expected) == 348


@needs_islp
def test_rows_stand_in_another_order_at_each_party():
    data = Caravan().load()
    here, there = data.non_label_party.ids, data.label_party.ids
    assert set(here) == set(there)
    assert here != there
    # Two random orders agree in one place on average, with a deviation of 1.
    assert sum(a == b for a, b in zip(here, there, strict=True)) <= 6
    assert Caravan().non_label_party_table().ids == here


@needs_islp
def test_codes_are_text_and_steps_are_numbers():
    features = Caravan().non_label_party_table().features
    texts = [name for name in features.columns if features[name].dtype == pl.String]
    assert texts == ["MOSTYPE", "MOSHOOFD"]


def test_without_the_wheel_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"^label party: .*pip install --no-deps ISLP$"):
        Caravan().label_party_table()


def test_a_folder_called_islp_is_not_the_wheel(monkeypatch, tmp_path):
    (tmp_path / "ISLP").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(DataError, match="pip install --no-deps ISLP"):
        Caravan().label_party_table()


def test_another_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "ISLP" / "data").mkdir(parents=True)
    (tmp_path / "ISLP" / "__init__.py").touch()
    (tmp_path / "ISLP" / "data" / "Caravan.csv").write_text("MOSTYPE,MOSHOOFD,PBRAND\n1,2,3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, match=r"has 1 rows and 2 columns .* pip install"):
        Caravan().non_label_party_table()
