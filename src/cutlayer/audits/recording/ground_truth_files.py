"""The ground truth of a recording: labels and hints on disk. Never leaves the label party.

::

    folder/
    ├── truth.safetensors          labels and canaries
    ├── hints.safetensors          known positives and their clean gradients
    └── notes-000000.safetensors   labels and hints that were learned since those two were written

Labels and hints are written when an epoch ends. What a checkpoint relies on before that goes into
notes, each of which holds only what is new since the one before; so what is written in all grows
with the training, and not with its square.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.audits.ground_truth import UNKNOWN, GroundTruth, read_ground_truth, write_ground_truth
from cutlayer.audits.hints import Hint, hint_tensors, hints_of, read_hints, write_hints
from cutlayer.errors import DataError
from cutlayer.transcript.tensor_file import read_tensor_file, write_tensor_file

TRUTH = "truth.safetensors"
HINTS = "hints.safetensors"
_NOTES = "notes-{:06d}.safetensors"
_NOTES_KIND = "audit.notes/1"
_NOTES_TENSORS = ("gradients", "labelled", "labels", "records", "steps")
_FIX = "Give the folder that a run recorded, or record the run again."


class GroundTruthFiles:
    """What a recorder knows of labels, and keeps on disk.

    Args:
        folder: of the recording; what it holds is taken up.
        records: how many ids the run has.
        canaries: mask of the records that carry coins, bool ``(records,)``.

    Raises:
        ValueError: the mask does not fit the records, or marks none.
        DataError: a file is damaged, or does not fit the records.
    """

    def __init__(self, folder: Path, records: int, canaries: Tensor | None = None) -> None:
        self._folder, self._canaries = folder, canaries
        self._labels = torch.full((records,), UNKNOWN, dtype=torch.int8)
        self._hints: dict[int, Hint] = {}
        GroundTruth(self._labels, canaries)  # refuse now what could not be written later
        self._is_begun = (folder / TRUTH).exists() and (folder / HINTS).exists()
        if self._is_begun:
            truth, self._hints = read_label_side(folder)
            if len(truth) != records:
                raise DataError(
                    f"{folder / TRUTH} must hold a label for each of {records} records, got "
                    f"{len(truth)}. Choose an empty folder."
                )
            self._labels = truth.labels
        self._new_records: list[Tensor] = []
        self._new_hints: dict[int, Hint] = {}
        self._saw_step = False
        self._notes = len(_note_paths(folder))

    def note_labels(self, records: Tensor, labels: Tensor) -> None:
        """Keep labels.

        Args:
            records: positions, int64 ``(examples,)``.
            labels: 0 or 1, int8 ``(examples,)``.

        Raises:
            ValueError: one has changed.
        """
        self._saw_step = True
        known = self._labels[records]
        changed = int(((known != UNKNOWN) & (known != labels)).sum())
        if changed:
            raise ValueError(
                f"labels must stay the same in every visit, got {changed} that changed; pass the "
                "labels that the training started with."
            )
        new = records[known == UNKNOWN]
        if len(new):
            self._labels[records] = labels
            self._new_records.append(new)

    def note_hint(self, step: int, hint: Hint) -> None:
        """Keep the hint of a step."""
        self._hints[step] = self._new_hints[step] = hint

    def has_hint(self, step: int) -> bool:
        """Whether a step has its hint."""
        return step in self._hints

    def write_news(self) -> None:
        """See that all that is known is on disk, by writing only what is not there yet.

        Where a step came since, a note is written even if it gave nothing new: the time until the
        next reply would tell of it.
        """
        if not self._is_begun:
            self.write_all()
        elif self._saw_step:
            records = torch.cat([torch.empty(0, dtype=torch.int64), *self._new_records])
            tensors = hint_tensors(self._new_hints)
            tensors |= {"labelled": records, "labels": self._labels[records]}
            write_tensor_file(self._folder / _NOTES.format(self._notes), _NOTES_KIND, tensors)
            self._notes += 1
            self._new_records, self._new_hints, self._saw_step = [], {}, False

    def write_all(self) -> None:
        """Write truth and hints, which makes the notes superfluous."""
        if self._is_begun and not (self._notes or self._new_records or self._new_hints):
            return
        write_ground_truth(GroundTruth(self._labels, self._canaries), self._folder / TRUTH)
        write_hints(self._hints, self._folder / HINTS)
        self._is_begun = True
        # Newest first, so that what is left after an interruption has no gap.
        for path in reversed(_note_paths(self._folder)):
            path.unlink()
        self._notes, self._new_records, self._new_hints = 0, [], {}
        self._saw_step = False


def read_label_side(folder: Path) -> tuple[GroundTruth, dict[int, Hint]]:
    """Read truth and hints, with what stands in notes alone because the run was interrupted.

    Args:
        folder: of a recording.

    Raises:
        DataError: a file is missing, damaged, or does not fit the others.
    """
    truth, hints = read_ground_truth(folder / TRUTH), read_hints(folder / HINTS)
    labels = truth.labels.clone()
    for path in _note_paths(folder):
        tensors, _ = read_tensor_file(path, _NOTES_KIND, _NOTES_TENSORS, fix=_FIX)
        try:
            _take_labels(labels, tensors)
            hints |= hints_of(tensors)
        except ValueError as error:
            raise DataError(f"{path} holds no valid notes: {error} {_FIX}") from error
    return GroundTruth(labels, truth.canaries), hints


def _take_labels(labels: Tensor, note: Mapping[str, Tensor]) -> None:
    """Add the labels of a note.

    Raises:
        ValueError: they are none, or fit no records.
    """
    records = note["labelled"]
    check.binary_labels("labels", note["labels"], examples=len(records))
    if len(records) and not 0 <= int(records.min()) <= int(records.max()) < len(labels):
        raise ValueError(
            f"labelled must lie in 0 to {len(labels) - 1}, got {int(records.min())} to "
            f"{int(records.max())}."
        )
    labels[records] = note["labels"].to(labels.dtype)


def _note_paths(folder: Path) -> list[Path]:
    """All notes, in the order of writing."""
    return sorted(folder.glob(_NOTES.format(0).replace("000000", "*")))
