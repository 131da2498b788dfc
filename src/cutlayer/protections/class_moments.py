"""Weighted means and spreads of the two classes of gradients, which merge exactly."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor, distributed

from cutlayer.protections.row_blocks import in_row_blocks

_NEGLIGIBLE = 1e-9
"""Values of a gradient that are worked on at once on a CPU: in float64 they stay in its cache."""


@dataclass(frozen=True)
class ClassMoments:
    r"""Weighted mean and spread of the gradients of one class, in float64.

    With row weights w: ``weight`` is :math:`W = \sum w`, ``weight_squared`` is
    :math:`W_2 = \sum w^2`, ``scatter`` is :math:`\sum w \lVert g - \bar g \rVert^2`. Moments of
    disjoint sets of rows (batches, ranks) are merged exactly by :meth:`merged`.
    """

    weight: float
    weight_squared: float
    mean: Tensor
    scatter: float

    @property
    def variance(self) -> float | None:
        r"""Unbiased mean coordinate variance, :math:`\mathrm{scatter} / (d (W - W_2 / W))`.

        ``None`` where a single row leaves no spread to look at.
        """
        if self.weight <= 0:
            return None
        freedom = self.weight - self.weight_squared / self.weight
        if freedom <= _NEGLIGIBLE * self.weight:
            return None
        return self.scatter / (len(self.mean) * freedom)

    @property
    def mean_uncertainty(self) -> float:
        r"""Expected squared error of ``mean`` for a variance of 1: :math:`d\, W_2 / W^2`."""
        return len(self.mean) * self.weight_squared / self.weight**2

    def merged(self, other: "ClassMoments") -> "ClassMoments":
        """Moments of both sets of rows together.

        Source: Chan, Golub and LeVeque (1979), "Updating Formulae and a Pairwise Algorithm for
        Computing Sample Variances".
        """
        weight = self.weight + other.weight
        if weight == 0:
            return self
        step = other.mean - self.mean
        distance = float(step.dot(step))
        return ClassMoments(
            weight=weight,
            weight_squared=self.weight_squared + other.weight_squared,
            mean=self.mean + other.weight / weight * step,
            scatter=self.scatter + other.scatter + self.weight * (other.weight / weight) * distance,
        )

    def in_units(self, factor: float) -> "ClassMoments":
        """The same rows with every gradient multiplied by ``factor``."""
        return replace(self, mean=self.mean * factor, scatter=self.scatter * factor * factor)

    def scaled(self, factor: float) -> "ClassMoments":
        """The same rows with every weight multiplied by ``factor``."""
        return replace(
            self,
            weight=self.weight * factor,
            weight_squared=self.weight_squared * factor * factor,
            scatter=self.scatter * factor,
        )

    def on(self, device: torch.device) -> "ClassMoments":
        """The same moments with their tensor on another device."""
        return replace(self, mean=self.mean.to(device))

    def packed(self) -> Tensor:
        """All of it as one vector, float64, ``(width + 3,)``."""
        numbers = [self.weight, self.weight_squared, self.scatter]
        return torch.cat([self.mean.new_tensor(numbers), self.mean])

    @classmethod
    def unpacked(cls, vector: Tensor) -> "ClassMoments":
        """What :meth:`packed` gave."""
        weight, weight_squared, scatter = vector[:3].tolist()
        return cls(weight, weight_squared, vector[3:], scatter)


Moments: TypeAlias = tuple[ClassMoments, ClassMoments]
"""Of the positives, and of the negatives."""


def class_moments(gradient: Tensor, labels: Tensor) -> Moments:
    """Moments of positives and of negatives in one batch, each row with weight 1.

    The work is the same whatever the labels are. A class without rows has weight 0. Means first,
    then spreads around them: a single pass would lose the digits of a spread far below its mean.

    Args:
        gradient: float, shape ``(examples, width)``; computed with in float64, since squares of
            float32 underflow below 1e-19.
        labels: 0 or 1, shape ``(examples,)``.

    Returns:
        ``(positives, negatives)``.
    """
    positive = (labels == 1).to(device=gradient.device, dtype=torch.float64)
    member = torch.stack([positive, 1 - positive], dim=1)
    counts = member.sum(dim=0)
    parts = list(in_row_blocks(gradient, member))
    work = torch.empty_like(parts[0][0], dtype=torch.float64)
    sums = member.new_zeros(2, gradient.shape[1])
    for part, mine in parts:
        sums.addmm_(mine.T, work[: len(part)].copy_(part))
    means = sums / counts.clamp(min=1)[:, None]
    scatter = member.new_zeros(2)
    for part, mine in parts:
        centred = work[: len(part)].copy_(part).addmm_(mine, means, alpha=-1)
        scatter.addmv_(mine.T, centred.square_().sum(dim=1))
    count_pos, count_neg, scatter_pos, scatter_neg = torch.cat([counts, scatter]).tolist()
    return (
        ClassMoments(count_pos, count_pos, means[0], scatter_pos),
        ClassMoments(count_neg, count_neg, means[1], scatter_neg),
    )


def gathered(moments: Moments, group: distributed.ProcessGroup | None = None) -> Moments:
    """Moments of the rows of all ranks together: the same bits on every rank.

    A collective call: every rank of ``group`` must make it.

    Args:
        moments: of this rank's rows.
        group: of ranks that share a batch; by default all.

    Raises:
        RuntimeError: torch.distributed was not initialised.
    """
    packed = torch.cat([one.packed() for one in moments])
    ranks = [torch.empty_like(packed) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(ranks, packed, group=group)
    total: Moments | None = None
    for values in ranks:  # in the order of ranks, so that rounding is the same everywhere
        half = len(values) // 2
        pair = (ClassMoments.unpacked(values[:half]), ClassMoments.unpacked(values[half:]))
        total = pair if total is None else (total[0].merged(pair[0]), total[1].merged(pair[1]))
    return moments if total is None else total
