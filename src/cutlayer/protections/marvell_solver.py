"""Marvell's noise, exactly: the least distinguishable noise for a power, and the power for a goal.

The problem and its three cases are in :mod:`cutlayer.protections.marvell_problem`.
"""

import math
from dataclasses import dataclass

from cutlayer import check
from cutlayer.leakage.sum_kl import sum_kl
from cutlayer.leakage.sum_kl_bounds import sum_kl_for_error, sum_kl_for_leak_auc
from cutlayer.protections import marvell_problem
from cutlayer.protections.marvell_problem import NarrowWideNoise, Problem

_TARGET_STEPS = 100
_AIM = 1 - 5e-13
"""Newton aims a hair below the target, so that rounding leaves the result on the safe side."""
_CLOSE = 1 - 1e-11
_FAINT = 1e-100


@dataclass(frozen=True, slots=True)
class MarvellNoise:
    """Variances of Marvell's noise, in the unit of the clean variances, and what they achieve."""

    along_pos: float
    """Variance along the mean gap for positives, the paper's lambda_1^(1)."""
    across_pos: float
    """Variance on every other direction for positives, lambda_2^(1); 0 where width is 1."""
    along_neg: float
    """Variance along the mean gap for negatives, lambda_1^(0)."""
    across_neg: float
    """Variance on every other direction for negatives, lambda_2^(0); 0 where width is 1."""
    sum_kl: float
    """Divergence between the noisy classes, in nats, both ways added."""


def solve_marvell(
    *,
    variance_pos: float,
    variance_neg: float,
    gap_squared: float,
    positive_share: float,
    width: int,
    power: float,
) -> MarvellNoise:
    """Noise of at most this power under which the classes are hardest to tell apart.

    Deterministic float64 in plain Python. Scaling the variances, the squared gap and the power
    together scales the result. What is more than 100 decades below the largest of the variances
    and the squared gap counts as zero.

    Args:
        variance_pos: mean coordinate variance v of positives' gradients, at least 0.
        variance_neg: mean coordinate variance u of negatives' gradients, at least 0.
        gap_squared: squared distance g of the class means, at least 0.
        positive_share: share p of positives among the rows, in [0, 1]. Noise of a class that
            never occurs costs nothing.
        width: number of coordinates d, at least 1.
        power: mean squared length P that the noise may have, at least 0; Marvell sets ``s * g``.

    Returns:
        The optimal noise. With equal clean variances and no gap there is nothing to hide and the
        noise is zero; ``sum_kl`` is infinite where P = 0 and a class has no spread.

    Raises:
        ValueError: an argument is outside its range, NaN or infinite.

    Source: problem of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, theorem 2; solution
    in closed form in ``docs/theory.md``.

    >>> solve_marvell(variance_pos=0.0, variance_neg=0.0, gap_squared=1.0,
    ...               positive_share=0.5, width=64, power=4.0)
    MarvellNoise(along_pos=4.0, across_pos=0.0, along_neg=4.0, across_neg=0.0, sum_kl=0.25)
    """
    _check_statistics(variance_pos, variance_neg, gap_squared, width)
    if not 0 <= positive_share <= 1:
        raise ValueError(f"positive_share must lie in [0, 1], got {positive_share!r}.")
    check.not_negative("power", power)
    unit = _unit(variance_pos, variance_neg, gap_squared)
    noise = NarrowWideNoise(0.0, 0.0, 0.0)
    if unit > 0:
        problem = _problem(
            variance_pos, variance_neg, gap_squared, positive_share, width, power, unit
        )
        noise = marvell_problem.solve(problem) if problem.power > 0 else noise
    narrow = (noise.along_narrow * unit, noise.across * unit)
    wide = (noise.along_wide * unit, 0.0)
    positive, negative = (narrow, wide) if variance_pos <= variance_neg else (wide, narrow)
    unscored = MarvellNoise(*positive, *negative, math.nan)
    reached = sum_kl(
        unscored,
        variance_pos=variance_pos,
        variance_neg=variance_neg,
        gap_squared=gap_squared,
        width=width,
    )
    return MarvellNoise(*positive, *negative, reached)


