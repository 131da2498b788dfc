"""Intervals around a leak AUC, and how many positives it gives away at few false alarms."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.special import ndtri
from torch import Tensor

from cutlayer import check


@dataclass(frozen=True)
class Interval:
    """Two ends of a confidence interval."""

    low: float
    high: float

    @property
    def symmetrised(self) -> "Interval":
        """The interval of max(AUC, 1 - AUC), from that of the AUC.

        >>> Interval(0.25, 0.5).symmetrised, Interval(0.375, 0.75).symmetrised
        (Interval(low=0.5, high=0.75), Interval(low=0.5, high=0.75))
        """
        ends = max(self.low, 1 - self.low), max(self.high, 1 - self.high)
        low = 0.5 if self.low <= 0.5 <= self.high else min(ends)
        return Interval(low, max(ends))


def delong_variance(scores: Tensor, labels: Tensor) -> float:
    r"""Variance of the AUC over draws of positives and negatives.

    With the share :math:`V_i` of negatives below positive :math:`i` (ties count half), and the
    share :math:`W_j` of positives above negative :math:`j`,

    .. math:: \frac{\operatorname{var}_i V_i}{n_1} + \frac{\operatorname{var}_j W_j}{n_0}

    with the unbiased sample variances. Computed from midranks, in O(n log n).

    Args:
        scores: attack scores, float, shape ``(examples,)``.
        labels: true labels, 0 or 1, shape ``(examples,)``.

    Returns:
        The variance; 0 where the classes are apart without a tie.

    Raises:
        ValueError: a score is not finite, shapes differ, or a class has fewer than two examples.

    Source: DeLong, DeLong and Clarke-Pearson (1988), "Comparing the Areas under Two or More
    Correlated Receiver Operating Characteristic Curves"; by midranks as Sun and Xu (2014).
    """
    check.finite("scores", scores)
    check.shape("labels", labels, tuple(scores.shape))
    check.both_classes("labels", labels)
    positive, negative = scores[labels == 1], scores[labels != 1]
    for name, count in (("positives", len(positive)), ("negatives", len(negative))):
        check.at_least(name, count, 2)
    ranks = _midranks(scores)
    above = (ranks[labels == 1] - _midranks(positive)) / len(negative)
    below = 1 - (ranks[labels != 1] - _midranks(negative)) / len(positive)
    return float(above.var() / len(positive) + below.var() / len(negative))


def auc_interval(
    auc: float, scores: Tensor, labels: Tensor, *, confidence: float = 0.95
) -> Interval:
    r"""Confidence interval of an AUC.

    DeLong's variance on the logit of the AUC, which keeps the ends inside (0, 1):

    .. math:: \operatorname{logit} A \pm z\, \frac{\sqrt{v}}{A (1 - A)}

    Where the classes are apart, or one has a single example, that variance is 0 or undefined and
    would claim certainty. There the ends solve :math:`|A - \theta| = z \sqrt{V(\theta)}` with

    .. math:: V(\theta) = \frac{\theta (1 - \theta)}{n_1 n_0} \left( 1 + N \frac{1 - \theta}
              {2 - \theta} + N \frac{\theta}{1 + \theta} \right), \qquad N = \frac{n_1 + n_0}2 - 1

    Args:
        auc: of these scores, in [0, 1].
        scores: attack scores, float, shape ``(examples,)``.
        labels: true labels, 0 or 1, shape ``(examples,)``.
        confidence: chance that the interval covers the AUC of all records, in (0, 1).

    Raises:
        ValueError: a score is not finite, a class is missing, or ``confidence`` is out of range.

    Source: Qin and Hotilovac (2008) for the logit; Newcombe (2006), "Confidence intervals for an
    effect size measure based on the Mann-Whitney statistic, part 2", method 5, for the edge.
    """
    check.between("confidence", confidence, 0.0, 1.0)
    check.both_classes("labels", labels)
    positives = int((labels == 1).sum())
    negatives = len(labels) - positives
    z = float(ndtri((1 + confidence) / 2))
    variance = delong_variance(scores, labels) if min(positives, negatives) > 1 else 0.0
    if variance <= 0 or not 0 < auc < 1:
        return _score_interval(auc, positives, negatives, z)
    centre, spread = math.log(auc / (1 - auc)), z * math.sqrt(variance) / (auc * (1 - auc))
    return Interval(_logistic(centre - spread), _logistic(centre + spread))


def median_interval(values: list[float], *, confidence: float = 0.95) -> Interval:
    r"""Confidence interval of a median, whatever the distribution of its independent values.

    The number of values below the median is binomial, so the interval runs between two of the
    sorted values :math:`x_{(l)}` and :math:`x_{(n + 1 - l)}`, with the largest :math:`l` for which

    .. math:: P(\operatorname{Bin}(n, \tfrac12) < l) \le \tfrac{1 - c}2

    With so few values that no :math:`l` qualifies, it runs from the smallest to the largest.

    Args:
        values: one a batch, at least one.
        confidence: at least so often it covers the median, in (0, 1).

    Raises:
        ValueError: there are no values, or ``confidence`` is out of range.

    Source: the sign test; Conover (1999), "Practical Nonparametric Statistics", section 3.2.
    """
    from scipy.stats import binom  # here: it takes long to load

    check.at_least("number of values", len(values), 1)
    check.between("confidence", confidence, 0.0, 1.0)
    count, ordered = len(values), sorted(values)
    # The quantile is the smallest l with P(Bin <= l) >= share, so P(Bin < l) < share.
    left_out = int(binom.ppf((1 - confidence) / 2, count, 0.5))
    first = max(0, left_out - 1)
    return Interval(ordered[first], ordered[count - 1 - first])


def true_positive_rate(scores: Tensor, labels: Tensor, *, false_positive_rate: float) -> float:
    """Share of positives that are found when at most so many negatives are accused.

    The threshold is the lowest that keeps the false alarms within the rate; examples of one score
    are accused together, and nothing is interpolated. With fewer negatives than one over the rate
    not a single false alarm is allowed.

    Args:
        scores: attack scores, float, shape ``(examples,)``; higher means "positive".
        labels: true labels, 0 or 1, shape ``(examples,)``.
        false_positive_rate: allowed share of accused negatives, in (0, 1).

    Returns:
        A share in [0, 1]; an attack that knows nothing reaches about ``false_positive_rate``.

    Raises:
        ValueError: a score is not finite, a class is missing, or the rate is out of range.

    Source: TPR at a low FPR as privacy attacks are judged, Carlini et al. (2022), "Membership
    Inference Attacks From First Principles".

    >>> true_positive_rate(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1, 0, 1]),
    ...                    false_positive_rate=0.01)
    0.5
    """
    check.finite("scores", scores)
    check.shape("labels", labels, tuple(scores.shape))
    check.both_classes("labels", labels)
    check.between("false_positive_rate", false_positive_rate, 0.0, 1.0)
    positive, negative = scores[labels == 1], scores[labels != 1]
    allowed = math.floor(false_positive_rate * len(negative))
    # Everything above the first negative that may not be accused.
    barrier = negative.sort(descending=True).values[allowed]
    return float((positive > barrier).double().mean())


def _midranks(values: Tensor) -> Tensor:
    """Ranks from 1 up, float64; equal values share their mean rank."""
    _, rank_of, ties = torch.unique(values, return_inverse=True, return_counts=True)
    return (ties.cumsum(0) - (ties.double() - 1) / 2)[rank_of]


def _score_interval(auc: float, positives: int, negatives: int, z: float) -> Interval:
    """Newcombe's method 5."""
    size = (positives + negatives) / 2 - 1

    def excess(theta: float) -> float:
        inflation = 1 + size * (1 - theta) / (2 - theta) + size * theta / (1 + theta)
        variance = theta * (1 - theta) * inflation / (positives * negatives)
        return (auc - theta) ** 2 - z**2 * variance

    # At 0 and 1 the variance vanishes, so the excess is not negative there; at the AUC it is not
    # positive: one root lies on each side.
    low = 0.0 if auc <= 0 else _root(excess, 0.0, auc) if auc < 1 else _inner(excess, 1.0)
    high = 1.0 if auc >= 1 else _root(excess, auc, 1.0) if auc > 0 else _inner(excess, 0.0)
    return Interval(low, high)


def _inner(excess: Callable[[float], float], edge: float) -> float:
    """The root inside (0, 1) where the AUC itself, on the edge, is the other root."""
    near = abs(edge - 1e-12)
    return _root(excess, 1 - edge, near)


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where the excess is 0 between two ends at which its signs differ."""
    from scipy.optimize import brentq  # here: it takes long to load

    return float(brentq(excess, low, high))


def _logistic(value: float) -> float:
    """1 / (1 + exp(-value)) without overflow."""
    return 1 / (1 + math.exp(-value)) if value > 0 else 1 - 1 / (1 + math.exp(value))
