import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.alignment.private_matching import PrivateMatching
from cutlayer.alignment.ristretto import InvalidPointError
from cutlayer.errors import DataError, ProtocolError

pytest.importorskip("rbcl", reason="needs cutlayer[psi]")


def both(own, peer, run="run"):
    """What each of two honest parties finds."""
    here, there = PrivateMatching(own, run), PrivateMatching(peer, run)
    sent, received = here.points(0, len(own)), there.points(0, len(peer))
    own_tags, peer_tags = there.tags(sent), here.tags(received)
    return here.matched(own_tags, peer_tags), there.matched(peer_tags, own_tags)


IDS = st.sets(st.text("abé0 \u0301", min_size=1, max_size=3).map(str.strip), max_size=12)


@settings(max_examples=60, deadline=None)
@given(IDS, IDS)
def test_finds_the_intersection_of_the_sets(own, peer):
    own, peer = ({unicodedata.normalize("NFC", one) for one in ids} for ids in (own, peer))
    if not own & peer:
        with pytest.raises(DataError, match="None of this party's"):
            both(sorted(own), sorted(peer))
        return
    here, there = both(sorted(own), sorted(peer))
    assert sorted(here.shared) == sorted(there.shared) == sorted(own & peer)
    assert (here.only_here, here.only_there) == (len(own - peer), len(peer - own))
    assert (there.only_here, there.only_there) == (len(peer - own), len(own - peer))


def test_both_find_the_shared_ids_in_the_same_order():
    here, there = both([f"u{i}" for i in range(60)], [f"u{i}" for i in range(90, 30, -1)])
    assert list(here.shared) == list(there.shared)


def as_set(points):
    return {row.tobytes() for row in points}


def test_two_sessions_share_no_message_and_two_runs_no_element():
    ids = [f"u{i}" for i in range(40)]
    one, other = PrivateMatching(ids, "run"), PrivateMatching(ids, "run")
    assert not as_set(one.points(0, 40)) & as_set(other.points(0, 40))
    probe = PrivateMatching(["probe"], "run").points(0, 1)
    assert one.tags(probe).tolist() != other.tags(probe).tolist()
    elsewhere = PrivateMatching(ids, "another run")
    elsewhere._scalar = one._scalar
    assert not as_set(one.points(0, 40)) & as_set(elsewhere.points(0, 40))
    again = PrivateMatching(ids, "run")
    again._scalar = one._scalar
    assert as_set(one.points(0, 40)) == as_set(again.points(0, 40))


def test_the_order_of_the_messages_says_nothing_of_the_order_of_the_table():
    # A rank correlation of n unrelated pairs has mean 0 and standard deviation 1/sqrt(n - 1).
    count = 2000
    ids = [f"{i:06d}" for i in range(count)]
    matching = PrivateMatching(ids, "run")
    place = np.array([int(name) for name in matching._ids])
    assert sorted(place) == list(range(count))
    assert abs(np.corrcoef(place, np.arange(count))[0, 1]) < 5 / np.sqrt(count - 1)
    other = np.array([int(name) for name in PrivateMatching(ids, "run")._ids])
    assert abs(np.corrcoef(place, other)[0, 1]) < 5 / np.sqrt(count - 1)


def test_any_cut_into_blocks_gives_the_same_points():
    matching = PrivateMatching([f"u{i}" for i in range(10)], "run")
    pieces = np.concatenate([matching.points(0, 3), matching.points(3, 4), matching.points(4, 10)])
    assert pieces.tolist() == matching.points(0, 10).tolist()
    assert matching.points(10, 10).shape == (0, 32)


def test_points_and_tags_are_not_told_from_random_bytes_by_their_bits():
    # 400 tags of 128 bits: the share of ones has standard deviation 0.5 / sqrt(51200).
    matching = PrivateMatching([f"u{i}" for i in range(400)], "run")
    tags = PrivateMatching(["a"], "run").tags(matching.points(0, 400))
    assert abs(np.unpackbits(tags).mean() - 0.5) < 5 * 0.5 / np.sqrt(400 * 128)


def test_repeated_ids_points_and_tags_are_refused():
    with pytest.raises(ValueError, match="unique"):
        PrivateMatching(["a", "b", "a "], "run")
    here, there = PrivateMatching(["a", "b"], "run"), PrivateMatching(["b", "c"], "run")
    own_tags, peer_tags = there.tags(here.points(0, 2)), here.tags(there.points(0, 2))
    with pytest.raises(ProtocolError, match="1 of the points that the peer sent repeat"):
        here.matched(own_tags, peer_tags[[0, 0]])
    with pytest.raises(ProtocolError, match="1 of the tags that the peer sent repeat"):
        here.matched(own_tags[[1, 1]], peer_tags)


def test_a_point_outside_the_group_is_refused():
    matching = PrivateMatching(["a"], "run")
    with pytest.raises(InvalidPointError, match="row 1"):
        matching.tags(np.concatenate([matching.points(0, 1), np.zeros((1, 32), np.uint8)]))


def test_the_secret_shows_in_no_text_of_the_object():
    matching = PrivateMatching(["a"], "run")
    assert matching._scalar.hex() not in repr(matching) + str(matching)
    assert str(matching._scalar) not in repr(matching)
