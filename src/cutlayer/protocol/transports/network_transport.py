"""What transports over a network share: one message at a time each way, and a break-off."""

import threading
from abc import abstractmethod
from collections.abc import Callable

from typing_extensions import override

from cutlayer.protocol.codec import HEADER_BYTES, Header
from cutlayer.protocol.transport import Clock, Direction, Transport

PEER_LEFT = "The peer closed the connection in the middle of a run."
OWN_END_CLOSED = "This end of the connection is closed."


class NetworkTransport(Transport):
    """A transport whose connection may break, or be broken off from any thread."""

    def __init__(self, description: str) -> None:
        """Speak over an open connection.

        Args:
            description: of the connection, for the operator.
        """
        super().__init__()
        self._description = description
        self._sending = threading.Lock()
        self._outgoing, self._incoming = Direction(), Direction()

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        clock = Clock(deadline, "the peer to take a message")
        if not self._sending.acquire(timeout=clock.remaining()):
            raise clock.error()
        try:
            with self._outgoing.use():
                self._push(header, payload, clock)
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
            header, payload = self._pull(accept, clock)
        self.traffic.messages_received += 1
        self.traffic.bytes_received += HEADER_BYTES + len(payload)
        return header, payload

    @override
    def describe(self) -> str:
        return self._description

    @abstractmethod
    def break_off(self, reason: str) -> None:
        """End the connection at once, from any thread; whoever waits on it learns the reason."""

    @abstractmethod
    def discard(self) -> None:
        """End the connection at once, and let go of it: nobody holds it."""

    @abstractmethod
    def _push(self, header: bytes, payload: memoryview, clock: Clock) -> None:
        """Send a message; errors as :meth:`send`."""

    @abstractmethod
    def _pull(self, accept: Callable[[Header], None], clock: Clock) -> tuple[Header, bytearray]:
        """Receive a message; arguments and errors as :meth:`receive`."""
