"""cutlayer: two-party split learning that measures and limits label leakage."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.leakage.leak_auc import leak_auc
    from cutlayer.protections import (
        PROTECTIONS,
        Isotropic,
        Marvell,
        MaxNorm,
        NoNoise,
        Residual,
        protect,
        protected_loss,
    )

__all__ = [
    "PROTECTIONS",
    "Isotropic",
    "Marvell",
    "MaxNorm",
    "NoNoise",
    "Residual",
    "leak_auc",
    "protect",
    "protected_loss",
]

__getattr__ = lazily(
    __name__,
    {
        "leakage.leak_auc": ("leak_auc",),
        "protections": (
            "PROTECTIONS",
            "Isotropic",
            "Marvell",
            "MaxNorm",
            "NoNoise",
            "Residual",
            "protect",
            "protected_loss",
        ),
    },
)
