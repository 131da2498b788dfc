"""What theory says about Marvell, on gradients of a real training run.

Li et al. find, on three data sets, that with fixed ``s`` and gradients whose spread is below their
mean gap, one release has sumKL about 1 / s and lets the direction attack reach a leak AUC of about
Phi(1 / sqrt(2 s)) (shared/facts/README.md). The data are scikit-learn's breast-cancer table, 569
real patients; the loop is plain torch.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from scipy.special import ndtr
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.leakage.null_floor import null_deviation
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound
from cutlayer.protections.batch_statistics import BatchStatistics
from cutlayer.protections.marvell import Marvell
from cutlayer.rng import SeededNoise

BATCH, STEPS = 256, 100
DEEP = (128, 128, 128, 1)


def dense(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def split_training(
    protection: Marvell, top_widths: tuple[int, ...]
) -> Iterator[tuple[Tensor, ...]]:
    """Train on perturbed gradients; yield every step's clean and sent gradient and labels."""
    table = load_breast_cancer()
    features = torch.tensor(table.data, dtype=torch.float32)
    features = (features - features.mean(dim=0)) / features.std(dim=0)
    labels = torch.tensor(1 - table.target)  # 1: malignant, 37 % of the rows
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bottom, top = dense(30, 64, top_widths[0]), dense(*top_widths)
    optimiser = torch.optim.Adam([*bottom.parameters(), *top.parameters()], lr=1e-4)
    source, noise = torch.Generator().manual_seed(0), SeededNoise(1)
    for _ in range(STEPS):
        rows = torch.randperm(len(labels), generator=source)[:BATCH]
        activation = bottom(features[rows])
        cut = activation.detach().requires_grad_()
        loss = nn.functional.binary_cross_entropy_with_logits(top(cut)[:, 0], labels[rows].float())
        optimiser.zero_grad()
        loss.backward()
        clean = cut.grad
        sent = protection.perturb(clean, labels[rows], noise=noise)
        activation.backward(sent)
        optimiser.step()
        yield clean, sent, labels[rows]


def mean_leaks(s: float, top_widths: tuple[int, ...]) -> tuple[float, float, float]:
    """Mean leak AUC by inner product and by cosine with a known positive, and the bound reached.

    The known positive's row is kept out of the AUC.
    """
    protection = Marvell(s=s)
    products, cosines = [], []
    for clean, sent, labels in split_training(protection, top_widths):
        known = int(torch.nonzero(labels == 1)[0])
        rest = torch.arange(BATCH) != known
        products.append(leak_auc(sent[rest] @ clean[known], labels[rest]))
        cosine = nn.functional.cosine_similarity(sent[rest], clean[known][None])
        cosines.append(leak_auc(cosine, labels[rest]))
    bound = protection.guarantee(1).leak_auc
    assert bound is not None
    return sum(products) / STEPS, sum(cosines) / STEPS, bound


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small matrices are slower on several threads that share a processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Five standard errors of a mean of AUCs of 256 rows, 95 of them positive: 0.019.
ERROR = 5 * null_deviation(95, BATCH - 95) / math.sqrt(STEPS)


@pytest.mark.parametrize("s", [0.25, 1.0, 4.0, 25.0])
def test_a_deep_top_leaks_what_theory_says(s):
    expected = ndtr(1 / math.sqrt(2 * s))
    product, cosine, bound = mean_leaks(s, DEEP)
    assert abs(product - expected) <= ERROR
    # A cosine also divides by the row's length, which noise across the gap keeps from saturating.
    assert abs(cosine - expected) <= ERROR + 0.01
    if s >= 1:  # with less power, evening out the unequal spreads leaves too little for the gap
        # The largest sumKL of any of the 100 batches is 1/s, plus at most a quarter.
        assert leak_auc_bound(0.95 / s) <= bound <= leak_auc_bound(1.25 / s)
    assert max(product, cosine) <= bound + ERROR


@pytest.mark.parametrize("s", [1.0, 4.0])
def test_a_linear_top_gives_the_cosine_only_a_sign(s):
    # Gradients of one exact line, and noise that hardly leaves it: every cosine is 1 or -1.
    product, cosine, _ = mean_leaks(s, (16, 1))
    assert abs(product - ndtr(1 / math.sqrt(2 * s))) <= ERROR
    assert cosine < product - 0.02


def test_the_oracle_s_condition_holds():
    """The spread of real gradients is below their gap, in all directions together."""
    for clean, _, labels in split_training(Marvell(s=4.0), DEEP):
        known = BatchStatistics.of_batch(clean, labels)
        assert 128 * max(known.variance_pos, known.variance_neg) < 0.5 * known.gap_squared
