"""The shape of a batch of gradients: where each row's energy lies, without sign or unit."""

import torch
from torch import Tensor

from cutlayer.attacks.scale import at_unit_scale

BANDS = 8
"""How many groups of singular directions are told apart."""

_FLOOR = 1e-12


def energy_bands(gradient: Tensor) -> Tensor:
    r"""Log of each row's energy in groups of singular directions, and of its whole energy.

    With :math:`G = \sum_k \sigma_k u_k v_k^\top` and the m directions cut into 8 groups of
    neighbours (the first is :math:`v_1` alone),

    .. math:: e_{jb} = \ln\left(\frac{\sum_{k \in b} \sigma_k^2 u_{jk}^2}
              {\operatorname{mean}_i \sum_{k \in b} \sigma_k^2 u_{ik}^2} + 10^{-12}\right)

    The norm attack reads the last column, the tail-energy attack the lower bands.

    Args:
        gradient: checked rows, ``(examples, width)``.

    Returns:
        Logs, float64, shape ``(examples, 9)``; a band without energy, or a group without a
        direction, is a column of zeros.
    """
    batch = at_unit_scale(gradient)
    left, strength, _ = torch.linalg.svd(batch, full_matrices=False)
    rounding = strength[0] * max(batch.shape) * torch.finfo(batch.dtype).eps
    coordinates = left * torch.where(strength > rounding, strength, 0.0)
    groups = [coordinates[:, :1], *coordinates[:, 1:].tensor_split(BANDS - 1, dim=1), coordinates]
    energy = torch.stack([group.square().sum(dim=1) for group in groups], dim=1)
    mean = energy.mean(dim=0)
    return torch.where(mean > 0, (energy / mean + _FLOOR).log(), 0.0)
