"""k-means, spectral clustering and the spectral attack: against scikit-learn and closed forms."""

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import PCA

from cutlayer.attacks import (
    activation_spectrum,
    gradient_spectrum,
    k_means_attack,
    k_means_classes,
    k_means_from_hints,
    spectral_clustering,
)
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from tests.attacks.two_classes import auc_error, gaussian_classes, residual_rows


def directions(rows):
    return rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("attack", [k_means_attack, spectral_clustering, gradient_spectrum])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.45])
def test_gradients_without_a_protection_give_every_label_away(attack, share):
    rows, labels = residual_rows(1000, 16, share=share, spread=0.05, seed=1)
    assert leak_auc(attack(rows), labels) == 1.0


def test_k_means_is_that_of_scikit_learn():
    rows, labels = residual_rows(400, 6, share=0.3, spread=0.8, seed=2)
    known = torch.tensor([int((labels == c).nonzero()[0, 0]) for c in (1, 0)])
    start = directions(rows)[known]
    reference = KMeans(2, init=start.numpy(), n_init=1, tol=0.0).fit(directions(rows).numpy())
    found = k_means_from_hints(rows, rows[known], torch.tensor([1, 0]))
    assert ((found > 0).numpy() == (reference.labels_ == 0)).all()
    centres = torch.from_numpy(reference.cluster_centers_)
    distance = torch.cdist(directions(rows), centres)
    assert torch.allclose(found, distance[:, 1] - distance[:, 0], atol=1e-9)


def test_k_means_of_three_classes_is_that_of_scikit_learn():
    generator = torch.Generator().manual_seed(10)
    classes = torch.randint(3, (500,), generator=generator)
    logits = torch.randn(500, 3, generator=generator).double()
    gradient = logits.softmax(dim=1) - torch.nn.functional.one_hot(classes, 3)
    known = torch.tensor([int((classes == c).nonzero()[0, 0]) for c in range(3)])
    start = directions(gradient)[known]
    reference = KMeans(3, init=start.numpy(), n_init=1, tol=0.0).fit(directions(gradient).numpy())
    found = k_means_classes(gradient, gradient[known], 10 * torch.arange(3))
    assert (found.numpy() == 10 * reference.labels_).all()
    assert float((found == 10 * classes).double().mean()) > 0.95
    with pytest.raises(ValueError, match=r"hint_classes must have shape \(3,\)"):
        k_means_classes(gradient, gradient[known], torch.arange(2))


def test_k_means_without_hints_finds_the_best_of_many_starts():
    rows, _ = residual_rows(400, 6, share=0.3, spread=0.8, seed=3)
    reference = KMeans(2, n_init=20, random_state=0, tol=0.0).fit(directions(rows).numpy())
    side = (k_means_attack(rows) > 0).numpy()
    agreement = (side == (reference.labels_ == 1)).mean()
    assert max(agreement, 1 - agreement) == 1.0
    assert side.mean() <= 0.5


def test_spectral_clustering_is_that_of_scikit_learn():
    rows, _ = residual_rows(300, 6, share=0.3, spread=0.3, seed=4)
    affinity = (1 + directions(rows) @ directions(rows).T).numpy().clip(0.0)
    reference = SpectralClustering(2, affinity="precomputed", random_state=0).fit(affinity)
    side = (spectral_clustering(rows) > 0).numpy()
    agreement = (side == (reference.labels_ == 1)).mean()
    assert max(agreement, 1 - agreement) > 0.98


def test_spectral_scores_solve_the_eigenproblem_of_all_pairs():
    rows, _ = residual_rows(60, 5, share=0.3, spread=0.5, seed=5)
    affinity = (1 + directions(rows) @ directions(rows).T).numpy()
    root = np.sqrt(affinity.sum(axis=1))
    _, vectors = np.linalg.eigh(affinity / np.outer(root, root))
    expected = vectors[:, -2] / root
    found = spectral_clustering(rows).numpy()
    assert np.allclose(np.abs(found), np.abs(expected), atol=1e-9)
    assert np.abs(np.corrcoef(found, expected)[0, 1]) == pytest.approx(1.0)


@pytest.mark.parametrize("attack", [gradient_spectrum, activation_spectrum])
def test_the_spectral_score_is_the_first_principal_component(attack):
    rows, _ = gaussian_classes(300, 7, gap=4.0, share=0.3, seed=6)
    expected = torch.from_numpy(PCA(1, svd_solver="full").fit_transform(rows.numpy()))[:, 0]
    found = attack(rows) * 2.0 ** np.ceil(np.log2(float(rows.abs().max())))
    assert torch.allclose(found.abs(), expected.abs(), atol=1e-9)
    assert float(found.pow(3).sum()) > 0


def test_the_spectral_attack_has_the_auc_of_the_gap_where_the_gap_is_the_largest_variance():
    rows, labels = gaussian_classes(40_000, 8, gap=3.0, share=0.5, seed=7)
    expected = float(ndtr(3.0 / 2**0.5))
    found = symmetrised(leak_auc(activation_spectrum(rows), labels))
    assert abs(found - expected) < 5 * auc_error(expected, labels)


def test_the_spectral_attack_fails_where_another_direction_varies_more():
    rows, labels = gaussian_classes(40_000, 8, gap=3.0, share=0.5, seed=8)
    rows = rows * torch.tensor([1.0] * 7 + [50.0]).double()  # one loud coordinate
    assert symmetrised(leak_auc(activation_spectrum(rows), labels)) < 0.85  # of 0.983


def test_the_spectral_attack_centres():
    # The common part of all rows is longer than the gap: without centring it would be the line.
    rows, labels = residual_rows(500, 4, share=0.2, spread=0.01, seed=9)
    assert leak_auc(gradient_spectrum(rows + 100.0), labels) == 1.0


@pytest.mark.parametrize("attack", [k_means_attack, spectral_clustering, gradient_spectrum])
def test_equal_rows_have_no_sides(attack):
    assert attack(torch.full((7, 3), 0.3)).tolist() == [0.0] * 7
