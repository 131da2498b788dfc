"""The exact adversary against closed forms, 30-digit inversion and simulation."""

import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import rankdata

from cutlayer.leakage.exact_auc import exact_auc
from cutlayer.leakage.sum_kl import sum_kl
from cutlayer.leakage.sum_kl_bounds import leak_auc_bound, paper_leak_auc_bound
from cutlayer.protections.marvell_solver import solve_marvell


def four(x1: float, y1: float, x0: float, y0: float) -> SimpleNamespace:
    return SimpleNamespace(along_pos=x1, across_pos=y1, along_neg=x0, across_neg=y0)


CLEAN = {"variance_pos": 0.0, "variance_neg": 0.0}


@pytest.mark.parametrize("gap_squared", [1e-24, 1e-8, 0.01, 1.0, 9.0, 60.0])
@pytest.mark.parametrize("releases", [1, 20, 1000])
def test_equal_variances_in_closed_form(gap_squared, releases):
    # N(0, I) against N(gap, I): the ratio is linear, E draws shift it by sqrt(E) gaps.
    auc = exact_auc(four(1, 1, 1, 1), **CLEAN, gap_squared=gap_squared, width=5, releases=releases)
    assert auc == pytest.approx(ndtr(math.sqrt(releases * gap_squared / 2)), abs=1e-14)


@pytest.mark.parametrize("ratio", [1.0001, 2.0, 100.0, 1e12])
def test_two_variances_in_one_dimension_in_closed_form(ratio):
    # Scores are |z|: AUC = Pr(s |Z| > |Z'|) = (2 / pi) arctan(s), s the ratio of deviations.
    auc = exact_auc(four(ratio, 0, 1, 0), **CLEAN, gap_squared=0.0, width=1)
    assert auc == pytest.approx(2 / math.pi * math.atan(math.sqrt(ratio)), abs=1e-14)


@pytest.mark.parametrize("ratio", [1.5, 4.0])
def test_two_variances_in_two_dimensions_in_closed_form(ratio):
    # Two coordinates: squared norms are exponential with means 2 ratio and 2:
    # Pr(first > second) = ratio / (1 + ratio).
    auc = exact_auc(four(ratio, ratio, 1, 1), **CLEAN, gap_squared=0.0, width=2)
    assert auc == pytest.approx(ratio / (1 + ratio), abs=1e-14)


def by_inversion(noise, *, variance_pos, variance_neg, gap_squared, width, releases):
    """1/2 + 1/pi Int Im phi(t)^E / t dt on the real line, with mpmath's quadrature."""
    with mpmath.workdps(30):
        x1, y1 = noise.along_pos + variance_pos, noise.across_pos + variance_pos
        x0, y0 = noise.along_neg + variance_neg, noise.across_neg + variance_neg
        g, k = gap_squared, width - 1

        def quadratic(t, a, b, c):
            """E exp(i t (a Z^2 + b Z + c)) for a standard normal Z."""
            s = 1 - 2j * t * a
            return mpmath.exp(1j * t * c - t**2 * b**2 / (2 * s)) / mpmath.sqrt(s)

        def integrand(t):
            gap = mpmath.sqrt(g)
            own = quadratic(
                t, (mpmath.mpf(x1) / x0 - 1) / 2, gap * mpmath.sqrt(x1) / x0, mpmath.mpf(g) / 2 / x0
            )
            other = quadratic(
                -t,
                (1 - mpmath.mpf(x0) / x1) / 2,
                gap * mpmath.sqrt(x0) / x1,
                -mpmath.mpf(g) / 2 / x1,
            )
            across = (1 - 1j * t * (mpmath.mpf(y1) / y0 - 1)) ** (-k / mpmath.mpf(2))
            across *= (1 + 1j * t * (1 - mpmath.mpf(y0) / y1)) ** (-k / mpmath.mpf(2))
            return mpmath.im((own * other * across) ** releases) / t

        edges = [mpmath.mpf(10) ** e for e in (-12, -3, -1, 0)] + [3, 10, 30, 100, 300, 1000, 10**4]
        return float(0.5 + mpmath.quad(integrand, edges) / mpmath.pi)


