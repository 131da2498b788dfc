"""The gRPC transport: one bidirectional stream of byte strings over HTTP/2 and mutual TLS.

A message travels as pieces of at most 1 MiB, which also stands below gRPC's own limit for one of
its messages. The first piece begins with the header. All pieces but the last are full, so nothing
can be dripped in small ones, and the pieces of a message follow from its header alone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import grpc
from typing_extensions import override

from cutlayer.errors import ConnectionLostError, ProtocolError
from cutlayer.protocol.codec import HEADER_BYTES, Header, decode_header
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.event_loop import EventLoop, Result
from cutlayer.protocol.transports.network_transport import (
    OWN_END_CLOSED,
    PEER_LEFT,
    NetworkTransport,
)

PIECE_BYTES = 1 << 20
_PIECES_AHEAD = 2
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


class GrpcTransport(NetworkTransport):
    """Messages over a :class:`Pipe`, for callers that wait in threads.

    Pieces are read as they come, up to two ahead: gRPC drops what has arrived and was not read when
    the other side leaves, and its last word says why.
    """

    def __init__(self, loop: EventLoop, pipe: Pipe, description: str) -> None:
        """Speak over a pipe; to be called on the loop."""
        super().__init__(description)
        self._loop, self._pipe = loop, pipe
        self._over = asyncio.Event()
        self._reason = f"{_BROKEN}."
        self._closed = False
        self._pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(_PIECES_AHEAD)
        self._reading = asyncio.ensure_future(self._read_ahead())

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError, ConnectionLostError):
            self._loop.run(self._finish(), 2 * _FAREWELL_SECONDS)

    @override
    def break_off(self, reason: str) -> None:
        self._loop.start(self.break_off_now(reason))

    @override
    def discard(self) -> None:
        self.break_off(OWN_END_CLOSED)

    async def break_off_now(self, reason: str) -> None:
        """:meth:`break_off` on the event loop."""
        if not self._over.is_set():
            self._reason = reason
            self._over.set()
        await self._pipe.cut()
        self._reading.cancel()

    async def until_over(self) -> None:
        """Wait until either side has ended the stream."""
        await self._over.wait()

    async def _finish(self) -> None:
        """Wake whoever still waits, and end in order."""
        if not self._over.is_set():
            self._reason = OWN_END_CLOSED
            self._over.set()
        while not self._pieces.empty():  # the peer may end once what it sent has been read
            self._pieces.get_nowait()
        await self._pipe.finish(_FAREWELL_SECONDS)
        self._reading.cancel()

    @override
    def _push(self, header: bytes, payload: memoryview, clock: Clock) -> None:
        self._wait(self._write(header, payload), clock)

    @override
    def _pull(self, accept: Callable[[Header], None], clock: Clock) -> tuple[Header, bytearray]:
        first = self._wait(self._read(), clock)
        header = decode_header(first[:HEADER_BYTES])
        accept(header)  # in this thread: it may send
        _require_length(first, min(HEADER_BYTES + header.payload_bytes, PIECE_BYTES))
        payload = bytearray(header.payload_bytes)
        view = memoryview(payload)
        begun = len(first) - HEADER_BYTES
        view[:begun] = memoryview(first)[HEADER_BYTES:]
        if begun < len(payload):
            self._wait(self._fill(view[begun:]), clock)
        return header, payload

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

    async def _write(self, header: bytes, payload: memoryview) -> None:
        """Send a message piece by piece."""
        room = PIECE_BYTES - len(header)
        await self._pipe.write(b"".join((header, payload[:room])))
        for start in range(room, payload.nbytes, PIECE_BYTES):
            await self._pipe.write(bytes(payload[start : start + PIECE_BYTES]))

    async def _read_ahead(self) -> None:
        """Read pieces until no more comes; then how it ended."""
        piece: bytes | BaseException | None = b""
        while isinstance(piece, bytes):
            try:
                piece = await self._pipe.read()
            except _FOREIGN as error:
                piece = error
            except asyncio.CancelledError as error:  # of the call, unless it is this task's
                if self._reading.cancelling():
                    raise
                piece = error
            if not self._closed:
                await self._pieces.put(piece)

    async def _read(self) -> bytes:
        """The next piece."""
        piece = await self._pieces.get()
        if isinstance(piece, bytes):
            return piece
        self._pieces.put_nowait(piece)  # for whoever asks again
        if piece is None:
            raise ConnectionLostError(PEER_LEFT)
        raise piece

    async def _fill(self, view: memoryview) -> None:
        """Receive the rest of a message."""
        while view.nbytes:
            piece = await self._read()
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
