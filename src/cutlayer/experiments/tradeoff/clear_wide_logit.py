"""The authors' wide logit: a path past the protection, kept for comparison with their numbers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from cutlayer.leakage.guarantee import Guarantee
from cutlayer.protections.base import GradientProtection
from cutlayer.rng import NoiseSource

WARNING = (
    "The wide logit's gradient is sent in clear, as in the authors' code: it is the residual "
    "(prediction minus label) of each record, so every label leaves whatever the protection. The "
    "leak shown is that of the deep part alone. Simulation only."
)


@dataclass(frozen=True)
class ClearWideLogit(GradientProtection):
    """Perturb the deep part of the cut and send the gradient of its last number in clear.

    Does not protect: anything. The last number's gradient is (prediction - label) / batch size.
    It exists to reproduce published numbers, and refuses to run with secret noise.

    Source: the code of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, whose wide logit
    goes to the loss beside the protected cut layer.
    """

    name: ClassVar[str] = "clear_wide_logit"

    deep: GradientProtection
    """What the deep part gets."""

    @property
    @override
    def strength(self) -> str:
        return self.deep.strength

    @property
    @override
    def simulation_only(self) -> bool:
        return True

    @override
    def guarantee(self, releases: int) -> Guarantee:
        return Guarantee("none", None, releases, WARNING)

    @override
    def prime(self, gradient: Tensor, labels: Tensor) -> None:
        self.deep.prime(gradient[:, :-1], labels)

    @override
    def perturb(self, gradient: Tensor, labels: Tensor, *, noise: NoiseSource) -> Tensor:
        deep = self.deep.perturb(gradient[:, :-1], labels, noise=noise)
        return torch.cat([deep, gradient[:, -1:]], dim=1)
