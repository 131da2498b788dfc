"""The in-memory transport: two parties in one process, for simulations and tests."""

import queue
from collections.abc import Callable

from typing_extensions import override

from cutlayer.errors import ConnectionLostError
from cutlayer.protocol.codec import Header, decode_header
from cutlayer.protocol.transport import Clock, Transport

_Frame = tuple[bytes, bytearray] | None


class InMemoryTransport(Transport):
    """One end of a pair of queues. Payloads are copied, as a network would."""

    def __init__(self, outgoing: "queue.Queue[_Frame]", incoming: "queue.Queue[_Frame]") -> None:
        super().__init__()
        self._outgoing, self._incoming = outgoing, incoming
        self._closed = False

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        if self._closed:
            raise ConnectionLostError("This end of the in-memory channel is closed.")
        try:
            self._outgoing.put((header, bytearray(payload)), timeout=deadline)
        except queue.Full:
            raise Clock(deadline, "the peer to take a message").error() from None
        self.traffic.messages_sent += 1
        self.traffic.bytes_sent += len(header) + payload.nbytes

    @override
    def receive(
        self, accept: Callable[[Header], None], *, deadline: float
    ) -> tuple[Header, bytearray]:
        try:
            frame = self._incoming.get(timeout=deadline)
        except queue.Empty:
            raise Clock(deadline, "a message").error() from None
        if frame is None:
            self._incoming.put(None)  # the peer stays gone for whoever asks again
            raise ConnectionLostError("The peer closed the in-memory channel.")
        header = decode_header(frame[0])
        accept(header)
        self.traffic.messages_received += 1
        self.traffic.bytes_received += len(frame[0]) + len(frame[1])
        return header, frame[1]

    @override
    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._outgoing.put(None)


def in_memory_pair() -> tuple[InMemoryTransport, InMemoryTransport]:
    """Two ends of one channel."""
    there: queue.Queue[_Frame] = queue.Queue()
    back: queue.Queue[_Frame] = queue.Queue()
    return InMemoryTransport(there, back), InMemoryTransport(back, there)
