"""The k-means attack: two clusters of gradients are two classes."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.first_component import strongest_direction
from cutlayer.attacks.hint_rows import check_class_hints, directions_with_hints, distances
from cutlayer.attacks.scale import row_directions

_ROUNDS = 50


def k_means_attack(gradient: Tensor) -> Tensor:
    r"""Score each example by which of two clusters of directions it lies nearer to.

    .. math:: s_j = \lVert \bar g_j - c_B \rVert_2 - \lVert \bar g_j - c_A \rVert_2, \qquad
              \bar g = g / \lVert g \rVert_2, \qquad |A| \le |B|

    :math:`c_A, c_B` are the centres of k-means with two clusters, which starts from the two sides
    of the strongest centred direction, so that nothing is drawn. The smaller cluster is taken
    for the positives.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Differences of distances in [-2, 2], float64, shape ``(examples,)``; higher means "more
        likely positive". Where all directions are the same every score is 0.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: clustering label inference of `Liu and Lyu (2022)
    <https://arxiv.org/abs/2203.05222>`_.

    >>> k_means_attack(torch.tensor([[1.0], [3.0], [-2.0]])).tolist()
    [-2.0, -2.0, 2.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    batch = row_directions(gradient)
    centred = batch - batch.mean(dim=0)
    side = centred @ strongest_direction(centred) > 0
    if bool(side.all()) or not bool(side.any()):
        return batch.new_zeros(len(batch))
    starts = torch.stack([batch[~side].mean(dim=0), batch[side].mean(dim=0)])
    score = _nearer_second(batch, _lloyd(batch, starts))
    return -score if int((score > 0).sum()) * 2 > len(batch) else score


def k_means_from_hints(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""As :func:`k_means_attack`, started at the means of the hints, so that classes are known.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``. Keep their rows
            out of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Differences of distances in [-2, 2], float64, shape ``(examples,)``; higher means "more
        likely positive".

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: clustering label inference of `Liu and Lyu (2022)
    <https://arxiv.org/abs/2203.05222>`_, with clusters started at the known samples.
    """
    batch, positives, negatives = directions_with_hints(
        "gradient", gradient, hint_gradients, hint_labels
    )
    starts = torch.stack([negatives.mean(dim=0), positives.mean(dim=0)])
    return _nearer_second(batch, _lloyd(batch, starts))


def k_means_classes(gradient: Tensor, hint_gradients: Tensor, hint_classes: Tensor) -> Tensor:
    """Class of each example by k-means started at the hints of each class, for any number of them.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``.
        hint_classes: their classes, int64, ``(hints,)``. Only these classes are found.

    Returns:
        Class numbers, int64, shape ``(examples,)``.

    Raises:
        ValueError: ``gradient`` or ``hint_gradients`` is empty, not two-dimensional, not floating
            or not finite; widths or numbers of hints differ.

    Source: clustering label inference of `Liu and Lyu (2022)
    <https://arxiv.org/abs/2203.05222>`_.
    """
    check_class_hints(gradient, hint_gradients, hint_classes)
    batch, known = row_directions(gradient), row_directions(hint_gradients).to(gradient.device)
    classes, of_hint = hint_classes.to(gradient.device).unique(return_inverse=True)
    starts = torch.stack([known[of_hint == c].mean(dim=0) for c in range(len(classes))])
    return classes[distances(batch, _lloyd(batch, starts)).argmin(dim=1)]


def _lloyd(batch: Tensor, centres: Tensor) -> Tensor:
    """Centres of the clusters when no row changes sides any more, or after 50 rounds."""
    side = torch.full_like(batch[:, 0], -1, dtype=torch.int64)
    for _ in range(_ROUNDS):
        # ||g||^2 is the same for all centres, so the nearest is the largest <g, c> - ||c||^2 / 2.
        reach = batch @ centres.T - centres.square().sum(dim=1) / 2
        now = reach.argmax(dim=1)
        if torch.equal(now, side):
            break
        side = now
        members = torch.nn.functional.one_hot(side, len(centres)).to(batch)
        counts = members.sum(dim=0)[:, None]
        # A cluster that lost all its rows stays where it was.
        centres = torch.where(counts > 0, members.T @ batch / counts.clamp_min(1), centres)
    return centres


def _nearer_second(batch: Tensor, centres: Tensor) -> Tensor:
    """Distance to the first of two centres minus that to the second, ``(examples,)``."""
    apart = distances(batch, centres)
    return apart[:, 0] - apart[:, 1]
