"""The isotropic protection: the same Gaussian noise in every direction and for every row."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer import check
from cutlayer.leakage.guarantee import Guarantee, nothing_proven
from cutlayer.protections.base import GradientProtection, check_batch, require_finite
from cutlayer.protections.row_blocks import in_row_blocks
from cutlayer.rng import NoiseSource


@dataclass(frozen=True)
class Isotropic(GradientProtection):
    r"""Add Gaussian noise whose power is ``t`` times the largest squared norm of the batch.

    .. math:: \tilde g_j = g_j + \xi_j, \qquad
              \xi_j \sim \mathcal N\left(0,\ \tfrac{t}{d} \max_i \lVert g_i \rVert_2^2\, I_d\right)

    Labels are not read. A batch of zero gradients stays zero, and its rows stay equal. The
    authors' code writes the same noise as ``ratio``, with :math:`t = \mathrm{ratio}^2`.

    Does not protect: the direction. In d dimensions the noise has only the share 1/d of its power
    along the line that separates the classes, so ``cosine`` wins unless t is large.

    Args:
        t: noise power in units of the largest squared norm, at least 0.

    Raises:
        ValueError: ``t`` is negative or not finite.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, section 5.
    """

    name: ClassVar[str] = "isotropic"
    t: float = 1.0

    def __post_init__(self) -> None:
        check.not_negative("t", self.t)

    @property
    @override
    def strength(self) -> str:
        return f"t={self.t:g}"

    @override
    def perturb(self, gradient: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        check_batch(gradient, labels)
        # In float64: float32 squares of norms underflow below 1e-19.
        largest = torch.linalg.vector_norm(gradient, dim=1, dtype=torch.float64).max()
        deviation = math.sqrt(self.t / gradient.shape[1]) * largest
        perturbed = torch.empty_like(gradient)
        for clean, sent in in_row_blocks(gradient, perturbed):
            sent.copy_(noise.normal_like(clean).mul_(deviation).add_(clean))
        require_finite(perturbed, "the gradient after isotropic noise")
        return perturbed

    @override
    def guarantee(self, releases: int) -> Guarantee:
        return nothing_proven(
            releases, "The noise scales with the batch's own largest gradient, which labels move."
        )
