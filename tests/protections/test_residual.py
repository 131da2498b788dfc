"""The residual protection: its noise, its grid, its bounds, and the best attack on it."""

import copy
import math
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, ndtr

from cutlayer.errors import ConfigurationError, ProtectionError
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.protections import PROTECTIONS, Residual, parse_protection
from cutlayer.rng import NoiseSource, SecretNoise, SeededNoise


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


def test_target_is_reached_over_the_planned_releases():
    protection = Residual(max_leak_auc=0.6, releases=8)
    assert protection.guarantee(8).leak_auc == pytest.approx(0.6, abs=1e-10)
    assert protection.guarantee(8).leak_auc <= 0.6 + 1e-15
    assert protection.guarantee(0).leak_auc == 0.5


@pytest.mark.parametrize("sigma", [1.5, 4.0])
@pytest.mark.parametrize("releases", [1, 6])
def test_an_attacker_who_knows_all_but_the_label_stays_below_the_bound(sigma, releases):
    """He knows logits, noise level and everything else: he ranks by the likelihood ratio."""
    protection = Residual(sigma=sigma)
    logit, labels = rows(40_000)
    p = torch.sigmoid(logit)
    score = torch.zeros_like(logit)
    source = SeededNoise(1)
    for _ in range(releases):
        sent = protection.noisy_residual(logit, labels, noise=source)
        score += (sent - p) ** 2 - (sent - p + 1) ** 2
    auc = leak_auc(score, labels)
    error = math.sqrt(auc * (1 - auc) / 20_000)
    bound = protection.guarantee(releases).leak_auc
    assert auc <= bound + 5 * error
    assert auc >= bound - 5 * error  # the Gaussian bound is reached


# --- The noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [0, 1])
def test_noise_around_the_residual_is_gaussian(label):
    protection = Residual(sigma=3.0)
    logit, _ = rows(100_000)
    labels = torch.full((100_000,), label)
    sent = protection.noisy_residual(logit, labels, noise=SecretNoise())
    noise = (sent.numpy() - (expit(logit.numpy()) - label)) / 3.0
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


class Given(NoiseSource):
    """Hands out the draws that it was given."""

    reproducible = True

    def __init__(self, draws):
        self.draws = draws

    def normal(self, *shape, device="cpu"):
        assert shape == tuple(self.draws.shape)
        return self.draws.to(device)


def released(sigma, xi, label):
    """The one number behind a residual, in exact fractions: noise on the fine grid less label."""
    step = Fraction(2) ** (math.floor(math.log2(sigma)) - 10)
    fine = min(step / 2**20, Fraction(1))
    return round(Fraction(sigma * xi) / fine) * fine - label, step, fine


@pytest.mark.parametrize("sigma", [0.3, 1.0, 40.0])
@pytest.mark.parametrize("label", [0, 1])
def test_a_residual_is_made_from_one_number_on_a_finer_grid(sigma, label):
    """Logits that put the sum just beside a border of the grid show that number to its last bit,
    and nothing of the noise beyond it."""
    draws = SeededNoise(7).normal(2000)
    sigmoids, expected = [], []
    for row, xi in enumerate(draws.tolist()):
        number, step, fine = released(sigma, xi, label)
        border = (math.floor((number + Fraction(1, 2)) / step) + Fraction(1, 2)) * step
        side = fine / 4 if row % 2 else -fine / 4
        sigmoids.append(float(border - number + side))
        expected.append(float(border + (step if row % 2 else -step) / 2))
    sigmoid = torch.tensor(sigmoids, dtype=torch.float64)
    labels = torch.full((2000,), label)
    sent = Residual(sigma=sigma).noisy_residual(sigmoid.logit(), labels, noise=Given(draws))
    assert sent.tolist() == expected


