"""What is said of columns of texts that a model will hardly learn from."""

import polars as pl
import pytest

from cutlayer.data import Encoder, TableFile
from cutlayer.data.category_notices import many_categories, without_slot
from cutlayer.data.column_encoding import CategoricalColumn


@pytest.mark.parametrize(
    "values",
    [
        ["2024-01-31", "2024-02-01", None],
        ["31.01.2024", "1.2.24"],
        ["01/31/2024", "02/01/2024"],
        ["2024-01-31T10:00:00", "2024-01-31 11:00"],
    ],
    ids=str,
)
def test_dates_are_pointed_out(values):
    told = many_categories(pl.Series("^when$", values, dtype=pl.Categorical))
    assert "look like dates" in told
    assert "2 categories" in told


def test_few_categories_and_none_at_all_need_no_word():
    assert many_categories(pl.Series(["clerk", "farmer", "1.2"])) is None
    assert many_categories(pl.Series([None], dtype=pl.String)) is None


def test_more_categories_than_are_told_apart_are_counted():
    assert many_categories(pl.Series([f"v{n}" for n in range(100)])) is None
    assert "holds 101 categories" in many_categories(pl.Series([f"v{n}" for n in range(101)]))


def test_cells_that_the_training_does_not_tell_apart_are_counted():
    fitted = CategoricalColumn("job", ("clerk", "farmer"))
    told = without_slot(pl.Series("job", ["clerk", "pilot", None, "cook"]), fitted)
    assert told.startswith("2 of 4 records")
    assert without_slot(pl.Series("job", ["clerk", None]), fitted) is None


def test_a_file_read_for_training_and_for_prediction_says_so(tmp_path):
    days = [f"2024-{month:02}-{day:02}" for month in (1, 2) for day in (1, 2, 3)]
    lines = [f"{n},{days[n % 6]},{'clerk' if n % 2 else 'cook'}" for n in range(60)]
    path = tmp_path / "host.csv"
    path.write_text("\n".join(["id,since,job", *lines]) + "\n")
    party = "non-label party"
    reading = TableFile(path, "id").read(party)
    assert len(reading.notices) == 1
    assert "column 'since': its values look like dates" in reading.notices[0]
    encoder = Encoder.fit(reading.table)
    path.write_text("id,since,job\na,2024-01-01,pilot\nb,2024-01-02,clerk\n")
    predicted = TableFile(path, "id").read(party, trained=encoder)
    assert len(predicted.notices) == 1
    assert "column 'job': 1 of 2 records hold a category" in predicted.notices[0]
