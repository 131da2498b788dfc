"""Marvell on batches: the noise that is asked for, on every batch, whatever it holds."""

import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from scipy import stats

from cutlayer.errors import ProtectionError
from cutlayer.leakage.sum_kl import sum_kl
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound, sum_kl_for_error, sum_kl_for_leak_auc
from cutlayer.protections.batch_statistics import ROWS_FOR_OWN_STATISTICS, BatchStatistics
from cutlayer.protections.marvell import Marvell
from cutlayer.protections.marvell_solver import solve_marvell
from cutlayer.rng import SeededNoise


def gradients(rows: int, width: int, *, share: float = 0.2, seed: int = 0, scale: float = 1.0):
    """Gradients with a gap and unequal spreads, float64, and their labels; both classes occur."""
    source = torch.Generator().manual_seed(seed)
    labels = (torch.rand(rows, generator=source) < share).long()
    labels[0], labels[1] = 1, 0
    spread = torch.where(labels == 1, 0.3, 0.1)[:, None]
    gradient = spread * torch.randn(rows, width, generator=source, dtype=torch.float64)
    gradient[:, 0] += torch.where(labels == 1, -2.0, 0.5)
    return scale * gradient, labels


def expected_noise(gradient: torch.Tensor, labels: torch.Tensor, s: float):
    """The optimum for the batch's own statistics, which the paper prescribes."""
    known = BatchStatistics.of_batch(gradient, labels)
    noise = solve_marvell(
        variance_pos=known.variance_pos,
        variance_neg=known.variance_neg,
        gap_squared=known.gap_squared,
        positive_share=known.positive_share,
        width=known.width,
        power=s * known.gap_squared,
    )
    return known, noise


def sampled_noise(
    gradient: torch.Tensor, labels: torch.Tensor, protection: Marvell, *, copies: int
) -> torch.Tensor:
    """Noise on so many copies of the rows in one batch, which has the statistics of one copy."""
    many = gradient.repeat(copies, 1)
    sent = protection.perturb(many, labels.repeat(copies), noise=SeededNoise(5))
    return (sent - many).reshape(copies, *gradient.shape)


# --- The noise itself ------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 6])
def test_sampled_noise_has_mean_zero_and_the_covariance_asked_for(width):
    gradient, labels = gradients(64, width)
    known, noise = expected_noise(gradient, labels, 2.0)
    draws = sampled_noise(gradient, labels, Marvell(s=2.0, statistics="batch"), copies=2000)
    gap = (known.mean_gap / known.mean_gap.norm()).numpy()
    rotation = np.linalg.qr(np.column_stack([gap, np.eye(width)]))[0]  # first column: the gap
    for label, along, across in (
        (1, noise.along_pos, noise.across_pos),
        (0, noise.along_neg, noise.across_neg),
    ):
        sample = draws[:, labels == label].reshape(-1, width).numpy() @ rotation
        variances = np.array([along] + [across] * (width - 1))
        error = np.sqrt(variances / len(sample))
        assert (np.abs(sample.mean(axis=0)) <= 5 * error + 1e-12).all()
        found = sample.T @ sample / len(sample)
        # Products of two independent normals: variance s_i s_j, twice that on the diagonal.
        error = np.sqrt(np.outer(variances, variances) * (1 + np.eye(width)) / len(sample))
        assert (np.abs(found - np.diag(variances)) <= 5 * error + 1e-12).all()


def test_sampled_noise_is_gaussian():
    gradient, labels = gradients(64, 3)
    known, noise = expected_noise(gradient, labels, 2.0)
    draws = sampled_noise(gradient, labels, Marvell(s=2.0, statistics="batch"), copies=1000)
    along = draws @ (known.mean_gap / known.mean_gap.norm())
    for label, variance in ((1, noise.along_pos), (0, noise.along_neg)):
        sample = (along[:, labels == label].flatten() / math.sqrt(variance)).numpy()
        critical = stats.kstwo.ppf(1 - 1e-6, len(sample))
        assert stats.kstest(sample, "norm").statistic < critical


