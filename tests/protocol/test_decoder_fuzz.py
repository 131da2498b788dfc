"""I1, I2, I3, I6: bytes of an unknown peer."""

import marshal
import pickle
import struct
import tracemalloc
import zlib

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from cutlayer.errors import ConnectionLostError, ProtocolError
from cutlayer.protocol import Deadlines, Kind, Role, Session, Shape, State, codec, in_memory_pair
from cutlayer.protocol.messages import Message
from cutlayer.protocol.transports.stream import StreamTransport
from fuzz.target import one_input
from tests.faults.misbehaving_peer import Bug, play

EXAMPLES = [1_000, pytest.param(20_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("examples", EXAMPLES, ids=str)
def test_i1_only_protocol_errors_come_out_of_the_decoder(examples):
    fuzzed = given(st.binary(max_size=500))(one_input)
    settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))(
        fuzzed
    )()


class Given:
    """A byte channel that holds what came, and then ends."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def receive_into(self, view, clock):
        count = min(len(view), len(self._data))
        view[:count] = self._data[:count]
        self._data = self._data[count:]
        return count

    def send_all(self, data, clock):
        pass

    def finish(self, seconds):
        pass

    def cut(self):
        pass


def header(rows: int, width: int, size: int, code: int = 1) -> bytes:
    head = struct.pack(
        "<4sHBB8sQIIQI",
        b"CUTL",
        2,
        Kind.ACTIVATION,
        code,
        codec.run_tag("run"),
        0,
        rows,
        width,
        size,
        0,
    )
    return head + struct.pack("<I", zlib.crc32(head))


NEGOTIATED = 4 * 8 * 4
PAYLOADS = {
    "2^32-1": header(4, 8, 2**32 - 1),
    "2^63": header(4, 8, 2**63),
    "0": header(4, 8, 0),
    "one more": header(4, 8, NEGOTIATED + 1),
    "one less": header(4, 8, NEGOTIATED - 1),
    "2 GiB, consistent": header(1 << 26, 8, 1 << 31),
    "1 GiB of bytes": header(1 << 20, 1 << 10, 1 << 30, code=4),
    "JSON": header(1, 4096, 4096, code=0),
}


@pytest.mark.parametrize("data", PAYLOADS.values(), ids=PAYLOADS)
def test_i1_nothing_is_allocated_beyond_what_was_negotiated(data):
    session = Session(
        Role.LABEL, StreamTransport(Given(data + bytes(2 * NEGOTIATED)), ""), run="run"
    )
    session.state = State.READY
    with pytest.raises(ProtocolError):  # once before, so that no cache is filled below
        session.receive_tensor(Kind.ACTIVATION, Shape(4, 8))
    session = Session(
        Role.LABEL, StreamTransport(Given(data + bytes(2 * NEGOTIATED)), ""), run="run"
    )
    session.state = State.READY
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            session.receive_tensor(Kind.ACTIVATION, Shape(4, 8))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The error itself, with its texts and its traceback, takes some KiB whatever was announced.
    assert peak <= NEGOTIATED + 4096 + 16384


def test_i6_a_flood_is_not_kept(tmp_path):
    """64 MiB behind a header that is wrong: read past, in small pieces, and forgotten."""
    piece = bytes(1 << 20)
    flood = Bug(
        "Flood",
        Role.NON_LABEL,
        Kind.ACTIVATION,
        lambda frame: [b"HTTP" + bytes(44), *([piece] * 64)],
        ProtocolError,
        "CUTL",
        nth=1,
    )
    play(None, tmp_path / "first")  # what is loaded once is no memory of the flood
    tracemalloc.start()
    try:
        played = play(flood, tmp_path / "flooded")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(played.error, ProtocolError | ConnectionLostError)
    assert peak < 16 << 20


def test_i2_a_session_unpickles_nothing(tmp_path, monkeypatch):
    def refused(*arguments, **settings):
        raise AssertionError("something was unpickled")

    for module, names in ((pickle, ("load", "loads", "Unpickler")), (marshal, ("load", "loads"))):
        for name in names:
            monkeypatch.setattr(module, name, refused)
    monkeypatch.setattr(torch, "load", refused)
    played = play(None, tmp_path)
    assert played.error is None, repr(played.error)
    with pytest.raises(AssertionError, match="unpickled"):  # the control
        torch.load("nothing")


SHAPES = {
    Kind.IDS: Shape(3, 16, torch.uint8),
    Kind.ACTIVATION: Shape(2, 4),
    Kind.QUERY: Shape(2, 4),
}
TEXT = (Kind.HELLO, Kind.SPLIT, Kind.BYE)


class LabelPartyReceives(RuleBasedStateMachine):
    """A label party's session against a peer that says the due message, or any other.

    The model is a plain list of what is due, written down here and not taken from the session.
    """

    @initialize(steps=st.integers(1, 4))
    def begin(self, steps):
        self.due = [(Kind.HELLO, 0), (Kind.IDS, 0), (Kind.SPLIT, 0)]
        self.due += [(Kind.ACTIVATION, step) for step in range(steps)]
        self.due += [(Kind.QUERY, 0), (Kind.BYE, 0)]
        self.taken, self.failed = [], False
        here, self.there = in_memory_pair()
        quick = Deadlines(connect=5, handshake=5, step=5)
        self.session = Session(Role.LABEL, here, run="run", deadlines=quick)
        self.session.send_fields(Kind.HELLO, {})

    def say(self, kind, step, rows, width, dtype, run):
        if kind in TEXT:
            message = Message(kind, step, fields={})
        else:
            message = Message(kind, step, tensor=torch.ones(rows, width).to(dtype))
        self.there.send(*codec.encode(message, run), deadline=5)

    def hear(self):
        """What a label party does when it is its turn to listen."""
        kind, step = self.due[len(self.taken)]
        if kind in TEXT:
            self.session.receive_fields(kind)
        else:
            self.session.receive_tensor(kind, SHAPES[kind], step=step)
        self.taken.append((kind, step))
        if kind is Kind.HELLO:
            self.session.send_tensor(Kind.IDS, torch.zeros(3, 16, dtype=torch.uint8))
        elif kind is Kind.SPLIT:
            self.session.send_fields(Kind.SPLIT, {})
        elif kind is Kind.ACTIVATION:
            self.session.send_tensor(Kind.GRADIENT, torch.ones(2, 4), step=step)

    @rule()
    def what_is_due(self):
        if self.failed or len(self.taken) == len(self.due):
            return
        kind, step = self.due[len(self.taken)]
        shape = SHAPES.get(kind, Shape(1, 1))
        self.say(kind, step, shape.rows, shape.width, shape.dtype, "run")
        self.hear()

    @rule(
        kind=st.sampled_from([k for k in Kind if k is not Kind.ERROR]),
        step=st.integers(0, 5),
        rows=st.integers(0, 3),
        width=st.sampled_from([4, 5, 16]),
        dtype=st.sampled_from([torch.float32, torch.uint8, torch.bfloat16]),
        run=st.sampled_from(["run", "run", "other"]),
    )
    def anything_else(self, kind, step, rows, width, dtype, run):
        if self.failed or len(self.taken) == len(self.due):
            return
        due, due_step = self.due[len(self.taken)]
        shape = SHAPES.get(due)
        same = shape is None or (rows, width, dtype) == (shape.rows, shape.width, shape.dtype)
        mine = run == "run" or due is Kind.HELLO  # HELLO names the run itself
        if (kind, step) == (due, due_step) and same and mine:
            return
        self.say(kind, step, rows, width, dtype, run)
        with pytest.raises(ProtocolError, match="label party"):
            self.hear()
        self.failed = True

    @invariant()
    def a_failed_session_says_and_takes_nothing_more(self):
        if not getattr(self, "failed", False):
            return
        assert self.session.state is State.FAILED
        for kind in Kind:
            with pytest.raises(ProtocolError):
                self.session.send_fields(kind)


@pytest.mark.parametrize("examples", [100, pytest.param(2_000, marks=pytest.mark.slow)], ids=str)
def test_i3_only_the_next_message_is_ever_taken(examples):
    run_state_machine_as_test(
        LabelPartyReceives,
        settings=settings(
            deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck)
        ),
    )
