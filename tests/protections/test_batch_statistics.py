"""Class statistics against numpy, and averages against sums written out."""

import numpy as np
import pytest
import torch

from cutlayer.protections.batch_statistics import BatchStatistics


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
