"""The network watch: how long a party waits for its peer, what goes over, and what breaks."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from typing_extensions import override

from cutlayer.errors import ConnectionLostError, DeadlineError
from cutlayer.operation.status import RunStatus
from cutlayer.parties.events import Event, EventKind, OnEvent
from cutlayer.protocol import Endpoint, Transport
from cutlayer.protocol.codec import Header


class WatchedEndpoint(Endpoint):
    """Another endpoint, whose connections are counted and timed.

    Args:
        endpoint: that meets the peer.
        status: what is counted.
        on_event: told of connections, and how they end.
    """

    def __init__(self, endpoint: Endpoint, status: RunStatus, on_event: OnEvent) -> None:
        self._endpoint, self._status, self._on_event = endpoint, status, on_event

    @override
    def meet(self, *, deadline: float) -> Transport:
        began = time.monotonic()
        with self._status.waiting():
            transport = self._endpoint.meet(deadline=deadline)
        seconds = time.monotonic() - began
        self._on_event(Event(EventKind.MET_PEER, seconds=seconds, channel=transport.describe()))
        return WatchedTransport(transport, self._status, self._on_event)

    @override
    def describe(self) -> str:
        return self._endpoint.describe()

    @override
    def close(self) -> None:
        self._endpoint.close()


class WatchedTransport(Transport):
    """Another transport, with a stopwatch.

    The time inside a call counts as waiting, the time between two calls as computing. A thread
    that only sends, as an outbox does, keeps nobody waiting and is not timed.
    """

    def __init__(self, transport: Transport, status: RunStatus, on_event: OnEvent) -> None:
        super().__init__()
        self.traffic = transport.traffic
        self._transport, self._status, self._on_event = transport, status, on_event
        self._receiving_thread: int | None = None
        self._left: float | None = None
        self._counted = 0, 0
        self._broken = False

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        with self._noticing_breaks(), self._timed(receiving=False):
            self._transport.send(header, payload, deadline=deadline)

    @override
    def receive(
        self, accept: Callable[[Header], None], *, deadline: float
    ) -> tuple[Header, bytearray]:
        with self._noticing_breaks(), self._timed(receiving=True):
            return self._transport.receive(accept, deadline=deadline)

    @override
    def describe(self) -> str:
        return self._transport.describe()

    @override
    def close(self) -> None:
        self._transport.close()

    @contextmanager
    def _timed(self, *, receiving: bool) -> Iterator[None]:
        """Count seconds and bytes of one call."""
        here = threading.get_ident()
        if receiving:
            self._receiving_thread = here
        if self._receiving_thread not in (None, here):
            yield
            return
        if self._left is not None:
            self._status.seconds_computing += time.monotonic() - self._left
        try:
            with self._status.waiting():
                yield
        finally:
            self._left = time.monotonic()
            self._count_bytes()

    def _count_bytes(self) -> None:
        """Add what has gone over since the last call."""
        sent, received = self._counted
        now = self.traffic.bytes_sent, self.traffic.bytes_received
        self._status.bytes_sent += now[0] - sent
        self._status.bytes_received += now[1] - received
        self._counted = now

    @contextmanager
    def _noticing_breaks(self) -> Iterator[None]:
        """Tell of the end of the connection, once."""
        try:
            yield
        except ConnectionLostError as error:
            if not self._broken:
                self._broken = True
                silent = isinstance(error, DeadlineError)
                kind = EventKind.STEP_DEADLINE if silent else EventKind.CONNECTION_LOST
                self._on_event(Event(kind, error=type(error).__name__))
            raise
