"""Class statistics of gradients: of one batch, or averaged so that every batch has some."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.errors import ProtectionError

DECAY = 0.98
"""Weight that a row of one batch keeps when the next one arrives."""
ROWS_FOR_OWN_STATISTICS = 30
"""A class with so many rows in a batch is described by them and not by the average."""
_FORGOTTEN = 1e-3
_LEAST_SHARE = 1e-6


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
        if freedom <= 1e-9 * self.weight:
            return None
        return self.scatter / (len(self.mean) * freedom)

    @property
    def mean_uncertainty(self) -> float:
        """Expected squared error of ``mean`` for a coordinate variance of 1: d W2 / W^2."""
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

    def scaled(self, factor: float) -> "ClassMoments":
        """The same rows with every weight multiplied by ``factor``."""
        return replace(
            self,
            weight=self.weight * factor,
            weight_squared=self.weight_squared * factor * factor,
            scatter=self.scatter * factor,
        )


def class_moments(gradient: Tensor, labels: Tensor) -> tuple[ClassMoments, ClassMoments]:
    """Moments of positives and of negatives in one batch, each row with weight 1.

    The work is the same whatever the labels are. A class without rows has weight 0.

    Args:
        gradient: float64, shape ``(examples, width)``.
        labels: 0 or 1, shape ``(examples,)``.

    Returns:
        ``(positives, negatives)``.
    """
    positive = (labels == 1).to(device=gradient.device, dtype=torch.float64)
    member = torch.stack([positive, 1 - positive])
    counts = member.sum(dim=1)
    means = (member @ gradient) / counts.clamp(min=1)[:, None]
    centred = gradient - member.T @ means
    scatter = member @ centred.square().sum(dim=1)
    count_pos, count_neg, scatter_pos, scatter_neg = torch.cat([counts, scatter]).tolist()
    return (
        ClassMoments(count_pos, count_pos, means[0], scatter_pos),
        ClassMoments(count_neg, count_neg, means[1], scatter_neg),
    )


@dataclass(frozen=True)
class BatchStatistics:
    """What Marvell knows about the gradients of the two classes, in float64."""

    mean_pos: Tensor
    """Mean gradient of the positives, shape ``(width,)``."""
    mean_neg: Tensor
    """Mean gradient of the negatives, shape ``(width,)``."""
    variance_pos: float
    """Mean coordinate variance v of the positives."""
    variance_neg: float
    """Mean coordinate variance u of the negatives."""
    gap_squared: float
    """Squared distance g of the class means; see the constructor used for its correction."""
    positive_share: float
    """Share p of positives among the rows."""

    @property
    def mean_gap(self) -> Tensor:
        """Mean gradient of the positives minus that of the negatives, shape ``(width,)``."""
        return self.mean_pos - self.mean_neg

    @property
    def width(self) -> int:
        """Number of coordinates of a gradient."""
        return len(self.mean_pos)

    @classmethod
    def of_batch(cls, gradient: Tensor, labels: Tensor) -> "BatchStatistics":
        """The paper's statistics: raw gap, variances divided by the number of rows.

        Args:
            gradient: cut gradients, float, shape ``(examples, width)``.
            labels: 0 or 1, shape ``(examples,)``.

        Raises:
            ValueError: wrong shapes, NaN or infinity, or labels other than 0 and 1.
            ProtectionError: a class has no row.

        Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, section 4.2.
        """
        check.matrix("gradient", gradient)
        check.finite("gradient", gradient)
        check.binary_labels("labels", labels, examples=gradient.shape[0])
        positives, negatives = class_moments(gradient.double(), labels)
        if positives.weight == 0 or negatives.weight == 0:
            raise ProtectionError(
                "label party: statistics='batch' needs both classes in every batch, got "
                f"{int(positives.weight)} positives of {gradient.shape[0]} rows. Nothing was "
                "sent. Use statistics='averaged', or larger batches."
            )
        gap = positives.mean - negatives.mean
        width = gradient.shape[1]
        return cls(
            mean_pos=positives.mean,
            mean_neg=negatives.mean,
            variance_pos=positives.scatter / (positives.weight * width),
            variance_neg=negatives.scatter / (negatives.weight * width),
            gap_squared=float(gap.dot(gap)),
            positive_share=positives.weight / gradient.shape[0],
        )

    @classmethod
    def of_moments(
        cls, positives: ClassMoments, negatives: ClassMoments, *, positive_share: float
    ) -> "BatchStatistics":
        r"""Unbiased statistics from moments of both classes.

        A class with a single row shows no spread and takes that of the other. The squared gap of
        means is too large by :math:`d v W_2 / W^2` for each class (:math:`d v / n` for n equal
        rows), which is taken off. What is left may be smaller than this uncertainty or negative;
        then the uncertainty itself is the gap: noise is never scaled by a gap that the rows
        cannot rule out.
        """
        variance_pos, variance_neg = positives.variance, negatives.variance
        if variance_pos is None:
            variance_pos = variance_neg if variance_neg is not None else 0.0
        if variance_neg is None:
            variance_neg = variance_pos
        gap = positives.mean - negatives.mean
        excess = variance_pos * positives.mean_uncertainty
        excess += variance_neg * negatives.mean_uncertainty
        return cls(
            mean_pos=positives.mean,
            mean_neg=negatives.mean,
            variance_pos=variance_pos,
            variance_neg=variance_neg,
            gap_squared=max(float(gap.dot(gap)) - excess, excess),
            positive_share=min(max(positive_share, _LEAST_SHARE), 1 - _LEAST_SHARE),
        )


class AveragedStatistics:
    """Count-weighted exponential averages of both classes over the batches of one training.

    Every batch gets statistics, also one with a single class. A class with
    ``ROWS_FOR_OWN_STATISTICS`` rows or more in the batch is described by them alone.
    """

    def __init__(self) -> None:
        self._averages: tuple[ClassMoments, ClassMoments] | None = None

    def prime(self, gradient: Tensor, labels: Tensor) -> None:
        """Learn from rows that are never sent, with the weight of one row for each class.

        Args:
            gradient: float64, shape ``(examples, width)``.
            labels: 0 or 1, shape ``(examples,)``.
        """
        light = tuple(
            moments.scaled(1 / moments.weight) if moments.weight else moments
            for moments in class_moments(gradient, labels)
        )
        self._add(light)

    def observe(self, gradient: Tensor, labels: Tensor) -> BatchStatistics:
        """Learn from a batch that is about to be sent, and describe its classes.

        Args:
            gradient: float64, shape ``(examples, width)``.
            labels: 0 or 1, shape ``(examples,)``.

        Raises:
            ProtectionError: a class was never seen, neither here nor in an earlier batch.
        """
        batch = class_moments(gradient, labels)
        averages = self._add(batch)
        if averages[0].weight == 0 or averages[1].weight == 0:
            missing = "positive" if averages[0].weight == 0 else "negative"
            raise ProtectionError(
                f"label party: no {missing} row was seen yet, so the classes cannot be made "
                "alike. Nothing was sent. Call prime() with gradients of both labels first."
            )
        positives, negatives = (
            own if own.weight >= ROWS_FOR_OWN_STATISTICS else average
            for own, average in zip(batch, averages, strict=True)
        )
        share = averages[0].weight / (averages[0].weight + averages[1].weight)
        return BatchStatistics.of_moments(positives, negatives, positive_share=share)

    def _add(self, batch: tuple[ClassMoments, ...]) -> tuple[ClassMoments, ClassMoments]:
        """Let the past fade by one step and merge the batch into it."""
        if self._averages is None:
            self._averages = (batch[0], batch[1])
        else:
            old_pos, old_neg = (_faded(moments) for moments in self._averages)
            self._averages = (old_pos.merged(batch[0]), old_neg.merged(batch[1]))
        return self._averages


def _faded(moments: ClassMoments) -> ClassMoments:
    """Weights of one step ago; a class that is long absent is kept, so that it never vanishes."""
    return moments.scaled(DECAY) if moments.weight > _FORGOTTEN else moments
