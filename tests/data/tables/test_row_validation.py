import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.record_blocks import RecordBlock
from cutlayer.data.tables.row_validation import checked_rows, rows_look_whole
from cutlayer.errors import DataError

FORM = {"delimiter": ",", "quote": '"'}


def rows_of(data, *, width, first_line=1, **form):
    message = FileMessage("label party", "table.csv")
    return checked_rows(RecordBlock(data, first_line), message, width=width, **{**FORM, **form})


def test_lines_are_those_of_the_file():
    rows = rows_of(b'a,"x\ny",1\n\r\nb,z,2\n\n\nc,"",3\n', width=3, first_line=10)
    assert rows.rows == 3
    assert [rows.line_of(row) for row in range(3)] == [10, 13, 16]
    assert rows.blank_lines == 3
    assert rows.data == b'a,"x\ny",1\nb,z,2\nc,"",3\n'


def test_a_missing_last_line_end_is_added():
    assert rows_of(b"a,b\nc,d", width=2).data == b"a,b\nc,d\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a,b,c\n1,2\n3,4,5\n", "every row must have 3 fields, but line 2 has 2"),
        (b"a,b,c\n1,2,3,4\n", "line 2 has 4"),
        (b"a,b,c\n1,2\n1,2,3,4\n", "line 2 has 2, as have 1 more lines a wrong number"),
        (b'a,"b,b"\n"1\n1",2,3\n', "line 2 has 3"),
        (b"a,b,c\n \n1,2,3\n", "line 2 has 1"),
    ],
)
def test_a_row_of_another_length_is_located(data, words):
    with pytest.raises(DataError, match=words):
        rows_of(data, width=2 if b'"' in data else 3)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'a,5" pipe,c\n1,6" pipe,3\n', 1),
        (b'a,b,c\n1,"two" words,3\n', 2),
        (b'a,b,c\n1,2, "spaced"\n', 2),
        (b'a,b,c\n1,2,"x""y"z\n', 2),
    ],
)
def test_a_quote_inside_a_bare_field_is_located(data, line):
    with pytest.raises(DataError, match=f"on line {line} one stands elsewhere. Double"):
        rows_of(data, width=3)


def test_without_quotes_a_quote_is_a_letter():
    assert rows_of(b'a,5" pipe\n', width=2, quote="").rows == 1


def test_the_quick_look_refuses_what_it_cannot_judge():
    def look(data):
        return rows_look_whole(RecordBlock(data, 1), width=3, **FORM)

    assert look(b"a,b,c\n1,,\n")
    assert look(b"a,b,c\n1,2,3")
    assert not look(b"a,b,c\n1,2\n")
    assert not look(b"a,b,c\n\n1,2,3\n")
    assert not look(b'a,"b",c\n')


@settings(max_examples=200, deadline=None)
@given(
    cells=st.lists(
        st.lists(st.text(alphabet='a",;\n é0', max_size=5), min_size=3, max_size=3),
        min_size=1,
        max_size=8,
    ),
    sign=st.sampled_from(",;"),
)
def test_what_the_csv_module_writes_is_whole(cells, sign):
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=sign, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(cells)
    rows = rows_of(written.getvalue().encode(), width=3, delimiter=sign)
    starts = [1]
    for row in cells:
        starts.append(starts[-1] + 1 + sum(cell.count("\n") for cell in row))
    assert rows.rows == len(cells)
    assert [rows.line_of(row) for row in range(len(cells))] == starts[:-1]
