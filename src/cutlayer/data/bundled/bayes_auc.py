"""Bayes AUC: the best that any model can reach when the true probabilities are known."""

import numpy as np
from numpy.typing import NDArray


def bayes_auc(probability: NDArray[np.float64]) -> float:
    r"""Expected AUC of the true probabilities themselves, over the coins that draw the labels.

    .. math:: \frac{\sum_{i \ne j} p_i (1 - p_j) \left([p_i > p_j] + \tfrac12 [p_i = p_j]\right)}
              {\sum_{i \ne j} p_i (1 - p_j)}

    Exact in :math:`O(n \log n)`: after sorting, the inner sum is a running total. It is the
    expected number of well-ordered pairs over the expected number of pairs, which the AUC of one
    draw of the labels approaches as the records become many.

    Args:
        probability: each record's chance to be positive, float64 in [0, 1], shape ``(records,)``.

    Returns:
        A share in [0.5, 1]: 0.5 where all records have one probability. No order of the records
        does better, since ``i`` before ``j`` is the likelier order whenever ``p_i > p_j``; on one
        draw of the labels a model may exceed it by luck.

    Raises:
        ValueError: another shape than ``(records,)``, a value outside [0, 1] or NaN, or no pair
            of records of which one can be positive and the other negative.

    >>> bayes_auc(np.array([0.0, 1.0, 1.0]))
    1.0
    """
    if probability.ndim != 1:
        raise ValueError(f"probability must have shape (records,), got {probability.shape}.")
    if not bool(((probability >= 0) & (probability <= 1)).all()):
        raise ValueError("probability must lie in [0, 1], got values outside or NaN.")
    values, group = np.unique(probability, return_inverse=True)
    counts = np.bincount(group, minlength=len(values)).astype(np.float64)
    positive, negative = values * counts, (1 - values) * counts  # expected, for each value
    with_itself = float((values * (1 - values) * counts).sum())
    pairs = float(positive.sum()) * float(negative.sum()) - with_itself
    if not pairs > 0:
        raise ValueError("probability must allow for both classes among two records at least.")
    below = np.cumsum(negative) - negative
    ordered = float(positive @ below) + (float(positive @ negative) - with_itself) / 2
    return ordered / pairs
