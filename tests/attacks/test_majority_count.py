import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cutlayer.attacks import majority_count_attack
from cutlayer.leakage.leak_auc import leak_auc


def counted_partners(gradient: torch.Tensor) -> list[float]:
    """The definition, pair by pair."""
    examples = len(gradient)
    scores = []
    for j in range(examples):
        partners = 0.0
        for i in range(examples):
            if i != j:
                product = sum(a * b for a, b in zip(*gradient[[i, j]].tolist(), strict=True))
                partners += 1.0 if product > 0 else 0.5 if product == 0 else 0.0
        scores.append(-partners / (examples - 1))
    return scores


def test_partners_counted_by_hand():
    # On a line: two rows to the right, one to the left, one nowhere. A right row has one partner,
    # one opponent and one that counts half: 1.5 of 3.
    gradient = torch.tensor([[1.0], [5.0], [-2.0], [0.0]])
    expected = [-1.5 / 3, -1.5 / 3, -0.5 / 3, -1.5 / 3]
    assert majority_count_attack(gradient).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_equals_the_definition(width):
    generator = torch.Generator().manual_seed(width)
    gradient = torch.randint(-2, 3, (25, width), generator=generator).double()  # right angles too
    if width > 1:
        gradient = gradient + 1e-3 * torch.randn(25, width, generator=generator)
        gradient[4] = 0.0
    assert majority_count_attack(gradient).tolist() == pytest.approx(counted_partners(gradient))


def test_blocks_join_without_a_seam():
    gradient = torch.randn(2500, 6, generator=torch.Generator().manual_seed(1)).double()
    side = torch.sign(gradient @ gradient.T).fill_diagonal_(0.0)
    expected = -((side.sum(dim=1) / 2499) + 1) / 2
    assert torch.allclose(majority_count_attack(gradient), expected, rtol=0, atol=1e-12)


def test_strength_with_known_shares_on_each_side():
    # 90 of 100 positives and 180 of 900 negatives on the left: the left is the smaller side.
    # With two score values, AUC = 1/2 + (0.9 - 0.2) / 2 = 0.85.
    left = torch.cat([torch.arange(100) < 90, torch.arange(900) < 180])
    labels = torch.cat([torch.ones(100), torch.zeros(900)]).long()
    gradient = torch.where(left, -1.0, 1.0)[:, None].expand(1000, 3)
    assert leak_auc(majority_count_attack(gradient), labels) == pytest.approx(0.85, abs=1e-12)


class _LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation makes."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.bytes = max(self.bytes, result.numel() * result.element_size())
        return result


def test_8192_rows_never_make_the_matrix_of_all_pairs():
    gradient = torch.randn(8192, 16, generator=torch.Generator().manual_seed(2))
    with _LargestTensor() as largest:
        majority_count_attack(gradient)
    assert largest.bytes <= 8 * 1024**2  # one block; all pairs would be 512 MB
