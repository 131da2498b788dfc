"""Marvell's optimum against 100-digit references, a proof of optimality and an optimiser."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mpf
from scipy.optimize import minimize

from cutlayer.protections.marvell_solver import MarvellNoise, power_for, solve_marvell

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "reference" / "marvell_reference_optima.json").read_text()
)


def arguments(instance: dict) -> dict:
    """The keyword arguments of one reference instance."""
    return {
        "variance_pos": instance["v"],
        "variance_neg": instance["u"],
        "gap_squared": instance["g"],
        "positive_share": instance["p"],
        "width": instance["d"],
    }


def power_of(noise: MarvellNoise, problem: dict) -> float:
    """Mean squared length of the noise, summed without rounding error."""
    p, k = problem["positive_share"], problem["width"] - 1
    return math.fsum(
        [
            p * noise.along_pos,
            p * k * noise.across_pos,
            (1 - p) * noise.along_neg,
            (1 - p) * k * noise.across_neg,
        ]
    )


def assert_feasible(noise: MarvellNoise, problem: dict, power: float) -> None:
    """Finite, ordered, not negative and within the power."""
    four = (noise.along_pos, noise.across_pos, noise.along_neg, noise.across_neg)
    assert all(math.isfinite(variance) and variance >= 0 for variance in four)
    assert noise.across_pos <= noise.along_pos
    assert noise.across_neg <= noise.along_neg
    assert power_of(noise, problem) <= power * (1 + 1e-12)
    if problem["width"] == 1:
        assert noise.across_pos == noise.across_neg == 0


# --- The references ------------------------------------------------------------------------


@pytest.mark.parametrize("instance", REFERENCE, ids=lambda r: f"{r['category']}-{r['id']}")
def test_reaches_the_reference_optimum(instance):
    noise = solve_marvell(**arguments(instance), power=instance["P"])
    assert abs(noise.sum_kl / instance["sumKL"] - 1) <= 1e-9
    assert_feasible(noise, arguments(instance), instance["P"])


@pytest.mark.parametrize("exponent", [-30, -20, -10, -3, 3, 10, 20, 30])
def test_scaling_the_problem_scales_the_noise(exponent):
    factor = 10.0**exponent
    for instance in REFERENCE:
        known = arguments(instance)
        noise = solve_marvell(**known, power=instance["P"])
        for name in ("variance_pos", "variance_neg", "gap_squared"):
            known[name] *= factor
        scaled = solve_marvell(**known, power=instance["P"] * factor)
        assert scaled.sum_kl == pytest.approx(noise.sum_kl, rel=1e-12)
        assert_feasible(scaled, known, instance["P"] * factor)


def test_swapping_the_classes_swaps_the_noise():
    for instance in REFERENCE:
        known = arguments(instance)
        noise = solve_marvell(**known, power=instance["P"])
        known["variance_pos"], known["variance_neg"] = known["variance_neg"], known["variance_pos"]
        known["positive_share"] = 1 - known["positive_share"]
        swapped = solve_marvell(**known, power=instance["P"])
        assert swapped.sum_kl == pytest.approx(noise.sum_kl, rel=1e-12)


# --- A proof of optimality by duality --------------------------------------------------------


def lower_bound(problem: dict, power: float, noise: MarvellNoise) -> mpf:
    """A value that no noise of this power can go below, in 60 digits.

    For every price mu >= 0, the minimum over all variances of sumKL + mu/2 (power used - P) is at
    most the optimum (weak duality). It falls apart into two problems in two variables each, convex
    in logarithms. The first prices tried are those that the offered noise would make stationary;
    they are then refined until the noise that they lead to uses the power.
    """
    v, u, g = (mpf(problem[n]) for n in ("variance_pos", "variance_neg", "gap_squared"))
    p, k = mpf(problem["positive_share"]), problem["width"] - 1
    x1, x0 = v + mpf(noise.along_pos), u + mpf(noise.along_neg)
    spent = mpf(power) + p * (v + k * v) + (1 - p) * (u + k * u)

    def dual(mu: mpf) -> tuple[mpf, mpf]:
        """The bound at this price, and by how much the power is overspent."""
        one, zero = mu * p, mu * (1 - p)
        along, least_x1, least_x0 = least_along(v, u, g, one, zero, (x1, x0))
        across, least_y1, least_y0 = least_across(v, u, one, zero) if k else (mpf(0),) * 3
        used = p * (least_x1 + k * least_y1) + (1 - p) * (least_x0 + k * least_y0)
        return (along + k * across - mu * spent) / 2, used - spent

    prices = []
    if noise.along_pos > 0:
        prices.append(((x0 + g) / x1**2 - 1 / x0) / p)
    if noise.along_neg > 0:
        prices.append(((x1 + g) / x0**2 - 1 / x1) / (1 - p))
    prices.append(2 * noise.sum_kl / mpf(power))
    best = mpf(0)  # the bound at price 0
    for price in prices:
        if price <= 0:
            continue
        low, high, factor = None, None, mpf(2)  # the excess falls with the price
        for _ in range(300):
            value, excess = dual(price)
            best = max(best, value)
            if best >= noise.sum_kl * (1 - mpf(1e-11)):
                return best
            low, high = (price, high) if excess > 0 else (low, price)
            if low is not None and high is not None:
                price = mpmath.sqrt(low * high)
            else:
                price = price * factor if high is None else price / factor
                factor *= factor
    return best


def least_across(v: mpf, u: mpf, one: mpf, zero: mpf) -> tuple[mpf, mpf, mpf]:
    """min over y1 >= v, y0 >= u of (y0 - y1)^2 / (y0 y1) + one y1 + zero y0, and where it is.

    Shrinking both lowers it, so one of the two lies on its border; the other is then explicit.
    """
    if v == 0 and u == 0:
        return (mpf(0),) * 3
    points = []
    if u > 0:
        points.append((max(v, u / mpmath.sqrt(1 + one * u)), u))
    if v > 0:
        points.append((v, max(u, v / mpmath.sqrt(1 + zero * v))))
    return min(((y0 - y1) ** 2 / (y0 * y1) + one * y1 + zero * y0, y1, y0) for y1, y0 in points)


def least_along(
    v: mpf, u: mpf, g: mpf, one: mpf, zero: mpf, start: tuple[mpf, mpf]
) -> tuple[mpf, mpf, mpf]:
    """min over x1 >= v, x0 >= u of (x0 - x1)^2/(x0 x1) + g/x1 + g/x0 + one x1 + zero x0."""

    def value(x1: mpf, x0: mpf) -> mpf:
        return (x0 - x1) ** 2 / (x0 * x1) + g / x1 + g / x0 + one * x1 + zero * x0

    if g == 0:
        return least_across(v, u, one, zero)
    points = []
    if u > 0:
        points.append((max(v, mpmath.sqrt((u + g) / (1 / u + one))), u))
    if v > 0:
        points.append((v, max(u, mpmath.sqrt((v + g) / (1 / v + zero)))))
    inside = stationary_point(g, one, zero, start) if min(start) > 0 else None
    if inside is not None and inside[0] >= v and inside[1] >= u:
        points.append(inside)
    return min(((value(x1, x0), x1, x0) for x1, x0 in points), default=(mpf(0),) * 3)


def stationary_point(g: mpf, one: mpf, zero: mpf, start: tuple[mpf, mpf]) -> tuple[mpf, mpf] | None:
    """Newton on the convex function of (ln x1, ln x0) above, without borders."""
    x1, x0 = start
    for _ in range(200):
        ratios = x1 / x0 + x0 / x1
        slope_1 = x1 / x0 - x0 / x1 - g / x1 + one * x1
        slope_0 = x0 / x1 - x1 / x0 - g / x0 + zero * x0
        bend_1, bend_0 = ratios + g / x1 + one * x1, ratios + g / x0 + zero * x0
        determinant = bend_1 * bend_0 - ratios**2
        step_1 = (bend_0 * slope_1 + ratios * slope_0) / determinant
        step_0 = (bend_1 * slope_0 + ratios * slope_1) / determinant
        x1 *= mpmath.exp(-max(min(step_1, 2), -2))
        x0 *= mpmath.exp(-max(min(step_0, 2), -2))
        if abs(step_1) + abs(step_0) < mpf(10) ** -45:
            return x1, x0
    return None


def magnitude(low: int, high: int) -> st.SearchStrategy[float]:
    """Positive numbers, evenly spread over decades."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


