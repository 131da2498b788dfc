"""The spectral attack: the direction in which a batch varies most separates the classes."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.first_component import strongest_direction
from cutlayer.attacks.scale import at_unit_scale


def gradient_spectrum(gradient: Tensor) -> Tensor:
    r"""Score each example by its centred coordinate along the batch's direction of most variance.

    .. math:: v = \arg\max_{\lVert v \rVert = 1} \sum_j \langle g_j - \bar g, v \rangle^2, \qquad
              s_j = \langle g_j - \bar g, v \rangle, \qquad \sum_j s_j^3 \ge 0

    Unlike :func:`~cutlayer.attacks.first_component.first_component` the batch is centred, so a
    common part of all rows does not hide the gap. The end with the longer tail is taken for the
    rare class, the positives; the symmetrised leak AUC does not depend on it.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Coordinates in units of the power of two above the batch's largest entry, float64, shape
        ``(examples,)``; higher means "more likely positive". One row scores 0, and so do all
        rows of a batch without variance.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: `Sun et al. (2022) <https://arxiv.org/abs/2203.01451>`_, with the signed projection
    instead of its square.

    >>> gradient_spectrum(torch.tensor([[4.0, 1.0], [4.0, 1.0], [4.0, -2.0]])).mul(8).tolist()
    [-1.0, -1.0, 2.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    return _centred_coordinate(gradient)


def activation_spectrum(activation: Tensor) -> Tensor:
    """As :func:`gradient_spectrum`, on what the non-label party itself computed and sent.

    A trained bottom half pulls the classes apart along one direction, whatever noise the
    gradients had. No gradient is read, so this is the part of the leak that a protection of
    gradients cannot hide.

    Args:
        activation: float, shape ``(examples, width)``.

    Returns:
        Coordinates, as :func:`gradient_spectrum`.

    Raises:
        ValueError: ``activation`` is empty, not two-dimensional, not floating or not finite.

    Source: `Sun et al. (2022) <https://arxiv.org/abs/2203.01451>`_.
    """
    check.matrix("activation", activation)
    check.finite("activation", activation)
    return _centred_coordinate(activation)


def _centred_coordinate(rows: Tensor) -> Tensor:
    """Coordinate of each centred row along the strongest direction, its long tail upwards."""
    batch = at_unit_scale(rows)
    centred = batch - batch.mean(dim=0)
    # What the subtraction leaves of equal rows is rounding, not variance.
    rounding = 64 * torch.finfo(batch.dtype).eps * batch.abs().amax(dim=0)
    centred = torch.where(centred.abs().amax(dim=0) > rounding, centred, 0.0)
    direction = strongest_direction(centred)
    scores = centred @ direction
    third_moment = float(scores.pow(3).sum())
    largest_entry = float(direction[direction.abs().argmax()])
    turned = third_moment < 0 or (third_moment == 0 and largest_entry < 0)
    return -scores if turned else scores
