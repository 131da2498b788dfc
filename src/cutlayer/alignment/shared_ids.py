"""Alignment: find the records that both parties hold, from digests of their ids.

What crosses: one keyed digest of 16 bytes for each id, with a key (the salt) that both parties of
the session know. What that tells: how many ids the peer has, and which ones are shared. It is *not*
a private set intersection: whoever knows the salt can digest a guessed id and look whether the peer
holds it, and short ids (telephone numbers, row numbers) can all be guessed. The salt keeps
third parties and earlier sessions out, nobody else. Where mere membership is a secret, the parties
align with :mod:`cutlayer.alignment.private_matching`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cutlayer.data.tables.lost_ids import COUNTS
from cutlayer.data.text_sequence import TextSequence
from cutlayer.errors import DataError, ProtocolError

DIGEST_BYTES = 16

_MAX_SALT_BYTES = 64
_PURPOSE = b"cutlayer id"
_AT_ONCE, _PARTS = 1 << 20, 16  # so that the sort needs little beside the digests themselves


@dataclass(frozen=True)
class Alignment:
    """The shared records in an order that both parties derive alike, and what was left out."""

    shared: Sequence[str]
    """Ids that both hold, in an order of their digests, which tells nothing about the tables."""
    only_here: int
    """How many of this party's ids the peer does not hold."""
    only_there: int
    """How many of the peer's ids this party does not hold."""


def id_digests(ids: Sequence[str], *, salt: bytes) -> NDArray[np.uint8]:
    r"""What is sent in place of the ids: :math:`\mathrm{BLAKE2b}_{128}(\text{salt}, \text{id})`.

    Two different ids of 100 million get the same digest with a chance of 1.5e-23.

    Args:
        ids: ids of one party as its table keeps them
            (:func:`~cutlayer.data.tables.record_ids.canonical_ids`), hashed as UTF-8,
            letter for letter: ``"7"`` and ``"07"`` differ.
        salt: the session's key, 1 to 64 bytes, equal at both parties.

    Returns:
        Digests, uint8, shape ``(ids, 16)``; row ``j`` belongs to ``ids[j]``.

    Raises:
        ValueError: the salt is empty or longer than 64 bytes.
    """
    if not 1 <= len(salt) <= _MAX_SALT_BYTES:
        raise ValueError(f"salt must have 1 to {_MAX_SALT_BYTES} bytes, got {len(salt)}.")
    keyed = blake2b(digest_size=DIGEST_BYTES, key=salt, person=_PURPOSE.ljust(16, b"\0"))
    digests = bytearray()
    for name in ids:
        one = keyed.copy()
        one.update(name.encode())
        digests += one.digest()
    return np.frombuffer(bytes(digests), dtype=np.uint8).reshape(len(ids), DIGEST_BYTES)


def shared_ids(
    own_ids: Sequence[str], own_digests: NDArray[np.uint8], peer_digests: NDArray[np.uint8]
) -> Alignment:
    """Match this party's ids against the peer's digests.

    Args:
        own_ids: this party's ids, unique.
        own_digests: their digests, uint8, shape ``(own ids, 16)``.
        peer_digests: digests as received, uint8, shape ``(peer's ids, 16)``, in any order.

    Returns:
        The shared ids in an order that follows from their digests, so that the peer gets the same.

    Raises:
        ValueError: ``own_digests`` does not belong to ``own_ids``, or an own id repeats.
        ProtocolError: the peer's digests have another form, or one of them repeats.
        DataError: the parties have no id in common.
    """
    _check_digests(own_ids, own_digests, peer_digests)
    found = match_digests(own_digests, peer_digests)
    if found.own_repeats:
        raise ValueError("own_ids must be unique, but some repeat.")
    if found.peer_repeats:
        raise ProtocolError(
            f"The peer sent {found.peer_repeats} id digests twice; each of its records must have "
            "an id of its own. The peer has to mend its table."
        )
    return alignment_of(own_ids, found.rows, len(peer_digests))


@dataclass(frozen=True, eq=False)
class DigestMatches:
    """What a comparison of two lists of digests found."""

    rows: NDArray[np.intp]
    """Rows of the own list whose digest the peer's list holds as well, in an order that
    follows from the digests alone."""
    own_repeats: int
    """How many own digests repeat an earlier one."""
    peer_repeats: int
    """How many digests of the peer repeat an earlier one."""


