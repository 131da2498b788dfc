"""Draws that any two machines make alike from the same whole numbers.

The parties must agree on the order of batches without sending it, even with different releases of
numpy. numpy promises the raw words of a bit generator for good, but not what ``Generator`` makes of
them (NEP 19), so everything here starts from raw words. These draws are public: noise that
protects anything comes from :mod:`cutlayer.rng`.
"""

import numpy as np
from numpy.typing import NDArray

from cutlayer.rng import box_muller


def permutation(count: int, *entropy: int) -> NDArray[np.int64]:
    """A uniformly random order of ``0 .. count - 1``.

    It is the order of ``count`` random words. Two equal words among 10 million have a chance below
    3 in a million; then the lower position comes first.

    Args:
        count: how many positions, at least 0.
        entropy: whole numbers of at least 0; another sequence of them gives another order.

    Returns:
        Each position once, int64, shape ``(count,)``.
    """
    return np.argsort(_words(count, entropy), kind="stable").astype(np.int64, copy=False)


def uniforms(count: int, *entropy: int) -> NDArray[np.float64]:
    """Independent uniform draws in [0, 1), multiples of 2**-53, float64, shape ``(count,)``."""
    return (_words(count, entropy) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normals(count: int, *entropy: int) -> NDArray[np.float64]:
    """Independent draws from N(0, 1), float64, shape ``(count,)``.

    Alike up to the last digits: those are the affair of each machine's log and cos.
    """
    pairs = (count + 1) // 2
    words = _words(2 * pairs, entropy)
    return box_muller(words[:pairs], words[pairs:]).numpy()[:count]


def _words(count: int, entropy: tuple[int, ...]) -> NDArray[np.uint64]:
    """Random words, uint64, shape ``(count,)``, of the generator that ``entropy`` seeds."""
    return np.random.PCG64(np.random.SeedSequence(entropy)).random_raw(count)
