"""Guarantees say what is proven and cannot be made to say both or neither."""

import pytest

from cutlayer.leakage.guarantee import Guarantee, nothing_proven


def test_nothing_proven_has_no_number():
    guarantee = nothing_proven(3, "Because.")
    assert guarantee == Guarantee("none", None, 3, "Because.")


@pytest.mark.parametrize(
    ("kind", "bound", "message"),
    [
        ("none", 0.7, "exactly when kind is 'none'"),
        ("rigorous", None, "exactly when kind is 'none'"),
        ("model", None, "exactly when kind is 'none'"),
        ("certain", 0.7, "rigorous, model or none"),
    ],
)
def test_a_number_and_its_kind_belong_together(kind, bound, message):
    with pytest.raises(ValueError, match=message):
        Guarantee(kind, bound, 1, "Because.")


def test_releases_are_counted():
    assert Guarantee("rigorous", 0.5, 0, "Nothing was sent.").releases == 0
    with pytest.raises(ValueError, match="releases"):
        Guarantee("rigorous", 0.7, -1, "Because.")
