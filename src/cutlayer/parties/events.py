"""Events: what happens in a run beside its steps, for logs and metrics.

An event has no room for a label, an id, a feature, a secret or a text of somebody else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """What happened."""

    START = "start"
    MET_PEER = "met_peer"
    HANDSHAKE = "handshake"
    """Terms, records and order are agreed; the training begins after ``step`` steps."""
    RESUME = "resume"
    """The same, where there was a state to go on from."""
    EPOCH = "epoch"
    CHECKPOINT = "checkpoint"
    CONNECTION_LOST = "connection_lost"
    STEP_DEADLINE = "step_deadline"
    """The peer was silent for longer than a message may take."""
    STOP = "stop"
    """An operator stopped the run, here or at the peer."""
    ERROR = "error"
    END = "end"


@dataclass(frozen=True)
class Event:
    """One thing that happened."""

    kind: EventKind
    step: int | None = None
    """Steps that are done."""
    seconds: float | None = None
    """How long it took."""
    released: int | None = None
    """At the label party: steps that its journal has on record."""
    channel: str | None = None
    """How the connection is secured, and the address at its other end."""
    error: str | None = None
    """The kind of an error; its text may name files or records."""


OnEvent = Callable[[Event], None]


def ignore_event(_: Event) -> None:
    """Nobody listens."""
