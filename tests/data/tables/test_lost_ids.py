import pytest

from cutlayer.data import TextSequence
from cutlayer.data.tables.lost_ids import float_ids, lost_ids

IDS = [f"{number:06d}" for number in range(1, 201)]


def test_nothing_is_said_where_both_hold_the_same():
    assert lost_ids("label party", IDS, IDS, 0) is None


def test_few_lost_ids_are_a_notice_and_five_percent_a_warning():
    # 9 of 200 are 4.5 %, 10 are 5 %.
    notice = lost_ids("label party", IDS, IDS[9:], 0)
    assert notice.startswith("label party: 9 of 200 records of this party (4.5 %) have no ")
    assert "0 of its 191 (0 %)" in notice
    warning = lost_ids("label party", IDS, IDS[10:], 0)
    assert warning.startswith("Warning, label party: 10 of 200 records")
    assert "non-label party holds fewer records: is it complete?" in warning


def test_the_party_that_holds_less_is_warned_too():
    warning = lost_ids("non-label party", IDS[20:], IDS[20:], 20)
    assert warning.startswith("Warning, non-label party: 0 of 180 records of this party (0 %)")
    assert "20 of its 200 (10 %)" in warning
    assert "file of this party holds fewer records" in warning


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda name: f"{name}.0", "end with a fraction of zeros, as '000101.0'"),
        (lambda name: repr(1e17 * (1 + int(name))), "written in powers of ten, as '1.02e+19'"),
        (lambda name: f"12345678901{name}0000", "as after a way through floats"),
        (lambda name: f'"{name}"', "stand in quotes"),
        (lambda name: f"{name[:3]} {name[3:]}", "hold white space"),
        (lambda name: f"A{name}", "hold capital letters"),
    ],
)
def test_what_lost_ids_have_in_common_is_named(wrong, said):
    own = IDS[:100] + [wrong(name) for name in IDS[100:]]
    warning = lost_ids("label party", own, IDS[:100], 100)
    assert said in warning
    # The other party's ids are in order; it hears what to look for.
    other = lost_ids("non-label party", IDS, IDS[:100], 100)
    assert "Most ids" not in other
    assert "leading zeros" in other


def test_no_trait_is_named_that_shared_ids_have_as_well():
    assert "Most ids" not in lost_ids("label party", IDS, IDS[:100], 100)  # all begin with 0


def test_ids_that_went_through_floats_are_counted():
    assert float_ids(TextSequence(IDS)) is None
    assert float_ids(TextSequence(["1.5", "2.0"])) is None  # decimal codes
    assert float_ids(TextSequence(["1e19", "12e45678"])) is None  # hexadecimal digits
    assert "every id is written as a float ('1.0')" in float_ids(TextSequence(["1.0", "2.00"]))
    some = float_ids(TextSequence([*IDS, "1.2E+19"]))
    assert "1 of 201 ids are written as a float ('1.2E+19')" in some
    assert "lost their last digits" in some
