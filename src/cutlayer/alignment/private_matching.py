r"""Private matching: find the records that both parties hold, and tell nothing of the others.

Each party draws a secret number for the session, :math:`a` here and :math:`b` at the peer, and
maps an id :math:`x` to an element :math:`H(x)` of a group in which dividing is infeasible.
Points :math:`a H(x)` cross, the peer multiplies them by :math:`b` and returns a hash of each, its
tag; the same the other way round. As :math:`b a H(x) = a b H(x)`, equal ids have equal tags.

What each party learns: how many ids the peer has, and which of its *own* ids the peer holds as
well. Of the peer's other ids it sees points that are indistinguishable from random ones (decisional
Diffie-Hellman, random oracle), in an order drawn anew, so not where shared records stand either.
The tags come back in the order in which the points were sent: shuffled once more, they would
tell how many ids are shared, but not which.

What this does not prevent (the model is semi-honest): a party chooses the ids that it brings, and
so learns of each id that it can guess whether the peer holds it; it can leave out records, or stop
once it has what it wants and the peer has not. The sizes bound how many guesses a session allows.

Source: Meadows (1986); Huberman, Franklin, Hogg (1999); the elements by `RFC 9496
<https://www.rfc-editor.org/rfc/rfc9496>`_.
"""

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cutlayer.alignment.ristretto import POINT_BYTES, multiplied, point_of, random_scalar
from cutlayer.alignment.shared_ids import DIGEST_BYTES, Alignment, alignment_of, match_digests
from cutlayer.data.tables.record_ids import canonical_ids
from cutlayer.errors import ProtocolError

TAG_BYTES: Final = DIGEST_BYTES
"""128 bits: for 20 million ids at each party, an accidental match has a chance of 1.2e-24."""

_PURPOSE: Final = b"cutlayer private matching 1"


class PrivateMatching:
    """One party's side of one session: its ids under a secret that never leaves this object.

    Args:
        ids: of this party, unique.
        run: name of the run; the same id stands for unrelated points in two runs.

    Raises:
        ValueError: an id repeats.
        ConfigurationError: the extra that brings libsodium is not installed.
    """

    def __init__(self, ids: Sequence[str], run: str) -> None:
        named = canonical_ids(ids)
        if named.repeated():
            raise ValueError("ids must be unique, but some repeat.")
        self._scalar = random_scalar()
        self._domain = _framed(_PURPOSE) + _framed(run.encode())
        self._ids = named.take(_secret_order(len(named)))

    def points(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Points to send for the ids ``begin`` to ``end - 1`` of the secret order.

        Returns:
            Encodings, uint8, shape ``(ids, 32)``.
        """
        hashed = b"".join(point_of(self._domain + name.encode()) for name in self._ids[begin:end])
        elements = np.frombuffer(hashed, dtype=np.uint8).reshape(-1, POINT_BYTES)
        return multiplied(self._scalar, elements)

    def tags(self, points: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Tags of points that the peer sent, to be returned in the same order and kept.

        Args:
            points: as received, uint8, shape ``(points, 32)``.

        Returns:
            The hashed points under both secrets, uint8, shape ``(points, 16)``.

        Raises:
            InvalidPointError: a row is no element of the group, or its neutral element.
        """
        person = b"cutlayer tag".ljust(16, b"\0")
        both = multiplied(self._scalar, points)
        tags = b"".join(
            blake2b(row.tobytes(), digest_size=TAG_BYTES, person=person).digest() for row in both
        )
        return np.frombuffer(tags, dtype=np.uint8).reshape(-1, TAG_BYTES)

    def matched(self, own_tags: NDArray[np.uint8], peer_tags: NDArray[np.uint8]) -> Alignment:
        """Compare the tags that the peer returned with the ones of the peer's own points.

        Args:
            own_tags: of this party's points, in their order, uint8, shape ``(own ids, 16)``.
            peer_tags: of the peer's points, uint8, shape ``(peer's ids, 16)``.

        Raises:
            ProtocolError: the peer sent a point twice, or returned a tag twice.
            DataError: the parties have no id in common.
        """
        found = match_digests(own_tags, peer_tags)
        for repeats, what in ((found.own_repeats, "tags"), (found.peer_repeats, "points")):
            if repeats:
                raise ProtocolError(
                    f"{repeats} of the {what} that the peer sent repeat an earlier one; each "
                    "record must have an id of its own. The peer has to mend its table or software."
                )
        return alignment_of(self._ids, found.rows, len(peer_tags))


def _secret_order(count: int) -> NDArray[np.intp]:
    """An order drawn from the operating system's randomness, each equally likely.

    Random keys of 64 bits are sorted. Two of 20 million are equal with a chance of 1.1e-5, and
    then only the order of these two is known.
    """
    return np.argsort(np.frombuffer(os.urandom(8 * count), dtype=np.uint64), kind="stable")


def _framed(part: bytes) -> bytes:
    """A part of a hash's input that cannot run into the next one."""
    return len(part).to_bytes(8, "big") + part
