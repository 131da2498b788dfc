"""Class statistics of gradients: of one batch, or averaged so that every batch has some."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from cutlayer import check
from cutlayer.errors import ProtectionError
from cutlayer.protections.class_moments import ClassMoments, Moments, class_moments
from cutlayer.protections.gradient_unit import GradientUnit

DECAY = 0.98
"""Weight that a row of one batch keeps when the next one arrives."""
ROWS_FOR_OWN_STATISTICS = 30
"""A class with so many rows in a batch is described by them and not by the average."""
_FORGOTTEN = 1e-3
_LEAST_SHARE = 1e-6


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

    def in_units(self, factor: float) -> "BatchStatistics":
        """The statistics of the same gradients, each multiplied by ``factor``."""
        squared = factor * factor
        return replace(
            self,
            mean_pos=self.mean_pos * factor,
            mean_neg=self.mean_neg * factor,
            variance_pos=self.variance_pos * squared,
            variance_neg=self.variance_neg * squared,
            gap_squared=self.gap_squared * squared,
        )

    @property
    def width(self) -> int:
        """Number of coordinates of a gradient."""
        return len(self.mean_pos)

    @classmethod
    def of_batch(cls, gradient: Tensor, labels: Tensor) -> "BatchStatistics":
        """The paper's statistics of one batch: :meth:`plain` on the batch's own moments.

        Args:
            gradient: cut gradients, float, shape ``(examples, width)``.
            labels: 0 or 1, shape ``(examples,)``.

        Raises:
            ValueError: wrong shapes, NaN or infinity, or labels other than 0 and 1.
            ProtectionError: a class has no row.
        """
        check.matrix("gradient", gradient)
        check.finite("gradient", gradient)
        check.binary_labels("labels", labels, examples=gradient.shape[0])
        return cls.plain(class_moments(gradient, labels))

    @classmethod
    def plain(cls, batch: Moments) -> "BatchStatistics":
        """The paper to the letter: raw gap, variances divided by the number of rows.

        Args:
            batch: moments of positives and negatives.

        Raises:
            ProtectionError: a class has no row.

        Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, section 4.2.
        """
        positives, negatives = batch
        rows = positives.weight + negatives.weight
        if positives.weight == 0 or negatives.weight == 0:
            raise ProtectionError(
                "label party: statistics='batch' needs both classes in every batch, got "
                f"{positives.weight:.0f} positives of {rows:.0f} rows. Nothing was sent. Use "
                "statistics='averaged', or larger batches."
            )
        gap = positives.mean - negatives.mean
        width = len(gap)
        return cls(
            mean_pos=positives.mean,
            mean_neg=negatives.mean,
            variance_pos=positives.scatter / (positives.weight * width),
            variance_neg=negatives.scatter / (negatives.weight * width),
            gap_squared=float(gap.dot(gap)),
            positive_share=positives.weight / rows,
        )

    @classmethod
    def unbiased(cls, classes: Moments, *, positive_share: float) -> "BatchStatistics":
        r"""Statistics without the bias of few rows.

        A class with a single row shows no spread and takes that of the other. The squared gap of
        means is too large by :math:`d v W_2 / W^2` for each class (:math:`d v / n` for n equal
        rows), which is taken off. What is left may be smaller than this uncertainty or negative;
        then the uncertainty itself is the gap: noise is never scaled by a gap that the rows
        cannot rule out.

        Args:
            classes: moments of positives and negatives, each with some weight.
            positive_share: share of positives among the rows.
        """
        positives, negatives = classes
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
    ``ROWS_FOR_OWN_STATISTICS`` rows or more in the batch is described by them alone. Where the unit
    of gradients changes, as under a loss scaler, the averages are converted to it.
    """

    def __init__(self) -> None:
        self._averages: Moments | None = None
        self._unit = GradientUnit()

    def prime(self, rows: Moments) -> None:
        """Learn from rows that are never sent, with the weight of one row for each class."""
        positives, negatives = (
            moments.scaled(1 / moments.weight) if moments.weight else moments for moments in rows
        )
        self._add((positives, negatives))

    def observe(self, batch: Moments, sizes: Moments | None = None) -> BatchStatistics:
        """Learn from a batch that is about to be sent, and describe its classes.

        Args:
            batch: moments of positives and negatives.
            sizes: of its rows, by which a change of unit is noticed; ``None`` for a fixed unit.

        Raises:
            ProtectionError: a class was never seen, neither here nor in an earlier batch.
        """
        if sizes is not None:
            self._convert(self._unit.change(sizes))
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
        return BatchStatistics.unbiased((positives, negatives), positive_share=share)

    def state(self) -> dict[str, Tensor]:
        """The averages and their unit as named tensors; empty before the first batch."""
        if self._averages is None:
            return {}
        positives, negatives = self._averages
        averages = {"positives": positives.packed(), "negatives": negatives.packed()}
        return averages | self._unit.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up again what :meth:`state` gave.

        Raises:
            KeyError: one of the classes is missing.
        """
        self._averages = None
        self._unit.restore(state)
        if state:
            self._averages = (
                ClassMoments.unpacked(state["positives"]),
                ClassMoments.unpacked(state["negatives"]),
            )

    def _convert(self, factor: float) -> None:
        """Take up another unit: gradients are now longer by this factor."""
        if self._averages is not None and factor != 1.0:
            positives, negatives = self._averages
            self._averages = positives.in_units(factor), negatives.in_units(factor)

    def _add(self, batch: Moments) -> Moments:
        """Let the past fade by one step and merge the batch into it."""
        if self._averages is None:
            self._averages = batch
        else:
            device = batch[0].mean.device
            old_pos, old_neg = (moments.on(device) for moments in self._averages)
            self._averages = (
                _faded(old_pos).merged(batch[0]),
                _faded(old_neg).merged(batch[1]),
            )
        return self._averages


def _faded(moments: ClassMoments) -> ClassMoments:
    """Weights of one step ago; a class that is long absent is kept, so that it never vanishes."""
    return moments.scaled(DECAY) if moments.weight > _FORGOTTEN else moments
