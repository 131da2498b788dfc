"""The stream transport: messages one after the other over TLS 1.3, or over plain TCP on loopback.

Before the first message each side sends eight bytes, the connecting one first. Over TLS they tell
the connecting side that its certificate was accepted, which its handshake alone does not.
"""

import threading
from collections.abc import Callable

from typing_extensions import override

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError
from cutlayer.protocol.codec import HEADER_BYTES, Header, decode_header
from cutlayer.protocol.transport import Clock, Direction, Transport
from cutlayer.protocol.transports.refusal import other_transport, require_greeting
from cutlayer.protocol.transports.tls_channel import ByteChannel

GREETING = b"cutlayer"
_FAREWELL_SECONDS = 0.5


class StreamTransport(Transport):
    """Header and payload, byte after byte; no bytes are read ahead of a message."""

    def __init__(self, channel: ByteChannel, description: str, *, agreed: bool = True) -> None:
        """Speak over a channel.

        Args:
            channel: connected.
            description: of the connection, for the operator.
            agreed: whether both sides have said in the TLS handshake that they speak this
                transport. A side that has not is believed once it greets.
        """
        super().__init__()
        self._agreed = agreed
        self._channel = channel
        self._description = description
        self._sending = threading.Lock()
        self._outgoing, self._incoming = Direction(), Direction()
        self._reason = "The peer closed the connection in the middle of a run."
        self._closed = False

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        clock = Clock(deadline, "the peer to take a message")
        if not self._sending.acquire(timeout=clock.remaining()):
            raise clock.error()
        try:
            with self._outgoing.use():
                self._channel.send_all(memoryview(header), clock)
                self._channel.send_all(payload, clock)
        finally:
            self._sending.release()
        self.traffic.messages_sent += 1
        self.traffic.bytes_sent += len(header) + payload.nbytes

    @override
    def receive(
        self, accept: Callable[[Header], None], *, deadline: float
    ) -> tuple[Header, bytearray]:
        clock = Clock(deadline, "a message of the peer")
        with self._incoming.use():
            header = decode_header(self._exactly(HEADER_BYTES, clock))
            accept(header)
            payload = self._exactly(header.payload_bytes, clock)
        self.traffic.messages_received += 1
        self.traffic.bytes_received += HEADER_BYTES + len(payload)
        return header, payload

    @override
    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.finish(_FAREWELL_SECONDS)

    @override
    def describe(self) -> str:
        return self._description

    def break_off(self, reason: str) -> None:
        """End the connection at once, from any thread; whoever waits on it learns the reason."""
        self._reason = reason
        self._channel.cut()

    def discard(self) -> None:
        """End the connection at once, and let go of it."""
        self.break_off("This end of the connection is closed.")
        self.close()

    def greet(self, clock: Clock) -> None:
        """As the side that connected: say hello, and wait until the other side has accepted.

        Raises:
            ConnectionLostError: the connection broke.
            ProtocolError: it speaks another transport.
        """
        self._channel.send_all(memoryview(GREETING), clock)
        self._require_greeting(clock)

    def welcome(self, clock: Clock) -> None:
        """As the side that listens: wait for the hello, and answer it.

        Raises:
            ProtocolError: something else came.
            ConnectionLostError: the connection broke.
        """
        self._require_greeting(clock)
        self._channel.send_all(memoryview(GREETING), clock)

    def _require_greeting(self, clock: Clock) -> None:
        """Read the other side's hello, or find out what it speaks instead."""
        try:
            data = self._at_most(len(GREETING), clock)
        except (DeadlineError, PeerRefusedError):
            raise
        except ConnectionLostError:
            if self._agreed:
                raise
            data = bytearray()
        if data:
            require_greeting(bytes(data), GREETING)
        elif self._agreed:
            raise ConnectionLostError("The other end hung up before it greeted.")
        else:
            raise other_transport("The other end did not name this transport in TLS, and hung up")

    def _exactly(self, count: int, clock: Clock) -> bytearray:
        """Read this many bytes, no more, before the deadline."""
        data = self._at_most(count, clock)
        if len(data) < count:
            raise ConnectionLostError(self._reason)
        return data

    def _at_most(self, count: int, clock: Clock) -> bytearray:
        """Read this many bytes before the deadline; fewer where the other side ends."""
        data = bytearray(count)
        view = memoryview(data)
        while view.nbytes:
            received = self._channel.receive_into(view, clock)
            if received == 0:
                rest = view.nbytes
                view.release()
                return data[: count - rest]
            view = view[received:]
        return data
