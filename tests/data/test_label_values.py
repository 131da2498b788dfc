from pathlib import Path

import polars as pl
import pytest
import torch

from cutlayer.data.file_message import FileMessage
from cutlayer.data.label_values import labels_from
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
    assert sentence == "'<30' is positive (2 rows), 'NO', '>30' are negative (3 rows)."
    with pytest.raises(DataError, match=r"has 3: '<30', 'NO', '>30'. If one .* negative='rest'"):
        made(values, positive="<30")


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
