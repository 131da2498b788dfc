"""Every bug of a misbehaving peer: its own error, one word to it, and nothing has changed."""

import re
from itertools import pairwise

import pytest
import torch

from cutlayer.errors import CutlayerError
from cutlayer.protocol import ErrorCode, Kind, Role
from cutlayer.protocol.codec import HEADER_BYTES
from cutlayer.protocol.session import ERROR_WIDTH
from tests.faults.misbehaving_peer import (
    AHEAD,
    BUGS,
    HARMLESS,
    RECORDS,
    Bug,
    Played,
    play,
    records,
)


def require_nothing_changed(played: Played) -> None:
    """Weights, gradients, optimizers, protection, journal, checkpoints and counts, byte for byte.

    Halves that were only built after the last wait, from nothing, are no change.
    """
    for name, before in played.before.items():
        after = played.after[name]
        kept = after[: len(before)] if isinstance(before, list) else after
        assert kept == before, name


def require_its_error(bug: Bug, played: Played) -> None:
    """The stated error and no other, with the party's name; the stated word to the peer."""
    own = bug.sender.peer.value
    assert type(played.error) is bug.error, repr(played.error)
    assert isinstance(played.error, CutlayerError)
    assert str(played.error).startswith(own), str(played.error)
    assert re.search(bug.says, str(played.error)), str(played.error)
    assert str(played.error).isprintable()  # no peer writes to our operator's terminal
    if bug.told is None:
        assert not played.error_frame
    else:
        assert ErrorCode(bug.told)
        assert len(played.error_frame) == HEADER_BYTES + ERROR_WIDTH
        assert played.error_frame[HEADER_BYTES:] == bug.told.encode().ljust(ERROR_WIDTH)


@pytest.mark.parametrize("bug", [b for b in BUGS if b.sender is Role.LABEL], ids=lambda b: b.id)
def test_i3_i5_a_misbehaving_label_party_gets_its_error_and_changes_nothing(bug, tmp_path):
    played = play(bug, tmp_path)
    require_its_error(bug, played)
    require_nothing_changed(played)


@pytest.mark.parametrize("bug", [b for b in BUGS if b.sender is Role.NON_LABEL], ids=lambda b: b.id)
def test_i3_i4_i7_s6_a_misbehaving_peer_gets_its_error_whatever_the_labels(bug, tmp_path):
    """I3, I4, I7: its error, and no change. S6: the same last bytes under any labels."""
    heard = set()
    labels = records()[0].labels
    for number, other in enumerate((labels, 1 - labels)):
        played = play(bug, tmp_path / str(number), other)
        require_its_error(bug, played)
        require_nothing_changed(played)
        heard.add(played.error_frame)
    assert len(heard) == 1


@pytest.mark.parametrize("bug", HARMLESS, ids=lambda b: b.id)
def test_what_is_odd_and_allowed_ends_well(bug, tmp_path):
    played = play(bug, tmp_path)
    assert played.error is None, repr(played.error)


def test_an_activation_that_did_not_wait_is_answered_in_its_turn(tmp_path):
    played = play(AHEAD, tmp_path)
    require_its_error(AHEAD, played)
    assert played.after["released"] == 3  # step 0, and the two that came at once
    require_nothing_changed(played)


def test_an_honest_session_does_change_what_is_compared(tmp_path):
    """The control: each compared part differs between two waits of a sound training."""
    played = play(None, tmp_path)
    assert played.error is None
    assert played.after["released"] == 8
    for part in ("weights", "optimizers", "gradients", "protection", "files", "released", "sent"):
        seen = [state[part] for state in played.states]
        assert sum(a != b for a, b in pairwise(seen)) >= 2, part


def test_there_are_enough_bugs_and_each_has_one_name():
    assert len({bug.name for bug in BUGS}) >= 40
    assert len({bug.id for bug in BUGS}) == len(BUGS)
    for role in Role:
        assert {Kind.HELLO, Kind.IDS, Kind.SPLIT} <= {b.kind for b in BUGS if b.sender is role}


def test_labels_are_those_of_the_records():
    assert 0 < int(torch.as_tensor(records()[0].labels).sum()) < RECORDS
