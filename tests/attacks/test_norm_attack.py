import pytest
import torch

from cutlayer.attacks import norm_attack
from cutlayer.leakage.leak_auc import leak_auc


def test_lengths_by_hand():
    gradient = torch.tensor([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0]])
    assert norm_attack(gradient).tolist() == [5.0, 0.0, 1.0]


def test_width_one_is_the_magnitude():
    assert norm_attack(torch.tensor([[-2.0], [1.0]])).tolist() == [2.0, 1.0]


def test_the_unit_is_kept_below_what_float32_can_square():
    assert norm_attack(torch.tensor([[3e-30, 4e-30]])).item() == pytest.approx(5e-30, rel=1e-6)


def test_strength_on_two_gaussians_in_the_plane():
    # Squared norms are exponential with means 2 * 4 and 2 * 1, so a positive is longer with
    # chance 8 / (8 + 2). Variance of an AUC: at most AUC (1 - AUC) / min(n1, n0).
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(40_000) % 2 == 0).long()
    deviation = 1.0 + labels.double()
    gradient = deviation[:, None] * torch.randn(40_000, 2, generator=generator).double()
    error = (0.8 * 0.2 / 20_000) ** 0.5
    assert abs(leak_auc(norm_attack(gradient), labels) - 0.8) < 5 * error
