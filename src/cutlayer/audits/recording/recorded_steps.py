"""Which steps of a training a recording has seen, whether a sampled record was in them or not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from cutlayer.durable import whole_file
from cutlayer.errors import DataError
from cutlayer.transcript.folder import Transcript

STEPS = "steps.json"
"""The file beside the transcript. A transcript that is short of space holds no release of a step
without a record of its sample, so its own list of steps would show gaps that are none."""


class _File(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    spans: list[tuple[NonNegativeInt, NonNegativeInt]]


@dataclass(frozen=True)
class RecordedSteps:
    """A set of steps as rising, separate spans ``(first, end)``; ``end`` is not in the span.

    >>> seen = RecordedSteps(((2, 4),)).with_step(4).with_step(7)
    >>> seen.spans, seen.missing(9)
    (((2, 5), (7, 8)), ((0, 2), (5, 7), (8, 9)))
    """

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, steps: Iterable[int]) -> "RecordedSteps":
        """Exactly these steps."""
        seen = cls()
        for step in sorted(steps):
            seen = seen.with_step(step)
        return seen

    @property
    def end(self) -> int:
        """One more than the highest step; 0 where there is none."""
        return max((end for _, end in self.spans), default=0)

    def with_step(self, step: int) -> "RecordedSteps":
        """These and one more."""
        if self.spans and self.spans[-1][0] <= step < self.spans[-1][1]:
            return self
        return self._with_span(step, step + 1)

    def begun_at(self, step: int) -> "RecordedSteps":
        """These, with an empty span where a later start of the recording begins, if there is none.

        What that start writes and a crash keeps it from listing is then not taken for a part of
        what came before.
        """
        within = any(first <= step <= end for first, end in self.spans)
        return self if within else self._with_span(step, step)

    def reaching(self, step: int) -> "RecordedSteps":
        """These, with the last span long enough to hold a step that is known to be on the disk."""
        if not self.spans or step < self.end:
            return self
        return RecordedSteps((*self.spans[:-1], (self.spans[-1][0], step + 1)))

    def missing(self, sent: int) -> tuple[tuple[int, int], ...]:
        """Spans of the first ``sent`` steps that are not among these."""
        gaps, reached = [], 0
        for first, end in (*self.spans, (sent, sent)):
            if reached < min(first, sent):
                gaps.append((reached, min(first, sent)))
            reached = max(reached, end)
        return tuple(gaps)

    def _with_span(self, first: int, end: int) -> "RecordedSteps":
        """These and a span, with those that touch joined."""
        joined: list[tuple[int, int]] = []
        for begin, stop in sorted((*self.spans, (first, end))):
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((begin, stop))
        return RecordedSteps(tuple(joined))


def write_recorded_steps(seen: RecordedSteps, folder: Path) -> None:
    """Write the list whole or not at all."""
    with whole_file(folder / STEPS) as partial:
        partial.write_text(_File(spans=list(seen.spans)).model_dump_json(), encoding="utf-8")


def read_recorded_steps(folder: Path, transcript: Transcript) -> RecordedSteps:
    """What the recording in a folder has seen and kept.

    Args:
        folder: of the recording. Without a list in it, as earlier versions left it, the
            transcript's own steps stand for it.
        transcript: of the same recording.

    Raises:
        DataError: the list is damaged.
    """
    path = folder / STEPS
    if not path.exists():
        return _listed_by(transcript)
    try:
        spans = _File.model_validate_json(path.read_bytes()).spans
        _require_rising(spans)
    except (OSError, ValidationError, ValueError) as error:
        raise DataError(
            f"{path} is damaged, so nobody can say which messages were recorded. Put a sound copy "
            "back, or record the run again."
        ) from error
    # A chunk may have been written after the list.
    return RecordedSteps(tuple(spans)).reaching(max(transcript.steps, default=-1))


def _listed_by(transcript: Transcript) -> RecordedSteps:
    """The steps that a transcript names; in one of a sample, all between the first and the last."""
    steps = transcript.steps
    if steps and transcript.sampled < len(transcript.ids):
        return RecordedSteps(((min(steps), max(steps) + 1),))
    return RecordedSteps.of(steps)


def _require_rising(spans: Sequence[tuple[int, int]]) -> None:
    """Refuse spans that end before they begin, or touch or overlap the one before."""
    before = -1
    for first, end in spans:
        if not before < first <= end:
            raise ValueError(f"spans must rise and be separate, got {first} to {end}.")
        before = end