def test_mean_power_is_s_squared_gaps():
    gradient, labels = gradients(512, 32)
    known, _ = expected_noise(gradient, labels, 4.0)
    draws = sampled_noise(gradient, labels, Marvell(s=4.0, statistics="batch"), copies=100)
    lengths = draws.square().sum(dim=2)
    error = lengths.std().item() / math.sqrt(lengths.numel())
    assert abs(lengths.mean().item() - 4.0 * known.gap_squared) <= 5 * error


@pytest.mark.parametrize("rows", [300, 2000])  # one block of rows, and several
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_shape_type_and_every_row_changed(rows, dtype):
    gradient, labels = gradients(rows, 64)
    gradient = gradient.to(dtype)
    clean = gradient.clone()
    sent = Marvell(s=4.0).perturb(gradient, labels, noise=SeededNoise(1))
    assert sent.dtype == dtype
    assert sent.shape == gradient.shape
    assert sent.data_ptr() != gradient.data_ptr()
    assert torch.equal(gradient, clean)
    changed = (sent != gradient).any(dim=1)
    # In half precision, noise on one axis rounds away now and then.
    assert changed.double().mean() >= (1.0 if dtype in (torch.float32, torch.float64) else 0.99)


def test_draws_do_not_depend_on_labels():
    """One number of draws for a batch, so that neither time nor a later batch tells of labels."""

    class Counting(SeededNoise):
        drawn = 0

        def normal(self, *shape, device="cpu"):
            self.drawn += math.prod(shape)
            return super().normal(*shape, device=device)

    counts = set()
    for share in (0.0, 0.02, 0.5, 0.98):
        gradient, labels = gradients(1000, 128, share=share)
        source = Counting(0)
        Marvell(s=1.0).perturb(gradient, labels, noise=source)
        counts.add(source.drawn)
    assert len(counts) == 1


@pytest.mark.parametrize("scale", [1e-23, 1e-10, 1e3])
def test_scaled_gradients_get_scaled_noise(scale):
    # A power of two, so that scaling is exact and every later step can be compared bit by bit.
    factor = 2.0 ** round(math.log2(scale))
    gradient, labels = gradients(256, 16)
    plain = Marvell(s=1.0).perturb(gradient.float(), labels, noise=SeededNoise(2))
    small = Marvell(s=1.0).perturb((gradient * factor).float(), labels, noise=SeededNoise(2))
    torch.testing.assert_close(small / factor, plain, rtol=1e-6, atol=1e-6)
    assert bool((small != 0).all())


# --- Which variances, which strength --------------------------------------------------------


@pytest.mark.parametrize(
    ("variances", "pair"),
    [
        ("separate", lambda v, u: (v, u)),
        ("shared", lambda v, u: ((v + u) / 2, (v + u) / 2)),
        ("zero", lambda v, u: (0.0, 0.0)),
    ],
)
def test_variances_option(variances, pair):
    gradient, labels = gradients(400, 2)
    known = BatchStatistics.of_batch(gradient, labels)
    v, u = pair(known.variance_pos, known.variance_neg)
    noise = solve_marvell(
        variance_pos=v,
        variance_neg=u,
        gap_squared=known.gap_squared,
        positive_share=known.positive_share,
        width=2,
        power=0.5 * known.gap_squared,
    )
    protection = Marvell(s=0.5, statistics="batch", variances=variances)
    draws = sampled_noise(gradient, labels, protection, copies=200)
    gap = known.mean_gap / known.mean_gap.norm()
    for label, along in ((1, noise.along_pos), (0, noise.along_neg)):
        sample = (draws[:, labels == label] @ gap).flatten()
        error = along * math.sqrt(2 / len(sample))
        assert abs(sample.square().mean().item() - along) <= 5 * error


@pytest.mark.parametrize(
    ("goal", "allowed"),
    [
        ({"max_sum_kl": 0.3}, 0.3),
        ({"max_leak_auc": 0.6}, sum_kl_for_leak_auc(0.6)),
        ({"min_error": 0.4}, sum_kl_for_error(0.4)),
    ],
)
@pytest.mark.parametrize("statistics", ["averaged", "batch"])
def test_a_goal_is_met_and_no_more(goal, allowed, statistics):
    gradient, labels = gradients(512, 16)
    protection = Marvell(**goal, statistics=statistics)
    assert protection.guarantee(2).leak_auc == pytest.approx(leak_auc_bound(2 * allowed), abs=1e-9)
    protection.perturb(gradient, labels, noise=SeededNoise(0))
    assert protection.guarantee(2).leak_auc == pytest.approx(leak_auc_bound(2 * allowed), abs=1e-9)


