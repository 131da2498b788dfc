import itertools
import threading

import pytest
import torch

from cutlayer.errors import (
    ConnectionLostError,
    DeadlineError,
    PeerEndedError,
    ProtocolError,
)
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, State, in_memory_pair
from cutlayer.protocol.codec import encode
from cutlayer.protocol.interruption import _Farewells
from cutlayer.protocol.messages import ErrorCode, Message
from cutlayer.protocol.session import TRANSITIONS
from cutlayer.protocol.transports.in_memory import InMemoryTransport

QUICK = Deadlines(connect=1, handshake=1, step=1)


@pytest.fixture
def sessions():
    here, there = in_memory_pair()
    label = Session(Role.LABEL, here, run="run", deadlines=QUICK)
    other = Session(Role.NON_LABEL, there, run="run", deadlines=QUICK)
    return label, other


def shake(label, other):
    label.send_fields(Kind.HELLO, {"a": 1})
    assert other.receive_fields(Kind.HELLO) == {"a": 1}
    other.send_fields(Kind.HELLO, {"b": 2})
    assert label.receive_fields(Kind.HELLO) == {"b": 2}
    ids = torch.zeros(3, 16, dtype=torch.uint8)
    label.send_tensor(Kind.IDS, ids)
    other.receive_tensor(Kind.IDS, Shape(3, 16, torch.uint8))
    other.send_tensor(Kind.IDS, ids)
    label.receive_tensor(Kind.IDS, Shape(None, 16, torch.uint8))
    other.send_fields(Kind.SPLIT, {"split": "x"})
    label.receive_fields(Kind.SPLIT)
    label.send_fields(Kind.SPLIT, {"split": "x"})
    other.receive_fields(Kind.SPLIT)


def part(label, other):
    other.send_fields(Kind.BYE)
    label.receive_fields(Kind.BYE)
    label.send_fields(Kind.BYE)
    other.receive_fields(Kind.BYE)


def test_a_loop_from_hello_to_bye(sessions):
    label, other = sessions
    shake(label, other)
    for step in range(3):
        activation = torch.full((4, 2), float(step))
        other.send_tensor(Kind.ACTIVATION, activation, step=step)
        assert torch.equal(
            label.receive_tensor(Kind.ACTIVATION, Shape(4, 2), step=step), activation
        )
        label.send_tensor(Kind.GRADIENT, activation + 1, step=step)
        other.receive_tensor(Kind.GRADIENT, Shape(4, 2), step=step)
    other.send_tensor(Kind.QUERY, torch.ones(5, 2))
    label.receive_tensor(Kind.QUERY, Shape(5, 2))
    part(label, other)
    assert label.state is other.state is State.ENDED


@pytest.mark.parametrize("most", [1, 2, 6])
def test_no_more_activations_than_agreed_may_wait_for_their_gradients(most):
    here, there = in_memory_pair()
    label = Session(Role.LABEL, here, run="run", deadlines=QUICK)
    other = Session(Role.NON_LABEL, there, run="run", most_in_flight=most, deadlines=QUICK)
    shake(label, other)
    rows = torch.ones(4, 2)
    for step in range(most):
        other.send_tensor(Kind.ACTIVATION, rows, step=step)
    with pytest.raises(ProtocolError, match="may not send ACTIVATION in state REPLY_DUE"):
        other.send_tensor(Kind.ACTIVATION, rows, step=most)
    label.receive_tensor(Kind.ACTIVATION, Shape(4, 2), step=0)
    label.send_tensor(Kind.GRADIENT, rows, step=0)
    other.receive_tensor(Kind.GRADIENT, Shape(4, 2), step=0)
    other.send_tensor(Kind.ACTIVATION, rows, step=most)  # one came back, one may leave
    with pytest.raises(ProtocolError, match="may not send"):
        other.send_tensor(Kind.QUERY, rows)
    with pytest.raises(ValueError, match="most_in_flight"):
        Session(Role.LABEL, here, run="run", most_in_flight=0)


