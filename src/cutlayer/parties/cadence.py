"""The cadence: replies leave at times that do not tell how long the work on them took."""

import math


def departure(taken_up: float, now: float, cadence: float) -> float:
    r"""When a reply may leave.

    At the first multiple of the cadence that is at least one cadence after its request was taken
    up, and not over yet:

    .. math:: c \left\lceil \max(t + c,\, n) / c \right\rceil

    A request is taken up when it comes, or when the work that follows the reply before it is done:
    the update, a checkpoint. As that reply left at a multiple too, the departure depends neither on
    the work on the reply, nor on the work before it, as long as each fits into a cadence. A reply
    that left a fixed time after its request was taken up would tell of the work before it, where
    several requests are on their way; and one that left at the very next multiple would tell
    whether it was ready by then.

    Args:
        taken_up: when the request was taken up, in seconds on the monotonic clock: :math:`t`.
        now: when the reply is ready, on the same clock: :math:`n`.
        cadence: seconds, above 0: :math:`c`.

    Returns:
        Seconds on the same clock, ``now`` or later.

    >>> [departure(7.25, now, cadence=1.0) for now in (7.3, 8.2, 9.5)]
    [9.0, 9.0, 10.0]
    """
    return cadence * math.ceil(max(taken_up + cadence, now) / cadence)
