"""A recorded training, ready to be attacked."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from cutlayer import check
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.hints import Hints
from cutlayer.audits.leak_audit import FirstLayer
from cutlayer.audits.recording.ground_truth_files import read_label_side
from cutlayer.audits.recording.joined_messages import JoinedMessages
from cutlayer.audits.recording.recorder import TRANSCRIPT
from cutlayer.transcript.folder import Transcript
from cutlayer.transcript.release import Release


class Releases(Protocol):
    """Releases in the order of sending, to be read as often as needed."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Release]: ...


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Activations that were sent for records to predict, with the trained halves.

    Raises:
        ValueError: shapes differ, a value is not finite, or a label is neither 0 nor 1.
    """

    activation: Tensor
    """Float ``(records, width)``."""
    labels: Tensor
    """0 or 1, ``(records,)``."""

    def __post_init__(self) -> None:
        check.matrix("activation", self.activation)
        check.finite("activation", self.activation)
        check.binary_labels("labels", self.labels, examples=len(self.activation))


@dataclass(frozen=True, eq=False)
class RecordedTraining:
    """What is there to attack, and to compare scores with."""

    releases: Releases
    truth: GroundTruth
    hints: Hints
    first_layer: FirstLayer | None = None
    """How to carry a release deeper, where the non-label party handed its half over."""
    features: Tensor | None = None
    """The non-label party's model inputs, ``(records, ...)``, if it handed them over."""
    held_out: HeldOut | None = None
    has_activations: bool = True
    """False where a transcript of another framework holds gradients alone; attacks that read
    activations are then left out."""


def read_recorded_training(folder: Path, *, messages: int = 1) -> RecordedTraining:
    """What a :class:`~cutlayer.audits.recording.recorder.ReleaseRecorder` wrote.

    Args:
        folder: of the recording.
        messages: that each batch of the training crossed in; they become one release, as the
            non-label party made them with the same weights and may join what it got for them.

    Raises:
        ValueError: ``messages`` is below 1.
        DataError: a part is missing or damaged.
    """
    transcript = Transcript(folder / TRANSCRIPT)
    truth, hints = read_label_side(folder)
    if messages == 1:
        return RecordedTraining(transcript, truth, hints)
    joined = JoinedMessages(transcript, messages)
    return RecordedTraining(joined, truth, joined.hints(hints))