def test_the_largest_sum_kl_so_far_stands_for_every_release():
    protection = Marvell(s=1.0, statistics="batch")
    largest = 0.0
    for seed in range(5):
        gradient, labels = gradients(128, 8, seed=seed, share=0.1 + 0.1 * seed)
        known, noise = expected_noise(gradient, labels, 1.0)
        reached = sum_kl(
            noise,
            variance_pos=known.variance_pos,
            variance_neg=known.variance_neg,
            gap_squared=known.gap_squared,
            width=8,
        )
        largest = max(largest, reached)
        protection.perturb(gradient, labels, noise=SeededNoise(seed))
        bound = protection.guarantee(3)
        assert bound.leak_auc == pytest.approx(leak_auc_bound(3 * largest), abs=1e-12)
        assert bound.kind == "model"
        assert "isotropic Gaussian" in bound.grounds


def test_variances_that_are_ignored_still_count_in_the_guarantee():
    # Noise optimised for no spread at all, on classes with unequal spread in 63 directions.
    gradient, labels = gradients(512, 64)
    blind = Marvell(s=4.0, variances="zero")
    seeing = Marvell(s=4.0)
    for protection in (blind, seeing):
        protection.perturb(gradient, labels, noise=SeededNoise(0))
    assert blind.guarantee(1).leak_auc > 0.99 > 0.95 > seeing.guarantee(1).leak_auc


@pytest.mark.parametrize("strength", [{"s": 4.0}, {"max_leak_auc": 0.65}])
def test_the_guarantee_names_a_changing_factor_on_one_class(strength):
    grounds = Marvell(**strength).guarantee(1).grounds
    for words in ("pos_weight", "class weights", "focal", "changes during the training"):
        assert words in grounds
    assert f"fewer than {ROWS_FOR_OWN_STATISTICS} rows in a batch" in grounds


def test_before_the_first_batch():
    assert Marvell(s=4.0).guarantee(1).leak_auc == leak_auc_bound(0.25)
    assert "before the first batch" in Marvell(s=4.0).guarantee(1).grounds
    assert Marvell(s=4.0).guarantee(0).leak_auc == 0.5
    assert Marvell(max_leak_auc=0.7).guarantee(1).leak_auc == pytest.approx(0.7, abs=1e-12)


# --- Every batch, whatever it holds ------------------------------------------------------------


@pytest.mark.parametrize("positives", [0, 1, 2, 64])
def test_batches_with_few_or_only_positives_are_perturbed(positives):
    gradient, labels = gradients(512, 16)
    protection = Marvell(s=4.0)
    protection.prime(gradient, labels)
    rows = torch.cat(
        [
            torch.nonzero(labels == 1)[:positives, 0],
            torch.nonzero(labels == 0)[: 64 - positives, 0],
        ]
    )
    few, few_labels = gradient[rows] * 8, labels[rows]  # a mean over 64 rows instead of 512
    sent = protection.perturb(few, few_labels, noise=SeededNoise(1))
    # The noise is that of the whole: four squared gaps of 2.5^2, within what 64 rows can show.
    power = (sent - few).square().sum(dim=1) / 8**2
    assert 0.5 * 4 * 2.5**2 < power.mean().item() < 2 * 4 * 2.5**2
    assert bool((power > 0).all())


def test_without_both_classes_ever_seen_it_refuses():
    gradient, labels = gradients(64, 4)
    for only, missing in ((0, "positive"), (1, "negative")):
        protection = Marvell(s=4.0)
        with pytest.raises(ProtectionError, match=f"no {missing} row was seen yet"):
            protection.perturb(gradient, torch.full_like(labels, only), noise=SeededNoise(1))


