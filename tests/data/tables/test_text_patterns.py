"""What columns of texts look like: numbers written otherwise, dates, times, and mere texts."""

import polars as pl
import pytest

from cutlayer.data.tables.text_patterns import look_of

SET_COMMA = "Set decimal to ','."


@pytest.mark.parametrize(
    ("texts", "what", "fix"),
    [
        (["1,5", "12,25", "3", None], "a decimal comma", SET_COMMA),
        (["0,125", "0,250", "0,375"], "a decimal comma", SET_COMMA),
        (["1,000", "1,5"], "a decimal comma", SET_COMMA),
        (["1234,567", "1234,890"], "a decimal comma", SET_COMMA),
        (["-1,5", "+2,5", "3,5e-3"], "a decimal comma", SET_COMMA),
        (["1,000", "1,100"], "a comma as thousands separator", "plain numbers (1234.5)"),
        (["1,000,000.5", "12,345"], "a comma as thousands separator", "plain numbers (1234.5)"),
        (["12,34,567", "1,00,000"], "a comma as thousands separator", "plain numbers"),
        (["1.000,5", "2.500,25"], "a point as thousands separator and a decimal comma", "Take the"),
        (["1.000.000", "2.500.000"], "a point as thousands separator", "plain numbers"),
        (["1 000", "25 000"], "a space as thousands separator", "plain numbers"),
        (["1\u00a0000", "25\u00a0000"], "a space as thousands separator", "plain numbers"),
        (["1\u202f000,5", "25\u202f000,5"], "a decimal comma", "Take the other signs"),
        (["1'000", "25’000.50"], "an apostrophe as thousands separator", "plain numbers"),
        (["1_000", "25_000"], "an underscore as thousands separator", "plain numbers"),
        (["3%", "4 %", "12.5%"], "a percent sign", "plain numbers"),
        (["3,5%", "4%"], "a decimal comma and a percent sign", "set decimal to ','"),
        (["$5", "$12.50", "-$3", "$-4"], "a currency sign", "plain numbers"),
        (["5 €", "12 EUR"], "a currency sign", "plain numbers"),
        (["\u22125", "7", "\u22122.5"], "a minus other than the sign '-'", "plain numbers"),
        (["(5)", "7", "(1.5)"], "parentheses in place of a minus", "plain numbers"),
        (["5-", "7"], "the minus behind them", "plain numbers"),
        (["5 kg", "7.5 kg", "12 kg"], "the unit 'kg'", "plain numbers"),
        (["5kg", "7,5kg", "n/a"], "a decimal comma and the unit 'kg'", "set decimal to ','"),
        (["20 °C", "-3 °C"], "the unit '°C'", "plain numbers"),
        (["90 km/h", "120 km/h"], "the unit 'km/h'", "plain numbers"),
        (["\uff11\uff12", "\uff13"], "digits of another script", "plain numbers"),
        (["\u0661\u0662", "\u0663"], "digits of another script", "plain numbers"),
        (["1,5", "2.5"], "a decimal comma", "Write all of them with"),
        (["1,5", "2,5", "n/a"], "a decimal comma", SET_COMMA),
    ],
    ids=str,
)
def test_numbers_that_are_written_otherwise(texts, what, fix):
    look = look_of(pl.Series("^n$", texts, dtype=pl.Categorical), ".")
    assert look is not None
    assert look.what.startswith("numbers with ")
    assert what in look.what
    assert fix in look.fix
    assert look.example in [text.strip() for text in texts if text]


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        (["2024-01-31", "2024-02-01", None], "dates"),
        (["31.01.2024", "1.2.24"], "dates"),
        (["01/31/2024", "02/01/2024"], "dates"),
        (["31 Jan 2024", "1-Feb-24"], "dates"),
        (["Jan 31, 2024", "March 1, 2024"], "dates"),
        (["2024-01", "2024-02"], "dates"),
        (["2024-01-31T10:00:00", "2024-01-31 11:00"], "dates and times"),
        (["2017-11-06 02:14:15", "2017-11-08 12:01:39", "?"], "dates and times"),
        (["12:30", "07:05:59", "3:15 PM"], "times"),
    ],
    ids=str,
)
def test_moments(texts, what):
    look = look_of(pl.Series(texts), ".")
    assert look is not None
    assert look.what == what
    assert "drop" in look.fix


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [None],
        ["1", "2.5", "1e3", ".5", "7."],
        ["clerk", "farmer"],
        ["a1", "b2"],
        ["1.2.3", "1.2.4"],
        ["192.168.0.1", "10.0.0.12"],
        ["030 123456", "040 654321"],
        ["[0-10)", "[10-20)"],
        ["16:9", "4:3"],
        ["1,5 kg", "2 g", "3 kg", "4 g"],
        ["12A", "7C", "9B"],
        ["1st", "2nd", "3rd"],
        ["1st Street", "2 Main Street"],
        ["\u00b2", "\u00b3"],
        ["(5", "7)"],
        ["1,2,3", "4,5,6"],
        ["12-34", "56-78"],
        ["yes", "1,5"],
        ["1,5", "a", "b"],
        ["-", "--"],
        ["$", "%"],
    ],
    ids=str,
)
def test_mere_texts_and_plain_numbers(texts):
    assert look_of(pl.Series(texts, dtype=pl.String), ".") is None


def test_a_file_of_decimal_commas_is_judged_by_them():
    assert look_of(pl.Series(["1,5", "2,25"]), ",") is None
    look = look_of(pl.Series(["1.5", "2.25"]), ",")
    assert look is not None
    assert (look.what, look.fix[:19]) == ("numbers with a decimal point", "Set decimal to '.',")
    look = look_of(pl.Series(["1.000,5", "12,25"]), ",")
    assert look is not None
    assert look.what == "numbers with a point as thousands separator"
    assert "plain numbers (1234,5)" in look.fix


def test_of_many_different_texts_some_are_looked_at():
    texts = pl.Series([f"{n},{n % 10}" for n in range(20_000)])
    look = look_of(texts, ".")
    assert look is not None
    assert look.what == "numbers with a decimal comma"
