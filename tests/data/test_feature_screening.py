import polars as pl
import pytest

from cutlayer.data.cell_values import CellRules
from cutlayer.data.column_reading import Cells
from cutlayer.data.feature_screening import mostly_numbers, reason_to_drop


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
    assert words in (reason_to_drop(column, "infer") or "")


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
    assert reason_to_drop(column, "infer") is None


def test_the_user_may_know_better():
    names = categories([f"n{i}" for i in range(30)])
    rows = pl.Series("c", range(30))
    assert reason_to_drop(names, "categorical") is None
    assert reason_to_drop(rows, "numeric") is None
    assert reason_to_drop(pl.Series("c", [1, 1]), "numeric") is not None


def test_categories_that_are_mostly_numbers_raise_doubt():
    other = Cells(count=1, places=["line 4"], text="n/a")
    column = categories(["1.5", "2", "3", None, "n/a"]).alias("rows")
    doubt = mostly_numbers(column, other, CellRules())
    assert doubt is not None
    assert "because line 4 holds 'n/a', though 75% of its values are numbers" in doubt
    assert mostly_numbers(categories(["1", "a", "b"]), other, CellRules()) is None
    assert mostly_numbers(categories(["1,5", "2,5", "x"]), other, CellRules()) is None
    assert mostly_numbers(categories(["1,5", "2,5", "x"]), other, CellRules(decimal=","))
