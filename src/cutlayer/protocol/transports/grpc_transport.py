"""The gRPC transport: one bidirectional stream of byte strings over HTTP/2 and mutual TLS.

A message travels as pieces of at most 1 MiB, which also stands below gRPC's own limit for one of
its messages. The first piece begins with the header. All pieces but the last are full, so nothing
can be dripped in small ones, and the pieces of a message follow from its header alone.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import grpc
from typing_extensions import override

from cutlayer.errors import ConnectionLostError, ProtocolError
from cutlayer.protocol.codec import HEADER_BYTES, Header, decode_header
from cutlayer.protocol.transport import Clock, Direction, Transport
from cutlayer.protocol.transports.event_loop import EventLoop, Result

PIECE_BYTES = 1 << 20
_FAREWELL_SECONDS = 2.0
_FOREIGN = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
_BROKEN = "The connection to the peer broke"


class Pipe(ABC):
    """One end of a gRPC stream; all methods run on the event loop."""

    @abstractmethod
    async def read(self) -> bytes | None:
        """The next piece; ``None`` when no more comes."""

    @abstractmethod
    async def write(self, piece: bytes) -> None:
        """Send one piece; returns when flow control has let it through."""

    @abstractmethod
    async def finish(self, seconds: float) -> None:
        """End in order: what was written arrives."""

    @abstractmethod
    async def cut(self) -> None:
        """End at once; safe to call again."""


class GrpcTransport(Transport):
    """Messages over a :class:`Pipe`, for callers that wait in threads."""

    def __init__(self, loop: EventLoop, pipe: Pipe, description: str) -> None:
        super().__init__()
        self._loop, self._pipe, self._description = loop, pipe, description
        self._sending = threading.Lock()
        self._outgoing, self._incoming = Direction(), Direction()
        self._over = asyncio.Event()
        self._reason = f"{_BROKEN}."
        self._closed = False

    @override
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        clock = Clock(deadline, "the peer to take a message")
        if not self._sending.acquire(timeout=clock.remaining()):
            raise clock.error()
        try:
            with self._outgoing.use():
                self._wait(self._push(header, payload), clock)
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
            first = self._wait(self._pull(), clock)
            header = decode_header(first[:HEADER_BYTES])
            accept(header)  # in this thread: it may send
            size = HEADER_BYTES + header.payload_bytes
            _require_length(first, min(size, PIECE_BYTES))
            payload = bytearray(header.payload_bytes)
            view = memoryview(payload)
            begun = len(first) - HEADER_BYTES
            view[:begun] = memoryview(first)[HEADER_BYTES:]
            if begun < len(payload):
                self._wait(self._fill(view[begun:]), clock)
        self.traffic.messages_received += 1
        self.traffic.bytes_received += size
        return header, payload

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError, ConnectionLostError):
            self._loop.run(self._finish(), 2 * _FAREWELL_SECONDS)

    @override
    def describe(self) -> str:
        return self._description

    def break_off(self, reason: str) -> None:
        """End the stream at once, from any thread; whoever waits on it learns the reason."""
        self._loop.start(self.break_off_now(reason))

    def discard(self) -> None:
        """End the stream at once; nothing else is held."""
        self.break_off("This end of the connection is closed.")

    async def break_off_now(self, reason: str) -> None:
        """The same on the event loop."""
        if not self._over.is_set():
            self._reason = reason
            self._over.set()
        await self._pipe.cut()

    async def until_over(self) -> None:
        """Wait until either side has ended the stream."""
        await self._over.wait()

    async def _finish(self) -> None:
        """Wake whoever still waits, and end in order."""
        if not self._over.is_set():
            self._reason = "This end of the connection is closed."
            self._over.set()
        await self._pipe.finish(_FAREWELL_SECONDS)

    def _wait(self, work: "Awaitable[Result]", clock: Clock) -> Result:
        """Wait in this thread for something on the loop. A deadline leaves the stream whole."""
        future = self._loop.start(self._unless_over(work))
        try:
            return future.result(clock.remaining())
        except TimeoutError:
            raise clock.error() from None
        except CancelledError:
            raise ConnectionLostError(self._reason) from None

    async def _unless_over(self, work: "Awaitable[Result]") -> Result:
        """Do it, or give up when the stream is over."""
        doing = asyncio.ensure_future(work)
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({doing, over}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                # Not cancelled: that would take back what was sent but has not arrived.
                doing.add_done_callback(_forget)
                raise ConnectionLostError(self._reason)
            return doing.result()
        except (*_FOREIGN, asyncio.CancelledError) as error:
            raise ConnectionLostError(self._said(error)) from error
        finally:
            over.cancel()

    def _said(self, error: BaseException) -> str:
        """What to tell about a stream that broke."""
        if self._over.is_set():
            return self._reason
        if isinstance(error, grpc.aio.AioRpcError):
            return f"{_BROKEN} ({error.details()})."
        return f"{_BROKEN}."

    async def _push(self, header: bytes, payload: memoryview) -> None:
        """Send a message piece by piece."""
        room = PIECE_BYTES - len(header)
        await self._pipe.write(b"".join((header, payload[:room])))
        for start in range(room, payload.nbytes, PIECE_BYTES):
            await self._pipe.write(bytes(payload[start : start + PIECE_BYTES]))

    async def _pull(self) -> bytes:
        """The next piece."""
        piece = await self._pipe.read()
        if piece is None:
            raise ConnectionLostError("The peer closed the connection in the middle of a run.")
        return piece

    async def _fill(self, view: memoryview) -> None:
        """Receive the rest of a message."""
        while view.nbytes:
            piece = await self._pull()
            _require_length(piece, min(view.nbytes, PIECE_BYTES))
            view[: len(piece)] = piece
            view = view[len(piece) :]


def _forget(done: "asyncio.Future[Any]") -> None:
    """Nobody waits for this result any longer."""
    if not done.cancelled():
        done.exception()


def _require_length(piece: bytes, expected: int) -> None:
    """Refuse a piece that is not as the header says."""
    if len(piece) != expected:
        raise ProtocolError(f"A piece of {len(piece)} bytes where {expected} were due.")
