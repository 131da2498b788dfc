"""The Gaussian mechanism against quadrature in 30 digits, simulation and published tables."""

import math

import mpmath
import numpy as np
import pytest
import torch

from cutlayer.leakage.gaussian_mechanism import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_leak_auc,
    gaussian_mu,
    gaussian_true_positive_rate,
    sigma_for_leak_auc,
)
from cutlayer.leakage.leak_auc import leak_auc


def integrated_delta(mu: float, epsilon: float) -> float:
    """The definition: integral of max(0, p - e^eps q) for p = N(mu, 1), q = N(0, 1)."""
    with mpmath.workdps(40):
        border = epsilon / mpmath.mpf(mu) + mpmath.mpf(mu) / 2  # where p = e^eps q

        def surplus(t):
            return mpmath.npdf(t, mu) - mpmath.exp(epsilon) * mpmath.npdf(t)

        return float(
            mpmath.quad(surplus, [border + t for t in (0, 0.05, 0.1, 0.2, 0.4, 1, 2, 4, 8, 12)])
        )


@pytest.mark.parametrize("mu", [0.035, 0.178, 0.742, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
def test_delta_equals_its_definition(mu, epsilon):
    expected = integrated_delta(mu, epsilon)
    assert gaussian_delta(mu, epsilon=epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-40)


@pytest.mark.parametrize("mu", [0.035, 0.178, 0.358, 0.742, 3.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-3])
def test_epsilon_undoes_delta(mu, delta):
    epsilon = gaussian_epsilon(mu, delta=delta)
    assert gaussian_delta(mu, epsilon=epsilon) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(
    ("auc", "epsilon", "tpr"),
    [(0.51, 0.11, 0.011), (0.55, 0.64, 0.016), (0.6, 1.38, 0.025), (0.7, 3.11, 0.057)],
)
def test_currencies_of_the_frontier_table(auc, epsilon, tpr):
    # shared/FRONTIER.md, section 1: eps at delta 1e-5 and TPR at FPR 1 % for each AUC bound.
    mu = gaussian_mu(sigma_for_leak_auc(auc, releases=1))
    assert gaussian_epsilon(mu, delta=1e-5) == pytest.approx(epsilon, abs=0.006)
    assert gaussian_true_positive_rate(mu, false_positive_rate=0.01) == pytest.approx(tpr, abs=6e-4)


@pytest.mark.parametrize(("sigma", "releases"), [(1.0, 1), (2.0, 4), (8.0, 30)])
def test_leak_auc_of_averaged_releases_is_reached_and_not_passed(sigma, releases):
    # The best attack averages: sufficient for a shift of 1 under noise sigma / sqrt(E).
    source = np.random.default_rng(releases)
    rows = 100_000
    labels = np.arange(2 * rows) % 2
    mean = source.normal(scale=sigma, size=(2 * rows, releases)).mean(axis=1) - labels
    auc = leak_auc(torch.from_numpy(-mean), torch.from_numpy(labels))
    bound = gaussian_leak_auc(gaussian_mu(sigma, releases=releases))
    assert abs(auc - bound) <= 5 * math.sqrt(bound * (1 - bound) / rows)


def test_planned_noise_gives_the_planned_bound():
    for auc in (0.51, 0.7, 0.99):
        for releases in (1, 30):
            sigma = sigma_for_leak_auc(auc, releases=releases, sensitivity=2.0)
            mu = gaussian_mu(sigma, releases=releases, sensitivity=2.0)
            assert gaussian_leak_auc(mu) == pytest.approx(auc, abs=1e-14)


def test_borders():
    assert gaussian_mu(1.0, releases=0) == 0.0
    assert gaussian_leak_auc(0.0) == 0.5
    assert gaussian_delta(0.0, epsilon=0.0) == 0.0
    assert gaussian_epsilon(0.0, delta=1e-5) == 0.0
    assert gaussian_epsilon(1e-7, delta=1e-5) == 0.0
    assert gaussian_true_positive_rate(0.0, false_positive_rate=0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_mu(0.0), "sigma"),
        (lambda: gaussian_mu(1.0, releases=-1), "releases"),
        (lambda: gaussian_mu(1.0, sensitivity=0.0), "sensitivity"),
        (lambda: gaussian_leak_auc(-1.0), "mu"),
        (lambda: gaussian_delta(1.0, epsilon=-1.0), "epsilon"),
        (lambda: gaussian_epsilon(1.0, delta=0.0), "delta"),
        (lambda: gaussian_true_positive_rate(1.0, false_positive_rate=1.0), "false_positive"),
        (lambda: sigma_for_leak_auc(0.5, releases=1), "leak_auc"),
        (lambda: sigma_for_leak_auc(0.7, releases=0), "releases"),
        (lambda: sigma_for_leak_auc(0.7, releases=1, sensitivity=-1.0), "sensitivity"),
        (lambda: gaussian_epsilon(-1.0, delta=0.1), "mu"),
        (lambda: gaussian_true_positive_rate(-1.0, false_positive_rate=0.1), "mu"),
    ],
)
def test_impossible_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
