"""The stream transport: messages one after the other over TLS 1.3, or over plain TCP on loopback.

Before the first message each side sends eight bytes, the connecting one first. Over TLS they tell
the connecting side that its certificate was accepted, which its handshake alone does not.
"""

from collections.abc import Callable

from typing_extensions import override

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError
from cutlayer.protocol.codec import HEADER_BYTES, Header, decode_header
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.network_transport import (
    OWN_END_CLOSED,
    PEER_LEFT,
    NetworkTransport,
)
from cutlayer.protocol.transports.refusal import other_transport, require_greeting
from cutlayer.protocol.transports.tls_channel import ByteChannel

GREETING = b"cutlayer"
_FAREWELL_SECONDS = 0.5


class StreamTransport(NetworkTransport):
    """Header and payload, byte after byte; no bytes are read ahead of a message."""

    def __init__(self, channel: ByteChannel, description: str, *, agreed: bool = True) -> None:
        """Speak over a channel.

        Args:
            channel: connected.
            description: of the connection, for the operator.
            agreed: whether both sides have said in the TLS handshake that they speak this
                transport. A side that has not is believed once it greets.
        """
        super().__init__(description)
        self._agreed = agreed
        self._channel = channel
        self._reason = PEER_LEFT
        self._closed = False

    @override
    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.finish(_FAREWELL_SECONDS)

    @override
    def break_off(self, reason: str) -> None:
        self._reason = reason
        self._channel.cut()

    @override
    def discard(self) -> None:
        self.break_off(OWN_END_CLOSED)
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

    @override
    def _push(self, header: bytes, payload: memoryview, clock: Clock) -> None:
        self._channel.send_all(memoryview(header), clock)
        self._channel.send_all(payload, clock)

    @override
    def _pull(self, accept: Callable[[Header], None], clock: Clock) -> tuple[Header, bytearray]:
        header = decode_header(self._exactly(HEADER_BYTES, clock))
        accept(header)
        return header, self._exactly(header.payload_bytes, clock)

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
