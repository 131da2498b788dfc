"""A TCP socket that waits until a deadline, and notices when the network between has gone.

Keepalive probes find a dead network on an idle connection. While data is in flight the kernel
sends none, and its TCP_USER_TIMEOUT also ends connections whose peer is alive but busy: it counts
a full receive window as silence, although every probe of it is answered. So the wait itself looks
at the kernel's count of what is unacknowledged, and since when.
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
"""How long the peer's machine may leave data unacknowledged."""
_KEEPALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
_LOOK_SECONDS = 1.0
_UNANSWERED_PROBES = 3
_DRAINED_BYTES = 1 << 16
# Linux tcp_info: probes is byte 3; unacked and last_ack_recv (ms) are 32-bit words at 24 and 56.
_TCP_INFO = struct.Struct("<3xB20xI28xI")


class PatientSocket:
    """A connected socket. One thread may send while another receives."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if (option := getattr(socket, name, None)) is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
        self._socket = connected

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
        """Whether data, or probes of a full window, have been unacknowledged for too long."""
        if not hasattr(socket, "TCP_INFO"):
            return False
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        probes, unacknowledged, milliseconds = _TCP_INFO.unpack(info)
        waiting = unacknowledged > 0 or probes >= _UNANSWERED_PROBES
        return bool(waiting and milliseconds >= 1000 * SILENCE_SECONDS)


@contextmanager
def _foreign_errors() -> Iterator[None]:
    """Map the socket module's errors to ours; ours pass through."""
    try:
        yield
    except OSError as error:
        raise ConnectionLostError(f"The connection to the peer broke ({error}).") from error
    except ValueError as error:  # poll of a socket that another thread has closed
        raise ConnectionLostError("This end of the connection is closed.") from error