def test_the_finer_grid_is_never_coarser_than_a_label():
    # sigma = 2^38: a step is 2^28, its border 2^27. The draw is 2^27 + 100, less a label of 1.
    draws = torch.tensor([(2.0**27 + 100) / 2.0**38], dtype=torch.float64)
    for label in (0, 1):
        sent = Residual(sigma=2.0**38).noisy_residual(
            torch.zeros(1, dtype=torch.float64), torch.tensor([label]), noise=Given(draws)
        )
        assert sent.tolist() == [2.0**28]
    border = torch.tensor([2.0**27 / 2.0**38], dtype=torch.float64)
    for label, expected in ((0, 2.0**28), (1, 0.0)):  # 2^27 + 1/2, and 2^27 - 1/2
        sent = Residual(sigma=2.0**38).noisy_residual(
            torch.zeros(1, dtype=torch.float64), torch.tensor([label]), noise=Given(border)
        )
        assert sent.tolist() == [expected]


@pytest.mark.parametrize("sigma", [0.3, 2.0, 40.0])
def test_answers_to_other_logits_differ_by_known_numbers(sigma):
    logit, labels = rows(300)
    protection = Residual(sigma=sigma)
    sent = protection.noisy_residual(logit, labels, noise=SeededNoise(7))
    for offset in torch.linspace(-4, 4, 41).tolist():
        moved = torch.full_like(logit, offset)
        other = protection.noisy_residual(moved, labels, noise=SeededNoise(7))
        known = torch.sigmoid(moved) - torch.sigmoid(logit)
        assert (other - sent - known).abs().max().item() <= protection.grid_step * (1 + 1e-6)


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
        ({"max_leak_auc": 0.5, "releases": 5}, "max_leak_auc must lie strictly between 0.5 and"),
        ({"max_leak_auc": 1.0, "releases": 5}, "max_leak_auc must lie strictly between 0.5 and"),
        ({"max_leak_auc": 0.7, "releases": 0}, "releases"),
        ({"sigma": 0.0}, "sigma must lie strictly between 1e-12 and"),
        ({"sigma": math.inf}, "sigma must lie strictly between 1e-12 and"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Residual(**settings)


REMOVED = [
    {"allocation": "marvell", "s": 4.0, "positive_share": 0.1},
    {"allocation": "marvell", "max_leak_auc": 0.7, "releases": 5, "positive_share": 0.1},
    {"allocation": "uniform", "sigma": 1.0},
    {"s": 4.0},
    {"sigma": 1.0, "positive_share": 0.1},
]


@pytest.mark.parametrize("settings", REMOVED, ids=str)
def test_settings_of_noise_by_class_are_refused_and_say_why(settings):
    reason = r"no setting (allocation|s|positive_share) any more.* 1\.56 times the power"
    with pytest.raises(ValueError, match=reason):
        Residual(**settings)
    text = "residual:" + ",".join(f"{name}={value}" for name, value in settings.items())
    with pytest.raises(ConfigurationError, match=reason):
        parse_protection(text, PROTECTIONS)


def test_a_copy_and_a_pickle_are_the_same_protection():
    protection = Residual(max_leak_auc=0.7, releases=5)
    thawed = pickle.loads(pickle.dumps(protection))  # noqa: S301  our own bytes
    for twin in (copy.deepcopy(protection), thawed):
        assert twin == protection
        assert twin.noise_deviation == protection.noise_deviation


def test_no_setting_changes_later_and_no_guarantee_is_of_fewer_than_no_releases():
    protection = Residual(sigma=2.0)
    assert protection.planned_releases is None
    assert Residual(max_leak_auc=0.7, releases=5).planned_releases == 5
    with pytest.raises(FrozenInstanceError):
        protection.sigma = 1.0
    with pytest.raises(ValueError, match="releases must be"):
        protection.guarantee(-1)


def test_strength_names_the_setting():
    assert Residual(sigma=2.0).strength == "sigma=2"
    assert Residual(max_leak_auc=0.7, releases=5).strength == "max_leak_auc=0.7 over 5"
    assert Residual(sigma=2.0) == Residual(sigma=2.0)
    assert np.isclose(Residual(sigma=2.0).noise_deviation, 2.0)
