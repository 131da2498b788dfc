"""The null floor: the leak AUC that chance alone reaches in a batch of a given size."""

import math

from scipy.special import ndtri

from cutlayer import check


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
