"""The residual protection: its noise, its grid, its bounds, and the best attack on it."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, ndtr

from cutlayer.errors import ProtectionError
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.protections.residual import Residual
from cutlayer.rng import SecretNoise, SeededNoise


def rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    logit = 2 * torch.randn(count, generator=source, dtype=torch.float64)
    return logit, torch.randint(2, (count,), generator=source)


# --- Bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "releases"), [(1.0, 1), (2.0, 7), (16.0, 20)])
def test_bound_is_that_of_the_gaussian_mechanism(sigma, releases):
    bound = Residual(sigma=sigma).guarantee(releases)
    assert bound.kind == "rigorous"
    assert bound.leak_auc == pytest.approx(ndtr(math.sqrt(releases / 2) / sigma), abs=1e-14)
    assert bound.releases == releases


@pytest.mark.parametrize("allocation", ["uniform", "marvell"])
def test_target_is_reached_over_the_planned_releases(allocation):
    share = 0.1 if allocation == "marvell" else None
    protection = Residual(max_leak_auc=0.6, releases=8, allocation=allocation, positive_share=share)
    assert protection.guarantee(8).leak_auc == pytest.approx(0.6, abs=1e-10)
    assert protection.guarantee(8).leak_auc <= 0.6 + 1e-15
    assert protection.guarantee(0).leak_auc == 0.5


@pytest.mark.parametrize(("p", "s"), [(0.5, 4.0), (0.05, 4.0), (0.9, 0.3)])
def test_marvell_allocation_in_closed_form(p, s):
    # sumKL = sqrt((1 + p t)(1 + q t)) - 1 + t/2 with t = 1/s, and mean power s.
    protection = Residual(allocation="marvell", s=s, positive_share=p)
    t = 1 / s
    sum_kl = math.sqrt((1 + p * t) * (1 + (1 - p) * t)) - 1 + t / 2
    for releases in (1, 3):
        auc = protection.guarantee(releases).leak_auc
        # AUC = 1 / (1 + exp(-z)) with z tanh(z/2) = sumKL: put back into the inequality.
        reached = (2 * auc - 1) * math.log(auc / (1 - auc))
        assert reached == pytest.approx(releases * sum_kl, rel=1e-9)
    power = p * protection.deviation_pos**2 + (1 - p) * protection.deviation_neg**2
    assert power == pytest.approx(s, rel=1e-12)
    assert protection.noise_deviation == pytest.approx(math.sqrt(s), rel=1e-12)
    # The rare class gets more noise.
    assert (protection.deviation_pos > protection.deviation_neg) == (p < 0.5)


def test_uniform_and_even_marvell_are_the_same_noise():
    even = Residual(allocation="marvell", s=4.0, positive_share=0.5)
    assert even.deviation_pos == pytest.approx(2.0, rel=1e-12)
    assert even.deviation_neg == pytest.approx(2.0, rel=1e-12)
    assert Residual(sigma=2.0).deviation_pos == Residual(sigma=2.0).deviation_neg == 2.0


@pytest.mark.parametrize(
    "protection",
    [
        Residual(sigma=1.5),
        Residual(sigma=4.0),
        Residual(allocation="marvell", s=2.0, positive_share=0.1),
    ],
    ids=lambda p: p.strength,
)
@pytest.mark.parametrize("releases", [1, 6])
def test_an_attacker_who_knows_all_but_the_label_stays_below_the_bound(protection, releases):
    """He knows logits, noise levels and everything else: he ranks by the likelihood ratio."""
    logit, labels = rows(40_000)
    p = torch.sigmoid(logit)
    one, zero = protection.deviation_pos, protection.deviation_neg
    score = torch.zeros_like(logit)
    source = SeededNoise(1)
    for _ in range(releases):
        sent = protection.noisy_residual(logit, labels, noise=source)
        score += (sent - p) ** 2 / (2 * zero**2) - (sent - p + 1) ** 2 / (2 * one**2)
    auc = leak_auc(score, labels)
    error = math.sqrt(auc * (1 - auc) / 20_000)
    bound = protection.guarantee(releases).leak_auc
    assert auc <= bound + 5 * error
    if protection.allocation == "uniform":
        assert auc >= bound - 5 * error  # the Gaussian bound is reached


# --- The noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize(
    "protection",
    [Residual(sigma=3.0), Residual(allocation="marvell", s=2.0, positive_share=0.1)],
    ids=["uniform", "marvell"],
)
def test_noise_around_the_residual_is_gaussian(protection, label):
    logit, _ = rows(100_000)
    labels = torch.full((100_000,), label)
    sent = protection.noisy_residual(logit, labels, noise=SecretNoise())
    deviation = protection.deviation_pos if label else protection.deviation_neg
    noise = (sent.numpy() - (expit(logit.numpy()) - label)) / deviation
    critical = stats.kstwo.ppf(1 - 1e-6, len(noise))
    assert stats.kstest(noise, "norm").statistic < critical + 2**-10  # + the grid


@pytest.mark.parametrize("sigma", [2.0**-9, 0.5, 0.75, 1.0, 3.0, 16.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_lie_on_the_public_grid(sigma, dtype):
    step = 2.0 ** (math.floor(math.log2(sigma)) - 10)
    assert Residual(sigma=sigma).grid_step == step
    logit = torch.linspace(-30, 30, 4096, dtype=dtype)
    labels = torch.arange(4096) % 2
    sent = Residual(sigma=sigma).noisy_residual(logit, labels, noise=SeededNoise(1))
    assert sent.dtype == dtype
    assert sent.shape == logit.shape
    steps = sent.double() / step
    assert torch.equal(steps, steps.round())


def test_the_grid_of_marvell_is_one_for_both_classes():
    protection = Residual(allocation="marvell", s=100.0, positive_share=0.001)
    step = 2.0 ** (math.floor(math.log2(protection.deviation_neg)) - 10)
    assert protection.deviation_neg < protection.deviation_pos
    assert protection.grid_step == step


def test_float32_holds_the_grid_value_exactly():
    logit, labels = rows(10_000)
    logit = logit.float().double()
    for sigma in (0.3, 2.0, 50.0):
        exact = Residual(sigma=sigma).noisy_residual(logit, labels, noise=SeededNoise(4))
        single = Residual(sigma=sigma).noisy_residual(logit.float(), labels, noise=SeededNoise(4))
        assert torch.equal(single.double(), exact)


def test_saturated_logits_are_masked_like_any_other():
    # float32's sigmoid is exactly 1 from 17 on: the clean residual of a sure positive is 0.
    logit = torch.full((1000,), 40.0)
    sent = Residual(sigma=1.0).noisy_residual(logit, torch.ones(1000), noise=SeededNoise(0))
    assert abs(sent.std().item() - 1.0) < 5 / math.sqrt(2 * 1000)


@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_with_one_class_and_a_batch_of_one(label):
    for count in (1, 16):
        logit, _ = rows(count)
        sent = Residual(sigma=1.0).noisy_residual(
            logit, torch.full((count,), label), noise=SeededNoise(0)
        )
        assert sent.shape == (count,)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_not_finite_is_refused(bad):
    with pytest.raises(ProtectionError, match="1 of 2 rows"):
        Residual(sigma=1.0).noisy_residual(
            torch.tensor([0.0, bad]), torch.tensor([0, 1]), noise=SeededNoise(0)
        )


def test_a_residual_that_overflows_its_type_is_refused():
    with pytest.raises(ProtectionError, match="noisy residual"):
        Residual(sigma=1e6).noisy_residual(
            torch.zeros(64, dtype=torch.float16), torch.zeros(64), noise=SeededNoise(0)
        )


@pytest.mark.parametrize(
    ("logit", "labels", "message"),
    [
        (torch.zeros(2, 1), torch.zeros(2), "logit must have shape"),
        (torch.zeros(0), torch.zeros(0), "at least 1"),
        (torch.zeros(2), torch.zeros(3), "labels must have shape"),
        (torch.zeros(2), torch.tensor([0.0, 0.5]), "only 0 and 1"),
    ],
)
def test_wrong_batches_are_refused(logit, labels, message):
    with pytest.raises(ValueError, match=message):
        Residual(sigma=1.0).noisy_residual(logit, labels, noise=SeededNoise(0))


# --- Settings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "exactly one of sigma and max_leak_auc"),
        ({"sigma": 1.0, "max_leak_auc": 0.7, "releases": 1}, "exactly one of sigma"),
        ({"max_leak_auc": 0.7}, "go together"),
        ({"sigma": 1.0, "releases": 5}, "go together"),
        ({"max_leak_auc": 0.5, "releases": 5}, "leak_auc"),
        ({"max_leak_auc": 0.7, "releases": 0}, "releases"),
        ({"sigma": 0.0}, "sigma must lie strictly between 1e-12 and"),
        ({"sigma": math.inf}, "sigma must lie strictly between 1e-12 and"),
        ({"sigma": 1.0, "s": 1.0}, "s has no meaning"),
        ({"sigma": 1.0, "positive_share": 0.1}, "positive_share belongs"),
        ({"sigma": 1.0, "allocation": "even"}, "allocation must be uniform or marvell"),
        ({"allocation": "marvell", "s": 1.0}, "positive_share belongs"),
        ({"allocation": "marvell", "positive_share": 0.1}, "exactly one of s and max_leak_auc"),
        ({"allocation": "marvell", "s": 1.0, "positive_share": 1.0}, "positive_share must lie"),
        ({"allocation": "marvell", "s": -1.0, "positive_share": 0.5}, "s must lie strictly"),
        ({"allocation": "marvell", "sigma": 1.0, "positive_share": 0.5}, "sigma has no meaning"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Residual(**settings)


def test_strength_names_the_setting():
    assert Residual(sigma=2.0).strength == "sigma=2"
    assert Residual(max_leak_auc=0.7, releases=5).strength == "max_leak_auc=0.7 over 5"
    assert Residual(allocation="marvell", s=4.0, positive_share=0.1).strength == (
        "s=4, marvell allocation"
    )
    assert Residual(sigma=2.0) == Residual(sigma=2.0)
    assert np.isclose(Residual(sigma=2.0).noise_deviation, 2.0)
