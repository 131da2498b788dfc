import csv
import gzip
import io

import numpy as np
import polars as pl
import pytest

from cutlayer.data.tables.delimited_text import DelimitedText, TextFormat
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.errors import DataError


def opened(path, text, *, block_bytes=1 << 24, **form):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    message = FileMessage("non-label party", path)
    return DelimitedText(path, TextFormat(**form), message, block_bytes=block_bytes)


def read(table, columns=None):
    batches = list(table.batches(columns or table.names))
    return pl.concat([batch.frame for batch in batches]), batches


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.csv"


def test_cells_are_texts_as_they_stand(path):
    frame, _ = read(opened(path, 'id,n,t\n007, 1.50 ,"a, b"\n8,,""\n'))
    assert frame.to_dict(as_series=False) == {
        "id": ["007", "8"],
        "n": [" 1.50 ", None],
        "t": ["a, b", ""],
    }


def test_only_the_columns_asked_for_are_read(path):
    frame, _ = read(opened(path, "a,b,c\n1,2,3\n"), ["c", "a"])
    assert sorted(frame.columns) == ["a", "c"]
    assert frame["c"].to_list() == ["3"]


def test_names_may_be_anything(path):
    names = ("^a$", "*", "0", "column_1", "a.b", "b[0]", "Zoë", 'say "x"')
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(names)
    table = opened(path, header.getvalue() + "1,2,3,4,5,6,7,8\n")
    assert table.names == names
    frame, _ = read(table)
    assert frame.row(0, named=True) == dict(zip(names, "12345678", strict=True))


def test_a_file_without_a_header_keeps_its_first_row(path):
    table = opened(path, "1, a\n2, b\n", header=False)
    assert table.names == ("c1", "c2")
    assert read(table)[0]["c1"].to_list() == ["1", "2"]
    named = opened(path, "1, a\n2, b\n", header=False, column_names=("id", "job"))
    assert read(named)[0]["id"].to_list() == ["1", "2"]


@pytest.mark.parametrize("block_bytes", [1, 16, 33, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_reads_in_any_blocks_what_the_csv_module_wrote(path, block_bytes, end, quoting):
    draw = np.random.default_rng(3)
    pieces = ["a", "é", ",", ";", '"', "\n", " ", "7"]
    rows = [
        [str(i), "".join(draw.choice(pieces, draw.integers(6))), draw.choice(["", "x"])]
        for i in range(200)
    ]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerows([["id", "text", "last"], *rows])
    # A record may be 4 blocks long; the longest here has fewer than 40 bytes.
    table = opened(path, text.getvalue(), block_bytes=max(block_bytes, 12))
    frame, batches = read(table)
    assert frame["id"].to_list() == [row[0] for row in rows]
    assert frame["text"].fill_null("").to_list() == [row[1] for row in rows]
    assert frame["last"].fill_null("").to_list() == [row[2] for row in rows]
    lines = [batch.place_of(row) for batch in batches for row in range(batch.frame.height)]
    expected, line = [], 2
    for row in rows:
        expected.append(f"line {line}")
        line += 1 + row[1].count("\n")
    assert lines == expected


@pytest.mark.parametrize("block_bytes", [4, 1000])
def test_blank_lines_are_left_out_and_told(path, block_bytes):
    table = opened(path, "\n\na,b\n1,2\n\n\r\n3,4\n\n\n", block_bytes=block_bytes)
    frame, batches = read(table)
    assert frame["a"].to_list() == ["1", "3"]
    assert batches[-1].place_of(batches[-1].frame.height - 1) == "line 7"
    if block_bytes == 1000:
        assert "2 blank line(s) are left out" in table.notices[0]
    read(table)
    assert len(table.notices) == 1  # a second pass does not count them again


def test_a_row_of_empty_cells_is_no_blank_line(path):
    table = opened(path, "a\tb\n\t\n1\t2\n\t\n")
    assert read(table)[0]["a"].to_list() == [None, "1", None]
    assert table.notices == ()


def test_unnamed_columns_are_called_by_position(path):
    table = opened(path, ",age,\n0,31,\n1,45,\n")
    assert table.names == ("c1", "age", "c3")
    assert "no name for 2 column(s); they are called 'c1', 'c3'" in table.notices[0]


def test_gzip_is_known_by_content(path):
    table = opened(path, gzip.compress(b"a;b\n1;2\n"))
    assert read(table)[0]["b"].to_list() == ["2"]


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ("", {}, "must hold a table, but is empty"),
        (" \n\n", {}, "must hold a table, but is empty"),
        ("a,b\r1,2\r", {}, "end with a carriage return alone"),
        ("a,b,a\n1,2,3\n", {}, "'a' stands in the header more than once"),
        ("0,1,0\n1,2,3\n", {}, "more than once. The first line looks like a row"),
        ("a,c1,\n1,2,3\n,", {"column_names": None}, None),
        ("1,2\n", {"header": False, "column_names": ("a",)}, "1 names for 2 columns"),
        ("a b\n1 2\n", {}, "at least two columns"),
        ("a;b\n1;2\n", {"delimiter": ","}, "falls into one column"),
        (b"a,b\nM\xfcller,2\n", {}, "line 2 holds the byte 0xFC"),
    ],
)
def test_what_is_no_table_is_refused_at_once(path, text, form, words):
    if words is None:
        opened(path, text, **form)
        return
    with pytest.raises(DataError, match=f"^non-label party, file .*table.csv: .*{words}"):
        opened(path, text, **form)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,c\n", "has only a header"),
        ("a,b,c", "has only a header"),
        ("a,b,c\n\n\r\n", "has only a header"),
        ("a,b,c\n1,2,3\n4,5\n", "line 3 has 2"),
        ("a,b,c\n1,2,3\n4,5,6,7\n", "line 3 has 4"),
        ("a,b,c\n1,2,3,4\n4,5\n", "line 2 has 4, as have 1 more lines"),
        ('a,b,c\n1,2,"3\n4,5,6\n', "begins on line 2 reaches over the end"),
        ('a,b,c\n1,2" x,3\n4,5" y,6\n', "on line 2 one stands elsewhere"),
    ],
)
def test_broken_rows_are_located(path, text, words):
    table = opened(path, text)
    with pytest.raises(DataError, match=words):
        read(table)


def test_a_fault_that_only_polars_sees_is_told(path, monkeypatch):
    table = opened(path, 'a,b\n"1",2\n')

    def refuse(*args, **options):
        raise pl.exceptions.ComputeError("no idea\nmore")

    monkeypatch.setattr(pl, "read_csv", refuse)
    with pytest.raises(DataError, match=r"rows from line 2 on .* but: no idea\. Check"):
        read(table)
    monkeypatch.setattr(pl, "read_csv", lambda *a, **o: pl.DataFrame({"0": ["1", "2"]}))
    with pytest.raises(DataError, match="1 rows were read as 2"):
        read(table, ["a"])
