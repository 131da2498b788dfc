"""A handshake that ends while it is sent away: the visitor is in, or out, and never in and cut."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from cutlayer.protocol.transports import acceptor as module
from cutlayer.protocol.transports.acceptor import MOST_HANDSHAKES, Acceptor

WORD = b"x"


class Visitor:
    """A connection whose handshake was the word."""

    def __init__(self, connected):
        self.connected = connected
        self.is_discarded = False

    def discard(self):
        self.is_discarded = True
        self.connected.close()

    def is_open(self, stranger):
        """Whether what the other side says arrives."""
        try:
            stranger.sendall(WORD)
            return self.connected.recv(1) == WORD
        except OSError:
            return False


class Doorway:
    """A door whose first visitor's handshake ends when somebody is about to be shut out."""

    def __init__(self, monkeypatch):
        self.authenticated, self.welcomed = [], []
        self._begun, self._may_end = threading.Event(), threading.Event()
        self.is_shut = threading.Event()
        self._shut = module._shut
        monkeypatch.setattr(module, "_shut", self.shut)
        self.door = Acceptor(
            socket.create_server(("127.0.0.1", 0)), self.authenticate, self.welcomed.append
        )
        self.strangers = []

    def come(self):
        """Connect, and begin a handshake."""
        stranger = socket.create_connection(("127.0.0.1", self.door.port), timeout=10)
        self.strangers.append(stranger)
        stranger.sendall(WORD)
        assert self._begun.wait(10)

    def authenticate(self, connected):
        connected.setblocking(True)
        connected.recv(1)
        if self._begun.is_set():  # not the first: it waits for a word that never comes
            connected.recv(1)
            connected.close()
            return None
        self._begun.set()
        assert self._may_end.wait(10)
        self.authenticated.append(Visitor(connected))
        return self.authenticated[0]

    def shut(self, connected):
        self._may_end.set()
        time.sleep(0.2)  # as long as the first visitor needs to be let in, if anybody lets it in
        self._shut(connected)
        self.is_shut.set()

    def settle(self):
        """Wait for the first visitor to be in or out, and for whoever is shut out."""
        assert self.is_shut.wait(10)
        ends = time.monotonic() + 10
        while not self.authenticated or not (self.welcomed or self.authenticated[0].is_discarded):
            assert time.monotonic() < ends
            time.sleep(0.01)


@pytest.fixture
def doorway(monkeypatch):
    doorway = Doorway(monkeypatch)
    doorway.come()
    yield doorway
    doorway.door.close()
    for stranger in doorway.strangers:
        stranger.close()


def require_in_or_out(doorway):
    doorway.settle()
    (visitor,) = doorway.authenticated
    assert visitor.is_discarded != (visitor in doorway.welcomed)
    assert visitor.is_open(doorway.strangers[0]) == (visitor in doorway.welcomed)


def test_a_handshake_that_ends_when_it_is_one_too_many_is_in_or_out(doorway):
    for _ in range(MOST_HANDSHAKES):
        doorway.come()
    require_in_or_out(doorway)


def test_a_handshake_that_ends_when_the_door_closes_is_in_or_out(doorway):
    doorway.door.close()
    require_in_or_out(doorway)


def test_a_door_that_gets_no_thread_drops_the_visitor_and_lets_the_next_one_in():
    welcomed = []
    door = Acceptor(socket.create_server(("127.0.0.1", 0)), Visitor, welcomed.append)
    before = threading.stack_size(1 << 47)  # no address space has room for such a thread
    try:
        with socket.create_connection(("127.0.0.1", door.port), timeout=10) as stranger:
            stranger.sendall(WORD)
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    finally:
        threading.stack_size(before)
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as stranger:
        stranger.sendall(WORD)
        ends = time.monotonic() + 10
        while not welcomed and time.monotonic() < ends:
            time.sleep(0.01)
        assert len(welcomed) == 1
        welcomed[0].discard()
    door.close()
