r"""The optimisation problem behind Marvell, in units where no class has a name.

Write k = d - 1, p for the share of positives, q = 1 - p, and

.. math:: x_1 = \lambda_1^{(1)} + v, \quad y_1 = \lambda_2^{(1)} + v, \quad
          x_0 = \lambda_1^{(0)} + u, \quad y_0 = \lambda_2^{(0)} + u .

The problem is to minimise :func:`~cutlayer.leakage.sum_kl.sum_kl` subject to a mean noise power

.. math:: p (\lambda_1^{(1)} + k \lambda_2^{(1)}) + q (\lambda_1^{(0)} + k \lambda_2^{(0)}) \le P.

It is a geometric program (convex in ln x, ln y), so a point that satisfies the optimality
conditions is *the* optimum. Those conditions leave three cases: two in closed form, and one with
a single scalar equation. Call the class with the smaller clean variance ``narrow`` (variance a,
weight wa) and the other ``wide`` (b, wb). Then

- the wide class never gets noise across the gap: widening it there only costs;
- noise across the gap never exceeds noise along it;
- for a given sum of powers along the gap, the split between the classes is explicit.

Derivation: ``docs/theory.md``. Source of the problem:
`Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, theorem 2.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutlayer.leakage.sum_kl import squared_log_distance

_ROOT_STEPS = 100
_ROOT_TOLERANCE = 1e-12
"""A Newton step this short is the last: the error after it is about its square."""


class NarrowWideNoise(NamedTuple):
    """Noise of the narrow and of the wide class; across the gap, only the narrow one has any."""

    along_narrow: float
    along_wide: float
    across: float


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem without class names: a, b, their weights, g, P, k, all in one unit."""

    narrow: float
    wide: float
    narrow_weight: float
    wide_weight: float
    gap_squared: float
    power: float
    others: int

    def clean(self) -> float:
        """Weighted clean variance along the gap, C0 = wa a + wb b."""
        return self.narrow_weight * self.narrow + self.wide_weight * self.wide

    def with_power(self, power: float) -> "Problem":
        """The same problem under another power limit."""
        return replace(self, power=power)


def solve(problem: Problem) -> NarrowWideNoise:
    """Try the cases in the order in which their conditions are cheapest to check."""
    if problem.gap_squared == 0:
        return _without_gap(problem)
    if problem.narrow_weight == 0:  # noise of a class that never occurs is free
        across = problem.wide - problem.narrow if problem.others else 0.0
        return _split(problem, problem.power)._replace(across=across)
    noise = _only_along(problem) or _wide_untouched(problem) or _all_three(problem)
    # Only rounding, where P is far below the variances, can put across above along.
    return noise._replace(across=min(noise.across, noise.along_narrow))


def _without_gap(problem: Problem) -> NarrowWideNoise:
    """With equal means, widening the narrow class evenly in all directions is best."""
    missing = problem.wide - problem.narrow
    if problem.narrow_weight > 0:
        missing = min(missing, problem.power / (problem.narrow_weight * (problem.others + 1)))
    return NarrowWideNoise(missing, 0.0, missing if problem.others else 0.0)


def _only_along(problem: Problem) -> NarrowWideNoise | None:
    """Case 1: all the power on the gap, unless a first bit across it would help more."""
    noise = _split(problem, problem.power)
    if problem.others == 0 or problem.narrow == problem.wide:
        return noise
    if problem.narrow == 0:  # the narrow class has no spread across: any noise there pays
        return None
    along_narrow = problem.narrow + noise.along_narrow
    along_wide = problem.wide + noise.along_wide
    if noise.along_narrow > 0:
        price = (along_wide + problem.gap_squared) / along_narrow / along_narrow - 1 / along_wide
    else:
        price = (along_narrow + problem.gap_squared) / along_wide / along_wide - 1 / along_narrow
        price *= problem.narrow_weight / problem.wide_weight
    gain = (problem.wide / problem.narrow) * (problem.wide / problem.narrow)
    return noise if gain <= 1 + problem.wide * price else None


def _wide_untouched(problem: Problem) -> NarrowWideNoise | None:
    """Case 2: the wide class gets no noise at all, the narrow one in every direction."""
    ratio = problem.gap_squared / problem.wide
    stretch = math.sqrt(1 + ratio)  # of the narrow class: variance along over variance across
    lead = problem.narrow * ratio / (1 + stretch)  # a (stretch - 1) without cancellation
    share = problem.power / problem.narrow_weight
    across = (share - lead) / (problem.others + stretch)
    along = across * stretch + lead
    spread = problem.clean() + problem.narrow_weight * along
    if along + problem.narrow > problem.wide * _ratio(problem, spread):
        return None
    return NarrowWideNoise(along, 0.0, across) if across > 0 else NarrowWideNoise(share, 0.0, 0.0)


def _all_three(problem: Problem) -> NarrowWideNoise:
    """Case 3: every variance but the wide one across the gap; one equation for the price."""
    spread = _root(problem)
    pull = problem.narrow_weight * problem.wide * _multiplier(problem, spread)
    shrink = math.sqrt(1 + pull)
    if pull > 1:
        across = problem.wide / shrink - problem.narrow
    else:  # the same number without cancellation where the two variances are close
        across = (problem.wide - problem.narrow) - problem.wide * pull / (shrink * (1 + shrink))
    weight = problem.narrow_weight
    across = min(max(across, 0.0), problem.power / (weight * (problem.others + 1)))
    # Of two ways to the same number, the one that subtracts the smaller numbers.
    rest = spread - problem.clean()
    if problem.power < spread:
        rest = problem.power - weight * problem.others * across
    # Rounding in one of many directions adds up; take it off the larger part.
    elsewhere = weight * problem.others * across
    if rest + elsewhere > problem.power:
        if elsewhere > rest:
            across = (problem.power - rest) / (weight * problem.others)
        else:
            rest = problem.power - elsewhere
    return _split(problem, rest)._replace(across=across)


