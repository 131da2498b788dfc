"""Whole-training attacks on constructed trainings whose answer is known."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from cutlayer.attacks import (
    HISTORY_ATTACKS,
    WITHHELD,
    ClassModel,
    SideKnowledge,
    likelihood_ratio,
    score_history,
)
from cutlayer.attacks.max_norm_line import most_likely_place
from cutlayer.leakage.exact_auc import exact_auc
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.protections.marvell import Marvell
from cutlayer.protections.marvell_solver import solve_marvell
from cutlayer.protections.max_norm import MaxNorm
from cutlayer.rng import SeededNoise
from cutlayer.transcript import Release
from tests.attacks.trainings import labels_of, training
from tests.attacks.two_classes import auc_error

RECORDS, SHARE = 2000, 0.2


def in_clear(gradient, labels, records):
    return gradient


def with_max_norm(seed=0):
    noise = SeededNoise(seed)
    return lambda gradient, labels, records: MaxNorm().perturb(gradient, labels, noise=noise)


def with_marvell(s, seed=0):
    noise, marvell = SeededNoise(seed), Marvell(s=s)
    return lambda gradient, labels, records: marvell.perturb(gradient, labels, noise=noise)


def with_memoised_noise(level, seed=0):
    """One draw for each record, ``level`` times the longest clean row of the first batch."""
    noise = torch.randn(RECORDS, 16, generator=torch.Generator().manual_seed(seed)).double()
    scale = []

    def perturb(gradient, labels, records):
        scale.append(float(gradient.norm(dim=1).max()))
        return gradient + level * scale[0] * noise[records]

    return perturb


def leak(name, perturb, *, epochs, knowledge=None, labels=None, share=SHARE, **settings):
    labels = labels_of(RECORDS, share) if labels is None else labels
    releases = training(labels, perturb, epochs=epochs, share=share, **settings)
    scores = score_history(HISTORY_ATTACKS[name], releases, len(labels), knowledge)
    judged = ~scores.isnan()
    return symmetrised(leak_auc(scores[judged], labels[judged]))


def told(labels, count=None):
    """Labels of every other record, or of the first ``count`` of each class."""
    known = torch.arange(len(labels)) % 2 == 0
    if count is not None:
        known = torch.zeros_like(known)
        for c in (0, 1):
            known[(labels == c).nonzero()[:count, 0]] = True
    return SideKnowledge(known_labels=torch.where(known, labels, WITHHELD), prior=SHARE)


# The likelihood ratio, against the exact AUC.


@pytest.mark.parametrize("releases", [1, 5, 20])
@pytest.mark.parametrize("s", [1.0, 4.0])
def test_the_likelihood_ratio_reaches_the_exact_auc_of_marvells_model(s, releases):
    width, share, v, u = 12, 0.2, 0.003, 0.001
    noise = solve_marvell(
        variance_pos=v, variance_neg=u, gap_squared=1.0, positive_share=share, width=width, power=s
    )
    expected = exact_auc(
        noise, variance_pos=v, variance_neg=u, gap_squared=1.0, width=width, releases=releases
    )
    model = ClassModel(
        mean_pos=torch.eye(width).double()[0],
        mean_neg=torch.zeros(width).double(),
        along_pos=noise.along_pos + v,
        along_neg=noise.along_neg + u,
        across_pos=noise.across_pos + v,
        across_neg=noise.across_neg + u,
    )
    labels, generator = labels_of(20_000, 0.5), torch.Generator().manual_seed(int(s))
    along = torch.where(labels == 1, model.along_pos, model.along_neg).sqrt()
    across = torch.where(labels == 1, model.across_pos, model.across_neg).sqrt()
    deviation = across[:, None].repeat(1, width)
    deviation[:, 0] = along
    run = HISTORY_ATTACKS["likelihood_ratio_sum"].start(len(labels))
    for step in range(releases):
        sent = deviation * torch.randn(len(labels), width, generator=generator).double()
        sent[:, 0] += labels
        release = Release(step, step, torch.arange(len(labels)), sent, sent)
        run.observe(release, SideKnowledge(class_model=model))
    assert abs(leak_auc(run.scores(), labels) - expected) < 5 * auc_error(expected, labels)


def test_the_likelihood_ratio_is_that_of_two_densities():
    model = ClassModel(
        torch.tensor([1.0, 2.0]).double(), torch.tensor([0.0, 1.0]).double(), 2.0, 3.0, 0.5, 0.7
    )
    gap = torch.tensor([1.0, 1.0]).double() / math.sqrt(2)
    line = torch.outer(gap, gap)
    rest = torch.eye(2).double() - line
    rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double()
    density = [
        torch.distributions.MultivariateNormal(mean, along * line + across * rest).log_prob(rows)
        for mean, along, across in (
            (model.mean_pos, model.along_pos, model.across_pos),
            (model.mean_neg, model.along_neg, model.across_neg),
        )
    ]
    assert torch.allclose(likelihood_ratio(rows, model), density[0] - density[1])


# Marvell: tails in one release, averages over the training.


@pytest.mark.parametrize("s", [1.0, 4.0, 16.0])
def test_tail_energy_sees_through_marvell_in_one_epoch(s):
    assert leak("tail_energy_average", with_marvell(s), epochs=1) >= 0.95


def test_tail_energy_sees_nothing_where_marvells_assumption_holds():
    # Spread in all directions alike: the noise fills up what the negatives lack, as it promises.
    assert leak("tail_energy_average", with_marvell(4.0), epochs=1, rank=16) < 0.55


def test_averages_see_through_marvell_over_twenty_epochs():
    # In the span of the gap the noise is fresh: the cut is narrowed to it, so no tail helps.
    assert leak("first_component_average", with_marvell(4.0), epochs=1) < 0.75
    assert leak("first_component_average", with_marvell(4.0), epochs=20) >= 0.9
    assert leak("gradient_spectrum_average", with_marvell(4.0), epochs=20) >= 0.9


def test_a_line_that_is_followed_needs_no_alignment_by_records():
    # At s = 16 what a record scored before tells too little to align the next batch with.
    assert leak("first_component_average", with_marvell(16.0), epochs=20) < 0.6
    assert leak("steady_line", with_marvell(16.0), epochs=20) > 0.7


def test_the_followed_line_comes_close_to_the_bound_of_noise_on_the_residual():
    # c = p - y + sigma xi on one line: the best score is the mean of c, AUC Phi(sqrt(E/2)/sigma).
    sigma, epochs = 4.0, 20
    labels, generator = labels_of(RECORDS, 0.5), torch.Generator().manual_seed(9)

    def perturb(gradient, batch_labels, records):
        residual = 0.5 - batch_labels
        noisy = residual + sigma * torch.randn(len(records), generator=generator).double()
        return gradient * (noisy / residual)[:, None]

    best = float(ndtr(math.sqrt(epochs / 2) / sigma))
    found = leak("steady_line", perturb, epochs=epochs, labels=labels, share=0.5)
    assert best - 0.05 < found < best + 5 * auc_error(best, labels)


# max_norm: the line stays.


def test_the_first_component_sees_through_max_norm_over_twenty_epochs():
    assert leak("first_component_average", with_max_norm(), epochs=20) >= 0.95


def test_the_place_on_the_line_is_the_most_likely_one():
    # Against a numerical search for the maximum of the likelihood of N(r, 1 - r^2).
    generator = torch.Generator().manual_seed(0)
    mean = 1.8 * torch.rand(30, generator=generator).double() - 0.9
    square = mean.square() + torch.rand(30, generator=generator).double()
    found = most_likely_place(mean, square)
    for m1, m2, r in zip(mean.tolist(), square.tolist(), found.tolist(), strict=True):

        def loss(place, m1=m1, m2=m2):
            variance = 1 - place * place
            return (m2 - 2 * place * m1 + place * place) / variance + math.log(variance)

        best = minimize_scalar(loss, bounds=(-1 + 1e-9, 1 - 1e-9), method="bounded")
        assert loss(r) <= best.fun + 1e-9


def test_the_adaptive_score_is_better_than_the_mean_where_long_rows_are_all_positive():
    # Positives at r = -0.9, negatives at +0.1 of the longest row, 3 visits each: the mean has
    # AUC Phi(1 / sqrt((0.19 + 0.99) / 3)), and the variance of few visits tells the rest.
    labels, generator = labels_of(20_000, 0.5), torch.Generator().manual_seed(2)
    place = torch.where(labels == 1, -0.9, 0.1).double()[:, None]
    sent = place + (1 - place**2).sqrt() * torch.randn(20_000, 3, generator=generator).double()
    mean, square = sent.mean(dim=1), sent.square().mean(dim=1)
    expected = float(ndtr(1 / math.sqrt((0.19 + 0.99) / 3)))
    plain = 1 - leak_auc(mean, labels)
    adaptive = 1 - leak_auc(most_likely_place(mean, square), labels)
    assert abs(plain - expected) < 5 * auc_error(expected, labels)
    assert adaptive > plain + 5 * auc_error(expected, labels)


def test_the_adaptive_score_sees_through_max_norm_over_twenty_epochs():
    assert leak("max_norm_line", with_max_norm(), epochs=20) >= 0.95


# Memoised noise: differences cancel it, averages do not.


def test_differences_cancel_memoised_noise_and_averages_do_not():
    perturb = with_memoised_noise(5.0)
    assert leak("first_component_average", perturb, epochs=10) < 0.65
    assert leak("visit_differences", perturb, epochs=10) > 0.99


def test_differences_of_fresh_noise_are_no_better_than_the_average():
    average = leak("first_component_average", with_max_norm(), epochs=5)
    assert leak("visit_differences", with_max_norm(), epochs=5) < average


# Pooled releases.


@pytest.mark.parametrize("name", ["mean_gradient_spectrum", "mean_gradient_k_means"])
def test_the_mean_gradient_sees_through_fresh_noise(name):
    assert leak(name, with_max_norm(), epochs=20) > 0.95


@pytest.mark.parametrize("name", ["mean_gradient_probe", "mean_gradient_class_mean"])
def test_the_mean_gradient_needs_few_hints(name):
    labels = labels_of(RECORDS, SHARE)
    knowledge = told(labels, 5)
    assert leak(name, with_max_norm(), epochs=20, knowledge=knowledge, labels=labels) > 0.95
    turned = replace(knowledge, known_labels=1 - knowledge.known_labels.clamp_min(0))
    turned = replace(
        turned,
        known_labels=torch.where(knowledge.known_labels == WITHHELD, WITHHELD, turned.known_labels),
    )
    scores = score_history(
        HISTORY_ATTACKS[name],
        training(labels, with_max_norm(), epochs=20, share=SHARE),
        RECORDS,
        turned,
    )
    judged = ~scores.isnan()
    assert leak_auc(scores[judged], labels[judged]) < 0.05  # the hints tell the side


def activations_of_a_trained_bottom(gap, labels, seed=0):
    """One release whose activations are N(y gap e, I); gradients tell nothing."""
    generator = torch.Generator().manual_seed(seed)
    sent = torch.randn(len(labels), 16, generator=generator).double()
    activation = torch.randn(len(labels), 16, generator=generator).double()
    activation += gap * labels[:, None] / 4
    return Release(0, 0, torch.arange(len(labels)), activation, sent)


@pytest.mark.parametrize(
    ("name", "hints", "lowest"),
    [
        ("last_activation_spectrum", None, 0.97),
        ("last_activation_probe", 20, 0.9),
        ("last_model_completion", 20, 0.95),
    ],
)
def test_activations_of_a_trained_bottom_tell_without_any_gradient(name, hints, lowest):
    # The best direction has AUC Phi(3 / sqrt 2) = 0.983.
    labels = labels_of(RECORDS, 0.5)
    release = activations_of_a_trained_bottom(3.0, labels)
    scores = score_history(HISTORY_ATTACKS[name], [release], RECORDS, told(labels, hints))
    judged = ~scores.isnan()
    best = float(ndtr(3 / 2**0.5))
    found = symmetrised(leak_auc(scores[judged], labels[judged]))
    assert lowest < found < best + 5 * auc_error(best, labels)


def test_model_completion_gains_from_records_without_a_label():
    # Its published claim, on ten draws of 3 labels a class: better than the probe on these alone.
    labels = labels_of(RECORDS, 0.5)
    gains = []
    for seed in range(10):
        release = activations_of_a_trained_bottom(3.0, labels, seed)
        found = []
        for name in ("last_model_completion", "last_activation_probe"):
            scores = score_history(HISTORY_ATTACKS[name], [release], RECORDS, told(labels, 3))
            judged = ~scores.isnan()
            found.append(leak_auc(scores[judged], labels[judged]))
        gains.append(found[0] - found[1])
    assert sum(gains) / 10 > 0.03


def test_gradient_matching_after_the_training_finds_every_label_in_clear():
    assert (
        leak("last_gradient_matching", in_clear, epochs=1, knowledge=told(labels_of(9, 0.5))) > 0.99
    )


# The learned references.


@pytest.mark.parametrize(
    ("perturb", "epochs", "lowest"),
    [
        (in_clear, 1, 0.99),
        (with_max_norm(), 20, 0.97),
        (with_marvell(4.0), 2, 0.99),
        (with_memoised_noise(5.0), 10, 0.97),
    ],
    ids=["no_noise", "max_norm", "marvell", "memoised"],
)
def test_the_learned_reference_is_as_strong_as_the_attack_made_for_each_noise(
    perturb, epochs, lowest
):
    labels = labels_of(RECORDS, SHARE)
    found = leak("learned_history", perturb, epochs=epochs, knowledge=told(labels), labels=labels)
    assert found > lowest


# Noise on the residual holds against all of them.


@pytest.mark.parametrize("name", sorted(HISTORY_ATTACKS))
def test_noise_on_the_residual_stays_within_its_bound(name):
    # c = p - y + sigma xi, carried back: AUC <= Phi(sqrt(E / 2) / sigma) for coins as labels.
    sigma, epochs = 4.0, 5
    labels, generator = labels_of(RECORDS, 0.5), torch.Generator().manual_seed(8)

    def perturb(gradient, batch_labels, records):
        residual = 0.5 - batch_labels
        noisy = residual + sigma * torch.randn(len(records), generator=generator).double()
        return gradient * (noisy / residual)[:, None]

    attack = HISTORY_ATTACKS[name]
    bound = float(ndtr(math.sqrt(epochs / 2) / sigma))
    run, width = attack.start(RECORDS), 16
    hints = torch.randn(6, width, generator=generator).double()
    model = ClassModel(hints[0], hints[1], 1.0, 1.0, 1.0, 1.0)
    few = SideKnowledge(
        hint=hints[0],
        hint_gradients=hints,
        hint_activations=hints,
        hint_labels=torch.tensor([1, 1, 1, 0, 0, 0]),
        class_model=model,
    )
    for release in training(labels, perturb, epochs=epochs, share=0.5, rank=16):
        run.observe(release, few)
    scores = run.scores(told(labels))
    judged = ~scores.isnan()
    found = symmetrised(leak_auc(scores[judged], labels[judged]))
    assert found <= bound + 5 * auc_error(0.5, labels[judged])