def match_digests(own_digests: NDArray[np.uint8], peer_digests: NDArray[np.uint8]) -> DigestMatches:
    """Compare two lists of digests by sorting them together, long lists part by part.

    Args:
        own_digests: uint8, shape ``(own, 16)``.
        peer_digests: uint8, shape ``(peer's, 16)``.
    """
    parts = 1 if len(own_digests) + len(peer_digests) <= _AT_ONCE else _PARTS
    own_part, peer_part = (
        digests[:, 0] % np.uint8(parts) for digests in (own_digests, peer_digests)
    )
    found = [
        _match_part(own_digests, np.flatnonzero(own_part == part), peer_digests[peer_part == part])
        for part in range(parts)
    ]
    return DigestMatches(
        rows=np.concatenate([one.rows for one in found]),
        own_repeats=sum(one.own_repeats for one in found),
        peer_repeats=sum(one.peer_repeats for one in found),
    )


def _match_part(
    own_digests: NDArray[np.uint8], own_rows: NDArray[np.intp], peer_digests: NDArray[np.uint8]
) -> DigestMatches:
    """Compare some own rows with the peer's digests of the same part."""
    digests = np.concatenate([own_digests[own_rows], peer_digests])
    order = _ascending(digests)
    digests = digests[order]
    same_as_next = (digests[1:] == digests[:-1]).all(axis=1)
    left, right = order[:-1][same_as_next], order[1:][same_as_next]
    # The sort is stable: of equal digests, the own ones come first.
    own_count = len(own_rows)
    return DigestMatches(
        rows=own_rows[left[(left < own_count) & (right >= own_count)]],
        own_repeats=int((right < own_count).sum()),
        peer_repeats=int((left >= own_count).sum()),
    )


def alignment_of(own_ids: Sequence[str], rows: NDArray[np.intp], peer_count: int) -> Alignment:
    """The alignment that keeps these rows of this party's ids, in this order.

    Raises:
        DataError: there is none.
    """
    if len(rows) == 0:
        raise DataError(
            f"None of this party's {len(own_ids)} ids is among the peer's {peer_count}. "
            f"Check that both id columns hold the same kind of id, written alike. {COUNTS}."
        )
    return Alignment(
        shared=TextSequence(own_ids).take(rows),
        only_here=len(own_ids) - len(rows),
        only_there=peer_count - len(rows),
    )


def alignment_hash(ids: Sequence[str]) -> str:
    """A fingerprint of the shared ids and their order: equal at both parties, or nothing fits.

    Args:
        ids: ids in the order that the training uses.

    Returns:
        64 hexadecimal digits (BLAKE2b, 256 bits). No key is involved: whoever can guess the whole
        list can confirm it.
    """
    digest = blake2b(digest_size=32, person=b"cutlayer order".ljust(16, b"\0"))
    for name in ids:
        encoded = name.encode()
        # The length first, or the ids "a", "bc" would hash like "ab", "c".
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def _check_digests(
    own_ids: Sequence[str], own_digests: NDArray[np.uint8], peer_digests: NDArray[np.uint8]
) -> None:
    """Hold both sides' digests to their form."""
    if own_digests.dtype != np.uint8 or own_digests.shape != (len(own_ids), DIGEST_BYTES):
        raise ValueError(
            f"own_digests must be uint8 of shape ({len(own_ids)}, {DIGEST_BYTES}), "
            f"got {own_digests.dtype} of shape {own_digests.shape}."
        )
    form = (peer_digests.dtype, peer_digests.ndim, peer_digests.shape[1:])
    if form != (np.dtype(np.uint8), 2, (DIGEST_BYTES,)):
        raise ProtocolError(
            f"The peer's id digests must be uint8 of shape (ids, {DIGEST_BYTES}), "
            f"got {peer_digests.dtype} of shape {peer_digests.shape}."
        )


def _ascending(digests: NDArray[np.uint8]) -> NDArray[np.intp]:
    """The order that sorts the rows as big-endian numbers of 128 bits."""
    words = np.ascontiguousarray(digests).view(">u8").astype(np.uint64)
    return np.lexsort((words[:, 1], words[:, 0]))
