"""The max_norm protection: hide which gradients are long."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer.leakage.guarantee import Guarantee, nothing_proven
from cutlayer.protections.base import GradientProtection, check_batch, require_finite
from cutlayer.protections.row_blocks import in_row_blocks
from cutlayer.rng import NoiseSource


@dataclass(frozen=True)
class MaxNorm(GradientProtection):
    r"""Stretch every gradient along itself until no norm stands out.

    With :math:`n_j = \lVert g_j \rVert_2` and :math:`m = \max_i n_i` over the batch,

    .. math:: \tilde g_j = g_j + \xi_j \sqrt{m^2 - n_j^2}\; e_j, \qquad \xi_j \sim \mathcal N(0, 1),

    where :math:`e_j = g_j / n_j`, or a random unit vector where :math:`n_j = 0`. So
    :math:`E\,\tilde g_j = g_j` and :math:`E \lVert \tilde g_j \rVert_2^2 = m^2` for every row.
    Labels are not read.

    Does not protect: the longest row, which leaves unchanged; and the line through
    :math:`g_j`. Its side gives the label away (``first_component``), in one release in part,
    over epochs entirely.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, section 4.1.
    """

    name: ClassVar[str] = "max_norm"

    @property
    @override
    def strength(self) -> str:
        return "-"

    @override
    def perturb(self, gradient: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        check_batch(gradient, labels)
        # In float64: float32 squares of norms underflow below 1e-19.
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True, dtype=torch.float64)
        largest = norm.max()
        # (m - n)(m + n) keeps the digits that m**2 - n**2 loses when n is close to m.
        length = noise.normal_like(norm) * ((largest - norm) * (largest + norm)).sqrt()
        along = torch.where(norm > 0, length / norm, 0.0)
        astray = torch.where(norm > 0, 0.0, length)
        perturbed = torch.empty_like(gradient)
        for clean, stretch, shift, sent in in_row_blocks(gradient, 1 + along, astray, perturbed):
            # Drawn for every row, used by zero rows: the work must not depend on the gradients.
            direction = noise.unit_vectors_like(clean)
            sent.copy_(direction.mul_(shift).addcmul_(clean.double(), stretch))
        require_finite(perturbed, "the gradient after max_norm")
        return perturbed

    @override
    def guarantee(self, releases: int) -> Guarantee:
        return nothing_proven(
            releases, "Every row keeps the line of its gradient, and the line's side is the label."
        )
