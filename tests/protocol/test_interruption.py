import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from cutlayer.errors import ConnectionLostError, PeerEndedError
from cutlayer.protocol import Kind, Role, Session, Shape, State, StreamListener, in_memory_pair
from cutlayer.protocol.interruption import interruptible, whole
from cutlayer.protocol.transports.in_memory import InMemoryTransport

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


# ruff: noqa: PT012  (what is reached within the block, and what is not, is what is tested)


def knock(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts_at_once_where_nothing_is_on_its_way(number):
    reached = []
    with pytest.raises(KeyboardInterrupt) as stopped, interruptible():
        knock(number)
        reached.append(1)
    assert not reached
    assert stopped.value.status == STATUS[number]


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


def test_a_hangup_stays_ignored_where_it_was():
    """As ``nohup`` asks for."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            knock(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_no_descriptor_and_no_thread_is_left_behind():
    def counts():
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    with interruptible():
        pass
    before = counts()
    for _ in range(5):
        with interruptible():
            pass
        with pytest.raises(KeyboardInterrupt), interruptible():
            knock()
    assert counts() == before


@pytest.fixture
def no_descriptor():
    """No further descriptor can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def no_thread():
    """No further thread can be started: no address space has room for its stack."""
    before = threading.stack_size(1 << 47)
    yield
    threading.stack_size(before)


@pytest.mark.parametrize(
    ("shortage", "error"), [("no_descriptor", OSError), ("no_thread", RuntimeError)]
)
def test_a_shortage_leaves_the_handlers_as_they_were(request, shortage, error):
    before = [signal.getsignal(number) for number in SIGNALS]
    request.getfixturevalue(shortage)
    with pytest.raises(error), interruptible():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


SLOW_END = """
import os, signal, time
from cutlayer.protocol import interruption
from cutlayer.protocol.interruption import interruptible, whole

interruption.TAKE_UP_SECONDS = 0.2
with interruptible(lambda: print("was forced", flush=True)):
    try:
        with whole():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        time.sleep(1)
        print("ended in order", flush=True)
"""


def test_an_end_after_a_message_has_the_time_of_an_end_in_order():
    """1 s, with 0.2 s to notice the signal and 15 s to end."""
    done = subprocess.run([sys.executable, "-c", SLOW_END], capture_output=True, check=False)
    assert done.stdout == b"ended in order\n"


BUSY = """
import hashlib, sys
from cutlayer.protocol import Address, Role, Session, StreamConnector
from cutlayer.protocol.interruption import interruptible

transport = StreamConnector(Address("127.0.0.1", int(sys.argv[1]))).meet(deadline=30)
with interruptible(lambda: print("was forced", flush=True)):
    with Session(Role.NON_LABEL, transport, run="r"):
        print("busy", flush=True)
        # One call of a library, of many minutes, that does not come back for a signal.
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGHUP], [signal.SIGTERM] * 2])
def test_a_party_in_a_long_computation_tells_its_peer_and_ends(signals):
    with StreamListener() as listener:
        command = [sys.executable, "-c", BUSY, str(listener.address.port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        session = Session(Role.LABEL, listener.meet(deadline=60), run="r")
        session.state = State.READY
        assert process.stdout.readline() == b"busy\n"
        for number in signals:
            time.sleep(0.2)
            process.send_signal(number)
        with pytest.raises(PeerEndedError) as ended, session:
            session.receive_tensor(Kind.ACTIVATION, Shape(2, 3))
        assert ended.value.stopped
        out, err = process.communicate(timeout=60)
        assert process.returncode == STATUS[signals[0]], err
        assert out == b"was forced\n"
