"""Constructed trainings whose clean gradients are known, one epoch after the other."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from cutlayer.transcript import Release

Perturb = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From clean rows, labels and records of a batch to what is sent."""


def labels_of(records: int, share: float, seed: int = 0) -> Tensor:
    """Independent labels with this chance of a positive."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(records, generator=generator) < share).long()


def training(
    labels: Tensor,
    perturb: Perturb,
    *,
    epochs: int,
    share: float,
    batch: int = 500,
    width: int = 16,
    spread: float = 0.1,
    rank: int = 3,
    seed: int = 0,
) -> Iterator[Release]:
    """Releases of a calibrated model: (share - label) times a slope that turns as it learns.

    Rows of a batch lie near one line: to the common slope comes ``spread`` of its length, drawn
    for each row in ``rank`` directions, as real cut gradients have few. With all directions the
    classes are isotropic around their means. The slope grows and turns from step to step.
    """
    generator = torch.Generator().manual_seed(1000 + seed)
    slope = torch.randn(width, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(width, rank, generator=generator).double())[0]
    activation = torch.randn(len(labels), width, generator=generator, dtype=torch.float64)
    step = 0
    for epoch in range(epochs):
        for records in torch.randperm(len(labels), generator=generator).split(batch):
            slope = 1.01 * slope + 0.03 * torch.randn(width, generator=generator).double()
            own = torch.randn(len(records), rank, generator=generator).double() @ basis.T
            vectors = slope + spread * slope.norm() / rank**0.5 * own
            clean = (share - labels[records])[:, None] * vectors / batch
            sent = perturb(clean, labels[records], records)
            yield Release(step, epoch, records, activation[records], sent)
            step += 1
