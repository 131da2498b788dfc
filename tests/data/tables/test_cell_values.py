from decimal import Decimal as ExactNumber

import polars as pl
import pytest

from cutlayer.data.tables.cell_values import CellRules, as_text, compact, is_text, joined


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


@pytest.mark.parametrize(
    ("text", "kind", "held"),
    [
        ("-999.9", pl.Float32, -999.9),
        ("1e20", pl.Float32, 1e20),
        ("9.96921e36", pl.Float32, 9.969209968386869e36),  # the fill value of netCDF
        ("-999", pl.Float32, -999.0),
        ("-999.9", pl.Float16, -999.9),
        ("-9.99e2", pl.Float16, -999.0),
        ("-999.9", pl.Float64, -999.9),
        ("-999.9", pl.Float64, -999.9000244140625),  # was a float32 once: its nearest one
        ("1e20", pl.Float64, 1e20),
        ("-999.0", pl.Int16, -999),
        ("-999", pl.Int64, -999),
        ("9223372036854775807", pl.Int64, 2**63 - 1),
        ("18446744073709551615", pl.UInt64, 2**64 - 1),
        ("1e20", pl.Int128, 10**20),
        ("-999.9", pl.Decimal(10, 2), ExactNumber("-999.90")),
        ("-999", pl.Decimal(38, 1), ExactNumber("-999.0")),
    ],
)
def test_a_fill_value_is_found_in_the_type_that_stores_it(text, kind, held):
    column = pl.Series("f", [held, type(held)(1), None, held, type(held)(0)], dtype=kind)
    rules = CellRules(missing=("", text))
    assert rules.numbers(column).to_list() == [None, 1, None, None, 0]
    # As categories or names, too.
    assert rules.texts(column).is_null().to_list() == [True, False, True, True, False]


@pytest.mark.parametrize(
    ("text", "kind", "held"),
    [
        ("-999.9", pl.Int16, -999),
        ("-999.9", pl.Float32, -999.8),
        ("9223372036854775807", pl.Int64, 2**63 - 2),  # one float64, and two integers
        ("300", pl.Int8, 44),  # 300 - 256
        ("-1", pl.UInt8, 255),
        ("1e20", pl.Float16, float("inf")),
        ("1e999999999", pl.Decimal(10, 2), ExactNumber("1.00")),
        ("-999.999", pl.Decimal(10, 2), ExactNumber("-1000.00")),
        ("1e999999999", pl.Float64, 1.0),
        ("1e39", pl.Int128, 0),
        ("-1e38", pl.UInt128, 0),
        ("1e-999999999", pl.Int64, 0),
        ("1e-50", pl.Float64, 0.0),
        ("1e-50", pl.Float32, 0.0),
        ("sNaN", pl.Float64, float("nan")),
        ("none", pl.Float32, 0.0),
    ],
)
def test_what_only_looks_like_the_fill_value_stays(text, kind, held):
    column = pl.Series("f", [held, type(held)(1)], dtype=kind)
    assert CellRules(missing=(text,)).numbers(column).null_count() == 0


def test_a_missing_number_may_be_written_with_the_decimal_comma():
    column = pl.Series([-999.9, 1.0], dtype=pl.Float32)
    assert CellRules(missing=("-999,9",), decimal=",").numbers(column).to_list() == [None, 1.0]
    assert CellRules(missing=("-999.9",), decimal=",").numbers(column).to_list() == [None, 1.0]
    assert CellRules(missing=("-999,9",)).numbers(column).null_count() == 0


def test_float16_is_read_as_it_stands():
    column = pl.Series([1.5, 2.0, -0.25], dtype=pl.Float16)
    assert CellRules().numbers(column).to_list() == [1.5, 2.0, -0.25]
    assert as_text(column).to_list() == ["1.5", "2", "-0.25"]


def test_texts_mean_missing_letter_for_letter():
    texts = pl.Series(["-999.9", "-999.90", "-9.999e2", "1"])
    assert CellRules(missing=("-999.9",)).texts(texts).to_list() == [
        None,
        "-999.90",
        "-9.999e2",
        "1",
    ]


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
