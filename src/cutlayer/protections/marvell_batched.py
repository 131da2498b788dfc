r"""Marvell's noise for many problems at once: the torch twin of ``marvell_solver``.

The same three cases as in :mod:`cutlayer.protections.marvell_problem`, all computed and then
chosen by masks, with a fixed number of steps: nothing is read back to the host, so a GPU never
waits. For a single problem on a CPU the plain solver is hundreds of times faster.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cutlayer import check

_NEWTON_STEPS = 24
"""Of 100,000 problems over 20 decades, none needed more than 14."""


class BatchedNoise(NamedTuple):
    """Marvell's variances for every problem, float64, in the broadcast shape of the arguments."""

    along_pos: Tensor
    """Variance along the mean gap for positives."""
    across_pos: Tensor
    """Variance on every other direction for positives; 0 where width is 1."""
    along_neg: Tensor
    """Variance along the mean gap for negatives."""
    across_neg: Tensor
    """Variance on every other direction for negatives; 0 where width is 1."""
    sum_kl: Tensor
    """Divergence between the noisy classes, in nats, both ways added."""


class _Problems(NamedTuple):
    """Many problems without class names, in units of their own; see ``marvell_problem.Problem``."""

    narrow: Tensor
    wide: Tensor
    narrow_weight: Tensor
    wide_weight: Tensor
    gap_squared: Tensor
    power: Tensor
    others: int

    def clean(self) -> Tensor:
        """Weighted clean variance along the gap."""
        return self.narrow_weight * self.narrow + self.wide_weight * self.wide


def solve_marvell_batched(
    *,
    variance_pos: Tensor,
    variance_neg: Tensor,
    gap_squared: Tensor,
    positive_share: Tensor,
    width: int,
    power: Tensor,
) -> BatchedNoise:
    """Noise of at most this power under which the classes are hardest to tell apart.

    Values are not checked, since that would read them back: arguments that ``solve_marvell``
    refuses (negative, NaN, infinite) give NaN.

    Args:
        variance_pos: mean coordinate variances of positives' gradients, at least 0.
        variance_neg: mean coordinate variances of negatives' gradients, at least 0.
        gap_squared: squared distances of the class means, at least 0.
        positive_share: shares of positives among the rows, in (0, 1).
        width: number of coordinates, at least 1, the same for all problems.
        power: mean squared lengths that the noise may have, at least 0.

    Returns:
        The optimum of every problem, equal to that of ``solve_marvell`` but for rounding.

    Raises:
        ValueError: ``width`` is below 1, or the shapes cannot be broadcast.

    Source: problem of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, theorem 2.

    >>> one = torch.tensor(1.0)
    >>> noise = solve_marvell_batched(variance_pos=0 * one, variance_neg=0 * one, gap_squared=one,
    ...                               positive_share=one / 2, width=64, power=4 * one)
    >>> noise.along_pos.item(), noise.sum_kl.item()
    (4.0, 0.25)
    """
    check.at_least("width", width, 1)
    try:
        shaped = torch.broadcast_tensors(
            variance_pos, variance_neg, gap_squared, positive_share, power
        )
    except RuntimeError as error:
        raise ValueError(f"the arguments must have shapes that fit together: {error}") from error
    v, u, g, p, limit = (tensor.double() for tensor in shaped)
    bad = ~((v >= 0) & (u >= 0) & (g >= 0) & (p > 0) & (p < 1) & (limit >= 0))
    largest = torch.maximum(torch.maximum(v, u), g)
    unit = torch.where(largest > 0, torch.exp2(torch.frexp(largest).exponent.double() - 1), 1.0)
    positive_is_narrow = v <= u
    problems = _Problems(
        narrow=torch.minimum(v, u) / unit,
        wide=torch.maximum(v, u) / unit,
        narrow_weight=torch.where(positive_is_narrow, p, 1 - p),
        wide_weight=torch.where(positive_is_narrow, 1 - p, p),
        gap_squared=g / unit,
        power=limit / unit,
        others=width - 1,
    )
    along_narrow, along_wide, across = _solve(problems)
    reached = _divergence(problems, along_narrow, along_wide, across)
    none = torch.zeros_like(across)
    found = (
        torch.where(positive_is_narrow, along_narrow, along_wide) * unit,
        torch.where(positive_is_narrow, across, none) * unit,
        torch.where(positive_is_narrow, along_wide, along_narrow) * unit,
        torch.where(positive_is_narrow, none, across) * unit,
        reached,
    )
    return BatchedNoise(*(torch.where(bad | ~limit.isfinite(), torch.nan, t) for t in found))


