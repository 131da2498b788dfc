"""Hints: the known positives that attacks with side knowledge are given, one at each step.

This is the attacker of the paper, and a generous one: he is told that one record of the batch is
positive *and* what its gradient was before the protection. Picked and kept by the label party.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.errors import DataError
from cutlayer.transcript.tensor_file import read_tensor_file, write_tensor_file

_KIND = "audit.hints/1"
_NAMES = ("gradients", "records", "steps")
_FIX = "Give the hints that the recorded run wrote, or record the run again."


@dataclass(frozen=True, eq=False)
class Hint:
    """One known positive.

    Raises:
        ValueError: the gradient is not one finite row, or the record is negative.
    """

    record: int
    """Position in the run's list of ids. Its row is left out of the AUC of attacks with hints."""
    gradient: Tensor
    """Its gradient before the protection, float ``(width,)``."""

    def __post_init__(self) -> None:
        check.at_least("record", self.record, 0)
        check.shape("gradient", self.gradient, (self.gradient.numel(),))
        check.matrix("gradient", self.gradient[None])
        check.finite("gradient", self.gradient)


Hints = Mapping[int, Hint]
"""The hint of each step; steps without an eligible positive are absent."""


def pick_hint(
    records: Tensor,
    labels: Tensor,
    clean_gradient: Tensor,
    *,
    generator: torch.Generator,
    canaries: Tensor | None = None,
) -> Hint | None:
    """Draw one positive of a batch, each with the same chance.

    Args:
        records: positions of the batch's records, int64, shape ``(examples,)``.
        labels: their labels, 0 or 1, shape ``(examples,)``.
        clean_gradient: gradients before the protection, shape ``(examples, width)``.
        generator: where the choice comes from; one draw a call, whatever the labels.
        canaries: mask by record; a canary is never given away, as its coin is what is tested.

    Returns:
        A positive whose gradient is not zero, or ``None`` if the batch has none.

    Raises:
        ValueError: shapes differ, or the gradient is not finite.
    """
    check.matrix("clean_gradient", clean_gradient)
    check.finite("clean_gradient", clean_gradient)
    check.shape("records", records, (clean_gradient.shape[0],))
    check.binary_labels("labels", labels, examples=clean_gradient.shape[0])
    eligible = (labels == 1) & clean_gradient.any(dim=1)
    if canaries is not None:
        eligible &= ~canaries.to(records.device)[records]
    order = torch.randperm(len(records), generator=generator).to(eligible.device)
    rows = order[eligible[order]]
    if len(rows) == 0:
        return None
    row = int(rows[0])
    return Hint(int(records[row]), clean_gradient[row].detach().clone())


def hint_tensors(hints: Hints) -> dict[str, Tensor]:
    """Hints as tensors: ``steps``, ``records`` and ``gradients``.

    Raises:
        ValueError: the gradients have different widths or dtypes.
    """
    gradients = [hint.gradient for hint in hints.values()]
    kinds = {(tuple(gradient.shape), gradient.dtype) for gradient in gradients}
    if len(kinds) > 1:
        raise ValueError(f"hints must have one width and dtype, got {sorted(map(str, kinds))}.")
    return {
        "steps": torch.tensor(list(hints), dtype=torch.int64),
        "records": torch.tensor([hint.record for hint in hints.values()], dtype=torch.int64),
        "gradients": torch.stack(gradients) if gradients else torch.empty(0, 0),
    }


def hints_of(tensors: Mapping[str, Tensor]) -> dict[int, Hint]:
    """Hints that :func:`hint_tensors` made tensors of.

    Raises:
        ValueError: the tensors fit no hints.
    """
    steps, records = tensors["steps"].tolist(), tensors["records"].tolist()
    rows = zip(steps, records, tensors["gradients"], strict=True)
    return {step: Hint(record, gradient) for step, record, gradient in rows}


def write_hints(hints: Hints, path: Path) -> None:
    """Write whole or not at all.

    Raises:
        ValueError: the gradients have different widths or dtypes.
    """
    write_tensor_file(path, _KIND, hint_tensors(hints))


def read_hints(path: Path) -> dict[int, Hint]:
    """Read what :func:`write_hints` wrote.

    Raises:
        DataError: the file is missing, damaged, or holds something else.
    """
    tensors, _ = read_tensor_file(path, _KIND, _NAMES, fix=_FIX)
    try:
        return hints_of(tensors)
    except ValueError as error:
        raise DataError(f"{path} holds no valid hints: {error} {_FIX}") from error
