"""Marvell on batches: the noise that is asked for, on every batch, whatever it holds."""

import math

import pytest
import torch

from cutlayer.errors import ProtectionError
from cutlayer.protections.marvell import Marvell
from cutlayer.rng import SeededNoise


def gradients(rows: int, width: int, *, share: float, seed: int, scale: float = 1.0):
    """Gradients with a gap, unequal spreads and their labels."""
    source = torch.Generator().manual_seed(seed)
    labels = (torch.rand(rows, generator=source) < share).long()
    labels[0], labels[1] = 1, 0
    spread = torch.where(labels == 1, 0.3, 0.1)[:, None]
    gradient = spread * torch.randn(rows, width, generator=source, dtype=torch.float64)
    gradient[:, 0] += torch.where(labels == 1, -2.0, 0.5)
    return scale * gradient, labels


@pytest.mark.parametrize("statistics", ["averaged", "batch"])
def test_changes_every_row_and_keeps_shape_and_type(statistics):
    gradient, labels = gradients(256, 16, share=0.2, seed=0)
    protection = Marvell(s=4.0, statistics=statistics)
    sent = protection.perturb(gradient.float(), labels, noise=SeededNoise(1))
    assert sent.dtype == torch.float32
    assert sent.shape == gradient.shape
    assert bool((sent != gradient.float()).any(dim=1).all())
    guarantee = protection.guarantee(1)
    assert guarantee.kind == "model"
    assert guarantee.leak_auc is not None
    assert 0.5 < guarantee.leak_auc < 0.75


def test_a_batch_with_one_class_is_perturbed_once_both_were_seen():
    gradient, labels = gradients(256, 16, share=0.2, seed=0)
    protection = Marvell(s=4.0)
    with pytest.raises(ProtectionError, match="no positive row"):
        protection.perturb(gradient, torch.zeros_like(labels), noise=SeededNoise(1))
    protection = Marvell(s=4.0)
    protection.prime(gradient, labels)
    for only in (0, 1):
        rows = gradient[labels == only]
        sent = protection.perturb(rows, labels[labels == only], noise=SeededNoise(1))
        assert bool((sent != rows).any(dim=1).all())


def test_the_paper_to_the_letter_refuses_a_batch_with_one_class():
    gradient, labels = gradients(64, 4, share=0.2, seed=0)
    with pytest.raises(ProtectionError, match="needs both classes"):
        Marvell(s=1.0, statistics="batch").perturb(
            gradient, torch.ones_like(labels), noise=SeededNoise(0)
        )


@pytest.mark.parametrize(
    "settings", [{}, {"s": 1.0, "max_sum_kl": 1.0}, {"max_leak_auc": 0.6, "min_error": 0.3}]
)
def test_exactly_one_strength(settings):
    with pytest.raises(ValueError, match="exactly one of s, max_leak_auc, max_sum_kl, min_error"):
        Marvell(**settings)


def test_nan_is_refused():
    gradient, labels = gradients(64, 4, share=0.2, seed=0)
    gradient[3, 1] = math.nan
    with pytest.raises(ProtectionError, match="1 of 64 rows"):
        Marvell(s=1.0).perturb(gradient, labels, noise=SeededNoise(0))
