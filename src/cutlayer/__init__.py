"""cutlayer: two-party split learning that measures and limits label leakage."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.attacks.suite import ATTACKS, HISTORY_ATTACKS
    from cutlayer.audits.own_loop import audit
    from cutlayer.leakage.leak_auc import leak_auc
    from cutlayer.parties.label_party import LabelParty
    from cutlayer.parties.non_label_party import NonLabelParty
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
    from cutlayer.transcript.folder import Transcript
    from cutlayer.transcript.release import Release

__all__ = [
    "ATTACKS",
    "HISTORY_ATTACKS",
    "PROTECTIONS",
    "Isotropic",
    "LabelParty",
    "Marvell",
    "MaxNorm",
    "NoNoise",
    "NonLabelParty",
    "Release",
    "Residual",
    "Transcript",
    "audit",
    "leak_auc",
    "protect",
    "protected_loss",
]

__getattr__ = lazily(
    __name__,
    {
        "attacks.suite": ("ATTACKS", "HISTORY_ATTACKS"),
        "audits.own_loop": ("audit",),
        "leakage.leak_auc": ("leak_auc",),
        "parties.label_party": ("LabelParty",),
        "parties.non_label_party": ("NonLabelParty",),
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
        "transcript.folder": ("Transcript",),
        "transcript.release": ("Release",),
    },
)
