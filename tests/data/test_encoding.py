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
    assert notices[0].startswith("non-label party: column 'country' is dropped")


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
