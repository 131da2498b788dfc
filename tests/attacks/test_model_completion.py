"""Model completion in one batch; over whole trainings see ``test_histories.py``."""

import torch
from scipy.special import ndtr

from cutlayer.attacks import model_completion
from cutlayer.leakage.leak_auc import leak_auc
from tests.attacks.two_classes import auc_error, gaussian_classes


def test_known_labels_of_many_records_reach_the_best_direction():
    rows, labels = gaussian_classes(4000, 10, gap=2.0, share=0.5, seed=0)
    known = torch.arange(4000) < 400
    found = model_completion(rows[~known], rows[known], labels[known], 0)
    best, judged = float(ndtr(2 / 2**0.5)), labels[~known]
    assert best - 0.02 < leak_auc(found, judged) < best + 5 * auc_error(best, judged)


def test_hints_tell_the_side():
    rows, labels = gaussian_classes(1000, 4, gap=4.0, share=0.5, seed=1)
    known = torch.arange(1000) < 40
    turned = model_completion(rows[~known], rows[known], 1 - labels[known], 0)
    assert leak_auc(turned, labels[~known]) < 0.05


def test_an_untrained_bottom_tells_nothing():
    rows, _ = gaussian_classes(4000, 10, gap=2.0, share=0.5, seed=2)
    labels = (torch.rand(4000, generator=torch.Generator().manual_seed(3)) < 0.5).long()
    known = torch.arange(4000) < 100
    found = leak_auc(model_completion(rows[~known], rows[known], labels[known], 0), labels[~known])
    assert abs(found - 0.5) < 5 * auc_error(0.5, labels[~known])
