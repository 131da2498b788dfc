from pathlib import Path

import polars as pl
import pytest

from cutlayer.data.tables.cell_values import CellRules
from cutlayer.data.tables.column_choice import ROW_NUMBER, ColumnRules
from cutlayer.data.tables.column_reading import read_columns
from cutlayer.data.tables.delimited_text import DelimitedText, TextFormat
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.errors import DataError

CSV = CellRules()


@pytest.fixture
def read(tmp_path):
    """Reads a text whose blocks hold one or two of its lines, so that each row is a batch."""

    def reader(text, *, rules=CSV, block_bytes=1, numeric=(), categorical=(), **roles):
        path = tmp_path / "table.csv"
        path.write_text(text)
        message = FileMessage("label party", Path("table.csv"))
        longest = max(len(line) for line in text.splitlines())
        source = DelimitedText(
            path, TextFormat(), message, block_bytes=max(block_bytes, longest // 4 + 1)
        )
        options = {"id_column": "id", "label_column": None, "group_column": None, **roles}
        choice = ColumnRules(
            **options, keep=(), drop=(), numeric=numeric, categorical=categorical
        ).applied_to(source.names, message, "")
        return read_columns(source, choice, message, rules)

    return reader


def features(columns):
    return {column.name: column for column in columns.features}


def texts(column):
    return column.cast(pl.String).to_list()


def test_kinds_are_found_over_all_batches(read):
    columns = features(read("id,a,b,c\n1,7,x,1\n2,,y,2.5\n3,9,x,\n"))
    assert columns["a"].dtype == pl.Int8
    assert columns["a"].to_list() == [7, None, 9]
    assert columns["b"].dtype == pl.Categorical
    assert columns["c"].to_list() == [1.0, 2.5, None]


@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_a_column_that_turns_out_late_to_be_text_keeps_its_texts(read, block_bytes):
    text = "id,code,n\n1,007,1\n2,,2\n3,1e1,3\n4,V5,4\n5,08,5\n"
    found = read(text, block_bytes=block_bytes)
    assert texts(features(found)["code"]) == ["007", None, "1e1", "V5", "08"]
    assert features(found)["n"].to_list() == [1, 2, 3, 4, 5]
    assert found.no_numbers["code"].first == "line 5 holds 'V5'"
    assert found.rows == 5


def test_nothing_is_read_again_if_only_gaps_came_before(read, monkeypatch):
    passes = []
    whole = DelimitedText.batches
    monkeypatch.setattr(
        DelimitedText, "batches", lambda self, names: passes.append(names) or whole(self, names)
    )
    found = read("id,a\n1,\n2,\n3,x\n4,5\n")
    assert texts(features(found)["a"]) == [None, None, "x", "5"]
    assert len(passes) == 1


def test_only_late_columns_are_read_again(read, monkeypatch):
    passes = []
    whole = DelimitedText.batches
    monkeypatch.setattr(
        DelimitedText, "batches", lambda self, names: passes.append(names) or whole(self, names)
    )
    read("id,a,b\n1,1,1\n2,x,2\n")
    assert passes == [("id", "a", "b"), ("a",)]


def test_a_file_that_changes_between_two_passes_is_refused(read, monkeypatch, tmp_path):
    whole, passes = DelimitedText.batches, []

    def batches(self, names):
        if passes:
            (tmp_path / "table.csv").write_text("id,a\n1,1\n")
        passes.append(names)
        return whole(self, names)

    monkeypatch.setattr(DelimitedText, "batches", batches)
    with pytest.raises(DataError, match="must not change while it is read"):
        read("id,a\n1,1\n2,x\n")


@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_a_nan_is_a_text_among_texts(read, block_bytes):
    found = read("id,a\n1,NaN\n2,inf\n3,x\n", block_bytes=block_bytes)
    assert texts(features(found)["a"]) == ["NaN", "inf", "x"]


@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_numbers_that_are_not_finite_are_located(read, block_bytes):
    text = "id,a\n1,1\n2,NaN\n3,-inf\n4,1e999\n"
    with pytest.raises(DataError) as caught:
        read(text, block_bytes=block_bytes)
    assert str(caught.value) == (
        "label party, file table.csv, column 'a': numbers must be finite, but line 3 holds 'NaN' "
        "(and 2 more cells). Leave such cells empty, or list 'NaN' under missing."
    )
    with pytest.raises(DataError, match=r"line 5 holds '1e999'. Leave"):
        read(text, block_bytes=block_bytes, rules=CellRules(missing=("NaN", "-inf")))


@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_text_in_a_numeric_column_is_located(read, block_bytes):
    with pytest.raises(DataError) as caught:
        read("id,a\n1,1\n2,ten\n3,x\n", numeric=("a",), block_bytes=block_bytes)
    assert str(caught.value) == (
        "label party, file table.csv, column 'a': must hold numbers, as it is listed under "
        "numeric, but line 3 holds 'ten' (and 1 more cells). Mend the cells, list 'ten' under "
        "missing, or take the column out of numeric."
    )
    found = read("id,a\n1,1\n2,ten\n", numeric=("a",), rules=CellRules(missing=("ten",)))
    assert features(found)["a"].to_list() == [1, None]


def test_categories_by_order_keep_their_texts(read):
    found = read("id,a\n1,01\n2,1\n3, 01\n", categorical=("a",))
    assert texts(features(found)["a"]) == ["01", "1", "01"]
    assert found.no_numbers == {}
    assert found.leading_zero == {}


def test_leading_zeros_are_noticed_where_the_kind_is_inferred(read):
    text = "id,zip\n1,8001\n2,01234\n3,00001\n"
    assert read(text).leading_zero["zip"].first == "line 3 holds '01234'"
    assert read(text, numeric=("zip",)).leading_zero == {}


@pytest.mark.parametrize("role", ["id_column", "label_column", "group_column"])
@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_a_gap_in_id_label_or_group_is_located(read, role, block_bytes):
    text = "id,a,k\n" + "".join(f"{i},{i},{'' if i % 2 else 'x'}\n" for i in range(1, 10))
    options = {"id_column": ROW_NUMBER, role: "k"}
    with pytest.raises(DataError) as caught:
        read(text, block_bytes=block_bytes, **options)
    assert str(caught.value) == (
        "label party, file table.csv, column 'k': every row must have a value, but 5 have none: "
        "line 2, line 4, line 6 and others. Fill them, or take these rows out of the file."
    )


def test_a_missing_text_is_no_label_but_may_be_an_id(read):
    text = "id,y\n?,1\n0,?\n"
    rules = CellRules(missing=("?", "0"))
    assert read(text, rules=rules).texts["id"].to_list() == ["?", "0"]
    with pytest.raises(DataError, match=r"column 'y': every row .* but 1 have none: line 3"):
        read(text, rules=rules, label_column="y")


def test_ids_are_texts_whatever_they_look_like(read):
    found = read("id,a\n007,1\n 12345678901234567890 ,2\n1e3,3\n", rules=CellRules(strip=False))
    assert found.texts["id"].to_list() == ["007", "12345678901234567890", "1e3"]


def test_names_that_polars_takes_for_patterns(read):
    found = read("id,^n$,*\n1,1.5,x\n2,,y\n3,abc,x\n", label_column="*")
    assert texts(features(found)["^n$"]) == ["1.5", None, "abc"]
    assert texts(found.texts["*"]) == ["x", "y", "x"]