@pytest.mark.parametrize(
    ("noise", "v", "u", "g", "d", "releases"),
    [
        ((0.9, 0.002, 1.1, 0.0), 0.001, 0.003, 1.0, 64, 1),
        ((0.9, 0.002, 1.1, 0.0), 0.001, 0.003, 1.0, 64, 7),
        ((0.5, 0.1, 0.3, 0.0), 0.2, 0.4, 0.5, 8, 1),
        ((2.0, 0.0, 0.1, 0.0), 0.3, 0.3, 2.0, 4, 3),
    ],
)
def test_equals_inversion_on_the_real_line(noise, v, u, g, d, releases):
    known = {"variance_pos": v, "variance_neg": u, "gap_squared": g, "width": d}
    expected = by_inversion(four(*noise), **known, releases=releases)
    # The reference leaves out t < 1e-12 and t > 1e4.
    assert exact_auc(four(*noise), **known, releases=releases) == pytest.approx(expected, abs=1e-9)


def test_the_example_of_the_theory():
    known = {"variance_pos": 0.003, "variance_neg": 0.001, "gap_squared": 1.0, "width": 64}
    noise = solve_marvell(**known, positive_share=0.05, power=1.0)
    assert noise.sum_kl == pytest.approx(1.049, abs=5e-4)
    assert paper_leak_auc_bound(noise.sum_kl) == pytest.approx(0.881, abs=5e-4)
    assert leak_auc_bound(noise.sum_kl) == pytest.approx(0.830, abs=5e-4)
    assert exact_auc(noise, **known) == pytest.approx(0.756, abs=5e-4)


@pytest.mark.parametrize("releases", [1, 5])
@pytest.mark.parametrize("width", [1, 3, 64])
def test_agrees_with_simulated_likelihood_ratios(width, releases):
    known = {"variance_pos": 0.02, "variance_neg": 0.05, "gap_squared": 1.0, "width": width}
    noise = solve_marvell(**known, positive_share=0.2, power=2.0)
    source = np.random.default_rng(width)
    rows = 40_000
    x = {1: noise.along_pos + 0.02, 0: noise.along_neg + 0.05}
    y = {1: noise.across_pos + 0.02, 0: noise.across_neg + 0.05}
    scores = []
    for label in (1, 0):
        total = np.zeros(rows)
        for _ in range(releases):
            along = float(label) + math.sqrt(x[label]) * source.standard_normal(rows)
            square = y[label] * source.chisquare(width - 1, rows) if width > 1 else 0.0
            total += along**2 / (2 * x[0]) - (along - 1) ** 2 / (2 * x[1])
            total += square / (2 * y[0]) - square / (2 * y[1])
        scores.append(total)
    ranks = rankdata(np.concatenate(scores))[:rows].sum()
    simulated = (ranks - rows * (rows + 1) / 2) / rows**2
    # Hanley and McNeil: the variance of an AUC is at most a (1 - a) / min(n1, n0).
    error = math.sqrt(simulated * (1 - simulated) / rows)
    assert abs(exact_auc(noise, **known, releases=releases) - simulated) <= 5 * error


@pytest.mark.parametrize("seed", range(200))
def test_no_bound_is_below_it(seed):
    source = np.random.default_rng(seed)
    known = {
        "variance_pos": float(10 ** source.uniform(-3, 0)),
        "variance_neg": float(10 ** source.uniform(-3, 0)),
        "gap_squared": float(10 ** source.uniform(-3, 1)),
        "width": int(source.integers(1, 300)),
    }
    noise = four(*(10 ** source.uniform(-4, 1, size=4)))
    releases = int(source.integers(1, 10))
    auc = exact_auc(noise, **known, releases=releases)
    total = releases * sum_kl(noise, **known)
    assert 0.5 <= auc <= leak_auc_bound(total) + 1e-14
    assert auc <= paper_leak_auc_bound(total) + 1e-14


def test_borders():
    same = {**CLEAN, "gap_squared": 0.0, "width": 4}
    assert exact_auc(four(1, 1, 1, 1), **same) == 0.5
    assert exact_auc(four(0, 0, 0, 0), **same) == 0.5
    assert exact_auc(four(1, 0, 1, 1), **same) == 1.0
    assert exact_auc(four(0, 0, 0, 0), **{**same, "gap_squared": 1.0}) == 1.0
    assert exact_auc(four(1, 0, 1, 1), **same, releases=0) == 0.5
    apart = {**same, "gap_squared": 1.0}
    for lone in (four(0, 1, 1, 1), four(1, 1, 0, 1)):  # one class has no spread along the gap
        assert exact_auc(lone, **apart) == exact_auc(lone, **same) == 1.0
        assert exact_auc(lone, **{**apart, "width": 1}) == 1.0
    with pytest.raises(ValueError, match="releases"):
        exact_auc(four(1, 1, 1, 1), **same, releases=-1)
