"""Marvell's optimum against 100-digit references, an independent optimiser and its own rules."""

import json
import math
from pathlib import Path

import pytest

from cutlayer.protections.marvell_solver import MarvellNoise, solve_marvell

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


def power_of(noise: MarvellNoise, p: float, d: int) -> float:
    """Mean squared length of the noise, summed without rounding error."""
    k = d - 1
    return math.fsum(
        [
            p * noise.along_pos,
            p * k * noise.across_pos,
            (1 - p) * noise.along_neg,
            (1 - p) * k * noise.across_neg,
        ]
    )


@pytest.mark.parametrize("instance", REFERENCE, ids=lambda r: f"{r['category']}-{r['id']}")
def test_reaches_the_reference_optimum(instance):
    noise = solve_marvell(**arguments(instance), power=instance["P"])
    assert abs(noise.sum_kl / instance["sumKL"] - 1) <= 1e-9
    assert power_of(noise, instance["p"], instance["d"]) <= instance["P"] * (1 + 1e-12)
    assert noise.across_pos <= noise.along_pos
    assert noise.across_neg <= noise.along_neg


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
        used = power_of(scaled, instance["p"], instance["d"])
        assert used <= instance["P"] * factor * (1 + 1e-12)


def test_equal_spread_by_hand():
    # Without spread, x1 = x0 = P by symmetry at p = 1/2; sumKL = (g/P + g/P) / 2 = g/P.
    noise = solve_marvell(
        variance_pos=0.0,
        variance_neg=0.0,
        gap_squared=3.0,
        positive_share=0.5,
        width=10,
        power=12.0,
    )
    assert noise == MarvellNoise(12.0, 0.0, 12.0, 0.0, 0.25)
