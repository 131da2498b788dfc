"""The session of a private alignment: points over, tags back, and the same ids at both parties.

Both parties speak in turn, a block of points each until the longer list is through, and then a
block of tags each in the same rounds; who has fewer blocks sends empty ones. While one message
travels, the next ones are computed on all cores. Nothing is kept between sessions: a session that
breaks off is started again, with new secrets.
"""

import hmac
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from cutlayer.alignment.private_comparison import PrivateComparison
from cutlayer.alignment.private_matching import TAG_BYTES, PrivateMatching
from cutlayer.alignment.ristretto import POINT_BYTES, InvalidPointError
from cutlayer.alignment.shared_ids import alignment_hash
from cutlayer.data import TextSequence
from cutlayer.errors import ConfigurationError, ProtocolError, TermsMismatchError
from cutlayer.parties.hello import is_word
from cutlayer.parties.terms import Terms
from cutlayer.protocol import ErrorCode, Kind, Role, Session, Shape
from cutlayer.protocol.messages import JsonScalar

MAX_IDS: Final = 20_000_000
"""Default for the most ids that a party brings or accepts."""
BLOCK_IDS: Final = 32_768
"""Ids of one message: 1 MiB of points."""

_PIECE_IDS: Final = 1_024
_BLOCKS_AHEAD: Final = 2

OnProgress = Callable[[int, int], None]
"""Told how many multiplications of points are done, and how many there are."""


@dataclass(frozen=True)
class AlignedIds:
    """The records that both parties hold, as both know them after a private alignment."""

    ids: TextSequence
    """The shared ids, ascending by code point."""
    hash: str
    """Their :func:`~cutlayer.alignment.shared_ids.alignment_hash`; equal at both parties."""
    only_here: int
    """How many of this party's ids the peer does not hold."""
    only_there: int
    """How many of the peer's ids this party does not hold."""


def align_privately(
    session: Session,
    terms: Terms,
    ids: TextSequence,
    *,
    max_ids: int = MAX_IDS,
    block_ids: int = BLOCK_IDS,
    on_progress: OnProgress | None = None,
    keep: Callable[[AlignedIds], object] | None = None,
) -> AlignedIds:
    """Find the shared ids with the peer; see :mod:`cutlayer.alignment.private_matching`.

    Args:
        session: new.
        terms: of this party, with mode ``alignment``.
        ids: of this party, unique.
        max_ids: the most ids that this party brings or accepts.
        block_ids: ids of one message, equal at both parties.
        on_progress: told after each block.
        keep: given the result before the peer is told that this party has it.

    Raises:
        ConfigurationError: this party has more than ``max_ids`` ids, or libsodium is missing.
        TermsMismatchError: the parties were started with different settings.
        DataError: no record is shared.
        ProtocolError: the peer announces too many ids, sends what is no point, repeats one, sends
            another number than it announced, or has found other shared ids.
        ConnectionLostError: the peer is gone or silent.
    """
    if len(ids) > max_ids:
        raise ConfigurationError(
            f"{session.role.value}: its {len(ids):,} ids are more than max_ids = {max_ids:,}. "
            "Raise max_ids at both parties."
        )
    matching = PrivateMatching(ids, terms.run)
    peer_count = _exchange_hellos(session, terms, len(ids), block_ids, max_ids)
    exchange = _Exchange(session, len(ids), peer_count, block_ids, on_progress)
    pool = ThreadPoolExecutor(_cores(), thread_name_prefix="align")
    try:
        peer_tags = exchange.points(pool, matching)
    finally:
        pool.shutdown(cancel_futures=True)
    own_tags = exchange.tags(peer_tags)
    try:
        alignment = matching.matched(own_tags, peer_tags)
    except ProtocolError as error:
        raise _refused(session, str(error)) from error
    shared = TextSequence(TextSequence(alignment.shared).series.sort())
    mark = alignment_hash(shared)
    _compare(session, mark, terms.run)
    aligned = AlignedIds(shared, mark, alignment.only_here, alignment.only_there)
    if keep is not None:
        keep(aligned)
    _part(session)
    return aligned


