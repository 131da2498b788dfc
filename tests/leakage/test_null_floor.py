"""The null floor against the exact rank distribution and against simulation."""

import itertools
import math

import numpy as np
import pytest

from cutlayer.leakage.null_floor import median_null_floor, null_deviation, null_floor


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (2, 3), (3, 5)])
def test_deviation_equals_that_of_every_ordering(positives, negatives):
    # Scores that know nothing make every placement of the positives equally likely.
    total = positives + negatives
    values = []
    for places in itertools.combinations(range(total), positives):
        wins = sum(place - i for i, place in enumerate(places))
        values.append(wins / (positives * negatives))
    assert np.mean(values) == pytest.approx(0.5)
    assert null_deviation(positives, negatives) == pytest.approx(np.std(values))


def test_the_floors_of_the_paper_s_batches():
    # shared/facts: about 0.541 for Criteo's 1024 and 0.667 for ISIC's 128, two-sided, 95 %.
    assert null_floor(262, 762) == pytest.approx(0.541, abs=5e-4)
    assert null_floor(13, 115) == pytest.approx(0.667, abs=1e-3)


def test_stays_unpassed_as_often_as_promised():
    source = np.random.default_rng(0)
    positives, negatives, batches = 50, 200, 4000
    order = np.argsort(source.random((batches, positives + negatives)), axis=1)
    ranks = (np.argsort(order, axis=1) + 1)[:, :positives].sum(axis=1)
    auc = (ranks - positives * (positives + 1) / 2) / (positives * negatives)
    for quantile in (0.5, 0.95):
        floor = null_floor(positives, negatives, quantile=quantile)
        share = np.mean(np.maximum(auc, 1 - auc) < floor)
        error = math.sqrt(quantile * (1 - quantile) / batches)
        assert abs(share - quantile) <= 5 * error + 0.005  # + the normal approximation


def test_a_tiny_batch_has_no_evidence_at_all():
    assert null_floor(1, 1) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 5), "positives"), ((5, 0), "negatives")],
)
def test_a_missing_class_is_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        null_floor(*arguments)
    with pytest.raises(ValueError, match="quantile"):
        null_floor(5, 5, quantile=1.0)


@pytest.mark.parametrize("batches", [9, 40])
def test_floor_of_a_median_against_simulated_attackers_who_know_nothing(batches):
    # AUCs of random orders by ranks, 3000 attackers. A 95 % quantile of 3000 draws has standard
    # error sqrt(.95 .05 / 3000) = .004 in probability; five of them, and .01 for the normal
    # approximation of a median of few batches.
    generator = np.random.default_rng(0)
    positives, negatives, attackers = 20, 200, 3000
    ranks = generator.random((attackers, batches, positives + negatives)).argsort(axis=2)
    auc = (ranks[:, :, :positives].sum(axis=2) - positives * (positives - 1) / 2) / (
        positives * negatives
    )
    medians = np.median(np.maximum(auc, 1 - auc), axis=1)
    floor = median_null_floor(null_deviation(positives, negatives), batches)
    assert abs((medians <= floor).mean() - 0.95) <= 5 * 0.004 + 0.01


def test_floor_of_one_batchs_median_is_the_floor_of_the_batch():
    deviation = null_deviation(31, 481)
    assert median_null_floor(deviation, 1) == null_floor(31, 481)
    assert median_null_floor(deviation, 1000) < 0.54 < null_floor(31, 481)
