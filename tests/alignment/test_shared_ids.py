from hashlib import blake2b

import numpy as np
import pytest

from cutlayer.alignment import shared_ids as alignment
from cutlayer.alignment.shared_ids import alignment_hash, id_digests, shared_ids
from cutlayer.errors import DataError, ProtocolError

SALT = b"one session"


def matched(own, peer):
    return shared_ids(own, id_digests(own, salt=SALT), id_digests(peer, salt=SALT))


def test_digests_follow_the_formula():
    expected = [
        list(
            blake2b(
                name.encode(), digest_size=16, key=SALT, person=b"cutlayer id\0\0\0\0\0"
            ).digest()
        )
        for name in ("a", "Zoë", "")
    ]
    digests = id_digests(["a", "Zoë", ""], salt=SALT)
    assert digests.dtype == np.uint8
    assert digests.tolist() == expected


def test_another_salt_gives_other_digests():
    assert (id_digests(["a"], salt=SALT) != id_digests(["a"], salt=b"another")).any()


@pytest.mark.parametrize("seed", range(5))
def test_matches_like_sets_and_alike_at_both_parties(seed):
    draw = np.random.default_rng(seed)
    here = [f"id-{i}" for i in draw.permutation(1000)[:700]]
    there = [f"id-{i}" for i in draw.permutation(1000)[:400]]
    ours, theirs = matched(here, there), matched(there, here)
    assert set(ours.shared) == set(here) & set(there)
    assert ours.shared == theirs.shared
    assert len(set(ours.shared)) == len(ours.shared)
    assert ours.only_here == theirs.only_there == len(set(here) - set(there))
    assert ours.only_there == theirs.only_here == len(set(there) - set(here))


def test_order_is_that_of_the_digests():
    ids = [f"id-{i}" for i in range(50)]
    expected = sorted(ids, key=lambda name: id_digests([name], salt=SALT).tobytes())
    assert list(matched(ids, ids).shared) == expected


def test_one_shared_id_is_enough():
    assert matched(["a"], ["a"]).shared == ("a",)
    assert matched(["a", "b"], ["c", "b"]).shared == ("b",)


@pytest.mark.parametrize(("own", "peer"), [(["7"], ["07"]), ([], ["a"]), (["a"], [])])
def test_no_shared_id_is_an_error_with_a_fix(own, peer):
    with pytest.raises(DataError, match=f"None of this party's {len(own)} ids .* leading zeros"):
        matched(own, peer)


def test_a_peer_that_repeats_or_misshapes_digests_breaks_the_protocol():
    own = id_digests(["a", "b"], salt=SALT)
    with pytest.raises(ProtocolError, match="1 id digests twice"):
        shared_ids(["a", "b"], own, id_digests(["a", "c", "a"], salt=SALT))
    for misshaped in (own[:, :8], own[0], own.astype(np.int64)):
        with pytest.raises(ProtocolError, match=r"uint8 of shape \(ids, 16\)"):
            shared_ids(["a", "b"], own, misshaped)


def test_own_digests_must_belong_to_unique_own_ids():
    own = id_digests(["a", "b"], salt=SALT)
    with pytest.raises(ValueError, match="own_digests"):
        shared_ids(["a"], own, own)
    with pytest.raises(ValueError, match="unique"):
        matched(["a", "a"], ["a"])


@pytest.mark.parametrize("salt", [b"", b"x" * 65])
def test_a_salt_of_another_length_is_refused(salt):
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        id_digests(["a"], salt=salt)


def test_the_fingerprint_tells_order_and_borders():
    assert alignment_hash(["a", "b"]) == alignment_hash(("a", "b"))
    assert len(alignment_hash([])) == 64
    others = [["b", "a"], ["ab"], ["a", "b", ""], ["", "a", "b"], ["a"], []]
    assert len({alignment_hash(ids) for ids in [["a", "b"], *others]}) == 7


def test_long_lists_are_compared_part_by_part_to_the_same_result(monkeypatch):
    own = id_digests([f"u{i}" for i in range(500)], salt=SALT)
    peer = id_digests([f"u{i}" for i in range(800, 250, -1)], salt=SALT)
    whole = alignment.match_digests(own, peer)
    expected = sorted(range(251, 500), key=lambda row: own[row].tobytes())
    assert whole.rows.tolist() == expected
    sorted_at_once = []
    ascending = alignment._ascending
    monkeypatch.setattr(alignment, "_AT_ONCE", 10)
    monkeypatch.setattr(
        alignment, "_ascending", lambda part: (sorted_at_once.append(len(part)), ascending(part))[1]
    )
    parts = alignment.match_digests(own, peer)
    assert max(sorted_at_once) < (500 + 551) / 8  # a sixteenth on average
    assert sorted(parts.rows) == sorted(expected)
    back = alignment.match_digests(peer, own)  # row r of the peer's holds the id 800 - r
    assert [800 - row for row in back.rows] == parts.rows.tolist()
    assert (parts.own_repeats, parts.peer_repeats) == (0, 0)
    twice = alignment.match_digests(np.concatenate([own, own[:3]]), np.concatenate([peer, peer]))
    assert (twice.own_repeats, twice.peer_repeats) == (3, len(peer))
