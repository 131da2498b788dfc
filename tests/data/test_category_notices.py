"""What is said of records whose categories a trained model does not know."""

import polars as pl

from cutlayer.data import Encoder, TableFile
from cutlayer.data.category_notices import without_slot
from cutlayer.data.column_encoding import CategoricalColumn


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
    assert (
        "column 'since': read as categories, but its values look like dates" in reading.notices[0]
    )
    encoder = Encoder.fit(reading.table)
    path.write_text("id,since,job\na,2024-01-01,pilot\nb,2024-01-02,clerk\n")
    predicted = TableFile(path, "id").read(party, trained=encoder)
    assert len(predicted.notices) == 1
    assert "column 'job': 1 of 2 records hold a category" in predicted.notices[0]
