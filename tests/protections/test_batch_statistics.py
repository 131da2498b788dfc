"""Class statistics against numpy, and averages against sums written out."""

import numpy as np
import pytest
import torch

from cutlayer.errors import ProtectionError
from cutlayer.protections.batch_statistics import (
    DECAY,
    ROWS_FOR_OWN_STATISTICS,
    AveragedStatistics,
    BatchStatistics,
)
from cutlayer.protections.class_moments import class_moments


def batch(positives: int, negatives: int, *, seed: int, width: int = 4):
    """Rows of both classes with means 2 and 0, deviations 1 and 3."""
    source = np.random.default_rng(seed)
    gradient = np.concatenate(
        [
            2 + source.normal(size=(positives, width)),
            3 * source.normal(size=(negatives, width)),
        ]
    )
    labels = np.concatenate([np.ones(positives), np.zeros(negatives)])
    return gradient, labels


def moments_of(gradient: np.ndarray, labels: np.ndarray):
    return class_moments(torch.from_numpy(gradient), torch.from_numpy(labels))


def test_batch_values_equal_numpy():
    source = np.random.default_rng(0)
    gradient = source.normal(size=(50, 7))
    labels = (np.arange(50) % 3 == 0).astype(int)
    found = BatchStatistics.of_batch(torch.from_numpy(gradient), torch.from_numpy(labels))
    one, zero = gradient[labels == 1], gradient[labels == 0]
    assert found.variance_pos == pytest.approx(one.var(axis=0).mean(), rel=1e-12)
    assert found.variance_neg == pytest.approx(zero.var(axis=0).mean(), rel=1e-12)
    gap = one.mean(axis=0) - zero.mean(axis=0)
    np.testing.assert_allclose(found.mean_gap.numpy(), gap, rtol=1e-12, atol=1e-14)
    assert found.gap_squared == pytest.approx((gap**2).sum(), rel=1e-12)
    assert found.positive_share == 17 / 50
    assert found.width == 7


@pytest.mark.parametrize("label", [0, 1])
def test_batch_values_need_both_classes(label):
    with pytest.raises(ProtectionError, match="needs both classes"):
        BatchStatistics.of_batch(torch.ones(5, 2), torch.full((5,), label))


def test_a_large_class_is_described_by_its_own_rows():
    averages = AveragedStatistics()
    averages.observe(moments_of(*batch(40, 100, seed=0)))
    gradient, labels = batch(ROWS_FOR_OWN_STATISTICS, 100, seed=1)
    found = averages.observe(moments_of(gradient, labels))
    one, zero = gradient[labels == 1], gradient[labels == 0]
    assert found.variance_pos == pytest.approx(one.var(axis=0, ddof=1).mean(), rel=1e-12)
    np.testing.assert_allclose(found.mean_pos.numpy(), one.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.mean_neg.numpy(), zero.mean(axis=0), rtol=1e-12)


def test_a_small_class_is_described_by_weighted_rows_of_all_batches():
    averages = AveragedStatistics()
    rows, ages, share = [], [], []
    batches = [(ROWS_FOR_OWN_STATISTICS - 1, 50), (0, 60), (1, 40), (3, 40)]
    for age, (positives, negatives) in enumerate(reversed(batches)):
        share.append((positives * DECAY**age, negatives * DECAY**age))
        gradient, _ = batch(positives, negatives, seed=10 + len(batches) - 1 - age)
        rows.append(gradient[:positives])
        ages.append(np.full(positives, DECAY**age))
    for number, (positives, negatives) in enumerate(batches):
        found = averages.observe(moments_of(*batch(positives, negatives, seed=10 + number)))
    rows, weights = np.concatenate(rows), np.concatenate(ages)
    mean = np.average(rows, axis=0, weights=weights)
    np.testing.assert_allclose(found.mean_pos.numpy(), mean, rtol=1e-12)
    # Unbiased variance with reliability weights.
    freedom = weights.sum() - (weights**2).sum() / weights.sum()
    spread = (weights[:, None] * (rows - mean) ** 2).sum() / (4 * freedom)
    assert found.variance_pos == pytest.approx(spread, rel=1e-12)
    ones, zeros = np.sum(share, axis=0)
    assert found.positive_share == pytest.approx(ones / (ones + zeros), rel=1e-12)


def test_primed_rows_weigh_one_row_a_class():
    averages = AveragedStatistics()
    primed, labels = batch(200, 200, seed=0)
    averages.prime(moments_of(primed, labels))
    one = np.full((1, 4), 7.0)
    found = averages.observe(moments_of(one, np.ones(1)))
    # The primed mean has weight 1 times the decay, the new row 1.
    mean = (DECAY * primed[:200].mean(axis=0) + one[0]) / (DECAY + 1)
    np.testing.assert_allclose(found.mean_pos.numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(found.mean_neg.numpy(), primed[200:].mean(axis=0), rtol=1e-12)
    assert found.variance_neg == pytest.approx(primed[200:].var(axis=0, ddof=1).mean(), rel=1e-12)


def test_both_classes_must_have_been_seen():
    averages = AveragedStatistics()
    with pytest.raises(ProtectionError, match="no positive row"):
        averages.observe(moments_of(*batch(0, 5, seed=0)))
    averages.observe(moments_of(*batch(1, 0, seed=1)))  # now both were


def test_the_squared_gap_is_unbiased():
    # True squared gap 4 * 2^2 = 16; raw, it is too large by d v / n1 + d u / n0 on average.
    values, raw = [], []
    for seed in range(1000):
        found = AveragedStatistics().observe(moments_of(*batch(40, 60, seed=seed)))
        values.append(found.gap_squared)
        raw.append(float(found.mean_gap.dot(found.mean_gap)))
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - 16.0) <= 5 * error
    assert abs(np.mean(raw) - (16.0 + 4 / 40 + 4 * 9 / 60)) <= 5 * error


def test_a_gap_that_rows_cannot_see_is_as_large_as_what_they_can():
    # No true gap: what is left after the correction is noise, often negative.
    source = np.random.default_rng(0)
    for _ in range(50):
        gradient = source.normal(size=(80, 4))
        labels = np.arange(80) % 2
        found = AveragedStatistics().observe(moments_of(gradient, labels))
        floor = 4 * (found.variance_pos + found.variance_neg) / 40
        assert found.gap_squared >= floor * (1 - 1e-12)


def test_a_single_row_takes_the_spread_of_the_other_class():
    gradient, labels = batch(1, 50, seed=0)
    found = AveragedStatistics().observe(moments_of(gradient, labels))
    assert found.variance_pos == found.variance_neg > 0
    lonely = AveragedStatistics().observe(moments_of(*batch(1, 1, seed=0)))
    assert lonely.variance_pos == lonely.variance_neg == 0.0


def test_the_share_stays_inside_its_borders():
    averages = AveragedStatistics()
    averages.prime(moments_of(*batch(5, 5, seed=0)))
    zeros = moments_of(*batch(0, 1000, seed=1))
    for _ in range(2000):
        found = averages.observe(zeros)
    assert 1e-6 <= found.positive_share < 1e-5
    assert np.isfinite(found.variance_pos)