def test_one_round_from_hello_to_bye(sessions):
    label, other = sessions
    shake(label, other)
    for index in range(2):
        other.send_tensor(Kind.FROZEN, torch.ones(5, 2), step=index)
        label.receive_tensor(Kind.FROZEN, Shape(5, 2), step=index)
    part(label, other)
    assert label.state is other.state is State.ENDED


def test_the_label_party_can_send_no_label_bearing_message_in_one_round():
    assert (State.RELEASING, Role.LABEL, Kind.GRADIENT) not in TRANSITIONS
    assert [k for (_, role, k) in TRANSITIONS if role is Role.LABEL].count(Kind.GRADIENT) == 1


def test_every_message_outside_the_machine_is_refused_before_it_is_sent():
    for state, role, kind in itertools.product(State, Role, Kind):
        if (state, role, kind) in TRANSITIONS:
            continue
        session = Session(role, in_memory_pair()[0], run="run", deadlines=QUICK)
        session.state = state
        with pytest.raises(ProtocolError, match=kind.name):
            session.send_fields(kind)
        session.state = state
        receiver = Session(role.peer, in_memory_pair()[0], run="run", deadlines=QUICK)
        receiver.state = state
        with pytest.raises(ProtocolError, match=kind.name):
            receiver.receive_fields(kind)


def raw(message, run="run"):
    return encode(message, run)


@pytest.mark.parametrize(
    ("message", "run", "rule"),
    [
        (Message(Kind.ACTIVATION, 1, torch.ones(4, 2)), "run", "step 1 where step 0"),
        (Message(Kind.ACTIVATION, 0, torch.ones(5, 2)), "run", r"\(5, 2\)"),
        (Message(Kind.ACTIVATION, 0, torch.ones(4, 3)), "run", r"\(4, 3\)"),
        (Message(Kind.ACTIVATION, 0, torch.ones(4, 2).half()), "run", "float16"),
        (
            Message(Kind.ACTIVATION, 0, fields={"a": 1}),
            "run",
            "elements of JSON where torch.float32",
        ),
        (Message(Kind.ACTIVATION, 0, torch.ones(4, 2)), "another", "another run"),
        (Message(Kind.QUERY, 0, torch.ones(4, 2)), "run", "QUERY where ACTIVATION"),
        (Message(Kind.GRADIENT, 0, torch.ones(4, 2)), "run", "GRADIENT where ACTIVATION"),
        (Message(Kind.ACTIVATION, 0, torch.full((4, 2), torch.nan)), "run", "4 of 4 rows"),
        (Message(Kind.ACTIVATION, 0, torch.tensor([[1, torch.inf]] * 4)), "run", "not finite"),
        (Message(Kind.ACTIVATION, 0, torch.full((4, 2), 3e38)), "run", "beyond 1e\\+06"),
        (Message(Kind.ERROR, 0, torch.ones(2, 16, dtype=torch.uint8)), "run", "malformed ERROR"),
    ],
)
def test_a_misbehaving_peer_gets_its_own_error_and_moves_nothing(sessions, message, run, rule):
    label, other = sessions
    shake(label, other)
    other._transport.send(*raw(message, run), deadline=1)
    with pytest.raises(ProtocolError, match=rule):
        label.receive_tensor(Kind.ACTIVATION, Shape(4, 2), step=0)
    assert label.state is State.FAILED
    with pytest.raises(ProtocolError):
        label.send_tensor(Kind.GRADIENT, torch.ones(4, 2))


