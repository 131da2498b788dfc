"""The tail-energy attack: noise that one class alone has shows where gradients do not reach."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import at_unit_scale


def tail_energy(gradient: Tensor) -> Tensor:
    r"""Score each example by how little of it lies in the weakest directions of its batch.

    With the singular value decomposition :math:`G = \sum_{k=1}^m \sigma_k u_k v_k^\top`,
    :math:`m = \min(B, d)`, :math:`\sigma_1 \ge \dots \ge \sigma_m`,

    .. math:: s_j = -\sum_{k > m - \lfloor m/2 \rfloor} \langle g_j, v_k \rangle^2
                  = -\sum_{k > m - \lfloor m/2 \rfloor} \sigma_k^2 u_{jk}^2

    Real cut gradients are nearly of rank 1. Marvell gives the noise across the mean gap to the
    class with the smaller variance only, so in the directions where nothing but noise lives the
    other class has no energy at all. Without side knowledge this separates the classes in one
    release, at any power of the noise. Which class has the energy depends on the two variances;
    as a rule the negatives have less variance and thus more noise, hence the minus sign.

    Batches smaller than the width (:math:`B < d`) span :math:`B` directions only; the tail is then
    the lower half of those :math:`B`, as the formula says, and not of all :math:`d`.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Minus the energy in the tail, at most 0, float64, shape ``(examples,)``, in units of the
        squared power of two above the batch's largest entry; higher means "more likely positive".
        A zero gradient scores 0. One row, or width 1, has no tail: every score is 0.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: cutlayer's own, against the noise of `Li et al. (2022)
    <https://arxiv.org/abs/2102.08504>`_.

    >>> rows = torch.tensor([[9.0, 0.0], [-7.0, 0.0], [0.0, 2.0], [0.0, -1.0]])
    >>> (tail_energy(rows) * 16**2).tolist()  # the largest entry, 9, is scaled by 16
    [-0.0, -0.0, -4.0, -1.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    batch = at_unit_scale(gradient)
    left, strength, _ = torch.linalg.svd(batch, full_matrices=False)
    # Strengths at the rounding error of the decomposition are zeros, not a signal.
    rounding = strength[0] * max(batch.shape) * torch.finfo(batch.dtype).eps
    strength = torch.where(strength > rounding, strength, 0.0)
    directions = len(strength)
    tail = slice(directions - directions // 2, directions)
    return -(left[:, tail] * strength[tail]).square().sum(dim=1)
