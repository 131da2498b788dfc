"""Bounds from sumKL: closed forms, inverses, and the exact AUC of shifted Gaussians below them."""

import math

import pytest
from scipy.special import ndtr

from cutlayer.leakage.sum_kl_bounds import (
    error_bound,
    leak_auc_bound,
    paper_leak_auc_bound,
    sum_kl_for_error,
    sum_kl_for_leak_auc,
    sum_kl_for_paper_leak_auc,
)


@pytest.mark.parametrize("auc", [0.500001, 0.51, 0.6, 0.75, 0.9, 0.99, 0.999999])
def test_each_inverse_undoes_its_bound(auc):
    assert leak_auc_bound(sum_kl_for_leak_auc(auc)) == pytest.approx(auc, abs=1e-14)
    assert paper_leak_auc_bound(sum_kl_for_paper_leak_auc(auc)) == pytest.approx(auc, abs=1e-14)
    assert error_bound(sum_kl_for_error(1 - auc)) == pytest.approx(1 - auc, abs=1e-14)


@pytest.mark.parametrize("shift", [1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_shifted_gaussians_stay_below(shift):
    # N(0, 1) against N(shift, 1): KL is shift^2 / 2 each way; AUC is Phi(shift / sqrt 2);
    # the best test errs with Phi(-shift / 2).
    divergence = shift**2
    auc = ndtr(shift / math.sqrt(2))
    assert auc <= leak_auc_bound(divergence) + 1e-15
    assert leak_auc_bound(divergence) <= paper_leak_auc_bound(divergence) + 1e-15
    assert ndtr(-shift / 2) >= error_bound(divergence) - 1e-15


@pytest.mark.parametrize("sum_kl", [99.0, 101.0, 1e8, 1e160, 1e308, math.inf])
def test_large_divergences_promise_nothing(sum_kl):
    assert leak_auc_bound(sum_kl) == pytest.approx(1.0, abs=1e-15)
    assert 0.0 <= error_bound(sum_kl) < 1e-15


def test_borders():
    assert leak_auc_bound(0.0) == 0.5
    assert leak_auc_bound(math.inf) == 1.0
    assert error_bound(0.0) == 0.5
    assert error_bound(math.inf) == 0.0
    assert paper_leak_auc_bound(4.0) == 1.0
    with pytest.raises(ValueError, match="sum_kl must be at least 0"):
        leak_auc_bound(math.nan)


@pytest.mark.parametrize("invert", [sum_kl_for_leak_auc, sum_kl_for_paper_leak_auc])
@pytest.mark.parametrize("leak_auc", [0.5, 1.0, 1.5, math.nan])
def test_a_goal_that_no_noise_or_any_noise_meets_is_refused(invert, leak_auc):
    with pytest.raises(ValueError, match=r"leak_auc must lie strictly between 0\.5 and 1"):
        invert(leak_auc)
