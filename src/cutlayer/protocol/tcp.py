"""Plain TCP between two processes of one machine. Without TLS, so it refuses any other host."""

import ipaddress
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from typing_extensions import override

from cutlayer.errors import ConfigurationError, ConnectionLostError
from cutlayer.protocol.codec import HEADER_BYTES, Header, decode_header
from cutlayer.protocol.transport import Clock, Transport

_RETRY_SECONDS = 0.05
_FAREWELL_SECONDS = 0.5
_DRAINED_BYTES = 1 << 16


class TcpTransport(Transport):
    """One connected socket with a deadline on every wait."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        clock = Clock(deadline, "the peer to take a message")
        with _foreign_errors(clock):
            self._socket.settimeout(clock.remaining())
            self._socket.sendall(header)
            self._socket.settimeout(clock.remaining())
            self._socket.sendall(payload)
        self.traffic.messages_sent += 1
        self.traffic.bytes_sent += len(header) + payload.nbytes

    @override
    def receive(
        self, accept: Callable[[Header], None], *, deadline: float
    ) -> tuple[Header, bytearray]:
        clock = Clock(deadline, "a message of the peer")
        header = decode_header(self._exactly(HEADER_BYTES, clock))
        accept(header)
        payload = self._exactly(header.payload_bytes, clock)
        self.traffic.messages_received += 1
        self.traffic.bytes_received += HEADER_BYTES + len(payload)
        return header, payload

    @override
    def close(self) -> None:
        # A socket that is closed with unread bytes resets the connection, and takes what was just
        # sent with it: say that nothing more comes, and let the peer finish first.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_FAREWELL_SECONDS)
            while self._socket.recv(_DRAINED_BYTES):
                pass
        self._socket.close()

    def _exactly(self, count: int, clock: Clock) -> bytearray:
        """Read this many bytes, no more, before the deadline."""
        data = bytearray(count)
        view = memoryview(data)
        while len(view):
            with _foreign_errors(clock):
                self._socket.settimeout(clock.remaining())
                received = self._socket.recv_into(view)
            if received == 0:
                raise ConnectionLostError("The peer closed the connection in the middle of a run.")
            view = view[received:]
        return data


class TcpListener:
    """Waits on loopback for the peer."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        _require_loopback(host)
        try:
            self._socket = socket.create_server((host, port), backlog=1)
        except OSError as error:
            raise ConfigurationError(
                f"label party: cannot listen on {host} port {port} ({error.strerror}). Choose a "
                "free port, or 0 for any."
            ) from error

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self._socket.getsockname()[1])

    def accept(self, *, deadline: float) -> TcpTransport:
        """Wait for the peer to connect.

        Raises:
            DeadlineError: nobody came in time.
        """
        clock = Clock(deadline, "the non-label party to connect")
        with _foreign_errors(clock):
            self._socket.settimeout(clock.remaining())
            connected, _ = self._socket.accept()
        return TcpTransport(connected)

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()


def connect(host: str, port: int, *, deadline: float) -> TcpTransport:
    """Connect to the peer, trying again until it listens or the deadline passes.

    Raises:
        ConfigurationError: the host is not on loopback.
        DeadlineError: nobody listened in time.
    """
    _require_loopback(host)
    clock = Clock(deadline, f"the label party to listen on {host} port {port}")
    while True:
        try:
            return TcpTransport(socket.create_connection((host, port), timeout=clock.remaining()))
        except TimeoutError as error:
            raise clock.error() from error
        except OSError:
            time.sleep(min(_RETRY_SECONDS, clock.remaining()))


def _require_loopback(host: str) -> None:
    """Refuse to speak plain text to another machine."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ConfigurationError(
            f"host {host!r} is not a loopback address. This transport does not encrypt, so it "
            "only joins processes of one machine: use 127.0.0.1."
        )


@contextmanager
def _foreign_errors(clock: Clock) -> Iterator[None]:
    """Map the socket module's errors to ours; ours pass through."""
    try:
        yield
    except TimeoutError as error:
        raise clock.error() from error
    except OSError as error:
        raise ConnectionLostError(f"The connection to the peer broke ({error}).") from error