SPREADS = magnitude(-20, 0) | st.just(0.0)
SHARES = st.one_of(
    st.sampled_from([1e-6, 1 - 1e-6, 0.5, 0.05]), magnitude(-6, -0.01), st.floats(0.01, 0.99)
)
WIDTHS = st.sampled_from([1, 2, 3, 10, 128, 1600, 10**6]) | st.integers(1, 10**6)


@st.composite
def problems(draw) -> dict:
    v = draw(SPREADS)
    return {
        "variance_pos": v,
        "variance_neg": draw(SPREADS | st.just(v)),
        "gap_squared": draw(magnitude(-20, 0)),
        "positive_share": draw(SHARES),
        "width": draw(WIDTHS),
    }


def assert_optimal(problem: dict, power: float) -> None:
    noise = solve_marvell(**problem, power=power)
    assert noise == solve_marvell(**problem, power=power)
    assert_feasible(noise, problem, power)
    assert math.isfinite(noise.sum_kl)
    with mpmath.workdps(60):
        least = lower_bound(problem, power, noise)
        # The absolute part: differences of 1e-16 of equal variances, squared, for each direction.
        slack = mpf(1e-9) * least + mpf(1e-31) * problem["width"]
        assert least - slack <= noise.sum_kl <= least + slack


@given(problem=problems(), strength=magnitude(-8, 8))
@settings(max_examples=300, deadline=None)
def test_no_noise_of_this_power_does_better(problem, strength):
    assert_optimal(problem, strength * problem["gap_squared"])


