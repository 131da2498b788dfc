"""The unit that gradients come in, which a loss scaler or another reduction may change."""

import math
from collections.abc import Mapping

from torch import Tensor

from cutlayer.protections.class_moments import ClassMoments, Moments, class_moments

_ROOT = 4
"""Sizes are compared by this root: zeros stay zeros, and one huge row does not decide alone."""
_MEMORY = 0.7
"""Weight that a size of one batch keeps when the next one arrives: a training may drift."""
_LEAST_CHANGE = math.log(1.4)
_ERRORS = 5.0
_DOUBTFUL_ROWS = 4.0
"""A batch of so many rows needs twice the change: the spread of few rows is itself a guess."""
_LEAST_SPREAD = 0.02
_SPREAD_OF_ONE_ROW = 0.5
_FADED = 1e-3


class GradientUnit:
    r"""Notices when all gradients become longer or shorter by one factor from a batch to the next.

    With h the fourth root of a row's largest entry, each class c that occurred before says

    .. math:: \ell_c = 4 \ln\left(\bar h_c \,/\, \bar h_c^{\mathrm{before}}\right)

    with a standard error from the spread of h. The classes' mean, weighted by precision, is taken
    for a change of unit if it passes ln 1.4 and five of its standard errors, and no class
    contradicts it by five of its own. So a scaler that doubles its scale is noticed in a batch of
    some 30 rows, a factor of 64 in one of a few rows; the drift of a training is not one, since a
    batch is compared with the three or so before it; nor is a batch of another share of positives,
    since classes are compared each with itself.
    """

    def __init__(self) -> None:
        self._before: Moments | None = None

    def change(self, sizes: Moments) -> float:
        """The factor since the batches before; 1.0 where none is certain.

        Args:
            sizes: moments of :func:`sizes_of` the next batch.
        """
        if self._before is None:
            self._before = sizes
            return 1.0
        factor = math.exp(_certain_change(sizes, self._before))
        root = factor ** (1 / _ROOT)
        old_pos, old_neg = (old.on(sizes[0].mean.device).in_units(root) for old in self._before)
        self._before = _followed(old_pos, sizes[0]), _followed(old_neg, sizes[1])
        return factor

    def state(self) -> dict[str, Tensor]:
        """What is known of the batches before, as named tensors."""
        if self._before is None:
            return {}
        positives, negatives = self._before
        return {"positive_sizes": positives.packed(), "negative_sizes": negatives.packed()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up again what :meth:`state` gave; without it, begin anew."""
        self._before = None
        if "positive_sizes" in state:
            self._before = (
                ClassMoments.unpacked(state["positive_sizes"]),
                ClassMoments.unpacked(state["negative_sizes"]),
            )


def sizes_of(largest: Tensor, labels: Tensor) -> Moments:
    """Moments of the fourth roots of row sizes, of both classes.

    Args:
        largest: largest absolute entry of each row, times the rows of a mean loss, float64,
            shape ``(examples,)``.
        labels: 0 or 1, shape ``(examples,)``.
    """
    return class_moments(largest.pow(1 / _ROOT)[:, None], labels)


def _certain_change(new: Moments, old: Moments) -> float:
    """Logarithm of the factor between two sets of sizes; 0 where none is certain."""
    said = [
        _said(*pair)
        for pair in zip(new, old, strict=True)
        if all(one.weight > 0 and float(one.mean) > 0 for one in pair)
    ]
    precision = sum(1 / variance for _, variance in said)
    if precision == 0:
        return 0.0
    change = sum(value / variance for value, variance in said) / precision
    doubt = 1 + _DOUBTFUL_ROWS / (new[0].weight + new[1].weight)
    if abs(change) <= max(_LEAST_CHANGE, _ERRORS * doubt / math.sqrt(precision)):
        return 0.0
    agreed = all(abs(value - change) <= _ERRORS * math.sqrt(variance) for value, variance in said)
    return change if agreed else 0.0


def _said(new: ClassMoments, old: ClassMoments) -> tuple[float, float]:
    """Logarithm of the factor by one class, and its variance."""
    known = [_relative_variance(one) for one in (new, old)]
    spread = max([one for one in known if one is not None], default=_SPREAD_OF_ONE_ROW**2)
    rows = sum(one.weight_squared / one.weight**2 for one in (new, old))
    variance = _ROOT**2 * max(spread, _LEAST_SPREAD**2) * rows
    return _ROOT * math.log(float(new.mean) / float(old.mean)), variance


def _relative_variance(sizes: ClassMoments) -> float | None:
    """Squared coefficient of variation."""
    return None if sizes.variance is None else sizes.variance / float(sizes.mean) ** 2


def _followed(old: ClassMoments, new: ClassMoments) -> ClassMoments:
    """The past faded by one batch, with the new rows; rows of zeros have no size to remember."""
    if new.weight == 0 or float(new.mean) == 0:
        return old
    if old.weight == 0 or float(old.mean) == 0:
        return new
    return (old.scaled(_MEMORY) if old.weight > _FADED else old).merged(new)
