"""The torch twin against the 100-digit references and against the plain solver."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from cutlayer.protections.marvell_batched import solve_marvell_batched
from cutlayer.protections.marvell_solver import solve_marvell

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "reference" / "marvell_reference_optima.json").read_text()
)
WIDTHS = sorted({instance["d"] for instance in REFERENCE})


@pytest.mark.parametrize("width", WIDTHS)
def test_reaches_the_reference_optima_of_one_width_at_once(width):
    rows = [instance for instance in REFERENCE if instance["d"] == width]
    column = {name: torch.tensor([r[name] for r in rows], dtype=torch.float64) for name in "vugpP"}
    noise = solve_marvell_batched(
        variance_pos=column["v"],
        variance_neg=column["u"],
        gap_squared=column["g"],
        positive_share=column["p"],
        width=width,
        power=column["P"],
    )
    expected = torch.tensor([r["sumKL"] for r in rows], dtype=torch.float64)
    torch.testing.assert_close(noise.sum_kl, expected, rtol=1e-9, atol=0.0)
    p = column["p"]
    used = p * (noise.along_pos + (width - 1) * noise.across_pos)
    used += (1 - p) * (noise.along_neg + (width - 1) * noise.across_neg)
    assert bool((used <= column["P"] * (1 + 1e-12)).all())


@pytest.mark.parametrize("width", [1, 2, 128, 10**6])
def test_equals_the_plain_solver(width):
    source = np.random.default_rng(width)
    count = 300
    spread = 10 ** source.uniform(-20, 0, size=(2, count)) * (source.random((2, count)) > 0.1)
    spread[1, :20] = spread[0, :20]
    gap = 10 ** source.uniform(-20, 0, size=count) * (source.random(count) > 0.1)
    power = np.maximum(gap, spread.max(axis=0)) * 10 ** source.uniform(-6, 6, size=count)
    power[:10] = 0.0
    share = source.uniform(0.001, 0.999, size=count)
    noise = solve_marvell_batched(
        variance_pos=torch.from_numpy(spread[0]),
        variance_neg=torch.from_numpy(spread[1]),
        gap_squared=torch.from_numpy(gap),
        positive_share=torch.from_numpy(share),
        width=width,
        power=torch.from_numpy(power),
    )
    for i in range(count):
        one = solve_marvell(
            variance_pos=spread[0, i],
            variance_neg=spread[1, i],
            gap_squared=gap[i],
            positive_share=share[i],
            width=width,
            power=power[i],
        )
        # Two roundings of one optimum differ by the square of 1e-16 in each direction.
        tolerance = 1e-9 * one.sum_kl + 1e-31 * width
        assert noise.sum_kl[i].item() == one.sum_kl or (
            abs(noise.sum_kl[i].item() - one.sum_kl) <= tolerance
        )


def test_shapes_broadcast_and_wrong_values_are_nan():
    noise = solve_marvell_batched(
        variance_pos=torch.tensor(0.1),
        variance_neg=torch.tensor([[0.2], [0.3], [-1.0]]),
        gap_squared=torch.tensor(1.0),
        positive_share=torch.tensor(0.5),
        width=8,
        power=torch.tensor([1.0, math.nan]),
    )
    assert noise.sum_kl.shape == (3, 2)
    assert noise.sum_kl.dtype == torch.float64
    assert noise.sum_kl.isnan().tolist() == [[False, True], [False, True], [True, True]]
    with pytest.raises(ValueError, match="fit together"):
        solve_marvell_batched(
            variance_pos=torch.zeros(2),
            variance_neg=torch.zeros(3),
            gap_squared=torch.zeros(2),
            positive_share=torch.zeros(2),
            width=8,
            power=torch.zeros(2),
        )


def test_runs_without_values():
    """On the meta device there are no values to read, so any synchronisation would fail here."""
    column = torch.empty(5, device="meta")
    noise = solve_marvell_batched(
        variance_pos=column,
        variance_neg=column,
        gap_squared=column,
        positive_share=column,
        width=8,
        power=column,
    )
    assert noise.sum_kl.shape == (5,)