def test_rounding_in_many_directions_spends_no_more_than_the_power():
    """Once 1.6e-12 too much: an error of 1e-16 in each of 20,845 directions."""
    assert_optimal(
        {
            "variance_pos": 0.5025414343690855,
            "variance_neg": 10.0**-0.5,
            "gap_squared": 1.0,
            "positive_share": 1e-6,
            "width": 20846,
        },
        1.0,
    )


@given(problem=problems(), excess=magnitude(-6, 6))
@settings(max_examples=150, deadline=None)
def test_no_noise_does_better_where_spread_dwarfs_the_gap(problem, excess):
    spread = max(problem["variance_pos"], problem["variance_neg"], problem["gap_squared"])
    assert_optimal(problem, excess * spread)


@given(problem=problems(), excess=magnitude(-6, 6))
@settings(max_examples=100, deadline=None)
def test_no_noise_does_better_without_a_gap(problem, excess):
    problem["gap_squared"] = 0.0
    unit = max(problem["variance_pos"], problem["variance_neg"])
    if unit == 0:
        noise = solve_marvell(**problem, power=excess)
        assert noise == MarvellNoise(0.0, 0.0, 0.0, 0.0, 0.0)
        return
    if min(problem["variance_pos"], problem["variance_neg"]) == 0:
        problem["variance_pos"] = problem["variance_neg"] = unit
    assert_optimal(problem, excess * unit)


@pytest.mark.slow
@given(problem=problems(), strength=magnitude(-9, 9))
@settings(max_examples=5000, deadline=None)
def test_no_noise_of_this_power_does_better_many_times(problem, strength):
    assert_optimal(problem, strength * problem["gap_squared"])


# --- An independent optimiser -------------------------------------------------------------------


