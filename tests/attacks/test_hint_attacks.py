"""Attacks with a few known records: against closed forms and scikit-learn."""

import pytest
import torch
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.preprocessing import StandardScaler

from cutlayer.attacks import (
    activation_probe,
    activation_similarity,
    class_mean_attack,
    class_median_attack,
    gradient_probe,
    gradient_similarity,
    hint_distance,
    hint_inner_product,
    received_cosine,
)
from cutlayer.attacks.few_shot_probe import fit_logistic
from cutlayer.attacks.similarity_attack import similar_classes
from cutlayer.leakage.leak_auc import leak_auc
from tests.attacks.two_classes import auc_error, gaussian_classes, residual_rows


def split(rows, labels, hints):
    """The first ``hints`` rows of each class as hints, and the rest."""
    known = torch.cat([(labels == c).nonzero()[:hints, 0] for c in (1, 0)])
    rest = torch.ones(len(rows), dtype=torch.bool)
    rest[known] = False
    return rows[rest], labels[rest], rows[known], labels[known]


@pytest.mark.parametrize("hints", [1, 3, 5])
@pytest.mark.parametrize(
    "attack",
    [
        received_cosine,
        hint_inner_product,
        hint_distance,
        gradient_similarity,
        class_mean_attack,
        class_median_attack,
        gradient_probe,
    ],
)
def test_one_hint_a_class_is_enough_without_a_protection(attack, hints):
    rows, labels = residual_rows(2000, 16, share=0.2, spread=0.05, seed=hints)
    batch, truth, known, classes = split(rows, labels, hints)
    assert leak_auc(attack(batch, known, classes), truth) == 1.0


@pytest.mark.parametrize("hints", [1, 3, 5])
def test_inner_product_has_the_auc_of_a_projection(hints):
    # <g, h> of N(y gap e, I) rows is Gaussian: AUC = Phi(gap <e, h> / (sqrt 2 |h|)).
    rows, labels = gaussian_classes(40_000, 8, gap=2.0, share=0.5, seed=hints)
    batch, truth, known, classes = split(rows, labels, hints)
    positives = known[classes == 1]
    longest = positives[positives.norm(dim=1).argmax()]
    cosine = float(longest.sum() / 8**0.5 / longest.norm())
    expected = float(ndtr(2.0 * cosine / 2**0.5))
    found = leak_auc(hint_inner_product(batch, known, classes), truth)
    assert abs(found - expected) < 5 * auc_error(expected, truth)


def test_cosine_to_many_hints_reaches_the_best_direction():
    # Rows of one length in 200 dimensions: the cosine is the coordinate along the mean of the
    # hints' directions, whose angle to e is known.
    rows, labels = gaussian_classes(20_000, 200, gap=3.0, share=0.5, seed=3)
    rows = rows - rows.mean(dim=0)
    batch, truth, known, classes = split(rows, labels, 500)
    found = leak_auc(received_cosine(batch, known, classes), truth)
    best = float(ndtr(3.0 / 2**0.5))
    assert best - 0.04 < found < best + 5 * auc_error(best, truth)


def test_hint_distance_is_the_nearest_neighbour():
    rows, labels = gaussian_classes(500, 5, gap=1.0, share=0.4, seed=0)
    batch, _, known, classes = split(rows, labels, 5)
    reference = KNeighborsClassifier(1).fit(known, classes).predict(batch)
    assert ((hint_distance(batch, known, classes) > 0).numpy() == (reference == 1)).all()


def test_similarity_is_the_nearest_neighbour_by_cosine():
    rows, labels = gaussian_classes(500, 5, gap=1.0, share=0.4, seed=1)
    batch, _, known, classes = split(rows, labels, 5)
    cosine = KNeighborsClassifier(1, metric="cosine").fit(known, classes).predict(batch)
    for attack in (gradient_similarity, activation_similarity):  # on a sphere both are the same
        assert ((attack(batch, known, classes) > 0).numpy() == (cosine == 1)).all()


def test_similar_classes_of_three():
    generator = torch.Generator().manual_seed(2)
    classes = torch.randint(3, (300,), generator=generator)
    logits = torch.randn(300, 3, generator=generator).double()
    gradient = logits.softmax(dim=1) - torch.nn.functional.one_hot(classes, 3)
    known = torch.stack([gradient[classes == c][0] for c in range(3)])
    found = similar_classes(gradient, known, torch.arange(3))
    reference = KNeighborsClassifier(1, metric="cosine").fit(known, range(3)).predict(gradient)
    assert found.tolist() == reference.tolist()
    assert float((found == classes).double().mean()) > 0.9


def test_class_centres_are_the_nearest_centroid():
    rows, labels = gaussian_classes(500, 5, gap=1.0, share=0.4, seed=2)
    batch, _, known, classes = split(rows, labels, 7)
    euclidean = NearestCentroid().fit(known, classes).predict(batch)
    assert ((class_mean_attack(batch, known, classes) > 0).numpy() == (euclidean == 1)).all()
    centres = torch.stack([known[classes == c].quantile(0.5, dim=0) for c in (0, 1)])
    nearer = torch.cdist(batch, centres).argmin(dim=1)
    assert ((class_median_attack(batch, known, classes) > 0) == (nearer == 1)).all()


@pytest.mark.parametrize(("examples", "width", "hints"), [(400, 6, 10), (300, 40, 3)])
def test_the_probe_is_the_logistic_regression_of_scikit_learn(examples, width, hints):
    rows, labels = gaussian_classes(examples, width, gap=1.5, share=0.4, seed=4)
    batch, _, known, classes = split(rows, labels, hints)
    scaler = StandardScaler().fit(batch)
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
    model.fit(scaler.transform(known), classes)
    expected = torch.from_numpy(model.decision_function(scaler.transform(batch)))
    for attack in (gradient_probe, activation_probe):
        assert torch.allclose(attack(batch, known, classes), expected, rtol=1e-4, atol=1e-5)


def test_a_regression_whose_classes_are_apart_stays_finite():
    weight, bias = fit_logistic(torch.tensor([[1e3], [-1e3]]).double(), torch.tensor([1.0, 0]))
    assert bool(weight.isfinite().all())
    assert bool(bias.isfinite())


def test_the_probe_needs_hints_to_see_through_noise():
    # 1, 20, 200 hints a class at gap 2 in 20 dimensions: more labels, more leak, never more than
    # the best direction.
    rows, labels = gaussian_classes(20_000, 20, gap=2.0, share=0.5, seed=5)
    best, found = float(ndtr(2 / 2**0.5)), []
    for hints in (1, 20, 200):
        batch, truth, known, classes = split(rows, labels, hints)
        found.append(leak_auc(gradient_probe(batch, known, classes), truth))
        assert found[-1] < best + 5 * auc_error(best, truth)
    assert found[0] < found[1] < found[2]
    assert found[2] > best - 0.02
