import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from cutlayer.leakage.auc_interval import (
    Interval,
    auc_interval,
    delong_variance,
    median_interval,
    true_positive_rate,
)
from cutlayer.leakage.leak_auc import leak_auc


def compared(s, t):
    return 1.0 if s > t else 0.5 if s == t else 0.0


def variance_pair_by_pair(scores, labels):
    """DeLong's definition with loops over all pairs: shares no step with the midranks."""
    positive, negative = scores[labels == 1].tolist(), scores[labels == 0].tolist()
    v = [sum(compared(s, t) for t in negative) / len(negative) for s in positive]
    w = [sum(compared(s, t) for s in positive) / len(positive) for t in negative]
    return np.var(v, ddof=1) / len(v) + np.var(w, ddof=1) / len(w)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_variance_equals_the_definition(seed, ties):
    g = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.tensor([0, 0, 1, 1]), torch.randint(2, (50,), generator=g)])
    scores = torch.randn(54, generator=g) + labels
    if ties:
        scores = scores.round()
    expected = variance_pair_by_pair(scores, labels)
    assert delong_variance(scores, labels) == pytest.approx(expected, rel=1e-12)


def test_variance_agrees_with_the_bootstrap():
    g = torch.Generator().manual_seed(3)
    positive, negative = torch.randn(120, generator=g) + 1, torch.randn(300, generator=g)
    scores = torch.cat([positive, negative])
    labels = torch.cat([torch.ones(120), torch.zeros(300)]).long()
    drawn = []
    for _ in range(2000):
        p = positive[torch.randint(120, (120,), generator=g)]
        n = negative[torch.randint(300, (300,), generator=g)]
        drawn.append(leak_auc(torch.cat([p, n]), labels))
    # The deviation of a variance from 2000 normal draws is sqrt(2 / 2000) = 3.2 % of it.
    assert delong_variance(scores, labels) == pytest.approx(np.var(drawn), rel=5 * 0.032)


@pytest.mark.parametrize("gap", [0.0, 1.0, 2.5])
def test_the_interval_covers_as_often_as_it_says(gap):
    from scipy.stats import norm

    g = torch.Generator().manual_seed(5)
    truth, labels = norm.cdf(gap / math.sqrt(2)), torch.arange(200) % 4 == 0
    covered = 0
    for _ in range(800):
        scores = torch.randn(200, generator=g) + gap * labels
        found = auc_interval(leak_auc(scores, labels.long()), scores, labels.long())
        covered += found.low <= truth <= found.high
    # 5 deviations of a binomial share of .95 from 800 are .039; the interval is approximate by
    # about a point at this size.
    assert 0.95 - 0.045 < covered / 800 < 0.95 + 0.04


def test_classes_apart_are_not_certainty():
    # theta solves (1 - theta)^2 = z^2 V(theta), by hand on a grid.
    labels = torch.tensor([1] * 10 + [0] * 30)
    found = auc_interval(1.0, labels.double(), labels)
    grid = np.linspace(0.5, 0.999999, 2_000_001)
    size = 40 / 2 - 1
    v = grid * (1 - grid) / 300 * (1 + size * (1 - grid) / (2 - grid) + size * grid / (1 + grid))
    low = grid[np.argmin(np.abs((1 - grid) ** 2 - 1.959964**2 * v))]
    assert found.high == 1.0
    assert found.low == pytest.approx(low, abs=1e-5)
    turned = auc_interval(0.0, -labels.double(), labels)
    assert (turned.low, turned.high) == (0.0, pytest.approx(1 - low, abs=1e-5))


def test_one_example_of_a_class_gives_a_wide_interval():
    labels = torch.tensor([1, 0, 0, 0, 0, 0, 0, 0])
    found = auc_interval(6 / 7, torch.tensor([5.5, 0, 1, 2, 3, 4, 5, 6]), labels)
    assert found.low < 0.5 < 6 / 7 < found.high < 1


def test_symmetrised_intervals():
    assert Interval(0.1, 0.2).symmetrised == Interval(0.8, 0.9)
    assert Interval(0.8, 0.9).symmetrised == Interval(0.8, 0.9)
    assert Interval(0.4, 0.7).symmetrised == Interval(0.5, 0.7)


@pytest.mark.parametrize("count", [6, 10, 25, 100, 101])
def test_median_interval_is_the_narrowest_that_covers(count):
    found = median_interval([float(i) for i in range(count)])
    first = int(found.low)
    assert found.high == count - 1 - first
    # The median lies below x_(1) with 2^-n, and so on: both tails of the binomial.
    assert 1 - 2 * binom.cdf(first, count, 0.5) >= 0.95
    assert 1 - 2 * binom.cdf(first + 1, count, 0.5) < 0.95


def test_few_values_give_all_they_have():
    assert median_interval([0.7]) == Interval(0.7, 0.7)
    assert median_interval([0.9, 0.7, 0.8]) == Interval(0.7, 0.9)


def test_true_positives_by_hand():
    # 200 negatives 0..199: two false alarms allowed, so the threshold lies above 197.
    scores = torch.cat([torch.arange(200.0), torch.tensor([197.0, 197.5, 300.0, 5.0])])
    labels = torch.cat([torch.zeros(200), torch.ones(4)]).long()
    assert true_positive_rate(scores, labels, false_positive_rate=0.01) == 0.5
    # One negative more on the threshold would be a third alarm: nobody on it is accused.
    assert true_positive_rate(scores, labels, false_positive_rate=0.5) == 0.75


def test_equal_scores_accuse_nobody():
    labels = torch.arange(300) % 2
    assert true_positive_rate(torch.zeros(300), labels, false_positive_rate=0.01) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: delong_variance(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 0])),
        lambda: delong_variance(torch.tensor([1.0, math.nan]), torch.tensor([1, 0])),
        lambda: delong_variance(torch.arange(4.0), torch.tensor([0, 0, 2, 2])),
        lambda: auc_interval(0.5, torch.ones(2), torch.tensor([1, 1])),
        lambda: auc_interval(0.5, torch.ones(2), torch.tensor([1, 0]), confidence=1.0),
        lambda: median_interval([]),
        lambda: true_positive_rate(torch.ones(2), torch.tensor([1, 0]), false_positive_rate=0.0),
    ],
)
def test_undefined_is_an_error(call):
    with pytest.raises(ValueError, match="must"):
        call()
