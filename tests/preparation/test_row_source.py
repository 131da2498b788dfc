import gzip
import random

import polars as pl
import pytest

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.errors import DataError
from cutlayer.preparation.parquet_rows import ParquetRows
from cutlayer.preparation.row_source import RowSplitter, TextRows
from cutlayer.preparation.text_blocks import Position

PLAIN = RowSplitter("\t", "", 3)
QUOTED = RowSplitter(",", '"', 3)


def rows_of(split):
    return list(split.frame.iter_rows())


def source(path, *, names=("a", "b", "c"), delimiter=",", quote="", block_bytes=64, start=None):
    return TextRows(
        path,
        names,
        FileMessage("label party", path),
        delimiter=delimiter,
        quote=quote,
        block_bytes=block_bytes,
        start=start or Position(),
    )


def test_whole_rows_and_empty_cells():
    split = PLAIN.split(b"1\t\tx\n2\t-3\t\n")
    assert rows_of(split) == [("1", None, "x"), ("2", "-3", None)]
    assert split.numbers.tolist() == [0, 1]
    assert split.rejects == ()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1\t2", "has 2 fields, not 3"),
        (b"1\t2\t3\t4", "has 4 fields, not 3"),
        (b"", "blank line"),
        (b"\r", "blank line"),
        (b"1\t2\t\xff", "is no UTF-8 text"),
        (b"1\t\0\t3", "holds a zero byte"),
    ],
)
def test_a_dirty_line_is_set_aside_and_named(line, reason):
    split = PLAIN.split(b"a\tb\tc\n" + line + b"\nd\te\tf\n")
    assert rows_of(split) == [("a", "b", "c"), ("d", "e", "f")]
    assert split.numbers.tolist() == split.lines.tolist() == [0, 2]
    assert [(one.line, one.reason) for one in split.rejects] == [(1, reason)]
    assert split.count == 3


def test_a_short_and_a_long_row_do_not_hide_each_other():
    split = PLAIN.split(b"1\t2\n1\t2\t3\t4\n7\t8\t9\n")
    assert rows_of(split) == [("7", "8", "9")]
    assert [one.line for one in split.rejects] == [0, 1]


def test_only_dirt():
    split = PLAIN.split(b"\n\n")
    assert split.frame.shape == (0, 3)
    assert split.count == 2


def test_windows_line_ends_and_a_last_line_without_end():
    assert rows_of(PLAIN.split(b"1\t2\t3\r\n4\t5\t6\r\n")) == [("1", "2", "3"), ("4", "5", "6")]
    assert rows_of(PLAIN.split(b"1\t2\t3\n4\t5\t6")) == [("1", "2", "3"), ("4", "5", "6")]


def test_a_quote_is_an_ordinary_sign_where_there_are_none():
    assert rows_of(PLAIN.split(b'1\t"2\t3"\n')) == [("1", '"2', '3"')]


def test_quoted_text_may_hold_delimiters_and_line_ends():
    split = QUOTED.split(b'1,"a, b",x\n2,"c\nd",\n3,e\n"4","""f""",g\n')
    assert rows_of(split) == [("1", "a, b", "x"), ("2", "c\nd", None), ("4", '"f"', "g")]
    assert split.lines.tolist() == [0, 1, 4]
    assert split.numbers.tolist() == [0, 1, 3]
    assert [(one.line, one.reason) for one in split.rejects] == [(3, "has 2 fields, not 3")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b'"1"x,2,3', "a quote stands where none may, or a field is too long"),
        (b'"1",\xff,3', "is no UTF-8 text"),
        (b'"1",\0,3', "holds a zero byte"),
        (b"", "blank line"),
    ],
)
def test_dirt_among_quoted_rows(row, reason):
    split = QUOTED.split(b'"a",b,c\n' + row + b'\n"d",e,f\n')
    assert rows_of(split) == [("a", "b", "c"), ("d", "e", "f")]
    assert [(one.line, one.reason) for one in split.rejects] == [(1, reason)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("block_bytes", [1, 7, 16, 1 << 20])
def test_blocks_together_are_the_file_from_any_of_their_ends(tmp_path, pack, block_bytes):
    path = tmp_path / "rows"
    text = "".join(f"{row},{'x' * (row % 6)},{row}\n" for row in range(40)) + "short\n40,y,z"
    path.write_bytes(pack(text.encode()))
    small = source(path, block_bytes=max(block_bytes, 4))
    blocks = list(small.blocks(Position()))
    ids = [name for block in blocks for name in block.frame["0"]]
    assert ids == [str(row) for row in range(41)]
    assert [row for block in blocks for row in block.numbers.tolist()] == [*range(1, 41), 42]
    assert [one.line for block in blocks for one in block.rejects] == [41]
    for place, block in enumerate(blocks[:-1]):
        again = next(iter(small.blocks(block.end)))
        assert again.frame.equals(blocks[place + 1].frame)
        assert again.numbers.tolist() == blocks[place + 1].numbers.tolist()
        assert again.end == blocks[place + 1].end


def test_a_byte_order_mark_is_no_part_of_the_first_cell(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"\xef\xbb\xbf1,2,3\n4,5,6\n")
    (block,) = source(path).blocks(Position())
    assert block.frame["0"].to_list() == ["1", "4"]
    assert block.end.offset == 15


def test_a_cut_off_gzip_is_an_error(tmp_path):
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(b"1,2,3\n" * 1000)[:-20])
    with pytest.raises(DataError, match="gzip file must be complete"):
        list(source(path).blocks(Position()))