def _root(problem: Problem) -> float:
    """Solve C + wa k b / N(C) = P + C0 + wa k a for the spread C along the gap.

    The left side rises and is concave, so Newton from the left never passes the root.
    """
    weight = problem.narrow_weight * problem.others
    floor = problem.clean() + problem.power - weight * (problem.wide - problem.narrow)
    # Noise across never exceeds noise along, so at least P/d is spent along the gap.
    low = max(problem.clean() + problem.power / (problem.others + 1), floor)
    high = problem.clean() + problem.power
    spread = low
    for _ in range(_ROOT_STEPS):
        value, slope = _excess(problem, spread, floor)
        if value > 0:
            high = spread
        else:
            low = spread
        following = spread - value / slope
        if not low <= following <= high:
            following = math.sqrt(low) * math.sqrt(high)
        if abs(following - spread) <= _ROOT_TOLERANCE * spread:
            break
        spread = following
    return following


def _excess(problem: Problem, spread: float, floor: float) -> tuple[float, float]:
    """Left minus right side of the equation of case 3, and its derivative."""
    gamma = problem.gap_squared / spread
    product = problem.narrow_weight * problem.wide_weight
    root = math.sqrt(1 + gamma + product * gamma * gamma)
    inner = (1 + 2 * product * gamma) / root
    multiplier = gamma / spread * (1 + inner)
    pull = problem.narrow_weight * problem.wide * multiplier
    shrink = math.sqrt(1 + pull)
    others = problem.narrow_weight * problem.others
    if floor < 0 and pull > 1:
        total = problem.clean() + problem.power + others * problem.narrow
        value = (spread + others * problem.wide / shrink) - total
    else:  # wa k b taken off both sides, in case it dwarfs the rest
        value = (spread - floor) - others * problem.wide * pull / (shrink * (1 + shrink))
    # d inner / d gamma = (2w - (1 + 2 w gamma)^2 / (2 S^2)) / S
    bend = (2 * product - inner * inner / 2) / root
    multiplier_slope = -(2 * multiplier + gamma * gamma / spread * bend) / spread
    pull_slope = problem.narrow_weight * problem.wide * multiplier_slope
    slope = 1 - others * problem.wide * pull_slope / (2 * shrink * shrink * shrink)
    return value, slope


def _split(problem: Problem, rest: float) -> NarrowWideNoise:
    """Divide this power, all along the gap, between the classes."""
    weight, other = problem.narrow_weight, problem.wide_weight
    ratio = _ratio(problem, problem.clean() + rest)
    lead = problem.wide * ratio - problem.narrow
    scale = other + weight * ratio
    wide = (rest - weight * lead) / scale
    narrow = (ratio * rest + other * lead) / scale
    if wide <= 0 and weight > 0:
        return NarrowWideNoise(rest / weight, 0.0, 0.0)
    if narrow <= 0 and other > 0:
        return NarrowWideNoise(0.0, rest / other, 0.0)
    return NarrowWideNoise(max(narrow, 0.0), max(wide, 0.0), 0.0)


def _ratio(problem: Problem, spread: float) -> float:
    """Optimal narrow over wide variance along the gap, where both classes get noise."""
    gamma = problem.gap_squared / spread
    return math.sqrt((1 + problem.wide_weight * gamma) / (1 + problem.narrow_weight * gamma))


def _multiplier(problem: Problem, spread: float) -> float:
    """What a unit of power along the gap is worth: -2 d sumKL / dP."""
    gamma = problem.gap_squared / spread
    product = problem.narrow_weight * problem.wide_weight
    root = math.sqrt(1 + gamma + product * gamma * gamma)
    return gamma / spread * (1 + (1 + 2 * product * gamma) / root)


def divergence(problem: Problem, noise: NarrowWideNoise) -> float:
    """The sumKL that this noise leaves."""
    along_narrow = problem.narrow + noise.along_narrow
    along_wide = problem.wide + noise.along_wide
    total = squared_log_distance(along_narrow, along_wide)
    if problem.others:
        total += problem.others * squared_log_distance(problem.narrow + noise.across, problem.wide)
    if problem.gap_squared > 0:
        if not (along_narrow > 0 and along_wide > 0):
            return math.inf
        total += problem.gap_squared / along_narrow + problem.gap_squared / along_wide
    return total / 2


def worth_of_power(problem: Problem, noise: NarrowWideNoise) -> float:
    """How fast the optimal sumKL falls with the power: - d sumKL / dP, at the optimal noise."""
    along_narrow = problem.narrow + noise.along_narrow
    along_wide = problem.wide + noise.along_wide
    if noise.along_narrow > 0 and noise.along_wide > 0:
        spread = problem.narrow_weight * along_narrow + problem.wide_weight * along_wide
        return _multiplier(problem, spread) / 2
    if noise.along_narrow > 0:
        slope = (along_wide + problem.gap_squared) / along_narrow / along_narrow - 1 / along_wide
        return slope / (2 * problem.narrow_weight)
    slope = (along_narrow + problem.gap_squared) / along_wide / along_wide - 1 / along_narrow
    return slope / (2 * problem.wide_weight)
