import pytest

from cutlayer.data.tables.csv_dialect import csv_dialect, looks_like_data
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.errors import DataError


def layout_of(text, *, delimiter=None, quote='"'):
    message = FileMessage("label party", "table.csv")
    return csv_dialect(text.encode(), message, delimiter=delimiter, quote=quote)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(sign):
    layout = layout_of(f"id{sign}age{sign}y\na{sign}3{sign}1\n")
    assert layout.delimiter == sign
    assert layout.first == ("id", "age", "y")
    assert layout.first_end == 9


def test_decimal_commas_do_not_hide_the_semicolon():
    assert layout_of("id;size;y\na;1,5;0\nb;2,5;1\n").delimiter == ";"
    assert layout_of("a;1,5;0\nb;2;1\n").delimiter == ";"  # no header, and not every row has one


def test_signs_inside_quotes_do_not_count():
    assert layout_of('"id, number";"y; label"\n1;0\n').first == ("id, number", "y; label")


def test_a_name_may_span_lines_and_have_spaces_around():
    layout = layout_of('\n"id",  y ,"two\nlines"\n1,2,3\n')
    assert layout.first == ("id", "y", "two\nlines")
    assert layout.first_end == len('\n"id",  y ,"two\nlines"\n')


def test_without_a_last_line_end_the_first_record_ends_with_the_file():
    assert layout_of("id,y").first_end == 4


def test_the_given_delimiter_is_used():
    assert layout_of("a:b,c:d\n1:2,3:4\n", delimiter=":").first == ("a", "b,c", "d")


def test_several_fitting_delimiters_are_an_error():
    with pytest.raises(DataError, match=r"',', ';' would fit. Set delimiter"):
        layout_of("1,5;2\n3,5;4\n")
    with pytest.raises(DataError, match="none of them throughout would fit"):
        layout_of("1,5;2\n3;4,1,1\n5\n")


@pytest.mark.parametrize(
    ("text", "delimiter", "words"),
    [
        ("id age y\na 3 1\n", None, r"none of ',', ';', '\\t', '\|' splits the first line 'id age"),
        ("id;age;y\na;3;1\n", ",", r"falls into one column; the first line holds 2 of ';'"),
        ("id age\na 3\n", ",", "the first line has none of them"),
    ],
)
def test_one_column_is_a_wrong_delimiter(text, delimiter, words):
    with pytest.raises(DataError, match=words):
        layout_of(text, delimiter=delimiter)


def test_a_long_file_is_judged_by_its_first_lines():
    row = "a,1,2\n"
    assert layout_of("id,x,y\n" + row * 50_000 + "broken;\n").delimiter == ","
    wide = ",".join(f"c{i}" for i in range(20_000))
    assert len(layout_of(f"{wide}\n{wide}\n").first) == 20_000


def test_a_text_cut_off_within_quotes_does_not_confuse():
    long = '"' + "x, y; z\n" * 20_000 + '"'
    assert layout_of(f"id;text\n1;a\n2;{long}\n").delimiter == ";"


def test_what_cannot_be_split_at_all_is_an_error():
    with pytest.raises(DataError, match="line 1 cannot be split: field larger"):
        layout_of("x" * 200_000 + "\n")


def test_a_header_with_a_number_looks_like_data():
    assert looks_like_data(("39", "State-gov"))
    assert looks_like_data(("a", "-1,5"))
    assert not looks_like_data(("age", "c1", "2nd", ""))