def test_a_quote_that_never_closes_is_an_error(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b'1,"2,3\n' + b"4,5,6\n" * 200)
    with pytest.raises(DataError, match="a record must end"):
        list(source(path, quote='"').blocks(Position()))


def test_a_line_without_end_is_not_blamed_on_a_quote_where_there_are_none(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"1,2,3\n" + b"4" * 700 + b",5,6\n")
    with pytest.raises(DataError, match=r"at byte 6 reaches over .* Look there for lost line ends"):
        list(source(path).blocks(Position()))


def test_parquet_is_read_as_texts_from_any_row(tmp_path):
    path = tmp_path / "rows.parquet"
    frame = pl.DataFrame({"n": [1.0, 2.5, None], "raw": [b"x", b"y", b"z"], "t": ["a", None, "c"]})
    frame.write_parquet(path)
    rows = ParquetRows(path, FileMessage("label party", path), columns=("n", "t"))
    assert rows.names == ("n", "raw", "t")
    (block,) = rows.blocks(Position())
    assert block.frame.rows() == [("1", "a"), ("2.5", None), (None, "c")]
    (rest,) = rows.blocks(Position(1, 2, 1))
    assert rest.frame.rows() == [("2.5", None), (None, "c")]
    assert rest.numbers.tolist() == [2, 3]


def test_a_damaged_parquet_is_an_error(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataError, match="whole Parquet"):
        ParquetRows(path, FileMessage("label party", path))


def fault_by_definition(line):
    """Field by field, for three columns between tabulators."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = None
    if line in (b"", b"\r"):
        return "blank line"
    fields = len(line.split(b"\t"))
    if fields != 3:
        return f"has {fields} fields, not 3"
    if b"\0" in line:
        return "holds a zero byte"
    return None if text is not None else "is no UTF-8 text"


@pytest.mark.parametrize("seed", range(30))
def test_random_lines_are_split_as_by_the_definition(seed):
    draw = random.Random(seed)  # noqa: S311 - rows, not secrets
    cells = [b"", b"a", b"12", b"-3", "é".encode(), b'"', b" ", b"x" * 20]
    dirt = [b"\xff", b"\0", b"\t", b"\n"]
    lines = []
    for _ in range(draw.randrange(1, 40)):
        row = [draw.choice(cells) for _ in range(3)]
        if draw.random() < 0.2 * (seed % 3):
            row[draw.randrange(3)] += draw.choice(dirt)
        lines += b"\t".join(row).split(b"\n")
    split = PLAIN.split(b"\n".join(lines) + b"\n")
    faults = [fault_by_definition(line) for line in lines]
    assert [(one.line, one.reason) for one in split.rejects] == [
        (place, fault) for place, fault in enumerate(faults) if fault
    ]
    good = [line for line, fault in zip(lines, faults, strict=True) if not fault]
    expected = [tuple(cell.decode() or None for cell in line.split(b"\t")) for line in good]
    assert rows_of(split) == expected
    assert split.lines.tolist() == [place for place, fault in enumerate(faults) if not fault]
