import polars as pl
import pytest

from cutlayer.data.tables.cell_values import CellRules
from cutlayer.data.tables.column_reading import Cells
from cutlayer.data.tables.feature_screening import mostly_numbers, screened

RULES = CellRules()


def dropped(column, kind="infer"):
    """What is said of a column that is left out; empty where it is kept."""
    keep, notice = screened(column, kind, RULES)
    return "" if keep else notice.alone


def said(column, kind="infer", **cells):
    """What is said of a column that is kept; empty where nothing is."""
    keep, notice = screened(column, kind, RULES, **cells)
    assert keep
    return "" if notice is None else notice.alone


def categories(values):
    return pl.Series("c", values, dtype=pl.String).cast(pl.Categorical)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pl.Series("c", [None, None], dtype=pl.Float64), "all of its cells are empty"),
        (pl.Series("c", [], dtype=pl.Float64), "all of its cells are empty"),
        (pl.Series("c", [7, 7]), "all of its cells hold 7"),
        (categories(["No", "No"]), "all of its cells hold 'No'"),
        (categories([f"n{i}" for i in range(20)]), "20 different texts in 20 rows"),
        (categories([None] * 50 + [f"n{i}" for i in range(100)]), "100 different texts in 100"),
        (pl.Series("c", range(5, 25)), "numbers the rows from 5 to 24 without a gap"),
        (pl.Series("c", range(19, -1, -1)), "numbers the rows from 0 to 19"),
    ],
)
def test_nothing_can_be_learned_from_these(column, words):
    assert words in dropped(column)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("c", [7, None, 7]),
        categories(["No", None]),
        categories([f"n{i}" for i in range(19)]),
        # 19 of 20 are not more than 95 %.
        categories(["n0", *(f"n{i}" for i in range(19))]),
        pl.Series("c", [*range(19), 20]),
        pl.Series("c", range(19)),
        pl.Series("c", [*range(20), 3]),
        pl.Series("c", [*range(20), None]),
        pl.Series("c", [i + 0.5 for i in range(30)]),
    ],
)
def test_these_are_kept(column):
    assert not dropped(column)


def test_the_user_may_know_better():
    names = categories([f"n{i}" for i in range(30)])
    rows = pl.Series("c", range(30))
    assert not dropped(names, "categorical")
    assert not dropped(rows, "numeric")
    assert dropped(pl.Series("c", [1, 1]), "numeric")


def test_categories_that_are_mostly_numbers_raise_doubt():
    other = Cells(count=1, places=["line 4"], text="n/a")
    column = categories(["1.5", "2", "3", None, "n/a"]).alias("rows")
    doubt = mostly_numbers(column, other, CellRules())
    assert doubt is not None
    assert "because line 4 holds 'n/a', though 75% of its values are numbers" in doubt.alone
    assert mostly_numbers(categories(["1", "a", "b"]), other, CellRules()) is None
    assert mostly_numbers(categories(["1,5", "2,5", "x"]), other, CellRules()) is None
    assert mostly_numbers(categories(["1,5", "2,5", "x"]), other, CellRules(decimal=","))


def test_texts_that_look_like_numbers_or_dates_are_never_called_names_of_records():
    amounts = categories([f"{n},{n % 100:02}" for n in range(168, 228)])
    for values, what in (
        (amounts, "numbers with a decimal comma, such as '168,68'. Set decimal to ','."),
        (categories([f"2024-01-{n:02}" for n in range(1, 31)]), "dates, such as '2024-01-01'."),
        (categories([f"{n}%" for n in range(40)]), "numbers with a percent sign"),
    ):
        told = dropped(values)
        assert f"they look like {what}" in told
        assert "names of records" not in told
    assert not dropped(amounts, "categorical")


def test_what_is_kept_as_categories_is_told_by_its_looks():
    rates = categories(["1,5", "3,5"] * 10)
    assert "look like numbers with a decimal comma" in said(rates)
    assert said(rates, "categorical") == ""
    days = categories(["2024-01-01", "2024-01-02"] * 10)
    # No option makes numbers of dates, so whoever lists them is told, too.
    assert "look like dates" in said(days)
    assert "look like dates" in said(days, "categorical")
    other = Cells(count=1, places=["line 4"], text="1,5")
    assert "Set decimal" in said(rates, other=other)


def test_whole_numbers_that_may_be_codes():
    codes = pl.Series("c", [1005, 1002, 1010] * 10)
    assert "its 3 different whole numbers are read as numbers" in said(codes)
    assert said(codes, "numeric") == ""
    other = Cells(count=1, places=["line 2"], text="007")
    assert "line 2 holds '007', as codes begin" in said(codes, leading_zero=other)


def test_each_notice_of_a_group_says_what_those_of_one_column_say():
    for column in (
        pl.Series("c", [None], dtype=pl.Float64),
        pl.Series("c", [7, 7]),
        categories([f"n{i}" for i in range(20)]),
        categories([f"{i},5" for i in range(20)]),
        pl.Series("c", range(20)),
    ):
        _, notice = screened(column, "infer", RULES)
        assert notice.together.startswith("left out, because ")
        assert notice.together.endswith(".")
        keep, notice = screened(column, "infer", RULES, leaves_out=False)
        assert keep
        assert notice.alone.startswith("kept, though ")
        assert "to keep" not in notice.alone