def by_slsqp(problem: dict, power: float) -> float:
    """The best of several runs of scipy's SLSQP on ln(noise variance), with the power exact.

    Each run works on the shares of the power that the four variances get, so every point it
    visits is feasible.
    """
    v, u, g = (problem[n] for n in ("variance_pos", "variance_neg", "gap_squared"))
    p, k = problem["positive_share"], problem["width"] - 1
    cost = np.array([p, p * k, 1 - p, (1 - p) * k])

    def objective(logits: np.ndarray) -> float:
        weights = np.exp(logits - logits.max())
        x1, y1, x0, y0 = power * weights / (cost @ weights) + np.array([v, v, u, u])
        return math.log(
            (k * (y0 - y1) ** 2 / (y0 * y1) + (x0 - x1) ** 2 / (x0 * x1) + g / x1 + g / x0) / 2
        )

    starts = [[0, -3, 0, -12], [0, -12, 0, -3], [0, -1, -6, -30], [-6, -30, 0, -1]]
    runs = [
        minimize(objective, start, method="SLSQP", options={"ftol": 1e-15, "maxiter": 500})
        for start in np.array(starts, dtype=float)
    ]
    return math.exp(min(run.fun for run in runs))


@pytest.mark.parametrize("seed", range(40))
def test_an_optimiser_without_any_theory_never_wins(seed):
    source = np.random.default_rng(seed)
    problem = {
        "variance_pos": float(10 ** source.uniform(-4, 0)),
        "variance_neg": float(10 ** source.uniform(-4, 0)),
        "gap_squared": float(10 ** source.uniform(-3, 1)),
        "positive_share": float(source.uniform(0.02, 0.98)),
        "width": int(source.integers(2, 200)),
    }
    power = problem["gap_squared"] * float(10 ** source.uniform(-1, 1.5))
    assert solve_marvell(**problem, power=power).sum_kl <= by_slsqp(problem, power) * (1 + 1e-9)


# --- Closed forms and borders ---------------------------------------------------------------------


def test_without_spread_by_hand():
    # x1 = x0 = P by symmetry at p = 1/2; sumKL = (g/P + g/P) / 2 = g/P.
    noise = solve_marvell(
        variance_pos=0.0,
        variance_neg=0.0,
        gap_squared=3.0,
        positive_share=0.5,
        width=10,
        power=12.0,
    )
    assert noise == MarvellNoise(12.0, 0.0, 12.0, 0.0, 0.25)


@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5, 0.9])
@pytest.mark.parametrize("s", [0.01, 1.0, 25.0])
def test_without_spread_in_closed_form(p, s):
    # One dimension or no spread: sumKL = sqrt((1 + p t)(1 + q t)) - 1 + t/2 with t = 1/s.
    noise = solve_marvell(
        variance_pos=0.0,
        variance_neg=0.0,
        gap_squared=1.0,
        positive_share=p,
        width=1,
        power=s,
    )
    t = 1 / s
    expected = math.sqrt((1 + p * t) * (1 + (1 - p) * t)) - 1 + t / 2
    assert noise.sum_kl == pytest.approx(expected, rel=1e-13)


def test_no_power_no_noise():
    problem = arguments(REFERENCE[0])
    noise = solve_marvell(**problem, power=0.0)
    assert (noise.along_pos, noise.across_pos, noise.along_neg, noise.across_neg) == (0, 0, 0, 0)
    problem["variance_pos"] = problem["variance_neg"] = 0.0
    assert solve_marvell(**problem, power=0.0).sum_kl == math.inf


