import os
import signal
import threading

import pytest
import torch

from cutlayer.errors import ConnectionLostError, PeerEndedError
from cutlayer.protocol import Kind, Role, Session, Shape, State, in_memory_pair
from cutlayer.protocol.interruption import interruptible, whole
from cutlayer.protocol.transports.in_memory import InMemoryTransport

SIGNALS = [signal.SIGINT, signal.SIGTERM]


# ruff: noqa: PT012  (what is reached within the block, and what is not, is what is tested)


def knock(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts_at_once_where_nothing_is_on_its_way(number):
    reached = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        knock(number)
        reached.append(1)
    assert not reached


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_end_of_a_message(number):
    reached = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        with whole(), whole():
            knock(number)
            reached.append("in it")
        reached.append("after it")
    assert reached == ["in it"]


def test_a_second_signal_does_not_wait():
    reached = []
    with pytest.raises(KeyboardInterrupt), interruptible(), whole():
        knock()
        reached.append("once")
        knock()
        reached.append("twice")
    assert reached == ["once"]


def test_a_message_that_fails_meanwhile_is_still_an_interruption():
    with pytest.raises(KeyboardInterrupt), interruptible(), whole():
        knock()
        raise ConnectionLostError("gone")


def test_handlers_come_back_and_nothing_stays_pending():
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyboardInterrupt), interruptible(), whole():
        knock()
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with interruptible(), whole():
        pass


def test_other_threads_are_left_alone():
    done = []

    def work():
        with whole():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]


class Knocking(InMemoryTransport):
    """An end that gets a signal in the middle of each message that it sends, once."""

    knocks = 0

    def send(self, header, payload, *, deadline):
        if self.knocks:
            self.knocks -= 1
            knock()
        super().send(header, payload, deadline=deadline)


def test_the_peer_learns_of_a_stop_in_the_middle_of_a_message():
    here, there = in_memory_pair()
    here.__class__ = Knocking
    other = Session(Role.NON_LABEL, there, run="r")
    other.state = State.REPLY_DUE
    with (
        pytest.raises(KeyboardInterrupt),
        interruptible(),
        Session(Role.LABEL, here, run="r") as session,
    ):
        session.state, here.knocks = State.REPLY_DUE, 1
        session.send_tensor(Kind.GRADIENT, torch.ones(2, 3), step=0)
    received = other.receive_tensor(Kind.GRADIENT, Shape(2, 3), step=0)
    assert torch.equal(received, torch.ones(2, 3))  # whole, and then the word
    other.state = State.REPLY_DUE
    with pytest.raises(PeerEndedError) as ended:
        other.receive_tensor(Kind.GRADIENT, Shape(2, 3), step=1)
    assert ended.value.stopped