def test_the_paper_to_the_letter_refuses_a_batch_with_one_class():
    gradient, labels = gradients(64, 4)
    with pytest.raises(ProtectionError, match="needs both classes in every batch, got 64"):
        Marvell(s=1.0, statistics="batch").perturb(
            gradient, torch.ones_like(labels), noise=SeededNoise(0)
        )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_is_refused_with_a_count(bad):
    gradient, labels = gradients(64, 4)
    gradient[3, 1] = gradient[9, 0] = bad
    protection = Marvell(s=1.0)
    with pytest.raises(ProtectionError, match="2 of 64 rows"):
        protection.perturb(gradient, labels, noise=SeededNoise(0))
    with pytest.raises(ProtectionError, match="2 of 64 rows"):
        protection.prime(gradient, labels)


def test_noise_that_overflows_the_type_is_refused():
    gradient, labels = gradients(64, 4)
    with pytest.raises(ProtectionError, match="after marvell noise"):
        Marvell(s=25.0).perturb((2e4 * gradient).half(), labels, noise=SeededNoise(0))


@pytest.mark.parametrize("statistics", ["averaged", "batch"])
def test_rows_of_zeros_do_not_leave_as_zeros(statistics):
    # Confident positives saturate to exactly zero.
    gradient, labels = gradients(256, 8)
    gradient[torch.nonzero(labels == 1)[:20, 0]] = 0.0
    sent = Marvell(s=1.0, statistics=statistics).perturb(gradient, labels, noise=SeededNoise(0))
    assert bool((sent != 0).any(dim=1).all())


def test_a_zero_row_of_a_class_without_noise_gets_that_of_the_other():
    # Little power and one wide class: all of it goes to the narrow one (case 2 of the solver).
    source = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 2
    spread = torch.where(labels == 1, 1e-3, 1.0)[:, None]
    gradient = spread * torch.randn(400, 16, generator=source, dtype=torch.float64)
    gradient[:, 0] += 0.5 * labels
    gradient[0] = 0.0
    _, noise = expected_noise(gradient, labels, 1.0)
    assert noise.along_neg == 0.0
    sent = Marvell(s=1.0, statistics="batch").perturb(gradient, labels, noise=SeededNoise(0))
    assert bool((sent[0] != 0).all())
    assert torch.equal(sent[2::2], gradient[2::2])


@pytest.mark.parametrize("statistics", ["averaged", "batch"])
def test_a_batch_of_nothing_but_zeros_stays_zero(statistics):
    labels = torch.arange(10) % 2
    sent = Marvell(s=1.0, statistics=statistics).perturb(
        torch.zeros(10, 3), labels, noise=SeededNoise(0)
    )
    assert torch.equal(sent, torch.zeros(10, 3))


def test_equal_class_means():
    # Rows that differ, but not in their class means: +h and -h in both classes.
    height = torch.tensor([1.0, 1, -1, -1, 1, 1, -1, -1], dtype=torch.float64)
    labels = torch.arange(8) % 2
    gradient = torch.stack([height, 2 * height], dim=1)
    with pytest.raises(ProtectionError, match="same mean gradient"):
        Marvell(s=1.0, statistics="batch").perturb(gradient, labels, noise=SeededNoise(0))
    sent = Marvell(s=1.0).perturb(gradient, labels, noise=SeededNoise(0))
    assert bool((sent != gradient).any(dim=1).all())


def test_a_goal_that_holds_without_noise_still_gets_some():
    # Equal spreads far above the gap: sumKL is 1e-4 / 1 before any noise.
    source = torch.Generator().manual_seed(0)
    gradient = torch.randn(4000, 2, generator=source, dtype=torch.float64)
    labels = torch.arange(4000) % 2
    gradient[0] = gradient[1] = 0.0
    sent = Marvell(max_sum_kl=1.0).perturb(gradient, labels, noise=SeededNoise(0))
    assert bool((sent[:2] != 0).any(dim=1).all())  # not recognisable by being zero


def test_one_row_of_each_class_and_nothing_else():
    gradient = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]])
    for statistics in ("averaged", "batch"):
        sent = Marvell(s=1.0, statistics=statistics).perturb(
            gradient, torch.tensor([0, 1]), noise=SeededNoise(0)
        )
        # No spread: the noise lies on the line of the gap, the third axis.
        assert torch.equal(sent[:, :2], gradient[:, :2])
        assert bool((sent[:, 2] != gradient[:, 2]).all())


