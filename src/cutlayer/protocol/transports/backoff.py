"""Backoff: how long to wait before the next attempt to connect."""

import random
from collections.abc import Iterator

FIRST_SECONDS, LONGEST_SECONDS = 0.2, 2.0


def backoff(generator: random.Random | None = None) -> Iterator[float]:
    r"""Seconds before each further attempt: exponential, with full jitter.

    .. math:: w_n \sim U(0,\ \min(2,\ 0.2 \cdot 2^n))

    Args:
        generator: of the jitter; by default the operating system's. Nothing secret depends on it.

    Source: M. Brooker (2015), "Exponential Backoff And Jitter", AWS Architecture Blog.
    """
    draw = generator or random.SystemRandom()
    longest = FIRST_SECONDS
    while True:
        yield draw.uniform(0, longest)
        longest = min(2 * longest, LONGEST_SECONDS)
