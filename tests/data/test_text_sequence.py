import numpy as np
import polars as pl
import pytest

from cutlayer.data.text_sequence import TextSequence

WORDS = ("b", "", "Zoë", "b", "007", "a name of more than twelve letters")


def test_behaves_like_the_tuple_of_its_texts():
    texts = TextSequence(WORDS)
    assert len(texts) == 6
    assert list(texts) == list(WORDS)
    assert [texts[i] for i in range(-6, 6)] == [WORDS[i] for i in range(-6, 6)]
    assert texts[1:4] == WORDS[1:4]
    assert list(reversed(texts)) == list(reversed(WORDS))
    assert texts.count("b") == 2
    assert texts.index("007") == 4
    assert "Zoë" in texts
    assert "zoë" not in texts
    assert 7 not in texts
    assert {texts: 1}[WORDS] == 1


def test_equals_what_holds_the_same_texts():
    texts = TextSequence(WORDS)
    assert texts == TextSequence(list(WORDS))
    assert texts == WORDS
    assert WORDS.__eq__(texts) is NotImplemented  # so that ours decides
    assert texts != WORDS[:-1]
    assert texts != TextSequence(WORDS[::-1])
    assert texts != list(WORDS)  # a list is no tuple either
    assert TextSequence() == ()


@pytest.mark.parametrize("index", [6, -7])
def test_a_position_outside_is_an_error(index):
    with pytest.raises(IndexError):
        TextSequence(WORDS)[index]


def test_is_iterated_whole_beyond_one_portion():
    many = [str(i) for i in range(70_000)]
    assert list(TextSequence(many)) == many


def test_taken_rows_come_in_the_order_asked_for():
    assert TextSequence(WORDS).take(np.array([4, 0, 4])) == ("007", "b", "007")


def test_repeated_texts_are_named_once_by_first_place():
    texts = TextSequence(["x", "b", "a", "b", "c", "a", "b"])
    assert texts.repeated() == ("b", "a")
    assert texts.repeated() == ("b", "a")
    assert TextSequence(["x", "y"]).repeated() == ()
    assert TextSequence().repeated() == ()


def test_each_wanted_text_is_found_where_it_stands():
    texts = TextSequence([f"id-{i}" for i in range(500)])
    order = np.random.default_rng(0).permutation(500)
    assert texts.rows_of(texts.take(order)).tolist() == order.tolist()
    wanted = TextSequence(["id-7", "id-500", "", "id-7", "id-0"])
    assert texts.rows_of(wanted).tolist() == [7, -1, -1, 7, 0]
    assert texts.rows_of(TextSequence()).tolist() == []
    assert TextSequence().rows_of(wanted).tolist() == [-1] * 5


def test_texts_of_equal_hash_are_told_apart(monkeypatch):
    # Every hash the same: the worst that a hash can do.
    monkeypatch.setattr(pl.Series, "hash", lambda self: pl.Series([0] * len(self), dtype=pl.UInt64))
    assert TextSequence(["x", "b", "b", "y"]).repeated() == ("b",)
    assert TextSequence("xby").rows_of(TextSequence("yzxb")).tolist() == [2, -1, 0, 1]


def test_a_series_is_taken_as_it_is():
    series = pl.Series("id", ["a", "b"])
    assert TextSequence(series) == ("a", "b")
    assert series.name == "id"
    for wrong in (pl.Series([1, 2]), pl.Series(["a", None])):
        with pytest.raises(ValueError, match="must be a Series of texts without nulls"):
            TextSequence(wrong)


def test_is_printed_in_short():
    assert repr(TextSequence("abcd")) == "TextSequence(['a', 'b', 'c', ...])"
