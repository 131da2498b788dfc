import numpy as np
import pytest
import torch
from scipy.special import ndtr

from cutlayer.attacks import first_component, hinted_component
from cutlayer.protections.max_norm import MaxNorm
from cutlayer.rng import SeededNoise


@pytest.mark.parametrize("shape", [(50, 6), (6, 50), (8, 8)])
def test_equals_the_first_singular_direction(shape):
    gradient = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double() + 0.5
    _, _, directions = np.linalg.svd(gradient.numpy())
    expected = torch.from_numpy(gradient.numpy() @ directions[0])
    scores = first_component(gradient)
    assert torch.allclose(scores.abs(), expected.abs())
    assert float(scores.pow(3).sum()) >= 0.0


def test_rare_positives_of_a_calibrated_batch_are_on_top_without_a_hint():
    # Residuals p - y with p = 0.2 for all: 8 negatives of +0.2, 2 positives of -0.8.
    residual = torch.tensor([0.2] * 8 + [-0.8] * 2)
    gradient = residual[:, None] * torch.tensor([3.0, -4.0])
    expected = [-1.0] * 8 + [4.0] * 2  # the direction has length 5
    assert first_component(gradient).tolist() == pytest.approx(expected, rel=1e-6)


def test_width_one_is_the_value_turned_by_its_skewness():
    assert first_component(torch.tensor([[1.0], [1.0], [-2.0]])).tolist() == [-1.0, -1.0, 2.0]


def test_a_batch_without_skewness_is_turned_by_its_largest_column():
    gradient = torch.tensor([[0.0, -2.0], [0.0, 2.0]])
    assert first_component(gradient).tolist() == [-2.0, 2.0]
    assert first_component(gradient.flip(0)).tolist() == [2.0, -2.0]


def test_the_batch_is_not_centred():
    # A centred batch would find the second column, where the rows differ.
    gradient = torch.tensor([[10.0, 1.0], [10.0, -1.0], [10.0, 0.0]])
    assert first_component(gradient).tolist() == pytest.approx([10.0] * 3, rel=1e-9)


@pytest.fixture(scope="module")
def max_norm_scores():
    """100,000 rows of norm 0.8 (positives, 1 in 5) and 0.2 along one line, longest row 1."""
    labels = (torch.arange(100_000) % 5 == 0).long()
    residual = torch.where(labels == 1, -0.8, 0.2).double()
    residual[0] = -1.0
    gradient = residual[:, None] * torch.tensor([0.6, 0.8]).double()
    perturbed = MaxNorm().perturb(gradient, labels, noise=SeededNoise(0))
    return first_component(perturbed)[1:], labels[1:]


@pytest.mark.parametrize(("label", "norm"), [(1, 0.8), (0, 0.2)])
def test_max_norm_leaves_the_right_side_with_the_known_chance(max_norm_scores, label, norm):
    # g (1 + sigma xi) keeps its side unless xi < -1 / sigma = -r / sqrt(1 - r^2).
    scores, labels = max_norm_scores
    towards_positives = -scores  # see the next test
    of_class = towards_positives[labels == label]
    right = float(((of_class > 0) == (label == 1)).double().mean())
    expected = float(ndtr(norm / (1 - norm**2) ** 0.5))
    error = (expected * (1 - expected) / len(of_class)) ** 0.5
    assert abs(right - expected) < 5 * error


def test_max_norm_turns_the_third_moment_round(max_norm_scores):
    # E s^3 = r^3 + 3 r (1 - r^2), which sums to -2 sum r^3 over a batch with sum r = 0: positives
    # have 0.2 * 1.376, negatives 0.8 * 0.584 the other way.
    scores, labels = max_norm_scores
    assert float(scores[labels == 1].mean()) < 0 < float(scores[labels == 0].mean())


def test_a_hint_turns_the_line_and_tells_no_more():
    gradient = torch.randn(40, 5, generator=torch.Generator().manual_seed(1)).double() + 0.5
    _, _, directions = np.linalg.svd(gradient.numpy())
    line = torch.from_numpy(directions[0].copy())
    for side in (1.0, -1.0):
        found = hinted_component(gradient, side * line)
        assert torch.allclose(found, side * (gradient @ line))
    # Any hint on the same side gives the same scores.
    aside = hinted_component(gradient, line + torch.linalg.qr(line[:, None], "complete")[0][:, 2])
    assert torch.allclose(aside, gradient @ line)


def test_a_hint_mends_what_the_third_moment_gets_wrong(max_norm_scores):
    scores, labels = max_norm_scores
    gradient = scores[:, None] * torch.tensor([0.6, 0.8]).double()  # back on its line
    found = hinted_component(gradient, -torch.tensor([0.6, 0.8]).double())
    assert float(found[labels == 1].mean()) > 0 > float(found[labels == 0].mean())


@pytest.mark.parametrize("hint", [torch.ones(3), torch.tensor([1.0, float("nan")])])
def test_a_hint_of_no_use_is_refused(hint):
    with pytest.raises(ValueError, match="hint must"):
        hinted_component(torch.ones(4, 2), hint)
