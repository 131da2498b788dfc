"""Summed gradients: what one party can take apart again, and what not."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from cutlayer.attacks import (
    FROM_SUMMED_RELEASE,
    SIDE_KNOWLEDGE,
    SUMMED_ATTACKS,
    SideKnowledge,
    SummedRelease,
    batch_inversion,
    first_component,
)
from cutlayer.leakage.leak_auc import leak_auc, symmetrised

every_attack = pytest.mark.parametrize("name", sorted(SUMMED_ATTACKS))


def step_of_a_real_bottom(examples, fan_in, *, share=0.2, width=8, seed=0, positives=None):
    """One backward pass: inputs of the last layer, its summed gradient, the rows, the labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, fan_in, generator=generator, dtype=torch.float64)
    labels = (torch.rand(examples, generator=generator) < share).long()
    if positives is not None:
        labels = (torch.arange(examples) < positives).long()
    last = nn.Linear(fan_in, width, bias=False).double()
    last.weight.data = 0.01 * torch.randn(width, fan_in, generator=generator).double()
    top = torch.randn(width, generator=generator).double()
    activation = last(inputs)
    activation.retain_grad()
    logit = activation @ top + torch.logit(labels.double().mean().clamp(0.01, 0.99))
    binary_cross_entropy_with_logits(logit, labels.double()).backward()
    return inputs, last.weight.grad, activation.grad, labels


def release_of(inputs, total):
    return SummedRelease(torch.arange(len(inputs)), inputs, total)


def test_the_sum_over_fewer_rows_than_inputs_gives_each_row():
    inputs, total, rows, labels = step_of_a_real_bottom(30, 40)
    found = batch_inversion(inputs, total, prior=0.2)
    expected = first_component(rows)
    assert float(torch.corrcoef(torch.stack([found, expected]))[0, 1]) == pytest.approx(1.0)
    assert leak_auc(found, labels) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_few_positives_are_found_among_twice_as_many_rows_as_inputs(seed):
    inputs, total, _, labels = step_of_a_real_bottom(64, 32, positives=3, seed=seed)
    assert leak_auc(batch_inversion(inputs, total, prior=3 / 64), labels) > 0.95


def test_many_rows_hide_in_the_sum():
    # 2000 labels from 8 numbers: at most a little more than guessing.
    inputs, total, _, labels = step_of_a_real_bottom(2000, 8, share=0.4)
    assert symmetrised(leak_auc(batch_inversion(inputs, total, prior=0.4), labels)) < 0.65


def test_labels_apart_from_the_inputs_and_the_gradient_stay_unknown():
    inputs, total, _, _ = step_of_a_real_bottom(300, 400)
    labels = (torch.rand(300, generator=torch.Generator().manual_seed(9)) < 0.2).long()
    found = leak_auc(batch_inversion(inputs, total, prior=0.2), labels)
    error = (301 / (12 * int(labels.sum()) * int((labels == 0).sum()))) ** 0.5
    assert abs(found - 0.5) < 5 * error


@every_attack
def test_declares_what_it_uses(name):
    attack = SUMMED_ATTACKS[name]
    used = set(inspect.signature(attack.function).parameters)
    assert used <= {*FROM_SUMMED_RELEASE, *SIDE_KNOWLEDGE}
    assert set(attack.reads) <= set(FROM_SUMMED_RELEASE)
    assert attack.published
    with pytest.raises(ValueError, match="needs a prior"):
        attack.score(release_of(torch.eye(3), torch.ones(2, 3)), SideKnowledge())


@every_attack
@pytest.mark.parametrize("factor", [1e-23, 1e3])
@pytest.mark.parametrize("examples", [20, 60])
def test_the_unit_changes_no_order_and_nothing_is_changed(name, factor, examples):
    inputs, total, _, _ = step_of_a_real_bottom(examples, 30, positives=3)
    attack, knowledge = SUMMED_ATTACKS[name], SideKnowledge(prior=0.1)
    here = attack.score(release_of(inputs, total), knowledge)
    assert torch.equal(here, attack.score(release_of(inputs.clone(), total.clone()), knowledge))
    there = attack.score(release_of(inputs, factor * total), knowledge)
    # Rows at zero in a sparse solution are equal; the others keep their order.
    kept = here > 1e-9
    assert torch.equal(here[kept].argsort(), there[kept].argsort())
    assert here.dtype == torch.float64


@every_attack
@pytest.mark.parametrize("fill", [0.0, 1.0])
@pytest.mark.parametrize("examples", [1, 2, 9])
def test_flat_batches_have_finite_scores(name, fill, examples):
    inputs, total = torch.full((examples, 4), fill), torch.full((2, 4), fill)
    scores = SUMMED_ATTACKS[name].score(release_of(inputs, total), SideKnowledge(prior=0.3))
    assert scores.shape == (examples,)
    assert bool(scores.isfinite().all())


@pytest.mark.parametrize(
    ("inputs", "total", "message"),
    [
        (torch.ones(3, 4), torch.ones(2, 5), r"weight_gradient must have shape \(2, 4\)"),
        (torch.full((3, 4), torch.nan), torch.ones(2, 4), "layer_input must be finite"),
        (torch.ones(3, 4), torch.full((2, 4), torch.inf), "weight_gradient must be finite"),
        (torch.ones(3), torch.ones(2, 4), "layer_input must have shape"),
    ],
)
def test_a_sum_of_no_use_is_refused(inputs, total, message):
    with pytest.raises(ValueError, match=message):
        release_of(inputs, total)
    with pytest.raises(ValueError, match=message):
        batch_inversion(inputs, total, prior=0.5)


def test_a_prior_of_no_use_is_refused():
    with pytest.raises(ValueError, match="prior must lie strictly between"):
        batch_inversion(torch.eye(3), torch.ones(1, 3), prior=1.0)
