"""Batches of two classes whose best AUC is known."""

import torch
from torch import Tensor


def gaussian_classes(
    examples: int, width: int, *, gap: float, share: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Rows N(y gap e, I) with a unit vector e that points into every coordinate, and labels.

    The best score is the coordinate along e, with AUC Phi(gap / sqrt 2).
    """
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(examples, generator=generator) < share).long()
    noise = torch.randn(examples, width, generator=generator, dtype=torch.float64)
    return noise + gap * labels[:, None] / width**0.5, labels


def residual_rows(
    examples: int, width: int, *, share: float, spread: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Clean cut gradients: (share - label) times a vector near one line, and the labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(examples, generator=generator) < share).long()
    line = torch.randn(width, generator=generator, dtype=torch.float64)
    vectors = line + spread * torch.randn(examples, width, generator=generator).double()
    return (share - labels)[:, None] * vectors, labels


def auc_error(auc: float, labels: Tensor) -> float:
    """The largest standard error that an AUC can have, sqrt(AUC (1 - AUC) / min(n1, n0))."""
    positives = int(labels.sum())
    return (auc * (1 - auc) / min(positives, len(labels) - positives)) ** 0.5
