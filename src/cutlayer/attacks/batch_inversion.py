"""Batch gradient inversion: labels from a parameter gradient that was summed over the batch."""

import math

import numpy as np
import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.scale import at_unit_scale

_ROUNDS_PER_COLUMN = 30
_EXACT = 1e-3
"""Distance, as a share of the sum, up to which an equation counts as solved."""
_TINY = 1e-30


def batch_inversion(layer_input: Tensor, weight_gradient: Tensor, prior: float) -> Tensor:
    r"""Score each example by solving the sum over the batch for its parts.

    The party knows the inputs a of its last layer and sees :math:`\nabla_W = \sum_j g_j a_j^\top`,
    a linear equation for the rows. With no more rows than independent inputs it has one solution,

    .. math:: (g_1, \dots, g_B)^\top = (A^+)^\top \nabla_W^\top,

    the very rows that summing was to hide; they are scored by
    :func:`~cutlayer.attacks.first_component.first_component`. With more rows it uses what cut
    gradients look like, :math:`g_j = \kappa (\pi - y_j) u`: with u the strongest direction of
    :math:`\nabla_W` and :math:`c = \nabla_W^\top u`, labels :math:`t_j = \kappa y_j` and scale are
    sought in

    .. math:: \min_{\kappa \ge 0,\, t \ge 0} \lVert A^\top (\kappa \pi 1 - t) \mp c \rVert^2
              + \left(\textstyle\sum_j t_j - \kappa \pi B\right)^2,

    with the sign that fits better, or, if both fit, the one whose :math:`(\sum t)^2 / \sum t^2`,
    the number of positives if t is as supposed, is nearer to :math:`\pi B`. Few positives make t
    sparse, and it may then be found from far fewer equations than rows; many rows and few inputs
    hide it, and so do predictions that differ much from record to record.

    Args:
        layer_input: inputs of the bottom's last layer, float, shape ``(examples, fan_in)``.
        weight_gradient: gradient of its weight summed over the batch, ``(width, fan_in)``.
        prior: share of positives, in (0, 1).

    Returns:
        Scores, float64, shape ``(examples,)``; higher means "more likely positive". In units of
        the power of two above the largest entry of the gradient, over that of the inputs, where
        rows are recovered; shares of the scale, near 1 for a positive, else. A gradient of zeros
        scores 0.

    Raises:
        ValueError: a matrix is empty, not two-dimensional, not floating or not finite; ``fan_in``
            differs; ``prior`` is outside (0, 1).

    Source: batch label inference of `Zou et al. (2021) <https://arxiv.org/abs/2112.05409>`_, which
    searches for dummy labels with Adam; as the inputs are the attacker's own, the problem is
    linear and is solved as such.

    >>> inputs = torch.eye(3).double()
    >>> total = torch.tensor([[2.0], [0.0]]).double() @ torch.tensor([[-0.5, 1.0, -0.5]]).double()
    >>> batch_inversion(inputs, total, prior=0.3).sign().tolist()
    [-1.0, 1.0, -1.0]
    """
    check.matrix("layer_input", layer_input)
    check.finite("layer_input", layer_input)
    check.matrix("weight_gradient", weight_gradient)
    check.finite("weight_gradient", weight_gradient)
    width = weight_gradient.shape[0]
    check.shape("weight_gradient", weight_gradient, (width, layer_input.shape[1]))
    check.between("prior", prior, 0.0, 1.0)
    inputs, total = at_unit_scale(layer_input).cpu(), at_unit_scale(weight_gradient).cpu()
    if not bool(total.any()):
        return torch.zeros_like(inputs[:, 0]).to(layer_input.device)
    if int(torch.linalg.matrix_rank(inputs)) == len(inputs):
        rows = torch.linalg.lstsq(inputs.T, total.T, driver="gelsd").solution
        return first_component(rows).to(layer_input.device)
    return _sparse_labels(inputs, total, prior).to(layer_input.device)


def _sparse_labels(inputs: Tensor, total: Tensor, prior: float) -> Tensor:
    """Labels as shares of the scale, from the likelier sign."""
    _, strength, right = torch.linalg.svd(total, full_matrices=False)
    wanted = strength[0] * right[0]
    everyone = torch.ones(len(inputs), dtype=torch.float64)
    balance = torch.cat([torch.tensor([-prior * len(inputs)]).double(), everyone])
    equations = torch.cat([prior * (inputs.T @ everyone)[:, None], -inputs.T], dim=1)
    system = torch.cat([equations, balance[None]]).numpy()
    best, label_share = float("inf"), torch.zeros(len(inputs), dtype=torch.float64)
    for sign in (1.0, -1.0):
        solution, distance = _non_negative(system, sign * wanted.numpy())
        scaled = torch.from_numpy(solution[1:])
        positives = float(scaled.sum()) ** 2 / max(float(scaled.square().sum()), _TINY)
        surprise = abs(math.log(max(positives, 1.0) / (prior * len(inputs))))
        misfit = distance / float(strength[0])
        badness = surprise + (misfit / _EXACT if misfit > _EXACT else 0.0)
        if badness < best:
            best, label_share = badness, scaled / max(float(solution[0]), _TINY)
    return label_share


def _non_negative(
    system: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    wanted: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """Non-negative least squares for one sign, and the distance that is left."""
    target = np.concatenate([wanted, [0.0]])
    from scipy.optimize import nnls  # here: it takes long to load

    solution, distance = nnls(system, target, maxiter=_ROUNDS_PER_COLUMN * system.shape[1])
    return solution, float(distance)
