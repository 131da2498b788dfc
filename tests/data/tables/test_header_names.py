"""Names of columns from a header as tools leave it."""

from pathlib import Path

import pytest

from cutlayer.data import TableFile
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.header_names import header_names
from cutlayer.errors import DataError
from cutlayer.preparation import TableColumns, table

MESSAGE = FileMessage("label party", Path("log.csv"))


@pytest.mark.parametrize(
    "mark",
    ["\ufeff", "ï»¿", "Ã¯Â»Â¿", "п»ї", "∩╗┐", "´╗┐", "Ôªø"],
)
def test_a_mangled_byte_order_mark_is_taken_off(mark):
    names, (told,) = header_names([mark + "id", "n"], MESSAGE)
    assert names == ("id", "n")
    assert "a byte order mark that was read as letters; the first column is called 'id'" in told
    names, _ = header_names([f'{mark}"id"', "n"], MESSAGE)
    assert names == ("id", "n")


@pytest.mark.parametrize("name", ["..ip", "???ip", "\ufffd\ufffd\ufffdip"])
def test_what_may_be_left_of_one_is_only_told(name):
    names, (told,) = header_names([name, "n"], MESSAGE)
    assert names == (name, "n")
    assert "may be left of a byte order mark" in told


@pytest.mark.parametrize("name", ["id", "...", "?", "ïd", "..", "... 1"])
def test_other_names_stay(name):
    assert header_names([name, "n"], MESSAGE) == ((name, "n"), ())


def test_names_that_are_missing_or_not_unique():
    names, (told,) = header_names(["", "a", ""], MESSAGE)
    assert names == ("c1", "a", "c3")
    assert "no name for 2 column(s)" in told
    for cells in (["a", "a"], ["c2", ""], ["", "c1"], ["\ufeffid", "id"]):
        with pytest.raises(DataError, match="stands in the header more than once"):
            header_names(cells, MESSAGE)


def test_a_line_for_spreadsheets_is_named():
    with pytest.raises(DataError, match=r"a spreadsheet how to split the file\. Delete that"):
        header_names(["sep=", ""], MESSAGE)


@pytest.mark.parametrize("header", ["ï»¿id", ",a,b"])
def test_both_readers_name_columns_alike(tmp_path, header):
    path = tmp_path / "t.csv"
    first = header if header.startswith(",") else f"{header},a,b"
    path.write_text(first + "\n" + "".join(f"k{n},{n % 3},{n % 2}\n" for n in range(40)))
    name = "c1" if header.startswith(",") else "id"
    reading = TableFile(path, name, label_column="b").read("label party")
    raw = table(path, TableColumns("b", name))
    assert raw.layout.names == (name, "a", "b")
    assert reading.notices[0] == raw.notices[0]
