"""What is said of records to predict whose cells are unlike those of the training."""

import json

import polars as pl
import pytest

from cutlayer.data import Encoder, PartyTable, TableFile
from cutlayer.data.column_encoding import CategoricalColumn, NumericColumn
from cutlayer.data.tables.new_records import without_slot, without_value
from cutlayer.errors import DataError


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


def values(present, missing):
    return pl.Series("n", [1.0] * present + [None] * missing, dtype=pl.Float64)


@pytest.mark.parametrize(
    ("share", "present", "missing", "said"),
    [
        (0.0, 99, 1, "1 of 100 records have no value, where every training record had one."),
        (0.0, 0, 40, "all 40 records have no value"),
        # Of 100 with a share of .1, 10 are expected, and their deviation is 3: 25 is the limit.
        (0.1, 75, 25, None),
        (0.1, 74, 26, "26 of 100 records have no value, where 10 % of the training"),
        (0.6, 0, 300, "all 300 records have no value, where 60 %"),
        (0.3, 0, 1, None),  # a single record may lack it
        (
            0.004,
            900,
            100,
            "100 of 1,000 records have no value, where less than 1 % of the training records",
        ),
        (1.0, 0, 300, None),
    ],
)
def test_missing_cells_are_counted_where_training_had_fewer(share, present, missing, said):
    column = NumericColumn("n", 0.0, 1.0, share > 0, share)
    told = without_value(values(present, missing), column)
    assert (told is None) if said is None else told.startswith(said)
    if told is not None:
        assert told.endswith("as missing." if share > 0 else "as the training mean.")


def test_what_an_earlier_version_kept_is_understood():
    """It did not keep the share, and none where nothing was missing."""
    table = TrainedOn({"n": [1.0, 2.0, 3.0], "gap": [1.0, None, 3.0]})
    content = json.loads(table.encoder.to_json())
    for column in content["columns"]:
        del column["missing"]
    old = {column.name: column for column in Encoder.from_json(json.dumps(content)).columns}
    assert without_value(values(9, 1), old["n"]).startswith(
        "1 of 10 records have no value, where every"
    )
    assert without_value(values(1, 9), old["gap"]) is None
    assert without_value(values(0, 10), old["gap"]).startswith("all 10 records have no value.")


class TrainedOn:
    """A party table of some columns, and its encoder."""

    def __init__(self, columns):
        frame = pl.DataFrame(columns)
        ids = tuple(str(row) for row in range(len(frame)))
        self.encoder = Encoder.fit(PartyTable("non-label party", ids, frame))


def test_the_share_of_training_is_kept_with_the_encoder():
    jobs = ["clerk"] * 12 + ["cook"] * 12 + [None] * 8
    encoder = TrainedOn({"n": [1.0, 2.0, float("nan"), None] * 8, "job": jobs}).encoder
    again = Encoder.from_json(encoder.to_json())
    assert [column.missing for column in again.columns] == [0.5, 0.25]
    assert again == encoder


def test_a_file_with_an_empty_column_is_told_and_text_is_nobodys_list(tmp_path):
    path = tmp_path / "new.csv"
    jobs = ["clerk", "cook"] * 12
    encoder = TrainedOn({"n": list(range(24)), "job": jobs}).encoder
    file = TableFile(path, "id")
    rows = "".join(f"{row},,\n" for row in range(40))
    path.write_text("id,n,job\n" + rows)
    told = file.read("non-label party", trained=encoder).notices
    assert [notice.split(": ")[0] for notice in told] == [
        "non-label party, new.csv, column 'n'",
        "non-label party, new.csv, column 'job'",
    ]
    assert all("all 40 records have no value" in notice for notice in told)
    path.write_text("id,n,job\n1,many,cook\n")
    with pytest.raises(DataError, match="must hold numbers, as in training, but line 2") as error:
        file.read("non-label party", trained=encoder)
    assert "numeric" not in str(error.value)


def test_all_columns_that_new_records_lack_are_named(tmp_path):
    path = tmp_path / "new.csv"
    encoder = TrainedOn({"age": [1, 2, 3], "pay": [3, 4, 6], "n": [1, 2, 4]}).encoder
    path.write_text("id,Age,n,y\n1,2,3,1\n")
    match = r"2 of the 3 columns .*: 'age', 'pay'\. Was one renamed\? It also holds 'Age'\. Add"
    with pytest.raises(DataError, match=match):
        TableFile(path, "id", label_column="y").read("label party", trained=encoder)
