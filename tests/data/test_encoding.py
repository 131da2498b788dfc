import datetime
import json
import math

import polars as pl
import pytest
import torch

from cutlayer.data.encoding import Encoder
from cutlayer.data.party_table import NON_LABEL_PARTY, PartyTable
from cutlayer.errors import DataError


def table(**columns):
    features = pl.DataFrame(columns)
    return PartyTable(NON_LABEL_PARTY, tuple(f"r{i}" for i in range(features.height)), features)


TRAINING = table(age=[20, 40, None], job=["a", "b", "a"], country=["nl", "nl", "nl"])


def test_columns_stand_side_by_side_in_order():
    encoder = Encoder.fit(TRAINING, min_count=1)
    names = ("age", "age is missing", "job=a", "job=b", "job=(other)")
    assert encoder.column_names == names
    assert encoder.width == 5
    # age: mean 30, deviation 10.
    expected = [[-1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0]]
    encoded = encoder.encode(TRAINING)
    assert encoded.dtype == torch.float32
    assert encoded.tolist() == expected


def test_what_is_dropped_is_said():
    notices = Encoder.fit(TRAINING, min_count=1).notices
    assert len(notices) == 1
    assert notices[0] == (
        "non-label party, column 'country': left out, because all training rows hold 'nl'."
    )


def test_the_reason_for_dropping_is_the_true_one():
    training = table(
        gone=[None] * 12,
        nan=[float("nan")] * 12,
        seven=[7] * 12,
        times=[f"t{n}" for n in range(12)],
        some=[None] * 9 + ["x", "y", "z"],
    )
    notices = Encoder.fit(training).notices
    assert [notice.partition(": ")[2] for notice in notices] == [
        "left out, because no training row has a value.",
        "left out, because no training row has a value.",
        "left out, because all training rows hold 7.",
        "left out, because none of its 12 categories occurs in 10 training rows.",
        "left out, because none of its 3 categories occurs in 10 training rows.",
    ]


def test_rare_categories_are_counted():
    # Of 100 rows 40 hold a, 30 hold b, 20 are missing, and 10 hold a category of their own.
    values = ["a"] * 40 + ["b"] * 30 + [None] * 20 + [f"r{n}" for n in range(10)]
    (notice,) = Encoder.fit(table(job=values)).notices
    assert notice == (
        "non-label party, column 'job': of its 12 categories in the training rows the most "
        "frequent 2 have a slot each; all others, 10% of the rows, count as one."
    )
    assert Encoder.fit(table(job=values[:-1])).notices == ()  # 9 of 99 rows: below a tenth
    assert Encoder.fit(table(job=values), min_count=1).notices == ()


def test_more_categories_than_slots_are_always_told():
    # 101 categories, 100 slots: the last one by name is left with its 10 of 1,010 rows.
    values = [f"c{n:03}" for n in range(101)] * 10
    (notice,) = Encoder.fit(table(job=values)).notices
    assert "of its 101 categories" in notice
    assert "the most frequent 100 have a slot each; all others, 1% of the rows" in notice
    assert Encoder.fit(table(job=[f"c{n:03}" for n in range(100)] * 10)).notices == ()


def test_many_columns_with_one_reason_share_a_line():
    (notice,) = Encoder.fit(table(**{f"c{n}": [n] * 3 for n in range(40)})).notices
    assert notice.startswith("non-label party: columns 'c0' (0), 'c1' (1), ")
    assert notice.endswith("and 28 more: left out, because all training rows of each are equal.")


def test_only_training_rows_teach():
    encoder = Encoder.fit(table(age=[0, 2], job=["a", "b"]), min_count=1)
    alone = encoder.encode(table(age=[1], job=["a"]))
    beside = encoder.encode(table(age=[1, 10**6], job=["a", "z"]))
    assert torch.equal(alone[0], beside[0])


def test_saved_and_read_again_encodes_alike():
    encoder = Encoder.fit(table(age=[0.1, 0.7, None], job=["é", '"', "é"]), min_count=1)
    again = Encoder.from_json(encoder.to_json())
    assert again == encoder
    fresh = table(age=[0.3, None], job=["é", "?"])
    assert torch.equal(again.encode(fresh), encoder.encode(fresh))


def test_a_party_without_features_has_width_0():
    bare = PartyTable(NON_LABEL_PARTY, ("a", "b"), pl.DataFrame())
    encoder = Encoder.fit(bare)
    assert encoder.width == 0
    assert encoder.encode(bare).shape == (2, 0)


def test_other_columns_and_their_order_do_not_matter():
    encoder = Encoder.fit(TRAINING, min_count=1)
    shuffled = table(more=[1], job=["b"], age=[40])
    assert encoder.encode(shuffled).tolist() == [[1, 0, 0, 1, 0]]


def test_no_row_is_encoded_to_no_row():
    none = TRAINING.ordered_by([])
    assert Encoder.fit(TRAINING, min_count=1).encode(none).shape == (0, 5)


@pytest.mark.parametrize(
    ("fresh", "message"),
    [
        (table(age=[1]), "non-label party: column 'job' is not in the table"),
        (table(age=["1"], job=["a"]), "column 'age': must hold numbers"),
        (table(age=[math.inf], job=["a"]), "column 'age': numbers must be finite"),
    ],
)
def test_rows_that_cannot_be_encoded_are_refused(fresh, message):
    with pytest.raises(DataError, match=message):
        Encoder.fit(TRAINING, min_count=1).encode(fresh)


def test_columns_that_cannot_be_learned_from_are_refused():
    with pytest.raises(DataError, match="column 'day': Date values cannot be learned from"):
        Encoder.fit(table(day=[datetime.date(2020, 1, 1)] * 2))
    with pytest.raises(DataError, match="no training rows"):
        Encoder.fit(TRAINING.ordered_by([]))
    with pytest.raises(ValueError, match="min_count must be a whole number of at least 1"):
        Encoder.fit(TRAINING, min_count=0)


def test_an_all_missing_column_without_a_type_is_dropped():
    encoder = Encoder.fit(table(nothing=[None, None], age=[1, 2]))
    assert encoder.column_names == ("age",)


def damaged(**changes):
    state = json.loads(Encoder.fit(TRAINING, min_count=1).to_json())
    state["columns"][0].update(changes)
    return json.dumps(state)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        damaged(deviation=-1.0),
        damaged(mean=math.inf),
        damaged(mean="0"),
        damaged(marks_missing=1),
        damaged(kind="date"),
        damaged(kind="categorical"),
        damaged(kind="categorical", categories=["a", 1]),
        damaged(name=7),
    ],
)
def test_a_damaged_state_is_refused(text):
    with pytest.raises(DataError, match="not a saved encoder"):
        Encoder.from_json(text)


def test_another_format_is_named():
    with pytest.raises(DataError, match="format 2"):
        Encoder.from_json('{"format": 2, "columns": [], "notices": []}')
