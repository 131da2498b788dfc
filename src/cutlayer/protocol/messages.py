"""What the two parties say to each other: message kinds, roles, and one message."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

JsonScalar = str | int | float | bool | None


class Role(Enum):
    """Which party speaks."""

    LABEL = "label party"
    NON_LABEL = "non-label party"

    @property
    def peer(self) -> Role:
        """The other party."""
        return Role.NON_LABEL if self is Role.LABEL else Role.LABEL


class Kind(IntEnum):
    """What a message is for. The numbers are the wire format."""

    HELLO = 1
    """Terms of the run, JSON; both ways, once."""
    IDS = 2
    """Keyed digests of the sender's record ids, uint8 ``(ids, 16)``; both ways, once."""
    ACTIVATION = 3
    """Cut-layer activations of one training batch; to the label party."""
    GRADIENT = 4
    """The perturbed gradient for the activation of the same step; to the non-label party.
    The only message that depends on labels."""
    QUERY = 5
    """Activations of records to predict, after training; to the label party, no reply."""
    FROZEN = 6
    """Activations of a bottom that never sees a gradient; to the label party, no reply."""
    SPLIT = 9
    """A hash of the matched records and their split, JSON; both ways, once."""
    POINTS = 10
    """Blinded record ids of a private alignment, uint8 ``(ids, 32)``; both ways, block by block."""
    TAGS = 11
    """Tags for the points of the same block of the receiver, uint8 ``(ids, 16)``; both ways."""
    ALIGNED = 12
    """Private comparison of the shared ids of a private alignment, JSON; label party twice."""
    BYE = 7
    """The sender has finished; both ways, once."""
    ERROR = 8
    """The sender ends the session early; a code of fixed size that does not depend on labels."""


class ErrorCode(Enum):
    """Why a session ends early. The peer learns this word and nothing else."""

    TERMS = "terms"
    PROTOCOL = "protocol"
    STOPPED = "stopped"
    FAILED = "failed"
    COPY = "copy"

    @property
    def meaning(self) -> str:
        """The word in a sentence."""
        return {
            ErrorCode.TERMS: "its settings, records or groups do not fit ours",
            ErrorCode.PROTOCOL: "it received something that the protocol does not allow",
            ErrorCode.STOPPED: "it was stopped by its operator",
            ErrorCode.FAILED: "it met an error of its own, which its operator can read",
            ErrorCode.COPY: (
                "with this cut_width, frozen would send a copy of all its features. "
                "Agree on a smaller cut_width, or let it set allow_feature_copy"
            ),
        }[self]


@dataclass(frozen=True)
class Message:
    """One message: either a tensor or a few JSON fields, never both."""

    kind: Kind
    step: int = 0
    """Training step, or index of the batch in its sequence; 0 for the rest."""
    tensor: Tensor | None = None
    fields: dict[str, JsonScalar] = field(default_factory=dict)
