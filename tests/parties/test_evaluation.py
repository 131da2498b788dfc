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


LOGIT = torch.tensor([2.0, -1.0, 0.0])


def test_all_of_it_where_both_classes_are_there():
    found = evaluate(LOGIT, torch.tensor([1, 0, 1]), "test", base_share=0.5)
    assert found.auc == 1.0  # 2 and 0 both lie above -1
    # -ln sigmoid(2) = .126928, -ln(1 - sigmoid(-1)) = .313262, -ln sigmoid(0) = .693147
    assert found.loss == pytest.approx((0.126928 + 0.313262 + 0.693147) / 3, abs=1e-6)
    assert found.undefined == ""
    assert found.defined() == (found.auc, found.loss, found.interval)


@pytest.mark.parametrize(("label", "word"), [(0, "negative"), (1, "positive")])
def test_records_of_one_class_have_a_loss_and_no_auc(label, word):
    found = evaluate(LOGIT, torch.full((3,), label), "validation", base_share=0.25)
    assert found.auc is None
    assert found.interval is None
    sign = 1 if label else -1
    losses = [math.log1p(math.exp(-sign * value)) for value in LOGIT.tolist()]
    assert found.loss == pytest.approx(sum(losses) / 3, abs=1e-9)
    assert found.positive_share == label
    assert f"since all 3 of them are {word}" in found.undefined
    assert found.undefined.startswith("label party: the AUC of the validation records")
    with pytest.raises(DataError, match="all 3 of them"):
        found.defined()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("labels", [[1, 0, 1], [0, 0, 0]])
def test_a_model_that_diverged_has_neither(bad, labels):
    logit = torch.tensor([bad, 1.0, bad])
    found = evaluate(logit, torch.tensor(labels), "test", base_share=0.5)
    assert (found.auc, found.loss, found.interval, found.mean_probability) == (None,) * 4
    assert "2 of 3 predictions are NaN or infinite" in found.undefined


@pytest.mark.parametrize("label", [0, 1])
def test_one_record_of_its_class_suffices(label):
    """However it is placed: first, last, or between two others."""
    for place in range(3):
        labels = torch.full((3,), 1 - label)
        labels[place] = label
        found = evaluate(torch.tensor([0.0, 1.0, 2.0]), labels, "test", base_share=0.5)
        assert found.auc == (place / 2 if label else 1 - place / 2)
        assert 0 <= found.interval.low <= found.auc <= found.interval.high <= 1


def test_one_record_is_of_one_class():
    assert evaluate(LOGIT[:1], torch.tensor([1]), "test", base_share=1.0).auc is None
