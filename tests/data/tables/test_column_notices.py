"""Lines about columns: each alone, or those that share a reason in one."""

from cutlayer.data.tables.column_notices import ColumnNotice, lines_of


def say(text, column):
    return f"{column}: {text}"


def empty(name):
    return ColumnNotice(name, "left out: empty.", "left out, because all are empty.")


def test_few_have_a_line_each_and_many_share_one():
    assert lines_of([empty("a"), empty("b"), empty("c")], say) == [
        "a: left out: empty.",
        "b: left out: empty.",
        "c: left out: empty.",
    ]
    assert lines_of([empty(name) for name in "abcd"], say) == [
        "None: columns 'a', 'b', 'c', 'd': left out, because all are empty."
    ]


def test_a_file_of_forty_columns_gets_one_line():
    (line,) = lines_of([empty(f"c{n}") for n in range(40)], say)
    assert "'c11' and 28 more: left out" in line
    assert "'c12'" not in line


def test_what_differs_stands_behind_the_name_and_reasons_do_not_mix():
    codes = [
        ColumnNotice(n, "", "are codes.", f"{len(n)} values", group_from=2) for n in ("a", "bc")
    ]
    assert lines_of([empty("x"), *codes], say) == [
        "x: left out: empty.",
        "None: columns 'a' (1 values), 'bc' (2 values): are codes.",
    ]
