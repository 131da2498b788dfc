"""The k-means attack: two clusters of gradients are two classes."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.first_component import strongest_direction
from cutlayer.attacks.hint_rows import directions_with_hints, distances
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
    first, second = _lloyd(batch, batch[side].mean(dim=0), batch[~side].mean(dim=0))
    score = _nearer_first(batch, first, second)
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
    return _nearer_first(batch, *_lloyd(batch, positives.mean(dim=0), negatives.mean(dim=0)))


def _lloyd(batch: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Centres of two clusters when no row changes side any more, or after 50 rounds."""
    side = batch.new_zeros(len(batch), dtype=torch.bool)
    for _ in range(_ROUNDS):
        now = _nearer_first(batch, first, second) > 0
        if bool(now.all()) or not bool(now.any()) or torch.equal(now, side):
            break
        side = now
        first, second = batch[side].mean(dim=0), batch[~side].mean(dim=0)
    return first, second


def _nearer_first(batch: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Distance to the second centre minus that to the first, ``(examples,)``."""
    return distances(batch, second[None])[:, 0] - distances(batch, first[None])[:, 0]
