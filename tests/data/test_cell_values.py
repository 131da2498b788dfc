import polars as pl
import pytest

from cutlayer.data.cell_values import CellRules, as_text, compact, is_text, joined


def test_spaces_go_and_missing_texts_become_null():
    column = pl.Series("job", [" clerk ", "?", " ? ", "", None, "  ", "None", "\tNA"])
    rules = CellRules(missing=("?", "NA"))
    assert rules.texts(column).to_list() == ["clerk", None, None, None, None, None, "None", None]


def test_spaces_stay_where_they_belong_to_the_text():
    column = pl.Series("job", [" clerk", " ?", "?", ""])
    rules = CellRules(missing=("?",), strip=False)
    assert rules.texts(column).to_list() == [" clerk", " ?", None, None]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        ("-1.50", -1.5),
        ("+2", 2.0),
        (".5", 0.5),
        ("1e-3", 0.001),
        (" 7 ", 7.0),
        ("007", 7.0),
        ("12345678901234567890", 1.2345678901234567e19),
        ("1,5", None),
        ("1_000", None),
        ("0x10", None),
        ("ten", None),
        ("-", None),
        ("true", None),
    ],
)
def test_what_is_a_number(text, number):
    assert CellRules(strip=False).numbers_from(pl.Series([text])).to_list() == [number]


def test_decimal_commas():
    texts = pl.Series("n", ["1,5", "-2", "1.234,5", "1.5", None])
    numbers = CellRules(decimal=",").numbers_from(texts)
    # 1.5 would be 15 where points part the thousands, so it is no number.
    assert numbers.to_list() == [1.5, -2.0, None, None, None]
    assert numbers.name == "n"


def test_missing_numbers_of_a_stored_column():
    rules = CellRules(missing=("999", "NaN", "?"))
    assert rules.numbers(pl.Series([1, 999, None])).to_list() == [1, None, None]
    assert rules.numbers(pl.Series([1.5, 999.0, float("nan")])).to_list() == [1.5, None, None]
    kept = CellRules().numbers(pl.Series([1.5, float("inf")]))
    assert kept.to_list() == [1.5, float("inf")]


def test_decimals_become_floats():
    column = pl.Series(["1.25", "3.00"]).str.to_decimal(scale=2)
    assert CellRules().numbers(column).to_list() == [1.25, 3.0]


def test_stored_values_become_the_texts_that_one_would_type():
    assert as_text(pl.Series([1, None, -3])).to_list() == ["1", None, "-3"]
    assert as_text(pl.Series([1.0, None, 2.5, 0.0])).to_list() == ["1", None, "2.5", "0"]
    assert as_text(pl.Series([True, None])).to_list() == ["true", None]
    assert as_text(pl.Series(["a"], dtype=pl.Categorical)).to_list() == ["a"]
    assert as_text(pl.Series("n", [float("nan"), 2.0])).to_list() == ["NaN", "2"]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([1.0, -128.0, None], pl.Int8),
        ([0.0, 128.0], pl.Int16),
        ([-0.0, 40_000.0], pl.Int32),
        ([2.0**53 - 1], pl.Int64),
        ([2.0**53, 1.0], pl.Float64),  # from here on float64 skips whole numbers
        ([1.0, 1.5], pl.Float64),
        ([None, None], pl.Int8),
    ],
)
def test_compact_keeps_every_number_exactly(numbers, kind):
    column = pl.Series("n", numbers, dtype=pl.Float64)
    small = compact(column)
    assert small.dtype == kind
    assert small.cast(pl.Float64).to_list() == numbers


def test_joined_chunks_are_wide_enough_for_each():
    chunks = [pl.Series("n", [1], dtype=pl.Int8), pl.Series("n", [None, 1000], dtype=pl.Int16)]
    assert joined(chunks).to_list() == [1, None, 1000]
    whole_and_broken = [*chunks, pl.Series("n", [0.5])]
    assert joined(whole_and_broken).to_list() == [1.0, None, 1000.0, 0.5]
    texts = [
        pl.Series("t", ["a"], dtype=pl.Categorical),
        pl.Series("t", [None, "b"]).cast(pl.Categorical),
    ]
    assert joined(texts).cast(pl.String).to_list() == ["a", None, "b"]


def test_leading_zeros_that_a_number_does_not_need():
    texts = pl.Series(["01234", "0", "0.5", "10", "00", None, " 07", "-01"])
    found = CellRules(strip=False).leading_zero(texts).to_list()
    assert found == [True, False, False, False, True, False, True, False]


def test_kinds_that_hold_texts():
    assert is_text(pl.String())
    assert is_text(pl.Enum(["a"]))
    assert not is_text(pl.Boolean())
