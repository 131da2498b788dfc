"""The group ristretto255, by libsodium: texts to points, points times a secret.

The group has a prime order of about 2**252, and each element exactly one encoding of 32 bytes.
"""

import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cutlayer.errors import ConfigurationError

POINT_BYTES: Final = 32


class InvalidPointError(ValueError):
    """Bytes that encode no element of the group, or its neutral element."""

    def __init__(self, row: int) -> None:
        super().__init__(f"points must be encodings of ristretto255, but row {row} is none.")
        self.row = row
        """Which one is the first, from 0."""


def require_libsodium() -> None:
    """See that the group can be computed in.

    Raises:
        ConfigurationError: the extra that brings libsodium is not installed.
    """
    _sodium()


def random_scalar() -> bytes:
    """A number from 1 to the group's order less 1, from the operating system's randomness.

    Raises:
        ConfigurationError: the extra that brings libsodium is not installed.
    """
    scalar: bytes = _sodium().crypto_core_ristretto255_scalar_random()
    return scalar


def point_of(text: bytes) -> bytes:
    """The element that a text stands for; nobody knows its ratio to another text's element.

    Args:
        text: any bytes; who uses the group for two purposes puts the purpose in front.

    Returns:
        An encoding of 32 bytes: SHA-512, then the group's one-way map.

    Raises:
        ConfigurationError: the extra that brings libsodium is not installed.

    Source: `RFC 9496 <https://www.rfc-editor.org/rfc/rfc9496>`_, section 4.3.4.
    """
    point: bytes = _sodium().crypto_core_ristretto255_from_hash(hashlib.sha512(text).digest())
    return point


def multiplied(scalar: bytes, points: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Each point times one secret number. Other threads run meanwhile.

    Args:
        scalar: 32 bytes, little-endian, as :func:`random_scalar` makes it.
        points: encodings, uint8, shape ``(points, 32)``.

    Returns:
        Encodings of the products, uint8, same shape.

    Raises:
        InvalidPointError: a row is not the one encoding of an element, or is the neutral element,
            whose multiples would all be alike.
        ConfigurationError: the extra that brings libsodium is not installed.
    """
    times = _sodium().crypto_scalarmult_ristretto255
    products = bytearray()
    for row in range(len(points)):
        try:
            products += times(scalar, points[row].tobytes())
        except RuntimeError:
            raise InvalidPointError(row) from None
    return np.frombuffer(products, dtype=np.uint8).reshape(len(points), POINT_BYTES)


@cache
def _sodium() -> ModuleType:
    """The package that brings libsodium."""
    try:
        import rbcl
    except ImportError as error:
        raise ConfigurationError(
            "Private alignment needs libsodium, which is not installed. Install cutlayer[psi]."
        ) from error
    # The package unpacks its library into a temporary file and leaves it there in every process.
    with suppress(AttributeError, OSError):
        Path(rbcl._sodium._name).unlink()
    return rbcl