def power_for(
    *,
    variance_pos: float,
    variance_neg: float,
    gap_squared: float,
    positive_share: float,
    width: int,
    max_sum_kl: float | None = None,
    max_leak_auc: float | None = None,
    min_error: float | None = None,
) -> float:
    r"""Smallest noise power with which no attack on one release passes the goal.

    The goal is a sumKL (:math:`\varepsilon`), or a leak AUC or a mean error that is turned into one
    by :mod:`cutlayer.leakage.sum_kl_bounds`. Since 1 / sumKL(P) is nearly a straight line, Newton
    on it needs about five solves.

    Args:
        variance_pos: mean coordinate variance v of positives' gradients, at least 0.
        variance_neg: mean coordinate variance u of negatives' gradients, at least 0.
        gap_squared: squared distance g of the class means, at least 0.
        positive_share: share p of positives among the rows, in (0, 1).
        width: number of coordinates d, at least 1.
        max_sum_kl: largest divergence allowed, in nats, above 0.
        max_leak_auc: largest leak AUC allowed, in (0.5, 1).
        min_error: smallest mean of the two error rates of any yes/no test, in (0, 0.5).

    Returns:
        The power P in the unit of a squared gradient: :func:`solve_marvell` reaches the goal with
        it, short of it by at most 1e-11 of the sumKL. 0 where the goal holds without noise.

    Raises:
        ValueError: not exactly one goal is given, or an argument is outside its range.

    >>> power_for(variance_pos=0.0, variance_neg=0.0, gap_squared=1.0, positive_share=0.5,
    ...           width=64, max_sum_kl=0.25)  # doctest: +ELLIPSIS
    4.0000000000...
    """
    goal = goal_sum_kl(max_sum_kl=max_sum_kl, max_leak_auc=max_leak_auc, min_error=min_error)
    _check_statistics(variance_pos, variance_neg, gap_squared, width)
    check.between("positive_share", positive_share, 0.0, 1.0)
    unit = _unit(variance_pos, variance_neg, gap_squared)
    if unit == 0:
        return 0.0
    problem = _problem(variance_pos, variance_neg, gap_squared, positive_share, width, 0.0, unit)
    return _power_for(problem, goal) * unit


def goal_sum_kl(
    *, max_sum_kl: float | None, max_leak_auc: float | None, min_error: float | None
) -> float:
    """The largest sumKL that the one given goal allows.

    Raises:
        ValueError: not exactly one goal is given, or it is outside its range.
    """
    goals = {"max_sum_kl": max_sum_kl, "max_leak_auc": max_leak_auc, "min_error": min_error}
    given = [name for name, value in goals.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(goals)}, got {' and '.join(given) or 'none'}."
        )
    if max_leak_auc is not None:
        check.between("max_leak_auc", max_leak_auc, 0.5, 1.0)
        return sum_kl_for_leak_auc(max_leak_auc)
    if min_error is not None:
        return sum_kl_for_error(min_error)
    goal = max_sum_kl or 0.0
    check.positive("max_sum_kl", goal)
    return float(goal)


def _power_for(problem: Problem, goal: float) -> float:
    """Newton on 1 / sumKL(P) between a power that misses the goal and one that reaches it."""
    if marvell_problem.divergence(problem, NarrowWideNoise(0.0, 0.0, 0.0)) <= goal:
        return 0.0
    aim = goal * _AIM
    low, high = 0.0, _enough(problem, aim)
    power = high
    for _ in range(_TARGET_STEPS):
        trial = problem.with_power(power)
        noise = marvell_problem.solve(trial)
        reached = marvell_problem.divergence(trial, noise)
        if reached <= goal:
            high = power
            if reached >= goal * _CLOSE:
                break
        else:
            low = power
        worth = marvell_problem.worth_of_power(trial, noise)
        following = math.nan
        if worth > 0 and math.isfinite(reached):
            following = power + (1 / aim - 1 / reached) * reached / worth * reached
        if not low < following < high:
            following = low / 2 + high / 2 if low > 0 else high / 16
        if following in (low, high):
            break
        power = following
    return high


def _unit(variance_pos: float, variance_neg: float, gap_squared: float) -> float:
    """A power of two near the largest: dividing by it loses no digit. 0 where all are 0."""
    largest = max(variance_pos, variance_neg, gap_squared)
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 0.0


def _enough(problem: Problem, goal: float) -> float:
    """A power that reaches the goal: equal variances in all directions, wide enough for the gap."""
    width = max(problem.wide, problem.gap_squared / goal)
    return (
        problem.narrow_weight * (width - problem.narrow)
        + problem.wide_weight * (width - problem.wide)
        + problem.narrow_weight * problem.others * (problem.wide - problem.narrow)
    )


def _problem(
    variance_pos: float,
    variance_neg: float,
    gap_squared: float,
    positive_share: float,
    width: int,
    power: float,
    unit: float,
) -> Problem:
    """Forget the class names and divide by the unit."""
    shares = (positive_share, 1 - positive_share)
    weights = [max(share, _FAINT) if share > 0 else 0.0 for share in shares]
    narrow, wide = (0, 1) if variance_pos <= variance_neg else (1, 0)
    variances = (variance_pos, variance_neg)
    return Problem(
        narrow=_visible(variances[narrow] / unit),
        wide=_visible(variances[wide] / unit),
        narrow_weight=weights[narrow],
        wide_weight=weights[wide],
        gap_squared=_visible(gap_squared / unit),
        power=_visible(power / unit),
        others=width - 1,
    )


def _visible(value: float) -> float:
    """The value, or 0 or a cap where it is so many decades away that products leave float64."""
    return 0.0 if value < _FAINT else min(value, 1 / _FAINT)


def _check_statistics(
    variance_pos: float, variance_neg: float, gap_squared: float, width: int
) -> None:
    """Refuse statistics that no gradients can have."""
    check.not_negative("variance_pos", variance_pos)
    check.not_negative("variance_neg", variance_neg)
    check.not_negative("gap_squared", gap_squared)
    check.at_least("width", width, 1)
