"""What is learnt from known labels: against attacks that need none, and against theory."""

import pytest
import torch
from scipy.special import ndtr

from cutlayer.attacks import WITHHELD, learned_adversary, tail_energy
from cutlayer.attacks.gradient_shape import energy_bands
from cutlayer.attacks.small_network import learned_scores
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.protections.marvell import Marvell
from cutlayer.protections.max_norm import MaxNorm
from cutlayer.rng import SeededNoise
from tests.attacks.trainings import labels_of, training
from tests.attacks.two_classes import auc_error, gaussian_classes


def half_known(labels):
    known = torch.arange(len(labels)) % 2 == 0
    return torch.where(known, labels, WITHHELD), ~known


def one_batch(perturb, examples=2000, share=0.2):
    labels = labels_of(examples, share)
    (release,) = training(labels, perturb, epochs=1, share=share, batch=examples)
    return release.gradient, labels[release.records]


@pytest.mark.parametrize(
    ("protection", "lowest"),
    [(Marvell(s=4.0), 0.99), (MaxNorm(), 0.8)],
    ids=["marvell", "max_norm"],
)
def test_it_is_within_reach_of_the_attacks_made_for_a_protection(protection, lowest):
    noise = SeededNoise(0)
    gradient, labels = one_batch(lambda g, y, _: protection.perturb(g, y, noise=noise))
    known, asked = half_known(labels)
    found = leak_auc(learned_adversary(gradient, known, 0)[asked], labels[asked])
    assert found > lowest
    if lowest > 0.9:
        assert symmetrised(leak_auc(tail_energy(gradient), labels)) > lowest


def test_it_does_not_pass_the_best_score_there_is():
    rows, labels = gaussian_classes(8000, 6, gap=1.5, share=0.5, seed=0)
    known, asked = half_known(labels)
    best = float(ndtr(1.5 / 2**0.5))
    found = leak_auc(learned_adversary(rows, known, 0)[asked], labels[asked])
    assert best - 0.02 < found < best + 5 * auc_error(best, labels[asked])


def test_it_learns_nothing_from_labels_that_have_nothing_to_do_with_rows():
    rows, _ = gaussian_classes(4000, 6, gap=1.5, share=0.5, seed=1)
    labels = labels_of(4000, 0.5, seed=2)
    known, asked = half_known(labels)
    found = leak_auc(learned_adversary(rows, known, 0)[asked], labels[asked])
    assert abs(found - 0.5) < 5 * auc_error(0.5, labels[asked])


def test_labels_of_one_class_teach_nothing():
    assert not learned_adversary(torch.eye(12), torch.ones(12).long(), 0).any()
    assert not learned_adversary(torch.eye(12), torch.full((12,), WITHHELD), 0).any()


@pytest.mark.parametrize("known", [torch.tensor([0, 2, 1]), torch.tensor([0, 1])])
def test_known_labels_of_another_kind_are_refused(known):
    with pytest.raises(ValueError, match="known_labels must"):
        learned_adversary(torch.ones(3, 2), known, 0)


def test_the_network_starts_at_a_line_and_bends_where_it_must():
    # A ring around a disc: no line tells them apart, and 300 steps do.
    generator = torch.Generator().manual_seed(3)
    rows = torch.randn(3000, 2, generator=generator, dtype=torch.float64)
    labels = (rows.square().sum(dim=1) > 1.39).long()
    known = torch.arange(3000) < 1500
    found = learned_scores(rows, known, labels, generator=torch.Generator().manual_seed(0))
    assert leak_auc(found[~known], labels[~known]) > 0.97


def test_energy_bands_by_hand():
    # Two rows along the first axis, one along the second: band 1 is the first direction alone.
    rows = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    bands = energy_bands(rows)
    assert bands.shape == (3, 9)
    # Energies along the first direction 16, 16, 0 (mean 32/3): log(1.5), and the floor 1e-12.
    expected = torch.tensor([1.5, 1.5, 1e-12]).double().log()
    assert torch.allclose(bands[:, 0], expected, atol=1e-9)
    whole = torch.tensor([16.0, 16.0, 1.0]).double()
    assert torch.allclose(bands[:, -1], (whole / whole.mean()).log(), atol=1e-9)
    assert not bands[:, 2:-1].any()  # no direction left for these groups


def test_energy_bands_know_no_sign():
    rows = torch.randn(20, 12, generator=torch.Generator().manual_seed(4)).double()
    assert torch.allclose(energy_bands(rows), energy_bands(-rows))
