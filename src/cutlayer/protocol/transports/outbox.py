"""The outbox: sends in the background, so that a party can go on while a message is on its way."""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from typing_extensions import override

from cutlayer.errors import ConnectionLostError, CutlayerError
from cutlayer.protocol.codec import Header
from cutlayer.protocol.transport import Clock, Transport

_FAREWELL_SECONDS = 5.0
_ARRIVED_SECONDS = 0.5

_Frame = tuple[bytes, memoryview, float]


class OutboxTransport(Transport):
    """Another transport whose ``send`` returns at once while a few messages wait to leave.

    Two parties that both send before they read would wait for each other once the buffers
    between them are full; a thread that does nothing but send keeps this party free to read. An
    error of the thread is raised by the next call.

    Args:
        transport: to send and receive with; it must allow both at the same time.
        waiting: how many messages may wait, at least 1.
    """

    def __init__(self, transport: Transport, waiting: int) -> None:
        super().__init__()
        self.traffic = transport.traffic
        self._transport = transport
        self._frames: queue.Queue[_Frame | None] = queue.Queue(waiting)
        self._error: CutlayerError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="cutlayer outbox", daemon=True)
        self._thread.start()

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        self._raise_earlier_error()
        if self._closed:
            raise ConnectionLostError("This end of the connection is closed.")
        try:
            self._frames.put((header, payload, deadline), timeout=deadline)
        except queue.Full:
            self._raise_earlier_error()
            raise Clock(deadline, "the peer to take a message").error() from None

    @override
    def receive(
        self, accept: Callable[[Header], None], *, deadline: float
    ) -> tuple[Header, bytearray]:
        if self._error is None:
            return self._transport.receive(accept, deadline=deadline)
        try:  # the peer may have said why it takes nothing more
            return self._transport.receive(accept, deadline=min(deadline, _ARRIVED_SECONDS))
        except ConnectionLostError:
            raise self._error from None

    @override
    def describe(self) -> str:
        return self._transport.describe()

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(queue.Full):  # then the peer takes nothing more anyway
            self._frames.put(None, timeout=_FAREWELL_SECONDS)
        self._thread.join(_FAREWELL_SECONDS)
        self._transport.close()

    def _work(self) -> None:
        """Send what waits, in order, until the end or the first error."""
        while (frame := self._frames.get()) is not None:
            header, payload, deadline = frame
            try:
                self._transport.send(header, payload, deadline=deadline)
            except CutlayerError as error:
                self._error = error
                while True:  # whoever waits for room must find some, and then the error
                    try:
                        self._frames.get_nowait()
                    except queue.Empty:
                        return

    def _raise_earlier_error(self) -> None:
        """Raise what the thread met."""
        if self._error is not None:
            raise self._error
