import numpy as np
import polars as pl
import pytest
import torch

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyTable
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.data.text_sequence import TextSequence
from cutlayer.errors import DataError

AGES = pl.DataFrame({"age": [30, 40, 50]})


def test_rows_follow_the_ids_asked_for():
    table = PartyTable(LABEL_PARTY, ("a", "b", "c"), AGES, torch.tensor([1, 0, 1]))
    picked = table.ordered_by(["c", "b"])
    assert picked.ids == ("c", "b")
    assert picked.features["age"].to_list() == [50, 40]
    assert picked.labels is not None
    assert picked.labels.tolist() == [1, 0]
    assert len(picked) == 2


def test_a_table_without_columns_keeps_its_ids_and_labels():
    bare = PartyTable(LABEL_PARTY, ("a", "b"), pl.DataFrame(), torch.tensor([1, 0]))
    picked = bare.ordered_by(["b"])
    assert (picked.ids, picked.features.width) == (("b",), 0)
    assert picked.labels is not None
    assert picked.labels.tolist() == [0]


def test_groups_follow_their_rows():
    table = PartyTable(NON_LABEL_PARTY, ("a", "b", "c"), AGES, groups=("p", "q", "p"))
    assert table.groups == ("p", "q", "p")
    assert table.ordered_by(["c", "b"]).groups == ("p", "q")
    assert PartyTable(NON_LABEL_PARTY, ("a", "b", "c"), AGES).ordered_by(["a"]).groups is None
    with pytest.raises(DataError, match="there are 2 groups, but 3 ids"):
        PartyTable(NON_LABEL_PARTY, ("a", "b", "c"), AGES, groups=("p", "q"))


def test_ids_may_be_any_sequence_of_texts():
    for ids in (("a", "b", "c"), ["a", "b", "c"], TextSequence("abc"), pl.Series(["a", "b", "c"])):
        table = PartyTable(NON_LABEL_PARTY, ids, AGES)
        assert table.ids == ("a", "b", "c")
        assert isinstance(table.ids, TextSequence)


NO_TEXTS = [
    ([7, 8, 9], "must be texts, got 7.*str\\(one\\)"),
    (["a", 8, "c"], "must be texts, got 8"),
    (np.arange(3), "must be texts, got .*0"),
    (["a", None, "c"], "must be texts, got None"),
    ([b"a", b"b", b"c"], "must be texts, got b'a'"),
    (pl.Series([1, 2, 3]), "must be texts, got a Series of Int64 with 0 nulls"),
    (pl.Series(["a", None, "c"]), "must be texts, got a Series of String with 1 nulls"),
    (
        ["a", "b\ud800", "c"],
        r"must be texts that UTF-8 can hold, but 'b\\ud800' has half of a surro",
    ),
]


@pytest.mark.parametrize(("values", "message"), NO_TEXTS)
def test_ids_and_groups_that_are_no_texts_are_refused(values, message):
    with pytest.raises(DataError, match=f"^non-label party: ids {message}"):
        PartyTable(NON_LABEL_PARTY, values, AGES)
    with pytest.raises(DataError, match=f"^non-label party: ids {message}"):
        TensorRecords(NON_LABEL_PARTY, values, torch.zeros(3, 2))
    with pytest.raises(DataError, match=f"^non-label party: groups {message}"):
        TensorRecords(NON_LABEL_PARTY, "abc", torch.zeros(3, 2), groups=values)
    with pytest.raises(DataError, match=f"^non-label party: ids asked for {message}"):
        TensorRecords(NON_LABEL_PARTY, "abc", torch.zeros(3, 2)).ordered_by(values)


@pytest.mark.parametrize("empty", ["", "  ", "\t\n"])
def test_an_empty_id_is_refused(empty):
    with pytest.raises(DataError, match=r"^label party: ids must not be empty.* but 1 of 3 are"):
        PartyTable(LABEL_PARTY, ("a", empty, "c"), AGES)
    with pytest.raises(DataError, match=r"^label party: ids must not be empty.* but 1 of 3 are"):
        TensorRecords(LABEL_PARTY, ("a", empty, "c"), torch.zeros(3, 2))


def test_no_ids_give_no_rows():
    table = PartyTable(LABEL_PARTY, ("a", "b", "c"), AGES, torch.tensor([1, 0, 1]))
    empty = table.ordered_by([])
    assert (len(empty), empty.features.shape) == (0, (0, 1))


@pytest.mark.parametrize(
    ("party", "ids", "labels", "message"),
    [
        (NON_LABEL_PARTY, ("a", "b", "a"), None, "^non-label party: ids must be unique.*'a'"),
        (NON_LABEL_PARTY, ("a", "b"), None, "3 rows, but there are 2 ids"),
        (NON_LABEL_PARTY, ("a", "b", "c"), [0, 1, 0], "non-label party: the table holds labels"),
        (LABEL_PARTY, ("a", "b", "c"), [0, 1], r"int64 of shape \(3,\)"),
        (LABEL_PARTY, ("a", "b", "c"), [0.0, 1.0, 0.0], r"int64 .* got torch.float32"),
        (LABEL_PARTY, ("a", "b", "c"), [0, 2, -1], "must be 0 or 1, got '-1', '2' as well"),
    ],
)
def test_a_broken_table_is_refused(party, ids, labels, message):
    with pytest.raises(DataError, match=message):
        PartyTable(party, ids, AGES, None if labels is None else torch.tensor(labels))


def test_many_repeated_ids_are_named_in_part():
    ids = tuple(f"id-{i}" for i in range(5)) * 2
    with pytest.raises(DataError, match=r"5 of them repeat: 'id-0', 'id-1', 'id-2' and 2 more"):
        PartyTable(NON_LABEL_PARTY, ids, pl.DataFrame())


def test_unknown_and_repeated_requests_are_refused():
    table = PartyTable(NON_LABEL_PARTY, ("a", "b", "c"), AGES)
    with pytest.raises(DataError, match="1 of the 2 ids asked for are not in its table: 'z'"):
        table.ordered_by(["a", "z"])
    with pytest.raises(DataError, match="unique"):
        table.ordered_by(["a", "a"])
