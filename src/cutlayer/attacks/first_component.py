"""The first-component attack: the side of the one line that all gradients lie along."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import at_unit_scale, exact


def first_component(gradient: Tensor) -> Tensor:
    r"""Score each example by its coordinate along the batch's strongest direction.

    .. math:: v = \arg\max_{\lVert v \rVert = 1} \sum_j \langle g_j, v \rangle^2, \qquad
              s_j = \langle g_j, v \rangle, \qquad \sum_j s_j^3 \ge 0

    Cut gradients lie near one line through zero: row j is (prediction - label) of j times a
    vector that varies little, so the sign along the line is the label. The batch is not centred:
    the line goes through zero, where the sign changes, not through the mean. Noise that stretches
    a row along itself (``max_norm``) leaves the line in sight, and the mean over visits tells the
    side.

    *Which end is positive, without a hint.* A calibrated model's residuals sum to zero over a
    batch, so the rarer class has the larger ones: with share p < 1/2 of positives, residual
    :math:`-(1-p)` for a positive and :math:`p` for a negative, the third moment along the line is
    :math:`p(1-p)(1-2p) > 0` when it points to the positives. The mean cannot tell, as it is near
    zero, nor can the second moment, which has no sign. Noise of one variance for all rows adds
    nothing to the third moment of a calibrated batch, :math:`\sum_j (r_j^3 + 3 r_j \tau^2)` with
    :math:`\sum_j r_j = 0`. Noise of another variance in each row may turn it: under ``max_norm``
    :math:`\tau_j^2 = m^2 - r_j^2` and the sum becomes :math:`-2 \sum_j r_j^3`, so the wrong end is
    chosen, and always the wrong one. With balanced classes the choice is a coin toss in each
    batch. Neither hides the classes, which is what the symmetrised leak AUC reads, and
    :class:`~cutlayer.attacks.visit_average.VisitAverage` aligns the batches with each other.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Coordinates in the unit of ``gradient``, float64, shape ``(examples,)``; higher means
        "more likely positive". A zero gradient scores 0; in a batch of zeros all do. One row
        scores its norm. At width 1 the score is the value itself, turned by the third-moment
        rule. A third moment of exactly zero orients nothing: the largest entry of v is then
        made positive.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: cutlayer's own; the singular direction as a label attack: `Sun et al. (2022)
    <https://arxiv.org/abs/2203.01451>`_.

    >>> first_component(torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, -3.0]])).tolist()
    [-1.0, -1.0, 3.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    batch = at_unit_scale(gradient)
    direction = strongest_direction(batch)
    third_moment = float((batch @ direction).pow(3).sum())
    largest_entry = float(direction[direction.abs().argmax()])
    if third_moment < 0 or (third_moment == 0 and largest_entry < 0):
        direction = -direction
    return exact(gradient) @ direction


def strongest_direction(batch: Tensor) -> Tensor:
    """First right singular vector, ``(width,)``, from the smaller of the two Gram matrices."""
    examples, width = batch.shape
    if width <= examples:
        return torch.linalg.eigh(batch.T @ batch).eigenvectors[:, -1]
    combination = torch.linalg.eigh(batch @ batch.T).eigenvectors[:, -1]
    return torch.nn.functional.normalize(batch.T @ combination, dim=0)


def hinted_component(gradient: Tensor, hint: Tensor) -> Tensor:
    r"""The first component, turned towards a known positive.

    .. math:: s_j = \operatorname{sign}(\langle h, v \rangle)\, \langle g_j, v \rangle

    with v as in :func:`first_component`. The hint tells one bit a batch, the side of the
    positives, and the batch tells the line better than the hint does. Averaged over visits this
    needs no alignment.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint: gradient of one example known to be positive, shape ``(width,)``. Keep that example
            out of the AUC.

    Returns:
        Coordinates in the unit of ``gradient``, float64, shape ``(examples,)``; higher means
        "more likely positive". A hint at a right angle to v turns nothing.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite;
            ``hint`` has another shape than ``(width,)`` or is not finite.

    Source: cutlayer's own.

    >>> rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-3.0, 0.0]])
    >>> hinted_component(rows, hint=torch.tensor([0.5, 9.0])).tolist()
    [1.0, 1.0, -3.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    check.shape("hint", hint, (gradient.shape[1],))
    check.finite("hint", hint)
    direction = strongest_direction(at_unit_scale(gradient))
    side = float(at_unit_scale(hint[None])[0].to(direction.device) @ direction)
    return exact(gradient) @ (-direction if side < 0 else direction)
