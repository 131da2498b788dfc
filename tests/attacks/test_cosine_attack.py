import pytest
import torch
from scipy.special import ndtr

from cutlayer.attacks import cosine_attack
from cutlayer.leakage.leak_auc import leak_auc


def test_angles_by_hand():
    gradient = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0], [-1.0, 0.0], [0.0, 0.0]])
    cosines = cosine_attack(gradient, torch.tensor([7.0, 0.0]))
    assert cosines.tolist() == pytest.approx([1.0, 0.5**0.5, 0.0, -1.0, 0.0], abs=1e-15)


def test_width_one_tells_the_side():
    gradient = torch.tensor([[2.0], [-1e-9], [0.0]])
    assert cosine_attack(gradient, torch.tensor([-3.0])).tolist() == [-1.0, 1.0, 0.0]


def test_never_past_one():
    gradient = torch.rand(2000, 7, generator=torch.Generator().manual_seed(0))
    for row in gradient[:50]:
        assert float(cosine_attack(gradient, row).abs().max()) <= 1.0


@pytest.mark.parametrize("power", [1.0, 4.0, 16.0])
def test_strength_under_gaussian_noise_along_the_gap(power):
    # Rows of one length R, whose coordinate along the hint is +-1/2 + sqrt(s) xi: the cosine is
    # that coordinate / R, and a positive beats a negative with chance Phi(1 / sqrt(2 s)).
    generator = torch.Generator().manual_seed(int(power))
    labels = (torch.arange(40_000) % 2 == 0).long()
    noise = torch.randn(40_000, generator=generator, dtype=torch.float64)
    along = labels - 0.5 + power**0.5 * noise
    across = (1000.0 - along.square()).sqrt()
    gradient = torch.stack([along, across], dim=1)
    expected = float(ndtr(1 / (2 * power) ** 0.5))
    error = (expected * (1 - expected) / 20_000) ** 0.5
    found = leak_auc(cosine_attack(gradient, torch.tensor([1.0, 0.0]).double()), labels)
    assert abs(found - expected) < 5 * error


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (torch.ones(3), r"hint must have shape \(2,\)"),
        (torch.zeros(2), "hint must have a direction"),
        (torch.tensor([1.0, float("nan")]), "hint must be finite"),
    ],
)
def test_a_hint_of_no_use_is_refused(hint, message):
    with pytest.raises(ValueError, match=message):
        cosine_attack(torch.ones(4, 2), hint)


def test_a_hint_too_small_to_square_is_of_use():
    gradient = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert cosine_attack(gradient, torch.tensor([1e-40, 0.0])).tolist() == [1.0, -1.0]
