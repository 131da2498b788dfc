"""Protections: what is done to a gradient before it leaves. One file each."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily
from cutlayer.protections.base import GradientProtection, Protection, Stage
from cutlayer.protections.isotropic import Isotropic
from cutlayer.protections.marvell import Marvell
from cutlayer.protections.max_norm import MaxNorm
from cutlayer.protections.no_noise import NoNoise
from cutlayer.protections.residual import Residual
from cutlayer.protections.specification import parse_protection
from cutlayer.registry import Registry

if TYPE_CHECKING:
    from cutlayer.protections.drop_in import protect, protected_loss

PROTECTIONS: Registry[type[Protection]] = Registry(
    "protection",
    {kind.name: kind for kind in (NoNoise, Isotropic, MaxNorm, Marvell, Residual)},
)
"""Every protection by name. ``PROTECTIONS.register(name, Class)`` adds one's own."""

__all__ = [
    "PROTECTIONS",
    "GradientProtection",
    "Isotropic",
    "Marvell",
    "MaxNorm",
    "NoNoise",
    "Protection",
    "Residual",
    "Stage",
    "parse_protection",
    "protect",
    "protected_loss",
]

# torch.compiler.disable, by which the drop-ins stay out of compiled graphs, takes a second to load.
__getattr__ = lazily(__name__, {"drop_in": ("protect", "protected_loss")})
