r"""Private comparison: whether two parties hold the same text, and nothing else of it.

Each party maps its text :math:`t` to an element :math:`H(t)` of a group in which dividing is
infeasible, draws a secret number, :math:`r` here and :math:`s` at the peer, and sends
:math:`r H(t)`. That is a random element whatever the text is, so no list of guesses can be tried
on it. Each multiplies what it receives by its own secret: :math:`r s H(t)` is the same for both if
the texts are, and then each can prove to the other that it has it.

A party that does not follow this can use one guess of the whole text for each comparison. It learns
whether that guess was right, and nothing of any other text.

Source: Jablon (1996), "Strong password-only authenticated key exchange" (SPEKE); its security:
MacKenzie (2001), `eprint 2001/057 <https://eprint.iacr.org/2001/057>`_.
"""

from hashlib import blake2b
from typing import Final

import numpy as np

from cutlayer.alignment.ristretto import (
    POINT_BYTES,
    InvalidPointError,
    multiplied,
    point_of,
    random_scalar,
)

PROOF_BYTES: Final = 32

_PURPOSE: Final = b"cutlayer private comparison 1"


class PrivateComparison:
    """One party's side of one comparison, under a secret that never leaves this object.

    Args:
        text: of this party.
        run: name of the run; the same text stands for unrelated elements in two runs.

    Raises:
        ConfigurationError: the extra that brings libsodium is not installed.
    """

    def __init__(self, text: bytes, run: str) -> None:
        name = run.encode()
        generator = point_of(_PURPOSE + len(name).to_bytes(8, "big") + name + text)
        self._scalar = random_scalar()
        self.element = _times(self._scalar, generator)
        """What the peer is sent, 32 bytes."""

    def proof(self, prover: str, peer_element: bytes) -> bytes:
        """What a party shows in order to prove that it has the same text as its peer.

        Args:
            prover: the role of whoever shows it. A proof of one role says nothing from the other.
            peer_element: as received.

        Returns:
            32 bytes, equal at both parties if and only if the texts are, but for a chance of
            2^-252.

        Raises:
            InvalidPointError: ``peer_element`` is no element of the group, or its neutral element.
        """
        shared = _times(self._scalar, peer_element)
        elements = b"".join(sorted((self.element, peer_element)))
        return blake2b(prover.encode() + elements, key=shared, digest_size=PROOF_BYTES).digest()


def _times(scalar: bytes, point: bytes) -> bytes:
    """One point times a secret number."""
    if len(point) != POINT_BYTES:
        raise InvalidPointError(0)
    return multiplied(
        scalar, np.frombuffer(point, dtype=np.uint8).reshape(1, POINT_BYTES)
    ).tobytes()