def _solve(problems: _Problems) -> tuple[Tensor, Tensor, Tensor]:
    """All cases, and the choice between them."""
    none = torch.zeros_like(problems.power)
    along = _split(problems, problems.power)
    chosen = (*along, none)
    if problems.others:
        untouched, is_best = _wide_untouched(problems)
        spread_out = _choose(is_best, untouched, _all_three(problems))
        chosen = _choose(_only_along_is_best(problems, *along), chosen, spread_out)
    limit = problems.power / (problems.narrow_weight * (problems.others + 1))
    missing = torch.minimum(problems.wide - problems.narrow, limit)
    gapless = (missing, none, missing if problems.others else none)
    chosen = _choose(problems.gap_squared == 0, gapless, chosen)
    along_narrow, along_wide, across = _choose(problems.power == 0, (none, none, none), chosen)
    return along_narrow, along_wide, torch.minimum(across, along_narrow)


def _choose(
    mask: Tensor, one: tuple[Tensor, Tensor, Tensor], other: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The first noise where the mask holds, the second elsewhere."""
    return (
        torch.where(mask, one[0], other[0]),
        torch.where(mask, one[1], other[1]),
        torch.where(mask, one[2], other[2]),
    )


def _only_along_is_best(problems: _Problems, along_narrow: Tensor, along_wide: Tensor) -> Tensor:
    """Case 1: no first bit of power across the gap would help more."""
    narrow, wide = problems.narrow + along_narrow, problems.wide + along_wide
    price = (wide + problems.gap_squared) / narrow / narrow - 1 / wide
    other = (narrow + problems.gap_squared) / wide / wide - 1 / narrow
    other = other * problems.narrow_weight / problems.wide_weight
    price = torch.where(along_narrow > 0, price, other)
    gain = problems.wide / problems.narrow
    cheap = (problems.narrow > 0) & (gain * gain <= 1 + problems.wide * price)
    return cheap | (problems.narrow == problems.wide)


def _wide_untouched(problems: _Problems) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Case 2: the wide class gets no noise at all."""
    ratio = problems.gap_squared / problems.wide
    stretch = (1 + ratio).sqrt()
    lead = problems.narrow * ratio / (1 + stretch)
    share = problems.power / problems.narrow_weight
    across = (share - lead) / (problems.others + stretch)
    along = across * stretch + lead
    spread = problems.clean() + problems.narrow_weight * along
    is_best = along + problems.narrow <= problems.wide * _ratio(problems, spread)
    along = torch.where(across > 0, along, share)
    return (along, torch.zeros_like(along), across.clamp(min=0)), is_best


def _all_three(problems: _Problems) -> tuple[Tensor, Tensor, Tensor]:
    """Case 3: Newton from the left on one equation, a fixed number of steps."""
    weight = problems.narrow_weight
    others = weight * problems.others
    difference = problems.wide - problems.narrow
    clean = problems.clean()
    floor = clean + problems.power - others * difference
    low = torch.maximum(clean + problems.power / (problems.others + 1), floor)
    high = clean + problems.power
    total = clean + problems.power + others * problems.narrow
    spread = low
    for _ in range(_NEWTON_STEPS):
        value, slope = _excess(problems, spread, floor, total)
        high, low = torch.where(value > 0, spread, high), torch.where(value > 0, low, spread)
        following = spread - value / slope
        inside = (following >= low) & (following <= high)
        spread = torch.where(inside, following, low.sqrt() * high.sqrt())
    pull = weight * problems.wide * _multiplier(problems, spread)[0]
    shrink = (1 + pull).sqrt()
    across = torch.where(
        pull > 1,
        problems.wide / shrink - problems.narrow,
        difference - problems.wide * pull / (shrink * (1 + shrink)),
    ).clamp(min=0)
    across = torch.minimum(across, problems.power / (weight * (problems.others + 1)))
    rest = torch.where(problems.power < spread, problems.power - others * across, spread - clean)
    along_narrow, along_wide = _split(problems, rest)
    return along_narrow, along_wide, across


def _excess(
    problems: _Problems, spread: Tensor, floor: Tensor, total: Tensor
) -> tuple[Tensor, Tensor]:
    """Left minus right side of the equation of case 3, and its derivative."""
    multiplier, multiplier_slope = _multiplier(problems, spread)
    others = problems.narrow_weight * problems.others * problems.wide
    scale = problems.narrow_weight * problems.wide
    pull = scale * multiplier
    shrink = (1 + pull).sqrt()
    value = torch.where(
        (floor < 0) & (pull > 1),
        (spread + others / shrink) - total,
        (spread - floor) - others * pull / (shrink * (1 + shrink)),
    )
    return value, 1 - others * scale * multiplier_slope / (2 * shrink * shrink * shrink)


def _multiplier(problems: _Problems, spread: Tensor) -> tuple[Tensor, Tensor]:
    """What a unit of power along the gap is worth, and its derivative by the spread."""
    gamma = problems.gap_squared / spread
    product = problems.narrow_weight * problems.wide_weight
    root = (1 + gamma + product * gamma * gamma).sqrt()
    inner = (1 + 2 * product * gamma) / root
    multiplier = gamma / spread * (1 + inner)
    bend = (2 * product - inner * inner / 2) / root
    return multiplier, -(2 * multiplier + gamma * gamma / spread * bend) / spread


def _split(problems: _Problems, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Divide this power, all along the gap, between the classes."""
    ratio = _ratio(problems, problems.clean() + rest)
    lead = problems.wide * ratio - problems.narrow
    scale = problems.wide_weight + problems.narrow_weight * ratio
    wide = (rest - problems.narrow_weight * lead) / scale
    narrow = (ratio * rest + problems.wide_weight * lead) / scale
    only_narrow, only_wide = wide <= 0, (narrow <= 0) & (wide > 0)
    narrow = torch.where(only_narrow, rest / problems.narrow_weight, narrow.clamp(min=0))
    wide = torch.where(only_wide, rest / problems.wide_weight, wide.clamp(min=0))
    return narrow, wide


def _ratio(problems: _Problems, spread: Tensor) -> Tensor:
    """Optimal narrow over wide variance along the gap, where both classes get noise."""
    gamma = problems.gap_squared / spread
    return ((1 + problems.wide_weight * gamma) / (1 + problems.narrow_weight * gamma)).sqrt()


def _divergence(
    problems: _Problems, along_narrow: Tensor, along_wide: Tensor, across: Tensor
) -> Tensor:
    """The sumKL that this noise leaves."""
    narrow, wide = problems.narrow + along_narrow, problems.wide + along_wide
    shift = torch.where(
        problems.gap_squared > 0, problems.gap_squared / narrow + problems.gap_squared / wide, 0.0
    )
    total = _squared_log_distance(narrow, wide) + shift
    if problems.others:
        across_narrow = problems.narrow + across
        total = total + problems.others * _squared_log_distance(across_narrow, problems.wide)
    return total / 2


def _squared_log_distance(one: Tensor, other: Tensor) -> Tensor:
    """(a - b)^2 / (a b); 0 for two zeros, infinity where exactly one is 0."""
    difference = one - other
    return torch.where(difference == 0, 0.0, (difference / one) * (difference / other)).abs()
