"""The truth: every record's label, and which records are canaries. Never leaves the label party."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.errors import DataError
from cutlayer.transcript.tensor_file import read_tensor_file, write_tensor_file

UNKNOWN = -1
"""Stands for the label of a record that was never in a batch."""

_KIND = "audit.truth/1"
_FIX = "Give the truth that the recorded run wrote, or record the run again."


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """What the scores of an attack are compared with.

    Raises:
        ValueError: a label is none of 0, 1 and -1; the mask has another shape or is not boolean,
            or marks no record.
    """

    labels: Tensor
    """The labels that were trained on: 0, 1, or -1 where unknown; int8, ``(records,)``. At a
    canary this is its coin."""
    canaries: Tensor | None = None
    """True for records whose label is an independent fair coin; bool, ``(records,)``. Where there
    are any, leak AUCs cover them alone: nothing but the messages can tell a coin."""

    def __post_init__(self) -> None:
        known = self.labels[self.labels != UNKNOWN]
        check.shape("labels", self.labels, (self.labels.numel(),))
        check.binary_labels("labels", known, examples=len(known))
        object.__setattr__(self, "labels", self.labels.to(torch.int8))
        if self.canaries is None:
            return
        check.shape("canaries", self.canaries, tuple(self.labels.shape))
        if self.canaries.dtype != torch.bool or not bool(self.canaries.any()):
            raise ValueError(
                f"canaries must be a boolean mask with at least one true entry, got "
                f"{self.canaries.dtype} with {int(self.canaries.sum())} marked."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def audited(self) -> Tensor:
        """Which records an AUC covers, bool ``(records,)``: known labels, and canaries if any."""
        known = self.labels != UNKNOWN
        return known if self.canaries is None else known & self.canaries


def write_ground_truth(truth: GroundTruth, path: Path) -> None:
    """Write whole or not at all."""
    tensors = {"labels": truth.labels}
    if truth.canaries is not None:
        tensors["canaries"] = truth.canaries
    write_tensor_file(path, _KIND, tensors)


def read_ground_truth(path: Path) -> GroundTruth:
    """Read what :func:`write_ground_truth` wrote.

    Raises:
        DataError: the file is missing, damaged, or holds something else.
    """
    tensors, _ = read_tensor_file(path, _KIND, None, fix=_FIX)
    try:
        return GroundTruth(**tensors)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} holds no valid truth: {error} {_FIX}") from error