class _Exchange:
    """The blocks of both parties, in turn."""

    def __init__(
        self,
        session: Session,
        own_count: int,
        peer_count: int,
        block_ids: int,
        on_progress: OnProgress | None,
    ) -> None:
        self._session, self._on_progress = session, on_progress
        self._own, self._peer = own_count, peer_count
        self._block = block_ids
        self._rounds = -(-max(own_count, peer_count) // block_ids)
        self._done = 0

    def points(self, pool: ThreadPoolExecutor, matching: PrivateMatching) -> NDArray[np.uint8]:
        """Send the own points, and return the tags of the peer's."""
        own = _computed(pool, lambda piece: matching.points(*piece), self._pieces(), self._ahead)
        tags = np.empty((self._peer, TAG_BYTES), dtype=np.uint8)
        pending: deque[tuple[int, Future[NDArray[np.uint8]]]] = deque()

        def send(number: int) -> None:
            due = self._pieces_of(number, self._own)
            pieces = [points for _, points in zip(due, own, strict=False)]
            self._send(Kind.POINTS, number, _joined(pieces, POINT_BYTES))

        def receive(number: int) -> None:
            points = self._receive(Kind.POINTS, number, self._peer, POINT_BYTES)
            first = min(number * self._block, self._peer)
            for begin in range(0, len(points), _PIECE_IDS):
                piece = points[begin : begin + _PIECE_IDS]
                pending.append((first + begin, pool.submit(matching.tags, piece)))
            while len(pending) > self._ahead:
                self._take(pending, tags)

        self._in_turn(send, receive)
        while pending:
            self._take(pending, tags)
        return tags

    def tags(self, peer_tags: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Send the tags of the peer's points, and return those of the own."""
        own_tags = np.empty((self._own, TAG_BYTES), dtype=np.uint8)

        def send(number: int) -> None:
            self._send(Kind.TAGS, number, peer_tags[slice(*self._bounds(number, self._peer))])

        def receive(number: int) -> None:
            tags = self._receive(Kind.TAGS, number, self._own, TAG_BYTES)
            own_tags[slice(*self._bounds(number, self._own))] = tags

        self._in_turn(send, receive)
        return own_tags

    def _in_turn(self, send: Callable[[int], None], receive: Callable[[int], None]) -> None:
        """Every round: the label party, then the non-label party."""
        steps = (send, receive) if self._session.role is Role.LABEL else (receive, send)
        for number in range(self._rounds):
            for step in steps:
                step(number)

    def _take(
        self,
        pending: deque[tuple[int, Future[NDArray[np.uint8]]]],
        tags: NDArray[np.uint8],
    ) -> None:
        """Wait for the oldest piece of the peer's points."""
        first, future = pending.popleft()
        try:
            piece = future.result()
        except InvalidPointError as error:
            raise _refused(
                self._session,
                f"the {self._session.role.peer.value} sent, as point {first + error.row}, bytes "
                "that encode no point of the group, or its neutral element.",
            ) from error
        tags[first : first + len(piece)] = piece
        self._advance(len(piece))

    def _send(self, kind: Kind, number: int, rows: NDArray[np.uint8]) -> None:
        """Send one block."""
        self._session.send_tensor(kind, torch.from_numpy(rows.copy()), step=number)
        if kind is Kind.POINTS:
            self._advance(len(rows))

    def _receive(self, kind: Kind, number: int, count: int, width: int) -> NDArray[np.uint8]:
        """Wait for one block of exactly the rows that are due."""
        begin, end = self._bounds(number, count)
        shape = Shape(rows=end - begin, width=width, dtype=torch.uint8)
        return self._session.receive_tensor(kind, shape, step=number).numpy()

    def _bounds(self, number: int, count: int) -> tuple[int, int]:
        """The rows of a block of a list with so many."""
        return min(number * self._block, count), min((number + 1) * self._block, count)

    def _pieces_of(self, number: int, count: int) -> Iterator[tuple[int, int]]:
        """A block, cut up for several threads."""
        begin, end = self._bounds(number, count)
        return ((at, min(at + _PIECE_IDS, end)) for at in range(begin, end, _PIECE_IDS))

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """All blocks of the own list, cut up."""
        for number in range(self._rounds):
            yield from self._pieces_of(number, self._own)

    @property
    def _ahead(self) -> int:
        """How many pieces of either list may be in work: what bounds the memory."""
        return _BLOCKS_AHEAD * -(-self._block // _PIECE_IDS)

    def _advance(self, count: int) -> None:
        """Tell how far it is."""
        self._done += count
        if self._on_progress is not None:
            self._on_progress(self._done, self._own + self._peer)


def _exchange_hellos(
    session: Session, terms: Terms, own_count: int, block_ids: int, max_ids: int
) -> int:
    """Compare the terms; returns how many ids the peer has."""
    fields: dict[str, JsonScalar] = {
        **terms.as_fields(),
        "role": session.role.value,
        "records": own_count,
        "block_ids": block_ids,
        "cutlayer": version("cutlayer"),
    }
    theirs = _exchange(session, Kind.HELLO, fields)
    try:
        terms.require_equal(theirs, session.role)
    except TermsMismatchError:
        session.abort(ErrorCode.TERMS)
        raise
    records = theirs.get("records")
    same = theirs.get("role") == session.role.peer.value and theirs.get("block_ids") == block_ids
    same = same and theirs.keys() == fields.keys()
    if not same or not isinstance(records, int) or isinstance(records, bool) or records < 1:
        raise _refused(session, f"the HELLO of the {session.role.peer.value} is malformed.")
    if records > max_ids:
        raise _refused(
            session,
            f"the {session.role.peer.value} announces {records:,} ids, more than max_ids = "
            f"{max_ids:,}. Raise max_ids if that many are expected.",
        )
    return records


def _compare(session: Session, mark: str, run: str) -> None:
    """See that both parties found the same ids; the non-label party is first to prove it.

    Raises:
        ProtocolError: the peer cannot name them; it has learned nothing of them.
    """
    own, peer = session.role, session.role.peer
    comparison = PrivateComparison(mark.encode(), run)
    element: dict[str, JsonScalar] = {"element": comparison.element.hex()}

    def proof_of(role: Role, peer_element: bytes) -> str:
        try:
            return comparison.proof(role.value, peer_element).hex()
        except InvalidPointError as error:
            raise _refused(session, f"the ALIGNED of the {peer.value} is malformed.") from error

    if own is Role.LABEL:
        session.send_fields(Kind.ALIGNED, element)
        theirs = _aligned(session, "element", "proof")
        there = bytes.fromhex(theirs["element"])
        _require_proof(session, theirs["proof"], proof_of(peer, there))
        session.send_fields(Kind.ALIGNED, {"proof": proof_of(own, there)})
    else:
        there = bytes.fromhex(_aligned(session, "element")["element"])
        session.send_fields(Kind.ALIGNED, {**element, "proof": proof_of(own, there)})
        _require_proof(session, _aligned(session, "proof")["proof"], proof_of(peer, there))


def _aligned(session: Session, *names: str) -> dict[str, str]:
    """Wait for an ALIGNED of exactly these fields, each 32 bytes in hexadecimal digits."""
    fields = session.receive_fields(Kind.ALIGNED)
    words = {name: str(word) for name, word in fields.items() if is_word(word)}
    if words.keys() != set(names) or len(words) != len(fields):
        raise _refused(session, f"the ALIGNED of the {session.role.peer.value} is malformed.")
    return words


def _require_proof(session: Session, shown: str, due: str) -> None:
    """Refuse a peer that does not know which ids are shared."""
    if not hmac.compare_digest(shown, due):
        raise _refused(
            session,
            f"the {session.role.peer.value} found other shared ids than this party, or cannot name "
            "them. Use the same version of cutlayer at both, and start again.",
        )


def _part(session: Session) -> None:
    """End the session on both sides."""
    if session.role is Role.NON_LABEL:
        session.send_fields(Kind.BYE)
        session.receive_fields(Kind.BYE)
    else:
        session.receive_fields(Kind.BYE)
        session.send_fields(Kind.BYE)


def _exchange(session: Session, kind: Kind, fields: dict[str, JsonScalar]) -> dict[str, JsonScalar]:
    """Send fields of the own and return those of the peer; the label party speaks first."""
    if session.role is Role.LABEL:
        session.send_fields(kind, fields)
        return session.receive_fields(kind)
    theirs = session.receive_fields(kind)
    session.send_fields(kind, fields)
    return theirs


def _refused(session: Session, why: str) -> ProtocolError:
    """Tell the peer, and make the error."""
    session.abort(ErrorCode.PROTOCOL)
    return ProtocolError(f"{session.role.value}: {why}")


def _computed(
    pool: ThreadPoolExecutor,
    work: Callable[[tuple[int, int]], NDArray[np.uint8]],
    pieces: Iterable[tuple[int, int]],
    ahead: int,
) -> Iterator[NDArray[np.uint8]]:
    """Each piece's result in order, while up to ``ahead`` more are in work."""
    pending: deque[Future[NDArray[np.uint8]]] = deque()
    for piece in pieces:
        pending.append(pool.submit(work, piece))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _joined(parts: list[NDArray[np.uint8]], width: int) -> NDArray[np.uint8]:
    """The parts as one block, which may have no rows."""
    return np.concatenate([np.empty((0, width), dtype=np.uint8), *parts])


def _cores() -> int:
    """How many threads can run at once in this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
