"""Many small steps: memory, descriptors and threads stay as they are, the journal grows by 80 B."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.faults.parties import PARTIES
from tests.faults.rounds import Round, resident_mib

MIB_AN_HOUR = 1.0
ONCE_MIB = 0.5
"""A short soak may meet an allocator that takes some pages once: no slope can be read from it."""
SPARE_THREADS = {"tls": 0, "grpc": 2}
"""What a transport's own pool may add; in half an hour over gRPC it was one at each party."""

MOMENTS = 20
"""Looks, half a second apart; a checkpoint that is being written has a file open in a few."""


def count(process: int, kind: str) -> int:
    """How many descriptors (``fd``) or threads (``task``) a process has."""
    return len(list(Path(f"/proc/{process}/{kind}").iterdir()))


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("transport", ["tls", "grpc"])
def test_soak(plan, identities, transport, figure, pytestconfig):
    seconds, steps = (pytestconfig.getoption(option) for option in ("soak_seconds", "soak_steps"))
    plan = replace(
        plan,
        transport=transport,
        identities=identities,
        records=2000,
        batch_size=4,
        epochs=5000,
        checkpoint_every=500,
        protection="max_norm",
    )
    playing = Round(plan)
    times: list[float] = []
    memory, descriptors, threads = ({party: [] for party in PARTIES} for _ in range(3))
    try:
        # The first checkpoints and epochs take memory that the later ones use again.
        playing.wait_for(lambda: playing.steps > 10 * plan.checkpoint_every)
        processes = {party: playing.processes[party].pid for party in PARTIES}
        began, first, size = time.monotonic(), playing.steps, playing.answered
        while time.monotonic() < began + seconds or playing.steps - first < steps:
            times.append((time.monotonic() - began) / 3600)
            for party, process in processes.items():
                memory[party].append(resident_mib(process))
                descriptors[party].append(count(process, "fd"))
                threads[party].append(count(process, "task"))
            time.sleep(0.5)
            assert all(process.is_alive() for process in playing.processes.values())
        done, seconds = playing.steps - first, time.monotonic() - began
        assert playing.answered - size == pytest.approx(80 * done, abs=80)
    finally:
        playing.end()
    slopes = {party: slope_of(np.array(times), np.array(memory[party])) for party in PARTIES}
    for party, (slope, error) in slopes.items():
        figure(
            f"soak {transport}, party {party!r}",
            f"{done:,} steps in {seconds:.0f} s, RSS by quarters {quarters(memory[party])} "
            f"MiB, slope {slope:+.2f} +- {error:.2f} MiB/h, "
            f"descriptors {spread(descriptors[party])}, threads {spread(threads[party])}",
            f"< {MIB_AN_HOUR} MiB/h",
        )
    for party, (slope, error) in slopes.items():
        assert added(descriptors[party]) == 0
        assert added(threads[party]) <= SPARE_THREADS[transport]
        grown = max(memory[party]) - memory[party][0]
        assert slope - 5 * error < MIB_AN_HOUR or grown < ONCE_MIB, f"{party}: {grown:.2f} MiB"


def added(counts: list[int]) -> int:
    """What is held more at the end than at the beginning, beside what a moment needs."""
    return min(counts[-MOMENTS:]) - min(counts[:MOMENTS])


def spread(counts: list[int]) -> str:
    """The only count, or the least and the most."""
    return "to".join(f" {value} " for value in sorted({min(counts), max(counts)})).strip()


def quarters(mib: list[float]) -> str:
    """Memory at the beginning, after each quarter, and at the end."""
    return " ".join(f"{mib[(len(mib) - 1) * quarter // 4]:.2f}" for quarter in range(5))


def slope_of(hours: np.ndarray, mib: np.ndarray) -> tuple[float, float]:
    """Least-squares slope of memory over time and its standard error, MiB/h."""
    centred = hours - hours.mean()
    slope = float(centred @ mib / (centred @ centred))
    rest = mib - mib.mean() - slope * centred
    return slope, float(np.sqrt(rest @ rest / (len(hours) - 2) / (centred @ centred)))
