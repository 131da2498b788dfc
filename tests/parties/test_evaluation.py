"""How well a model predicts, with the uncertainty of its test records and what needs no model."""

import math

import numpy as np
import pytest
import torch

from cutlayer.errors import DataError
from cutlayer.parties.evaluation import base_rate_loss, evaluate


def drawn(records, seed, share=0.3):
    g = torch.Generator().manual_seed(seed)
    labels = (torch.rand(records, generator=g) < share).long()
    return torch.randn(records, generator=g) + labels, labels


def placement(values, others):
    """Share of ``others`` below each value, pair by pair; ties count half."""
    below = [[1.0 if v > o else 0.5 if v == o else 0.0 for o in others] for v in values]
    return [sum(row) / len(others) for row in below]


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_interval_is_delongs_on_the_logit_by_loops(seed, rounded):
    logit, labels = drawn(80, seed)
    if rounded:
        logit = logit.round()
    positive, negative = logit[labels == 1].tolist(), logit[labels == 0].tolist()
    v = placement(positive, negative)
    w = [1 - share for share in placement(negative, positive)]
    auc = sum(v) / len(v)
    deviation = math.sqrt(np.var(v, ddof=1) / len(v) + np.var(w, ddof=1) / len(w))
    centre, spread = math.log(auc / (1 - auc)), 1.959964 * deviation / (auc * (1 - auc))
    found = evaluate(logit, labels, "test", base_share=0.3)
    assert found.auc == pytest.approx(auc, abs=1e-12)
    assert found.interval.low == pytest.approx(1 / (1 + math.exp(spread - centre)), abs=1e-6)
    assert found.interval.high == pytest.approx(1 / (1 + math.exp(-spread - centre)), abs=1e-6)


def test_the_interval_is_as_wide_as_the_bootstraps():
    logit, labels = drawn(600, 11)
    g = torch.Generator().manual_seed(12)
    aucs = []
    for _ in range(2000):
        rows = torch.randint(600, (600,), generator=g)
        aucs.append(evaluate(logit[rows], labels[rows], "test", base_share=0.3).auc)
    found = evaluate(logit, labels, "test", base_share=0.3).interval
    # A quantile of 2000 draws at 2.5 % has a standard error of sqrt(.025 * .975 / 2000) / density
    # = .0035 / (.0584 / deviation), with deviation about .02: .0012. Five of them, and the skew of
    # the bootstrap, which is of the order of 1 / 600.
    low, high = np.quantile(aucs, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.0077)
    assert found.high == pytest.approx(high, abs=0.0077)


@pytest.mark.parametrize("base_share", [0.05, 0.3, 0.9])
def test_the_base_loss_is_that_of_a_constant_prediction(base_share):
    labels = torch.tensor([1, 0, 0, 0, 1, 0, 0])
    terms = [-math.log(base_share if label else 1 - base_share) for label in labels.tolist()]
    assert base_rate_loss(labels, base_share) == pytest.approx(sum(terms) / 7, rel=1e-12)
    logit = torch.full((7,), math.log(base_share / (1 - base_share)))
    found = evaluate(logit + torch.linspace(0, 1e-6, 7), labels, "test", base_share=base_share)
    assert found.loss == pytest.approx(found.base_loss, abs=1e-5)
    assert found.mean_probability == pytest.approx(base_share, abs=1e-5)
    assert found.positive_share == pytest.approx(2 / 7)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_training_records_of_one_class_have_no_base_loss(share):
    assert base_rate_loss(torch.tensor([0, 1]), share) is None


def test_a_perfect_order_does_not_claim_certainty():
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    found = evaluate(torch.arange(6.0), labels, "test", base_share=0.3)
    assert found.auc == 1
    assert found.interval.high == 1
    # Newcombe (2006), method 5, with n1 n0 = 8 and N = 2.
    t = found.interval.low
    variance = t * (1 - t) * (1 + 2 * (1 - t) / (2 - t) + 2 * t / (1 + t)) / 8
    assert (1 - t) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-5)


def test_one_class_is_named():
    with pytest.raises(DataError, match="the test records cannot be scored"):
        evaluate(torch.randn(3), torch.ones(3).long(), "test", base_share=0.5)
