"""A TCP socket that waits until a deadline and notices when the network between has gone.

Keepalive probes find a dead network on an idle connection. While data is in flight the kernel
sends none, and its TCP_USER_TIMEOUT also ends connections whose peer is alive but busy: it counts
a full receive window as silence, although every probe of it is answered. So the wait itself looks
whether the kernel repeats itself, and whether anything was acknowledged meanwhile.
"""

import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cutlayer.errors import ConnectionLostError
from cutlayer.protocol.transport import Clock

SILENCE_SECONDS = 10.0
"""How long the peer's machine may leave repeated data unacknowledged."""
_KEEPALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
_LOOK_SECONDS = 1.0
_REPEATED = 3
_DRAINED_BYTES = 1 << 16
# Linux tcp_info: retransmits and probes without an answer are bytes 2 and 3; the number of bytes
# that were acknowledged is the 64-bit word at 120.
_TCP_INFO = struct.Struct("<2xBB116xQ")


class DeadlineSocket:
    """A connected socket. One thread may send while another receives."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if (option := getattr(socket, name, None)) is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
        self._socket = connected
        self._acknowledged, self._since, self._seen = -1, 0.0, 0.0

    def send_all(self, data: memoryview, clock: Clock) -> None:
        """Hand everything to the kernel.

        Raises:
            DeadlineError: the peer did not take it in time.
            ConnectionLostError: the connection broke.
        """
        with _foreign_errors():
            while data.nbytes:
                try:
                    data = data[self._socket.send(data) :]
                except BlockingIOError:
                    self._wait(select.POLLOUT, clock)

    def receive_into(self, view: memoryview, clock: Clock) -> int:
        """Read what is there, at least one byte; 0 means that nothing more comes.

        Raises:
            DeadlineError: nothing came in time.
            ConnectionLostError: the connection broke.
        """
        with _foreign_errors():
            while True:
                try:
                    return self._socket.recv_into(view)
                except BlockingIOError:
                    self._wait(select.POLLIN, clock)

    def finish(self, seconds: float) -> None:
        """Say that nothing more comes, let the peer finish, and close."""
        # A socket that is closed with unread bytes resets the connection, and takes what was just
        # sent with it.
        end = time.monotonic() + seconds
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            while (left := end - time.monotonic()) > 0 and poll.poll(left * 1000):
                if not self._socket.recv(_DRAINED_BYTES):
                    break
        self.cut()
        self._socket.close()

    def cut(self) -> None:
        """End the connection at once; whoever waits on it wakes up."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _wait(self, event: int, clock: Clock) -> None:
        """Wait for the socket, and look now and then whether the peer's machine still answers."""
        poll = select.poll()
        poll.register(self._socket, event)
        while not poll.poll(min(_LOOK_SECONDS, clock.remaining()) * 1000):
            if self._is_silent():
                self.cut()
                raise ConnectionLostError(
                    f"The peer's machine has not acknowledged data for {SILENCE_SECONDS:g} s: the "
                    "network between the parties is down, or the machine is."
                )

    def _is_silent(self) -> bool:
        """Whether the kernel has repeated itself for too long, and nothing was acknowledged."""
        if not hasattr(socket, "TCP_INFO"):
            return False
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        if len(info) < _TCP_INFO.size:
            return False
        retransmits, probes, acknowledged = _TCP_INFO.unpack(info)
        now = time.monotonic()
        repeats = max(retransmits, probes) > 0
        looked_away = now - self._seen > 2 * _LOOK_SECONDS  # or this process was stopped
        if acknowledged != self._acknowledged or not repeats or looked_away:
            self._acknowledged, self._since = acknowledged, now
        self._seen = now
        return max(retransmits, probes) >= _REPEATED and now - self._since >= SILENCE_SECONDS


@contextmanager
def _foreign_errors() -> Iterator[None]:
    """Map the socket module's errors to ours; ours pass through."""
    try:
        yield
    except OSError as error:
        raise ConnectionLostError(f"The connection to the peer broke ({error}).") from error
    except ValueError as error:  # poll of a socket that another thread has closed
        raise ConnectionLostError("This end of the connection is closed.") from error
