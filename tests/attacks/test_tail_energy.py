import numpy as np
import pytest
import torch

from cutlayer.attacks import tail_energy
from cutlayer.leakage.leak_auc import leak_auc


def rank_one(labels: torch.Tensor, width: int, generator: torch.Generator) -> torch.Tensor:
    """Residual times one direction: what an unprotected cut gradient nearly is."""
    share = labels.double().mean()
    size = 0.5 + torch.rand(len(labels), generator=generator, dtype=torch.float64)
    direction = torch.randn(width, generator=generator, dtype=torch.float64)
    return ((share - labels) * size)[:, None] * direction


def marvell_like(labels: torch.Tensor, width: int, seed: int) -> torch.Tensor:
    """Rank-one gradients, noise along them for both classes, across them for negatives only."""
    generator = torch.Generator().manual_seed(seed)
    clean = rank_one(labels, width, generator)
    direction = torch.nn.functional.normalize(clean[0], dim=0)
    spread = float(clean.norm(dim=1).max())
    along = torch.randn(len(labels), 1, generator=generator).double() * direction
    noise = torch.randn(len(labels), width, generator=generator).double()
    across = noise - (noise @ direction)[:, None] * direction
    return clean + 4 * spread * along + 0.01 * spread * across * (1 - labels)[:, None]


@pytest.mark.parametrize(("examples", "width"), [(1024, 32), (128, 128), (64, 300)])
def test_marvell_like_noise_on_rank_one_gradients_leaks_every_label(examples, width):
    labels = (torch.arange(examples) % 10 == 0).long()
    scores = tail_energy(marvell_like(labels, width, seed=width))
    assert leak_auc(scores, labels) == 1.0


def test_equals_the_lower_half_of_the_gram_matrix():
    gradient = torch.randn(200, 9, generator=torch.Generator().manual_seed(0)).double()
    _, vectors = np.linalg.eigh((gradient.T @ gradient).numpy())  # ascending
    tail = gradient.numpy() @ vectors[:, :4]
    scale = 2.0 ** -np.ceil(np.log2(float(gradient.abs().max())))
    expected = torch.from_numpy(-np.square(scale * tail).sum(axis=1))
    assert torch.allclose(tail_energy(gradient), expected)


def test_fewer_rows_than_columns_use_the_lower_half_of_the_directions_they_span():
    # Four orthogonal rows of length 8, 4, 2, 1 span four directions: the tail is the last two.
    gradient = torch.zeros(4, 10)
    gradient[range(4), range(4)] = torch.tensor([8.0, 4.0, 2.0, 1.0])
    scores = tail_energy(gradient) * 16**2
    assert scores.tolist() == pytest.approx([0.0, 0.0, -4.0, -1.0], abs=1e-12)


def test_gradients_of_exact_rank_one_have_no_tail():
    # What is left below the rounding of the decomposition must not be read as a signal.
    labels = (torch.arange(300) % 5 == 0).long()
    gradient = rank_one(labels, 20, torch.Generator().manual_seed(4))
    assert not tail_energy(gradient).any()


def test_width_one_and_one_row_have_no_tail():
    assert tail_energy(torch.tensor([[1.0], [-3.0]])).tolist() == [0.0, 0.0]
    assert tail_energy(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [0.0]
