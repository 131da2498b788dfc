"""sumKL: how far apart the two classes of noisy gradients lie, in nats."""

import math
from typing import Protocol

from cutlayer import check


class ClassNoise(Protocol):
    """Variance of the noise that each class gets, along the mean gap and across it."""

    @property
    def along_pos(self) -> float:
        """Variance on the line through the two class means, for positives."""

    @property
    def across_pos(self) -> float:
        """Variance on each of the other ``width - 1`` directions, for positives."""

    @property
    def along_neg(self) -> float:
        """Variance on the line through the two class means, for negatives."""

    @property
    def across_neg(self) -> float:
        """Variance on each of the other ``width - 1`` directions, for negatives."""


def sum_kl(
    noise: ClassNoise,
    *,
    variance_pos: float,
    variance_neg: float,
    gap_squared: float,
    width: int,
) -> float:
    r"""Divergence between noisy gradients of positives and of negatives, both ways added.

    Gradients of class c are modelled as isotropic Gaussians; with their noise they have variance
    x along the mean gap (of squared length g) and y across it, and

    .. math:: \mathrm{KL}(1 \| 0) + \mathrm{KL}(0 \| 1) = \frac{1}{2} \left[
              (d-1) \frac{(y_0 - y_1)^2}{y_0 y_1} + \frac{(x_0 - x_1)^2}{x_0 x_1}
              + \frac{g}{x_1} + \frac{g}{x_0} \right].

    Every term is positive, so no digit is lost; the textbook form ends in ``- d`` and loses them.

    Args:
        noise: the four noise variances, each at least 0, in the unit of a squared gradient.
        variance_pos: mean coordinate variance v of the positives' clean gradients, at least 0.
        variance_neg: mean coordinate variance u of the negatives' clean gradients, at least 0.
        gap_squared: squared distance g between the class means, at least 0.
        width: number of coordinates d, at least 1.

    Returns:
        Nats, from 0 (no test tells the classes apart) to infinity (a class has no spread in a
        direction in which the classes differ). Scaling every variance and g together changes
        nothing.

    Raises:
        ValueError: an argument is negative, not finite, or ``width`` is below 1.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, section 4.2 and appendix.

    >>> from types import SimpleNamespace
    >>> ones = SimpleNamespace(along_pos=1.0, across_pos=0.0, along_neg=1.0, across_neg=0.0)
    >>> sum_kl(ones, variance_pos=0.0, variance_neg=0.0, gap_squared=1.0, width=3)
    1.0
    """
    along, across, shift = divergence_terms(
        noise,
        variance_pos=variance_pos,
        variance_neg=variance_neg,
        gap_squared=gap_squared,
        width=width,
    )
    return 0.5 * (along + shift + (width - 1) * across)


def divergence_terms(
    noise: ClassNoise,
    *,
    variance_pos: float,
    variance_neg: float,
    gap_squared: float,
    width: int,
) -> tuple[float, float, float]:
    """The three numbers that fix how well the classes can be told apart.

    Returns:
        (x0 - x1)^2 / (x0 x1) along the gap, (y0 - y1)^2 / (y0 y1) on every other direction, and
        g/x1 + g/x0; each at least 0, infinite where a class has no spread.

    Raises:
        ValueError: an argument is negative, not finite, or ``width`` is below 1.
    """
    check.not_negative("variance_pos", variance_pos)
    check.not_negative("variance_neg", variance_neg)
    check.not_negative("gap_squared", gap_squared)
    check.at_least("width", width, 1)
    variances = (noise.along_pos, noise.across_pos, noise.along_neg, noise.across_neg)
    if not all(math.isfinite(variance) and variance >= 0 for variance in variances):
        raise ValueError(f"noise must hold finite variances of at least 0, got {variances}.")
    across = 0.0
    if width > 1:
        across = squared_log_distance(
            noise.across_pos + variance_pos, noise.across_neg + variance_neg
        )
    along_pos, along_neg = noise.along_pos + variance_pos, noise.along_neg + variance_neg
    shift = 0.0
    if gap_squared > 0:
        shift = math.inf
        if along_pos > 0 and along_neg > 0:
            shift = gap_squared / along_pos + gap_squared / along_neg
    return squared_log_distance(along_pos, along_neg), across, shift


def squared_log_distance(one: float, other: float) -> float:
    r"""How far two variances are from equal: :math:`(a - b)^2 / (a b)`, about (ln a/b)^2.

    0 for two zeros, infinity where exactly one is 0. Never over- or underflows on the way.

    >>> squared_log_distance(4.0, 1.0)
    2.25
    """
    if one == other:
        return 0.0
    if one <= 0 or other <= 0:
        return math.inf
    difference = one - other
    return (difference / one) * (difference / other)
