"""Whoever ends a session says so, and the peer hears it also where it was busy meanwhile."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch

from cutlayer.errors import ConnectionLostError, PeerEndedError, ProtocolError
from cutlayer.protocol import (
    ErrorCode,
    Kind,
    OutboxTransport,
    Role,
    Session,
    Shape,
    State,
    in_memory_pair,
)
from tests.protocol.networks import meet

WIDE = 100_000
REASONS = {
    "stopped by its operator": KeyboardInterrupt,
    "met an error of its own": MemoryError,
    "does not allow": ProtocolError,
}


def at_work(role, transport, *, in_flight=1):
    """A session in the middle of a training, where the party of this role may send next."""
    session = Session(role, transport, run="r", most_in_flight=in_flight)
    session.state = State.READY
    return session


def leave(session, reason):
    """End a session as a party does whose work fails."""
    with suppress(reason), session:
        raise reason("a text that is for this party's operator alone")


def go_on(session, width):
    """Send until the connection is over."""
    with session:
        for step in range(100_000):
            session._in_flight = 0
            session.send_tensor(Kind.ACTIVATION, torch.ones(4, width), step=step)


@pytest.mark.parametrize("words", REASONS)
@pytest.mark.parametrize("quits", list(Role))
def test_a_party_that_was_busy_hears_why_its_peer_has_left(network, quits, words):
    """It only notices when it sends, which fails: the connection was closed long before."""
    with network.listener() as listener, network.connector(listener.address) as connector:
        ends = dict(zip(Role, meet(listener, connector), strict=True))
        leaving, staying = at_work(quits, ends[quits]), at_work(quits.peer, ends[quits.peer])
        kind = Kind.ACTIVATION if quits is Role.LABEL else Kind.GRADIENT
        if quits is Role.NON_LABEL:
            staying.state, staying._in_flight = State.REPLY_DUE, 1
        leave(leaving, REASONS[words])
        with (  # noqa: PT012  (either of the two sends may be the first to fail)
            pytest.raises(PeerEndedError, match=f"the {quits.value} ended the session.*{words}"),
            staying,
        ):
            staying.send_tensor(kind, torch.ones(10, WIDE), step=0)
            answer = Kind.GRADIENT if quits is Role.LABEL else Kind.ACTIVATION
            staying.receive_tensor(answer, Shape(10, WIDE), step=0)


def test_also_through_an_outbox_and_behind_answers_that_were_on_their_way(network):
    """With staleness, answers to earlier messages stand before the word."""
    with network.listener() as listener, network.connector(listener.address) as connector:
        here, there = meet(listener, connector)
        label = at_work(Role.LABEL, here, in_flight=3)
        other = at_work(Role.NON_LABEL, OutboxTransport(there, 3), in_flight=3)
        for step in range(3):
            other.send_tensor(Kind.ACTIVATION, torch.ones(4, 8), step=step)
        for step in range(3):
            label.receive_tensor(Kind.ACTIVATION, Shape(4, 8), step=step)
        for step in range(2):
            label.send_tensor(Kind.GRADIENT, torch.ones(4, 8), step=step)
        leave(label, ValueError)
        with pytest.raises(PeerEndedError, match="met an error of its own"):
            go_on(other, WIDE)


def test_a_peer_that_vanishes_without_a_word_is_still_a_lost_connection(network):
    with network.listener() as listener, network.connector(listener.address) as connector:
        here, there = meet(listener, connector)
        other = at_work(Role.NON_LABEL, there)
        here.close()
        with pytest.raises(ConnectionLostError) as lost:
            go_on(other, WIDE)
        assert not isinstance(lost.value, PeerEndedError)


def test_no_flood_is_taken_for_a_last_word(network):
    """Of what came before the break no more is held than of the messages that were due."""
    with network.listener() as listener, network.connector(listener.address) as connector:
        here, there = meet(listener, connector)
        other, label = at_work(Role.NON_LABEL, there), at_work(Role.LABEL, here)
        label.state, label._in_flight = State.REPLY_DUE, 1
        label.send_tensor(Kind.GRADIENT, torch.ones(1, 20_000), step=0)  # longer than was ever due
        leave(label, ValueError)
        with pytest.raises(ConnectionLostError) as lost:
            go_on(other, 8)
        assert not isinstance(lost.value, PeerEndedError)


def test_the_word_depends_on_the_kind_of_error_and_on_nothing_else():
    for reason, code in (
        (ValueError, ErrorCode.FAILED),
        (MemoryError, ErrorCode.FAILED),
        (SystemExit, ErrorCode.FAILED),
        (KeyboardInterrupt, ErrorCode.STOPPED),
    ):
        here, there = in_memory_pair()
        leave(at_work(Role.LABEL, here), reason)
        _, payload = there.receive(lambda header: None, deadline=1)
        assert bytes(payload) == code.value.encode().ljust(16)


def test_both_may_leave_at_once(network):
    with network.listener() as listener, network.connector(listener.address) as connector:
        ends = dict(zip(Role, meet(listener, connector), strict=True))
        barrier = threading.Barrier(2)

        def go(role):
            session = at_work(role, ends[role])
            barrier.wait()
            leave(session, ValueError)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(go, Role))
