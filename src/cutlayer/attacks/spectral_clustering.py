"""Spectral clustering: the best cut through the graph of like directions."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import row_directions


def spectral_clustering(gradient: Tensor) -> Tensor:
    r"""Score each example by the second eigenvector of the graph of cosines.

    .. math:: A_{ij} = 1 + \cos(g_i, g_j), \qquad D = \operatorname{diag}(A 1), \qquad
              s = D^{-1/2} u_2, \qquad D^{-1/2} A D^{-1/2} u_2 = \lambda_2 u_2

    This is the relaxed normalised cut into two parts, before its rounding by k-means, so that it
    orders the examples. :math:`A = F F^\top` with :math:`F_i = (1, g_i / \lVert g_i \rVert)`, so
    u is a left singular vector of :math:`D^{-1/2} F`, and no matrix of pairs is made. The smaller
    side is taken for the positives; equal sides are turned by the third moment.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Coordinates without unit, float64, shape ``(examples,)``; higher means "more likely
        positive". Where all directions are the same, or there is one row, every score is 0.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: gradient label inference of SecretFlow (``grad_lia``), after the normalised cut of
    `Shi and Malik (2000) <https://doi.org/10.1109/34.868688>`_.

    >>> spectral_clustering(torch.tensor([[1.0], [3.0], [-2.0]])).sign().tolist()
    [-1.0, -1.0, 1.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    directions = row_directions(gradient)
    factor = torch.cat([directions.new_ones(len(directions), 1), directions], dim=1)
    # A row opposite to the mean of all others has degree near 0, never below its own 1 + 1.
    degree = (factor @ factor.sum(dim=0)).clamp_min(1.0)
    left, strength, _ = torch.linalg.svd(factor / degree.sqrt()[:, None], full_matrices=False)
    rounding = strength[0] * max(factor.shape) * torch.finfo(factor.dtype).eps
    if len(strength) < 2 or float(strength[1]) <= float(rounding):
        return directions.new_zeros(len(directions))
    scores = left[:, 1] / degree.sqrt()
    above, below = int((scores > 0).sum()), int((scores < 0).sum())
    turned = above > below or (above == below and float(scores.pow(3).sum()) < 0)
    return -scores if turned else scores
