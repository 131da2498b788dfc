"""What a protection promises about the labels, and on which grounds."""

from dataclasses import dataclass
from typing import Literal

from cutlayer import check

GuaranteeKind = Literal["rigorous", "model", "none"]
"""``rigorous``: proven for every network and every attacker. ``model``: true only if gradients
were distributed as the protection's model assumes. ``none``: nothing is proven."""


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on the leak AUC of every attack, for a number of releases of one record."""

    kind: GuaranteeKind
    leak_auc: float | None
    """The bound, in [0.5, 1]; ``None`` where nothing is proven."""
    releases: int
    """For how many gradient rows of one record the bound holds."""
    grounds: str
    """One sentence: by which argument, under which assumption."""

    def __post_init__(self) -> None:
        if self.kind not in ("rigorous", "model", "none"):
            raise ValueError(f"kind must be rigorous, model or none, got {self.kind!r}.")
        if (self.leak_auc is None) != (self.kind == "none"):
            raise ValueError(
                f"leak_auc must be None exactly when kind is 'none', got {self.leak_auc} "
                f"with kind {self.kind!r}."
            )
        check.at_least("releases", self.releases, 0)


def nothing_proven(releases: int, grounds: str) -> Guarantee:
    """The guarantee of a protection that proves nothing."""
    return Guarantee("none", None, releases, grounds)
