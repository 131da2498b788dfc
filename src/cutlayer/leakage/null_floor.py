"""The null floor: the leak AUC that chance alone reaches in a batch of a given size."""

import math

from scipy.special import ndtri

from cutlayer import check

_HALF_NORMAL_MEDIAN = float(ndtri(0.75))
_DENSITY_AT_MEDIAN = math.exp(-(_HALF_NORMAL_MEDIAN**2) / 2) / math.sqrt(2 * math.pi)


def null_deviation(positives: int, negatives: int) -> float:
    r"""Standard deviation of the AUC of scores that know nothing.

    .. math:: \sqrt{\frac{n_1 + n_0 + 1}{12\, n_1 n_0}}

    Args:
        positives: examples with label 1, at least 1.
        negatives: examples with label 0, at least 1.

    Returns:
        The deviation around 0.5; exact for scores without ties.

    Raises:
        ValueError: a class has no example.

    Source: Mann and Whitney (1947), "On a Test of Whether one of Two Random Variables is
    Stochastically Larger than the Other".
    """
    check.at_least("positives", positives, 1)
    check.at_least("negatives", negatives, 1)
    return math.sqrt((positives + negatives + 1) / (12 * positives * negatives))


def median_null_floor(deviation: float, batches: int, *, quantile: float = 0.95) -> float:
    r"""The ``quantile`` of the median of max(AUC, 1 - AUC) over batches, if nothing is known.

    One batch's max(AUC, 1 - AUC) - 1/2 is the size of a normal with deviation s: its median is
    0.6745 s, and the median of n of them has deviation :math:`1 / (2 f \sqrt n)` with the density
    :math:`f = 2 \varphi(0.6745) / s` there. So the floor of a median lies far below that of a
    batch:

    .. math:: \tfrac12 + 0.6745\, s + \Phi^{-1}(q)\, \frac{s}{4 \varphi(0.6745) \sqrt n}

    Args:
        deviation: of one batch's AUC, from :func:`null_deviation`.
        batches: independent ones, at least 1; batches of one epoch share no record.
        quantile: share of knowing-nothing attackers that stay below, in (0, 1).

    Returns:
        A leak AUC in (0.5, 1], by the normal approximation.

    Raises:
        ValueError: an argument is out of range.
    """
    check.not_negative("deviation", deviation)
    check.at_least("batches", batches, 1)
    check.between("quantile", quantile, 0.0, 1.0)
    if batches == 1:
        return min(1.0, 0.5 + float(ndtri((1 + quantile) / 2)) * deviation)
    spread = deviation / (4 * _DENSITY_AT_MEDIAN * math.sqrt(batches))
    return min(1.0, 0.5 + _HALF_NORMAL_MEDIAN * deviation + float(ndtri(quantile)) * spread)


def null_floor(positives: int, negatives: int, *, quantile: float = 0.95) -> float:
    r"""The ``quantile`` of max(AUC, 1 - AUC) when the scores know nothing.

    .. math:: \min\left(1,\ \tfrac12 + \Phi^{-1}\left(\tfrac{1 + q}{2}\right)
              \sqrt{\frac{n_1 + n_0 + 1}{12\, n_1 n_0}}\right)

    A symmetrised leak AUC below this value is no evidence of a leak, and the 95th percentile
    over batches never falls below it, however strong the protection.

    Args:
        positives: examples with label 1, at least 1.
        negatives: examples with label 0, at least 1.
        quantile: share of knowing-nothing batches that stay below the floor, in (0, 1).

    Returns:
        A leak AUC in (0.5, 1], by the normal approximation.

    Raises:
        ValueError: a class has no example, or ``quantile`` is not in (0, 1).

    >>> round(null_floor(262, 762), 3)  # Criteo's batch of 1024
    0.541
    """
    check.between("quantile", quantile, 0.0, 1.0)
    deviation = null_deviation(positives, negatives)
    return min(1.0, 0.5 + float(ndtri((1 + quantile) / 2)) * deviation)
