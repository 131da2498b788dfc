"""No protection: the gradient is sent as it is. The reference that every audit starts from."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from cutlayer.leakage.guarantee import Guarantee, nothing_proven
from cutlayer.protections.base import GradientProtection, check_batch
from cutlayer.rng import NoiseSource


@dataclass(frozen=True)
class NoNoise(GradientProtection):
    """Send the clean gradient.

    Does not protect: anything. Norm and direction of a row give its label away almost always.

    Source: the unprotected baseline of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.
    """

    name: ClassVar[str] = "no_noise"

    @property
    @override
    def strength(self) -> str:
        return "-"

    @override
    def perturb(self, gradient: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        check_batch(gradient, labels)
        return gradient

    @override
    def guarantee(self, releases: int) -> Guarantee:
        return nothing_proven(releases, "The gradient is sent unprotected.")
