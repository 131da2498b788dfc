import math

import pytest
import torch
from scipy.special import ndtr

from cutlayer.attacks import VisitAverage
from cutlayer.attacks.visit_average import standardised
from cutlayer.leakage.leak_auc import leak_auc, symmetrised

RECORDS, BATCH = 4000, 500


def train(average, visits, *, gap, turn=lambda epoch: False, seed=0):
    """Feed fresh scores N(gap y, 1) over whole epochs; ``turn`` says which batches are negated."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.arange(RECORDS) % 4 == 0).long()
    for epoch in range(visits):
        for records in torch.randperm(RECORDS, generator=generator).split(BATCH):
            noise = torch.randn(BATCH, generator=generator, dtype=torch.float64)
            scores = gap * labels[records] + noise
            average.add(records, -scores if turn(epoch) else scores)
    return leak_auc(average.mean(), labels)


def test_means_by_hand():
    # [0, 2, 4] is standardised to [-a, 0, a] with a = 2 / sqrt(8/3); [5, 5] orders nothing.
    average = VisitAverage(4, oriented=True)
    a = 2 / math.sqrt(8 / 3)
    added = average.add(torch.tensor([3, 1, 0]), torch.tensor([0.0, 2.0, 4.0]))
    assert added.tolist() == pytest.approx([-a, 0.0, a])
    assert average.add(torch.tensor([0, 1]), torch.tensor([5.0, 5.0])).tolist() == [0.0, 0.0]
    average.add(torch.tensor([3, 0]), torch.tensor([1.0, 0.0]))
    assert average.visits.tolist() == [2, 1, 0, 2]
    mean = average.mean()
    assert mean[[0, 1, 3]].tolist() == pytest.approx([(a - 1) / 2, 0.0, (1 - a) / 2])
    assert bool(mean[2].isnan())


@pytest.mark.parametrize("visits", [1, 5, 20])
def test_fresh_noise_averages_out_as_the_square_root_of_visits(visits):
    # AUC = Phi(gap sqrt(E) / sqrt 2). Five of the largest possible standard errors of an AUC,
    # sqrt(AUC (1 - AUC) / n1); standardising by batch moves the value by far less.
    found = train(VisitAverage(RECORDS, oriented=True), visits, gap=0.4)
    expected = float(ndtr(0.4 * math.sqrt(visits / 2)))
    assert abs(found - expected) < 5 * math.sqrt(expected * (1 - expected) / (RECORDS // 4))


def test_batches_that_turn_round_are_aligned_with_earlier_visits():
    coin = torch.Generator().manual_seed(5)

    def turn(epoch):
        return epoch > 0 and bool(torch.rand(1, generator=coin) < 0.5)

    aligned = train(VisitAverage(RECORDS, oriented=False), 10, gap=1.0, turn=turn)
    trusting = train(VisitAverage(RECORDS, oriented=True), 10, gap=1.0, turn=turn)
    expected = float(ndtr(math.sqrt(5)))  # 0.987, as if no batch had been turned
    assert abs(aligned - expected) < 0.01
    assert trusting < 0.9


def test_alignment_recovers_when_the_first_epoch_was_a_coin_toss_as_well():
    coin = torch.Generator().manual_seed(6)
    found = train(
        VisitAverage(RECORDS, oriented=False),
        20,
        gap=1.0,
        turn=lambda epoch: bool(torch.rand(1, generator=coin) < 0.5),
    )
    assert symmetrised(found) > 0.95


@pytest.mark.parametrize("oriented", [True, False])
def test_scores_without_labels_stay_without_labels(oriented):
    found = train(VisitAverage(RECORDS, oriented=oriented), 8, gap=0.0, seed=3)
    error = math.sqrt((RECORDS + 1) / (12 * 1000 * 3000))
    assert abs(found - 0.5) < 5 * error


def test_the_unit_of_a_batch_does_not_matter():
    scores = torch.tensor([1.0, 2.0, 5.0]).double()
    assert torch.allclose(standardised(scores), standardised(scores * 1e-200), rtol=1e-12)


@pytest.mark.parametrize(
    ("records", "scores", "message"),
    [
        ([0, 3], [1.0, 2.0], "records must lie in 0 to 2, got 0 to 3"),
        ([0, 0], [1.0, 2.0], "at most once"),
        ([0], [1.0, 2.0], r"scores must have shape \(1,\)"),
        ([0, 1], [1.0, float("nan")], "scores must be finite"),
    ],
)
def test_a_batch_of_no_use_is_refused_and_changes_nothing(records, scores, message):
    average = VisitAverage(3, oriented=True)
    with pytest.raises(ValueError, match=message):
        average.add(torch.tensor(records), torch.tensor(scores))
    assert average.visits.tolist() == [0, 0, 0]


def test_memory_does_not_grow_with_the_number_of_steps():
    average = VisitAverage(10, oriented=False)
    for _ in range(100):
        average.add(torch.arange(10), torch.randn(10))
    held = [value for value in vars(average).values() if isinstance(value, torch.Tensor)]
    assert sum(tensor.numel() for tensor in held) == 20
