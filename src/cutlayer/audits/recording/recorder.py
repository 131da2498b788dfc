"""The recorder: keeps, at the label party, all that a later audit needs."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.audits.hints import Hint, pick_hint
from cutlayer.audits.recording.ground_truth_files import GroundTruthFiles
from cutlayer.audits.recording.recorded_steps import read_recorded_steps, write_recorded_steps
from cutlayer.transcript.folder import Transcript, TranscriptWriter
from cutlayer.transcript.release import Release

TRANSCRIPT = "transcript"
"""Folder of what the non-label party saw; it holds no label."""


class ReleaseRecorder:
    """Observes a training and writes transcript, truth and hints into one folder.

    ::

        folder/
        ├── transcript/          what the peer saw: may be shown to it
        ├── truth.safetensors    labels and canaries: may not
        ├── hints.safetensors    known positives and their clean gradients: may not
        ├── steps.json           which steps were seen
        └── notes-*              while a training runs, or was killed: what truth and hints lack

    Releases are written in chunks; truth, hints and the last chunk at the end of each epoch and by
    :meth:`close`, and at each checkpoint what is not on disk yet. Use it as a context manager, so
    that an interrupted training keeps what was done. A recorder on the folder of an interrupted
    training goes on with it.

    Args:
        folder: made if it does not exist.
        ids: the run's ids in the order of their positions.
        generator: picks the hints; keep it apart from every other purpose.
        every: record the steps that this number divides.
        canaries: mask of the records that carry coins, bool ``(records,)``.
        limit_bytes: most that the transcript may take; then it holds the whole histories of a
            uniform sample of the records. ``None`` for no limit.

    Raises:
        ValueError: ``every`` is below 1, there are no ids, or the mask does not fit them
            or marks no record.
        DataError: the folder holds the transcript of another run, or the limit is too small.
    """

    def __init__(
        self,
        folder: Path,
        ids: Sequence[str],
        *,
        generator: torch.Generator,
        every: int = 1,
        canaries: Tensor | None = None,
        limit_bytes: int | None = None,
    ) -> None:
        self.folder = folder
        self._label_side = GroundTruthFiles(folder, len(ids), canaries)
        self._transcript = TranscriptWriter(
            folder / TRANSCRIPT,
            ids,
            every,
            limit_bytes=limit_bytes,
            generator=None if limit_bytes is None else generator,
        )
        self._generator = generator
        self._canaries = canaries
        self._epoch: int | None = None
        self._steps = read_recorded_steps(folder, Transcript(folder / TRANSCRIPT))

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Take note of one step. Nothing here changes what is sent.

        Args:
            release: what was sent, or is about to be.
            labels: the batch's labels, 0 or 1, shape ``(examples,)``.
            clean_gradient: the gradient before the protection, shape ``(examples, width)``.

        Raises:
            ValueError: shapes differ, or a record has another label than at an earlier visit.
        """
        self._begin(release, labels)
        self._write(release, labels, clean_gradient)

    def on_copy(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Take note of a step that is sent again, unless an earlier process wrote it down.

        Args:
            release: what was sent before, byte for byte.
            labels: the batch's labels, 0 or 1, shape ``(examples,)``.
            clean_gradient: the gradient before the protection, shape ``(examples, width)``.

        Raises:
            ValueError: as :meth:`on_release`.
        """
        self._begin(release, labels)
        if self._transcript.holds(release.step):
            self._note_hint(release, labels, clean_gradient)
        else:
            self._write(release, labels, clean_gradient)

    def on_checkpoint(self) -> None:
        """See that all that was seen so far is on disk."""
        self._transcript.flush()
        self._label_side.write_news()
        write_recorded_steps(self._steps, self.folder)

    def _begin(self, release: Release, labels: Tensor) -> None:
        """Keep the labels; at a new epoch, all that was seen before."""
        check.binary_labels("labels", labels, examples=len(release.records))
        if self._epoch is None:
            self._steps = self._steps.begun_at(release.step)
            write_recorded_steps(self._steps, self.folder)
        elif self._epoch != release.epoch:
            self.close()  # the run can be gone on with from here, and so can the recording
        self._epoch = release.epoch
        self._label_side.note_labels(release.records.cpu(), labels.cpu().to(torch.int8))

    def _write(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Keep a release whose step is due, and a hint to it."""
        if self._transcript.write(release):
            self._steps = self._steps.with_step(release.step)
            self._note_hint(release, labels, clean_gradient)

    def _note_hint(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Pick one record of the batch that the adversary may know."""
        if self._label_side.has_hint(release.step):
            return
        hint = pick_hint(
            release.records,
            labels,
            clean_gradient,
            generator=self._generator,
            canaries=self._canaries,
        )
        if hint is not None:
            self._label_side.note_hint(release.step, Hint(hint.record, hint.gradient.cpu()))

    def close(self) -> None:
        """Write all that was seen so far; the recording may go on afterwards."""
        self._transcript.flush()
        self._label_side.write_all()
        write_recorded_steps(self._steps, self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