@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize(("v", "u"), [(0.1, 0.4), (0.4, 0.1), (0.0, 0.4), (0.4, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("power", [1e-3, 1.0, 1e4])
def test_a_class_that_never_occurs_is_the_limit_of_a_rare_one(p, v, u, width, power):
    problem = {"variance_pos": v, "variance_neg": u, "gap_squared": 1.0, "width": width}
    noise = solve_marvell(**problem, positive_share=p, power=power)
    rare = abs(p - 1e-13)
    near = solve_marvell(**problem, positive_share=rare, power=power)
    assert noise.sum_kl == pytest.approx(near.sum_kl, rel=1e-5)


def test_huge_power_leaves_nothing_to_see():
    for instance in REFERENCE:
        noise = solve_marvell(**arguments(instance), power=1e30 * instance["g"])
        assert 0 <= noise.sum_kl < 1e-9


@given(
    v=magnitude(-300, 150) | st.just(0.0),
    u=magnitude(-300, 150) | st.just(0.0),
    g=magnitude(-300, 150) | st.just(0.0),
    power=magnitude(-300, 150),
    p=st.sampled_from([0.0, 1e-300, 1e-16, 0.3, 1 - 1e-16, 1.0]),
    width=st.sampled_from([1, 2, 1000, 10**9]),
)
@settings(max_examples=300, deadline=None)
def test_absurd_scales_never_break_it(v, u, g, power, p, width):
    problem = {"variance_pos": v, "variance_neg": u, "gap_squared": g, "width": width}
    noise = solve_marvell(**problem, positive_share=p, power=power)
    assert not math.isnan(noise.sum_kl)
    assert_feasible(noise, {**problem, "positive_share": p}, power)
    if 0 < p < 1:
        assert power_for(**problem, positive_share=p, max_sum_kl=0.5) >= 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variance_pos": -1.0}, "variance_pos"),
        ({"variance_neg": math.nan}, "variance_neg"),
        ({"gap_squared": math.inf}, "gap_squared"),
        ({"positive_share": 1.5}, "positive_share"),
        ({"positive_share": math.nan}, "positive_share"),
        ({"width": 0}, "width"),
        ({"width": 2.0}, "width"),
        ({"power": -1e-9}, "power"),
    ],
)
def test_impossible_arguments_are_refused(change, message):
    problem = {**arguments(REFERENCE[0]), "power": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        solve_marvell(**problem)


# --- From a goal to a power ----------------------------------------------------------------


@pytest.mark.parametrize("instance", REFERENCE, ids=lambda r: f"{r['category']}-{r['id']}")
def test_power_for_reaches_its_goal_and_no_more(instance):
    goal = instance["sumKL"]
    power = power_for(**arguments(instance), max_sum_kl=goal)
    reached = solve_marvell(**arguments(instance), power=power).sum_kl
    assert goal * (1 - 1e-9) <= reached <= goal * (1 + 1e-14)
    # The power is determined only as well as sumKL depends on it: one part in 1e9 of the goal.
    less = solve_marvell(**arguments(instance), power=instance["P"] * (1 - 1e-9)).sum_kl
    slope = (less - goal) / (1e-9 * instance["P"])
    assert abs(power - instance["P"]) <= 1e-9 * instance["P"] + 1.1e-11 * goal / max(slope, 1e-300)


@given(problem=problems(), goal=magnitude(-6, 4))
@example(
    problem={
        "variance_pos": 0.0,
        "variance_neg": 1.0,
        "gap_squared": 1e-20,
        "positive_share": 0.5,
        "width": 10**6,
    },
    goal=1e-6,
)
@settings(max_examples=300, deadline=None)
def test_power_for_round_trips(problem, goal):
    power = power_for(**problem, max_sum_kl=goal)
    reached = solve_marvell(**problem, power=power).sum_kl
    if power == 0:
        assert reached <= goal
    else:
        assert goal * (1 - 1e-9) <= reached <= goal * (1 + 1e-14)


def test_goals_in_other_currencies():
    # AUC 3/4 allows (2 * 3/4 - 1) ln 3 = ln(3)/2 nats; error 1/4 allows 2 (1/2) ln 3 = ln 3.
    problem = arguments(REFERENCE[0])
    assert power_for(**problem, max_leak_auc=0.75) == pytest.approx(
        power_for(**problem, max_sum_kl=math.log(3) / 2), rel=1e-9
    )
    assert power_for(**problem, min_error=0.25) == pytest.approx(
        power_for(**problem, max_sum_kl=math.log(3)), rel=1e-9
    )


def test_exactly_one_goal():
    problem = arguments(REFERENCE[0])
    with pytest.raises(ValueError, match="exactly one of max_sum_kl, max_leak_auc, min_error"):
        power_for(**problem)
    with pytest.raises(ValueError, match="max_sum_kl and min_error"):
        power_for(**problem, max_sum_kl=1.0, min_error=0.3)
    with pytest.raises(ValueError, match="max_sum_kl must be a finite number above 0"):
        power_for(**problem, max_sum_kl=0.0)
