"""The recorder: keeps, at the label party, all that a later audit needs."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.audits.hints import Hint, pick_hint, read_hints, write_hints
from cutlayer.audits.truth import UNKNOWN, Truth, read_truth, write_truth
from cutlayer.transcript.folder import TranscriptWriter
from cutlayer.transcript.release import Release

TRANSCRIPT = "transcript"
"""Folder of what the non-label party saw; it holds no label."""
TRUTH = "truth.safetensors"
HINTS = "hints.safetensors"


class ReleaseRecorder:
    """Observes a training and writes transcript, truth and hints into one folder.

    ::

        folder/
        ├── transcript/          what the peer saw: may be shown to it
        ├── truth.safetensors    labels and canaries: may not
        └── hints.safetensors    known positives and their clean gradients: may not

    Releases are written in chunks; truth, hints and the last chunk at each checkpoint, at the end
    of each epoch and by :meth:`close`. Use it as a context manager, so that an interrupted training
    keeps what was done. A recorder on the folder of an interrupted training goes on with it.

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
        if canaries is not None:
            Truth(torch.zeros(len(ids)), canaries)  # refuse now what close() could not write
        self.folder = folder
        self._transcript = TranscriptWriter(
            folder / TRANSCRIPT,
            ids,
            every,
            limit_bytes=limit_bytes,
            generator=None if limit_bytes is None else generator,
        )
        self._generator = generator
        self._canaries = canaries
        self._labels = torch.full((len(ids),), UNKNOWN, dtype=torch.int8)
        self._hints: dict[int, Hint] = {}
        self._epoch: int | None = None
        if (folder / TRUTH).exists() and (folder / HINTS).exists():
            self._labels = read_truth(folder / TRUTH).labels
            self._hints = read_hints(folder / HINTS)

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
        if self._transcript.write(release):
            self._note_hint(release, labels, clean_gradient)

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
        if self._transcript.holds(release.step) or self._transcript.write(release):
            self._note_hint(release, labels, clean_gradient)

    def on_checkpoint(self) -> None:
        """Write all that was seen so far."""
        self.close()

    def _begin(self, release: Release, labels: Tensor) -> None:
        """Keep the labels; at a new epoch, all that was seen before."""
        check.binary_labels("labels", labels, examples=len(release.records))
        if self._epoch not in (None, release.epoch):
            self.close()  # the run can be gone on with from here, and so can the recording
        self._epoch = release.epoch
        self._note_labels(release.records.cpu(), labels.cpu().to(torch.int8))

    def _note_hint(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Pick one record of the batch that the adversary may know."""
        if release.step in self._hints:
            return
        hint = pick_hint(
            release.records,
            labels,
            clean_gradient,
            generator=self._generator,
            canaries=self._canaries,
        )
        if hint is not None:
            self._hints[release.step] = Hint(hint.record, hint.gradient.cpu())

    def close(self) -> None:
        """Write all that was seen so far; the recording may go on afterwards."""
        self._transcript.flush()
        write_truth(Truth(self._labels, self._canaries), self.folder / TRUTH)
        write_hints(self._hints, self.folder / HINTS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _note_labels(self, records: Tensor, labels: Tensor) -> None:
        """Keep the labels, and refuse one that has changed."""
        known = self._labels[records]
        changed = int(((known != UNKNOWN) & (known != labels)).sum())
        if changed:
            raise ValueError(
                f"labels must stay the same in every visit, got {changed} that changed; pass the "
                "labels that the training started with."
            )
        self._labels[records] = labels
