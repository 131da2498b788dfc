"""What Marvell and residual cost: a solve, a goal, a batch. Each as a ratio within one run.

    python benchmarks/marvell.py

Solver times are medians over the reference problems. Batch times are the least of many repeats of
process CPU time on one thread: other work on the machine can only add to them.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy.optimize import minimize
from torch import nn

from cutlayer.protections import Marvell, Residual
from cutlayer.protections.marvell_solver import power_for, solve_marvell
from cutlayer.rng import SecretNoise

REFERENCE = Path(__file__).parents[1] / "tests" / "reference" / "marvell_reference_optima.json"


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Least CPU seconds of a call."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def microseconds(calls: list[Callable[[], object]], repeats: int) -> float:
    """Median over all calls and repeats, by the wall clock, which ticks finely enough."""
    times = []
    for _ in range(repeats):
        for call in calls:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return 1e6 * median(times)


def by_slsqp(problem: dict, power: float) -> float:
    """scipy's SLSQP on the logarithms of the four total variances; returns the sumKL reached."""
    v, u, g = (problem[name] for name in ("variance_pos", "variance_neg", "gap_squared"))
    p, k = problem["positive_share"], problem["width"] - 1
    cost = np.array([p, p * k, 1 - p, (1 - p) * k])
    clean = np.array([v, v, u, u])
    unit = max(v, u, g, power / (1 + k))

    def divergence(logs: np.ndarray) -> float:
        x1, y1, x0, y0 = np.exp(logs)
        across = k * (y0 - y1) ** 2 / (y0 * y1) if k else 0.0
        return math.log((across + (x0 - x1) ** 2 / (x0 * x1) + g / unit / x1 + g / unit / x0) / 2)

    def unspent(logs: np.ndarray) -> float:
        return power / unit - cost @ (np.exp(logs) - clean / unit)

    tiny = 1e-12
    start = np.log(clean / unit + power / unit * np.array([0.9, 0.05, 0.9, 0.05]) + tiny)
    found = minimize(
        divergence,
        start,
        method="SLSQP",
        bounds=[(math.log(max(c / unit, tiny)), None) for c in clean],
        constraints={"type": "ineq", "fun": unspent},
        options={"ftol": 1e-12, "maxiter": 300},
    )
    return math.exp(found.fun)


def report_solver(repeats: int) -> None:
    instances = json.loads(REFERENCE.read_text())
    problems = [
        {
            "variance_pos": r["v"],
            "variance_neg": r["u"],
            "gap_squared": r["g"],
            "positive_share": r["p"],
            "width": r["d"],
        }
        for r in instances
    ]
    pairs = list(zip(problems, instances, strict=True))
    excess = [solve_marvell(**q, power=r["P"]).sum_kl / r["sumKL"] - 1 for q, r in pairs]
    solve = microseconds([partial(solve_marvell, **q, power=r["P"]) for q, r in pairs], repeats)
    goal = microseconds([partial(power_for, **q, max_sum_kl=r["sumKL"]) for q, r in pairs], repeats)
    with np.errstate(all="ignore"):
        theirs = [by_slsqp(q, r["P"]) / r["sumKL"] - 1 for q, r in pairs]
        scipy_time = microseconds([partial(by_slsqp, q, r["P"]) for q, r in pairs], 1)
    right = sum(abs(t) <= 1e-6 for t in theirs)
    print(f"{len(pairs)} reference problems")
    print(f"  largest relative excess of sumKL   {max(map(abs, excess)):10.1e}   (limit 1e-9)")
    print(f"  one solve                          {solve:10.1f} us (goal 25)")
    print(f"  one power for a goal               {goal:10.1f} us (goal 120)")
    print(f"  scipy SLSQP in log space           {scipy_time:10.1f} us")
    print(f"    times our solve                  {scipy_time / solve:10.1f}")
    print(f"    problems right to 1e-6           {right:7d} of {len(pairs)}")


def report_marvell(repeats: int) -> None:
    for rows in (1024, 8192):
        width = 128
        source = torch.Generator().manual_seed(0)
        labels = (torch.rand(rows, generator=source) < 0.25).long()
        gradient = 1e-5 * torch.randn(rows, width, generator=source)
        gradient[:, 0] += 1e-3 * labels
        noise, protection = SecretNoise(), Marvell(s=4.0)
        drawn = seconds(partial(noise.normal, rows, width), repeats)
        whole = seconds(partial(protection.perturb, gradient, labels, noise=noise), repeats)
        print(f"Marvell, {rows} x {width} float32")
        print(f"  the noise it draws                 {1e3 * drawn:10.2f} ms")
        print(f"  all of perturb                     {1e3 * whole:10.2f} ms")
        print(f"    ratio                            {whole / drawn:10.2f}    (limit 2)")


def report_residual(repeats: int) -> None:
    rows, width = 1024, 128
    source = torch.Generator().manual_seed(0)
    labels = (torch.rand(rows, generator=source) < 0.25).long()
    head = nn.Sequential(
        nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
    )
    activation = torch.randn(rows, width, generator=source).requires_grad_()
    noise, protection = SecretNoise(), Residual(sigma=2.0)
    inputs = [activation, *head.parameters()]

    def forward() -> torch.Tensor:
        return head(activation)[:, 0]

    def plain() -> object:
        loss = nn.functional.binary_cross_entropy_with_logits(forward(), labels.float())
        return torch.autograd.grad(loss, inputs)

    def noisy() -> object:
        logit = forward()
        residual = protection.noisy_residual(logit, labels, noise=noise)
        return torch.autograd.grad(logit, inputs, residual / rows)

    once, bare, masked = (seconds(call, repeats) for call in (forward, plain, noisy))
    backward = bare - once
    print(f"Residual, {rows} rows through a message head of {width}-128-128-1")
    print(f"  one backward through the head      {1e3 * backward:10.2f} ms")
    print(f"  step with the clean loss           {1e3 * bare:10.2f} ms")
    print(f"  step with the noisy residual       {1e3 * masked:10.2f} ms")
    print(f"    extra, in backwards              {(masked - bare) / backward:10.2f}    (limit 1)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    report_solver(repeats)
    report_marvell(repeats)
    report_residual(repeats)


if __name__ == "__main__":
    main()
