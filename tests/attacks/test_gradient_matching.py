"""Gradient matching on tops whose gradients come from autograd."""

import math

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from cutlayer.attacks import first_component, gradient_matching
from cutlayer.leakage.leak_auc import leak_auc, symmetrised


def released(top, *, examples=600, width=8, seed=0):
    """Activations, labels drawn from the top's own predictions, and the cut gradient."""
    generator = torch.Generator().manual_seed(seed)
    activation = torch.randn(examples, width, generator=generator, dtype=torch.float64)
    activation.requires_grad_()
    logit = top(activation)
    labels = (torch.rand(examples, generator=generator) < logit.detach().sigmoid()).long()
    loss = binary_cross_entropy_with_logits(logit, labels.double())
    (gradient,) = torch.autograd.grad(loss, activation)
    return gradient, activation.detach(), labels


def turning(degrees):
    """A smooth maximum of two lines: the slope is one or the other, at this angle."""
    angle = math.radians(degrees)

    def top(activation):
        first = activation[:, 0]
        second = math.cos(angle) * activation[:, 0] + math.sin(angle) * activation[:, 1]
        return 0.5 * torch.logaddexp(3 * first, 3 * second) - 2.6

    return top


def score(gradient, activation, labels, seed=0):
    return gradient_matching(gradient, activation, float(labels.double().mean()), seed)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_every_label_under_a_linear_top_and_the_right_side(share):
    def top(activation):
        return activation.sum(dim=1) / 4 + math.log(share / (1 - share))

    gradient, activation, labels = released(top)
    assert leak_auc(score(gradient, activation, labels), labels) == 1.0


@pytest.mark.parametrize("degrees", [120, 150])
def test_it_follows_a_slope_that_turns_where_one_line_does_not(degrees):
    gradient, activation, labels = released(turning(degrees))
    assert symmetrised(leak_auc(first_component(gradient), labels)) < 0.7
    assert leak_auc(score(gradient, activation, labels), labels) > 0.98


def test_it_fails_where_the_slope_turns_all_round():
    # An even top sends gradients to both sides for each label: no start has anything to go on.
    gradient, activation, labels = released(lambda h: 1.5 * h[:, 0] ** 2 - 3.1)
    assert symmetrised(leak_auc(score(gradient, activation, labels), labels)) < 0.7


def test_half_positives_leave_the_side_open():
    gradient, activation, labels = released(lambda h: h.sum(dim=1) / 4)
    found = gradient_matching(gradient, activation, 0.5, 0)
    assert symmetrised(leak_auc(found, labels)) == 1.0


def test_more_rows_than_the_search_takes_are_scored_by_the_same_top():
    gradient, activation, labels = released(turning(120), examples=3000)
    assert leak_auc(score(gradient, activation, labels), labels) > 0.98


def test_scores_are_labels_where_the_match_is_good():
    gradient, activation, labels = released(lambda h: h.sum(dim=1) / 4 - 1.5)
    found = score(gradient, activation, labels)
    assert float(found[labels == 1].mean() - found[labels == 0].mean()) > 0.5


def test_no_gradient_is_no_match():
    activation = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert gradient_matching(torch.zeros(5, 3), activation, 0.3, 0).tolist() == [0.0] * 5


@pytest.mark.parametrize(
    ("activation", "prior", "message"),
    [
        (torch.ones(5, 2), 0.5, r"activation must have shape \(5, 3\)"),
        (torch.full((5, 3), torch.nan), 0.5, "activation must be finite"),
        (torch.ones(5, 3), 0.0, "prior must lie strictly between"),
    ],
)
def test_arguments_of_no_use_are_refused(activation, prior, message):
    with pytest.raises(ValueError, match=message):
        gradient_matching(torch.ones(5, 3), activation, prior, 0)
