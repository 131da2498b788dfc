"""The residual protection: its noise, its grid and its bound."""

import math

import pytest
import torch
from scipy.special import ndtr

from cutlayer.errors import ProtectionError
from cutlayer.protections.residual import Residual
from cutlayer.rng import SeededNoise


def test_bound_is_that_of_the_gaussian_mechanism():
    for sigma, releases in [(1.0, 1), (2.0, 7), (16.0, 20)]:
        bound = Residual(sigma=sigma).guarantee(releases)
        assert bound.kind == "rigorous"
        assert bound.leak_auc == pytest.approx(ndtr(math.sqrt(releases / 2) / sigma), abs=1e-14)


def test_target_is_reached_over_the_planned_releases():
    protection = Residual(max_leak_auc=0.6, releases=8)
    assert protection.guarantee(8).leak_auc == pytest.approx(0.6, abs=1e-12)


@pytest.mark.parametrize("sigma", [0.5, 0.75, 1.0, 3.0, 16.0])
def test_values_lie_on_the_public_grid(sigma):
    step = 2.0 ** (math.floor(math.log2(sigma)) - 10)
    logit = torch.linspace(-30, 30, 4096)
    labels = torch.arange(4096) % 2
    sent = Residual(sigma=sigma).noisy_residual(logit, labels, noise=SeededNoise(1))
    assert sent.dtype == torch.float32
    steps = sent.double() / step
    assert torch.equal(steps, steps.round())


def test_logit_that_is_not_finite_is_refused():
    with pytest.raises(ProtectionError, match="1 of 2 rows"):
        Residual(sigma=1.0).noisy_residual(
            torch.tensor([0.0, math.nan]), torch.tensor([0, 1]), noise=SeededNoise(0)
        )
