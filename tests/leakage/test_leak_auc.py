"""Leak AUC against its definition, pair by pair, and against scikit-learn."""

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from cutlayer.leakage.leak_auc import leak_auc, symmetrised


def counted_pairs(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """The definition itself, pair by pair: slow, and shares no step with `leak_auc`."""
    wins, pairs = 0.0, 0
    for s in scores[labels == 1].tolist():
        for t in scores[labels == 0].tolist():
            wins += 1.0 if s > t else 0.5 if s == t else 0.0
            pairs += 1
    return wins / pairs


def test_value_counted_by_hand():
    # Positives 3, 1 against negatives 2, 1, 0. The 3 wins three pairs; the 1 loses
    # to 2, ties with 1, beats 0: (3 + 0 + 1/2 + 1) / 6 = 0.75.
    assert leak_auc(torch.tensor([3.0, 1, 2, 1, 0]), torch.tensor([1, 1, 0, 0, 0])) == 0.75


@pytest.mark.parametrize("offset", [0.0, 40.0, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_definition(seed, offset):
    source = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.tensor([0, 1]), torch.randint(2, (60,), generator=source)])
    scores = offset + torch.randint(8, (62,), generator=source).float() + labels  # many ties
    assert leak_auc(scores, labels) == pytest.approx(counted_pairs(scores, labels), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_equals_scikit_learn_at_every_scale(scale):
    # Scores far outside [0, 1] and far below float32's step at 1: only their order may count.
    source = torch.Generator().manual_seed(7)
    labels = torch.randint(2, (5000,), generator=source)
    scores = scale * (torch.randn(5000, generator=source, dtype=torch.float64) + labels)
    assert leak_auc(scores, labels) == pytest.approx(
        roc_auc_score(labels.numpy(), scores.numpy()), abs=1e-12
    )


def test_a_perfect_attack_on_saturated_scores():
    # 17 and more are all 1.0 after a float32 sigmoid; a squashing AUC calls this 0.5.
    scores = torch.tensor([40.0, 41.0, 42.0, 43.0])
    assert leak_auc(scores, torch.tensor([0, 0, 1, 1])) == 1.0
    assert leak_auc(-scores, torch.tensor([0, 0, 1, 1])) == 0.0


def test_one_class_is_an_error_not_a_half():
    with pytest.raises(ValueError, match="both classes"):
        leak_auc(torch.tensor([1.0, 2.0]), torch.tensor([1, 1]))


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([1.0, math.nan], [0, 1], "finite"),
        ([1.0, math.inf], [0, 1], "finite"),
        ([1.0, 2.0], [0, 1, 1], "shape"),
        ([1.0, 2.0], [0, 2], "only 0 and 1"),
    ],
)
def test_undefined_is_an_error(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        leak_auc(torch.tensor(scores), torch.tensor(labels))


def test_symmetrised_is_the_better_of_both_signs():
    assert symmetrised(0.25) == 0.75
    assert symmetrised(0.75) == 0.75
    assert symmetrised(0.5) == 0.5
