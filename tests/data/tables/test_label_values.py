from pathlib import Path

import polars as pl
import pytest
import torch

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.label_values import labels_from, understood_texts
from cutlayer.errors import DataError

MESSAGE = FileMessage("label party", Path("bank.csv"))


def made(values, *, positive=None, negative=None):
    column = pl.Series("rows", values, dtype=pl.String).cast(pl.Categorical)
    return labels_from(column, MESSAGE, positive=positive, negative=negative)


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        (["1", "0", "1"], None),
        (["1.0", "0.0", "1"], None),
        (["true", "false", "true"], None),
        (["True", "FALSE", "True"], None),
        (["Yes", "No", "Yes"], None),
        (["a", "b", "a"], "a"),
        (["2", "4", "2"], 2),
        (["2", "4", "2.0"], "2"),
        (["2", "4", "2"], 2.0),
        (["0.5", "1", "0.50"], 0.5),
        (["0", "1", "0"], 0),
        (["True", "False", "True"], True),
        (["false", "true", "false"], False),
        ([">50K", "<=50K", ">50K"], " >50K "),
        (["1_0", "10", "1_0"], "1_0"),
        (["nan", "0", "nan"], "nan"),
        (
            ["12345678901234567890", "12345678901234567891x", "12345678901234567890"],
            12345678901234567890,
        ),
    ],
)
def test_the_first_of_these_is_positive(values, positive):
    labels, _ = made(values, positive=positive)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [1, 0, 1]


def test_the_sentence_says_which_value_became_what():
    _, sentence = made(["no"] * 1500 + ["yes"])
    assert sentence == "'yes' is positive (1 rows), 'no' is negative (1,500 rows)."


def test_the_rest_is_negative_only_when_asked():
    values = ["<30", ">30", "NO", "NO", "<30"]
    labels, sentence = made(values, positive="<30", negative="rest")
    assert labels.tolist() == [1, 0, 0, 0, 1]
    assert sentence == "'<30' is positive (2 rows), 'NO' (2), '>30' (1) are negative (3 rows)."
    with pytest.raises(DataError, match=r"has 3: '<30', 'NO', '>30'. If one .* negative='rest'"):
        made(values, positive="<30")


@pytest.mark.parametrize("negative", [None, "rest"])
def test_two_spellings_of_the_positive_value_are_no_two_values(negative):
    with pytest.raises(
        DataError, match=r"'yes' \(2 rows\) must have one spelling, but 'Yes' differs"
    ):
        made(["yes", "Yes", "yes"], positive="yes", negative=negative)
    with pytest.raises(DataError, match="must have one spelling"):
        made(["yes", "YES", "Yes", "no"], positive="yes", negative="rest")


@pytest.mark.parametrize(
    ("counts", "labels", "words"),
    [
        ({"1": 3, "0": 4}, {"1": 1, "0": 0}, "'1' is positive (3 rows), '0' is negative (4 rows)."),
        (
            {"1": 3, "1.0": 2, "00": 4},
            {"1": 1, "1.0": 1, "00": 0},
            "'1' is positive (5 rows), '0' is negative (4 rows).",
        ),
        (
            {"Yes": 3, "yes": 1, "No": 4},
            {"Yes": 1, "yes": 1, "No": 0},
            "'Yes', 'yes' are positive (4 rows), 'No' is negative (4 rows).",
        ),
        (
            {"true": 3, "False": 4, "?": 2, "maybe": 1},
            {"true": 1, "False": 0},
            "'?' (2), 'maybe' (1) are neither: 3 rows are left out.",
        ),
    ],
)
def test_texts_that_need_no_explanation(counts, labels, words):
    meant, told = understood_texts(counts, MESSAGE, "rows")
    assert meant == labels
    assert words in told


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"1": 3}, "all 3 rows hold '1'"),
        ({"Yes": 3, "yes": 2}, "all 5 rows hold 'Yes'"),
        ({"1": 3, "x": 1}, r"its values are '1' \(3\), 'x' \(1\)"),
        ({"1": 3, "no": 1}, r"its values are '1' \(3\), 'no' \(1\)"),
        ({"a": 3, "b": 1}, r"its values are 'a' \(3\), 'b' \(1\)\. Set positive"),
    ],
)
def test_texts_that_need_one(counts, words):
    with pytest.raises(DataError, match=f"column 'rows': the label must .*{words}"):
        understood_texts(counts, MESSAGE, "rows")


@pytest.mark.parametrize(
    ("values", "positive", "words"),
    [
        (["1", "1.0"], 1, "all 2 rows hold '1'. Name another"),
        (["a", "b", "c"], None, "has 3: 'a', 'b', 'c'. If one of them is positive"),
        ([str(i) for i in range(2000)], None, "has 2,000: '0', '1', '10', '100', '1000' and 1,995"),
        (["good", "bad"], None, "1 and 0, true and false, or yes and no .* 'bad', 'good'. Set"),
        (["1", "2"], None, "1 and 0, .* its values are '1', '2'"),
        (["yes", "0"], None, "yes and no"),
        (["yes", "no"], "Yes", "must have the positive value 'Yes' among .* 'no', 'yes'"),
        (["1", "0"], True, "the positive value 'true'"),
    ],
)
def test_other_labels_are_refused(values, positive, words):
    with pytest.raises(DataError, match=f"^label party, file bank.csv, column 'rows': .*{words}"):
        made(values, positive=positive)
