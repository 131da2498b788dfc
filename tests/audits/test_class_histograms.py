import pytest
import torch

from cutlayer.audits import GroundTruth, Hint
from cutlayer.audits.class_histograms import BINS, HistogramTally
from cutlayer.transcript import Release


def release(gradient, step=0) -> Release:
    gradient = torch.tensor(gradient)
    examples = len(gradient)
    return Release(step, 0, torch.arange(examples), torch.zeros(examples, 1), gradient)


def filled(shares) -> dict[int, float]:
    return {index: share for index, share in enumerate(shares) if share}


def test_norms_relative_to_the_longest_of_the_batch_by_hand():
    tally = HistogramTally("cut", GroundTruth(torch.tensor([1, 0, 0, 1])))
    tally.observe(release([[4.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, -2.02]]), None)
    norms, cosines = tally.result()
    assert (norms.layer, norms.quantity) == ("cut", "norm")
    assert len(norms.edges) == BINS + 1
    assert (norms.edges[0], norms.edges[25], norms.edges[-1]) == (0.0, 0.5, 1.0)
    assert filled(norms.positive) == {25: 0.5, 49: 0.5}  # 0.505 and 1 of 4
    assert filled(norms.negative) == {0: 0.5, 12: 0.5}  # 0 and 0.25
    assert not any(cosines.positive + cosines.negative)


def test_cosines_with_the_hint_by_hand():
    tally = HistogramTally("first", GroundTruth(torch.tensor([1, 1, 0, 0])))
    hint = Hint(0, torch.tensor([3.0, 0.0]))
    tally.observe(release([[3.0, 0.0], [5.0, 0.0], [-1.0, 0.0], [0.0, 2.0]]), hint)
    _, cosines = tally.result()
    assert cosines.edges[0] == -1.0
    assert cosines.edges[-1] == 1.0
    assert filled(cosines.positive) == {49: 1.0}  # record 0 is the hint and does not count
    assert filled(cosines.negative) == {0: 0.5, 25: 0.5}


def test_releases_add_up_and_shares_sum_to_one():
    labels = (torch.arange(40) % 4 == 0).long()
    tally = HistogramTally("cut", GroundTruth(labels))
    generator = torch.Generator().manual_seed(0)
    for step in range(3):
        gradient = torch.randn(40, 5, generator=generator)
        tally.observe(release(gradient.tolist(), step), Hint(0, gradient[0]))
    for histogram in tally.result():
        assert sum(histogram.positive) == pytest.approx(1.0)
        assert sum(histogram.negative) == pytest.approx(1.0)


def test_a_batch_of_zeros_has_norm_zero_and_cosine_zero():
    tally = HistogramTally("cut", GroundTruth(torch.tensor([1, 0])))
    tally.observe(release([[0.0], [0.0]]), Hint(1, torch.tensor([1.0])))
    norms, cosines = tally.result()
    assert filled(norms.positive) == filled(norms.negative) == {0: 1.0}
    assert filled(cosines.positive) == {25: 1.0}