def test_the_peer_learns_a_word_of_fixed_size_and_no_more(sessions):
    label, other = sessions
    shake(label, other)
    sizes = set()
    for code in ErrorCode:
        here, there = in_memory_pair()
        Session(Role.LABEL, here, run="run").abort(code)
        header, payload = there.receive(lambda h: None, deadline=1)
        sizes.add((header.payload_bytes, len(payload)))
    assert sizes == {(16, 16)}
    label.abort(ErrorCode.FAILED)
    other.send_tensor(Kind.ACTIVATION, torch.ones(1, 1))
    with pytest.raises(PeerEndedError, match="error of its own"):
        other.receive_tensor(Kind.GRADIENT, Shape(1, 1))


def test_an_interrupted_party_says_so(sessions):
    label, other = sessions

    def interrupted():
        with label:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(PeerEndedError) as caught:
        other.receive_fields(Kind.HELLO)
    assert caught.value.stopped


def test_a_failing_party_says_so_and_closes(sessions):
    label, other = sessions

    def failing():
        with other:
            raise ValueError("a secret detail: label 1")

    with pytest.raises(ValueError, match="secret"):
        failing()
    label.send_fields(Kind.HELLO)
    with pytest.raises(PeerEndedError) as caught:
        label.receive_fields(Kind.HELLO)
    assert "secret" not in str(caught.value)
    assert not caught.value.stopped


class Unclosable(InMemoryTransport):
    """An end whose connection cannot be closed in order."""

    def close(self):
        super().close()
        raise OSError("the socket is broken")


def test_a_transport_that_fails_to_close_leaves_no_farewell_behind():
    here, _ = in_memory_pair()
    here.__class__ = Unclosable
    with (
        pytest.raises(OSError, match="the socket is broken"),
        Session(Role.LABEL, here, run="run", deadlines=QUICK),
    ):
        assert len(_Farewells.known) == 1
    assert not _Farewells.known


def test_an_unknown_code_of_the_peer_is_refused(sessions):
    label, other = sessions
    nonsense = torch.full((1, 16), 255, dtype=torch.uint8)
    other._transport.send(*raw(Message(Kind.ERROR, 0, nonsense)), deadline=1)
    label.send_fields(Kind.HELLO)
    with pytest.raises(ProtocolError, match="unknown code"):
        label.receive_fields(Kind.HELLO)


@pytest.mark.parametrize(
    ("state", "kind", "seconds"),
    [
        (State.LABEL_HELLO, Kind.HELLO, "0.03"),
        (State.LABEL_SPLIT, Kind.SPLIT, "0.04"),
        (State.LEAVING, Kind.BYE, "0.05"),
    ],
)
def test_a_silent_peer_ends_at_the_deadline_of_the_phase(state, kind, seconds):
    here, _ = in_memory_pair()
    deadlines = Deadlines(connect=0.03, handshake=0.04, step=0.05)
    session = Session(Role.NON_LABEL, here, run="run", deadlines=deadlines)
    session.state = state
    with pytest.raises(DeadlineError, match=f"{seconds} s"):
        session.receive_fields(kind)


def test_a_message_that_was_cut_off_is_not_followed_by_another(sessions):
    """An ERROR after half a gradient would be read as the gradient's rest."""
    label, other = sessions
    shake(label, other)
    other.send_tensor(Kind.ACTIVATION, torch.ones(4, 2))
    label.receive_tensor(Kind.ACTIVATION, Shape(4, 2))
    sent = []

    def interrupted(header, payload, *, deadline):
        sent.append(header)
        raise KeyboardInterrupt

    label._transport.send = interrupted

    def answer():
        with label:
            label.send_tensor(Kind.GRADIENT, torch.ones(4, 2))

    with pytest.raises(KeyboardInterrupt):
        answer()
    assert len(sent) == 1
    with pytest.raises(ConnectionLostError):
        other.receive_tensor(Kind.GRADIENT, Shape(4, 2))


def test_a_party_that_vanishes_is_noticed(sessions):
    label, other = sessions
    thread = threading.Timer(0.1, label._transport.close)
    thread.start()
    with pytest.raises(ConnectionLostError):
        other.receive_fields(Kind.HELLO)
    thread.join()
