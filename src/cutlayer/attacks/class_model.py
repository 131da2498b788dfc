"""The class model: how the received gradients of each class are distributed."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer import check


@dataclass(frozen=True, eq=False)
class ClassModel:
    r"""Two Gaussians with one variance along the gap of their means and one across it.

    .. math:: g \mid y \sim N\left(\mu_y,\; x_y \frac{\Delta\Delta^\top}{\lVert\Delta\rVert^2}
              + y_y \left(I - \frac{\Delta\Delta^\top}{\lVert\Delta\rVert^2}\right)\right),
              \qquad \Delta = \mu_1 - \mu_0

    This is Marvell's model of what is received: variance of the clean rows plus that of the noise.

    Raises:
        ValueError: the means have other shapes or are equal, or a variance is not above 0.
    """

    mean_pos: Tensor
    """Mean of the positives' gradients, float ``(width,)``."""
    mean_neg: Tensor
    """Mean of the negatives' gradients, float ``(width,)``."""
    along_pos: float
    """Variance of a positive's gradient along the gap."""
    along_neg: float
    across_pos: float
    """Variance of each coordinate across the gap; of no effect at width 1."""
    across_neg: float

    def __post_init__(self) -> None:
        check.matrix("mean_pos", self.mean_pos[None])
        check.shape("mean_neg", self.mean_neg, tuple(self.mean_pos.shape))
        check.finite("mean_pos", self.mean_pos)
        check.finite("mean_neg", self.mean_neg)
        for name in ("along_pos", "along_neg", "across_pos", "across_neg"):
            check.positive(name, getattr(self, name))
        if torch.equal(self.mean_pos, self.mean_neg):
            raise ValueError("mean_pos and mean_neg must differ, or there is no gap to go along.")
