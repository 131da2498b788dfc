"""The acceptor of a listener: lets few strangers in at a time, and none of them for long.

A connection that says nothing costs one file descriptor, and the oldest ones leave when there are
many. One that has spoken gets a thread for its handshake; of those there are at most four, and
the oldest leaves for a fifth. So a legitimate peer comes in whatever else stands at the door.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from cutlayer.descriptors import room_for_strangers
from cutlayer.protocol.transports.network_transport import NetworkTransport
from cutlayer.protocol.transports.reconnect import HANDSHAKE_SECONDS

MOST_SILENT = 64
MOST_HANDSHAKES = 4
_OUT_OF_DESCRIPTORS_PAUSE = 0.1

Visitor = TypeVar("Visitor", bound=NetworkTransport)


class Acceptor(Generic[Visitor]):
    """Accepts connections in a thread of its own."""

    def __init__(
        self,
        listening: socket.socket,
        authenticate: Callable[[socket.socket], Visitor | None],
        welcome: Callable[[Visitor], None],
    ) -> None:
        """Open the door.

        Args:
            listening: the socket; the door owns it.
            authenticate: makes a visitor of a connection, in a thread of its own, within seconds;
                closes it and returns ``None`` if that fails. Its socket may be shut down meanwhile.
            welcome: gets the visitor.
        """
        self._listening, self._authenticate, self._welcome = listening, authenticate, welcome
        self._most_silent = min(MOST_SILENT, room_for_strangers())
        listening.setblocking(False)
        self.port = int(listening.getsockname()[1])
        self._silent: dict[socket.socket, float] = {}  # since when, oldest first
        self._lock = threading.Lock()
        self._handshakes: list[socket.socket] = []  # oldest first
        self._wake_here, self._wake_there = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(self._wake_here, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._watch, name="cutlayer door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, and send away whoever has not been admitted; safe to call again."""
        with suppress(OSError):
            self._wake_there.send(b"x")
        self._thread.join()
        self._send_away(keep=0)

    def _watch(self) -> None:
        """Accept, and hand over whoever speaks."""
        while True:
            for key, _ in self._selector.select(self._until_oldest_leaves()):
                if key.fileobj is self._wake_here:
                    self._clear()
                    return
                if key.fileobj is self._listening:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._silent:
                    self._forget(key.fileobj)
                    self._start_handshake(key.fileobj)
            self._drop_the_silent()

    def _accept(self) -> None:
        """Let one connection wait until it says something."""
        try:
            connected, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # out of file descriptors, say
            if self._silent:
                self._dismiss(next(iter(self._silent)))
            time.sleep(_OUT_OF_DESCRIPTORS_PAUSE)
            return
        self._silent[connected] = time.monotonic()
        self._selector.register(connected, selectors.EVENT_READ)

    def _start_handshake(self, connected: socket.socket) -> None:
        """Give a connection that speaks a thread; if there are too many, the oldest leaves."""
        with self._lock:
            self._handshakes.append(connected)
        self._send_away(keep=MOST_HANDSHAKES)

        def shake() -> None:
            visitor = None
            try:
                visitor = self._authenticate(connected)
            finally:
                with self._lock:  # from here on nobody sends it away
                    may_enter = connected in self._handshakes
                    if may_enter:
                        self._handshakes.remove(connected)
            if visitor is not None and may_enter:
                self._welcome(visitor)
            elif visitor is not None:
                visitor.discard()

        try:
            threading.Thread(target=shake, name="cutlayer handshake", daemon=True).start()
        except RuntimeError:  # the system allows no further thread now; the peer comes again
            with self._lock:
                self._handshakes.remove(connected)
            connected.close()

    def _send_away(self, *, keep: int) -> None:
        """End the handshakes of all but the newest."""
        with self._lock:  # what is over by now has been admitted, and stays
            leaving = self._handshakes[: max(0, len(self._handshakes) - keep)]
            del self._handshakes[: len(leaving)]
            for oldest in leaving:
                _shut(oldest)

    def _drop_the_silent(self) -> None:
        """Close those that have said nothing for too long, or are too many."""
        now = time.monotonic()
        for connected, since in list(self._silent.items()):
            if len(self._silent) <= self._most_silent and now - since < HANDSHAKE_SECONDS:
                return
            self._dismiss(connected)

    def _until_oldest_leaves(self) -> float | None:
        """Seconds until a silent connection must be closed."""
        since = next(iter(self._silent.values()), None)
        return None if since is None else max(0.0, since + HANDSHAKE_SECONDS - time.monotonic())

    def _dismiss(self, connected: socket.socket) -> None:
        """Close a connection that has said nothing."""
        self._forget(connected)
        connected.close()

    def _forget(self, connected: socket.socket) -> None:
        """Watch a connection no longer."""
        del self._silent[connected]
        self._selector.unregister(connected)

    def _clear(self) -> None:
        """Close everything that is the door's."""
        for connected in (*self._silent, self._listening, self._wake_here, self._wake_there):
            connected.close()
        self._silent.clear()
        self._selector.close()


def _shut(connected: socket.socket) -> None:
    """End a connection; the thread that waits on it wakes up and closes it."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