def test_width_one():
    gradient, labels = gradients(256, 1)
    sent = Marvell(s=1.0).perturb(gradient, labels, noise=SeededNoise(0))
    assert bool((sent != gradient).all())


def test_many_batches_without_positives_stay_finite():
    gradient, labels = gradients(64, 4)
    protection = Marvell(s=1.0)
    protection.prime(gradient, labels)
    zeros = torch.zeros(16, dtype=torch.long)
    for _ in range(3000):
        sent = protection.perturb(gradient[:16], zeros, noise=SeededNoise(0))
    assert bool(sent.isfinite().all())
    assert bool((sent != gradient[:16]).any(dim=1).all())


# --- Settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"s": 1.0, "max_sum_kl": 1.0}, {"max_leak_auc": 0.6, "min_error": 0.3}]
)
def test_exactly_one_strength(settings):
    with pytest.raises(ValueError, match="exactly one of s, max_leak_auc, max_sum_kl, min_error"):
        Marvell(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"s": 0.0}, "s must be a finite number above 0"),
        ({"s": math.nan}, "s must be a finite number above 0"),
        ({"max_leak_auc": 0.5}, "leak_auc"),
        ({"max_sum_kl": -1.0}, "max_sum_kl"),
        ({"min_error": 0.5}, "min_error"),
        ({"s": 1.0, "statistics": "global"}, "statistics must be averaged or batch"),
        ({"s": 1.0, "variances": "same"}, "variances must be separate, shared or zero"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Marvell(**settings)


def test_settings_are_public_and_memory_is_not():
    protection = Marvell(s=4.0)
    assert protection.strength == "s=4"
    assert Marvell(max_leak_auc=0.65).strength == "max_leak_auc=0.65"
    public = {f.name: getattr(protection, f.name) for f in fields(protection) if f.init}
    assert public == {
        "s": 4.0,
        "max_leak_auc": None,
        "max_sum_kl": None,
        "min_error": None,
        "statistics": "averaged",
        "variances": "separate",
    }
    gradient, labels = gradients(64, 4)
    protection.perturb(gradient, labels, noise=SeededNoise(0))
    assert protection == Marvell(s=4.0)
    assert "memory" not in repr(protection)


@pytest.mark.parametrize(
    ("gradient", "labels", "message"),
    [
        (torch.zeros(3), torch.zeros(3), "shape"),
        (torch.zeros(3, 2, dtype=torch.long), torch.zeros(3), "floating point"),
        (torch.zeros(3, 2), torch.zeros(4), "shape"),
        (torch.zeros(3, 2), torch.tensor([0, 1, 2]), "only 0 and 1"),
    ],
)
def test_wrong_batches_are_refused(gradient, labels, message):
    with pytest.raises(ValueError, match=message):
        Marvell(s=1.0).perturb(gradient, labels, noise=SeededNoise(0))


def test_a_short_last_batch_gets_the_noise_of_its_own_scale():
    # Rows of a mean loss over 40 examples are 512 / 40 times as long as those of 512. With the
    # averages of full batches as they stand, the short batch would leave almost bare.
    g = torch.Generator().manual_seed(0)
    direction = torch.randn(16, generator=g)

    def batch(examples):
        labels = (torch.arange(examples) % 20 == 0).long()
        residual = torch.where(labels == 1, -0.9, 0.1) * (
            0.8 + 0.4 * torch.rand(examples, generator=g)
        )
        return residual[:, None] * direction / examples, labels

    protection, source = Marvell(s=4.0), SeededNoise(0)
    for _ in range(20):
        protection.perturb(*batch(512), noise=source)
    gradient, labels = batch(40)
    noise = protection.perturb(gradient, labels, noise=source) - gradient
    gap = gradient[labels == 1].mean(0) - gradient[labels == 0].mean(0)
    power = noise.square().sum(1).mean() / gap.square().sum()
    # The power asked for is s = 4 squared gaps. Over 40 draws of a normal's square the mean has a
    # relative standard error of sqrt(2 / 40) = .22; five of them.
    assert abs(power / 4 - 1) < 5 * 0.23
