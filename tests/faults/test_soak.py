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


def held(process: int) -> tuple[int, int]:
    """Descriptors and threads of a process."""
    counts = (len(list(Path(f"/proc/{process}/{kind}").iterdir())) for kind in ("fd", "task"))
    return tuple(counts)


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
    times, memory = [], {party: [] for party in PARTIES}
    try:
        # The first checkpoints and epochs take memory that the later ones use again.
        playing.wait_for(lambda: playing.steps > 10 * plan.checkpoint_every)
        processes = {party: playing.processes[party].pid for party in PARTIES}
        before = {party: held(process) for party, process in processes.items()}
        began, first, size = time.monotonic(), playing.steps, playing.answered
        while time.monotonic() < began + seconds or playing.steps - first < steps:
            times.append((time.monotonic() - began) / 3600)
            for party, process in processes.items():
                memory[party].append(resident_mib(process))
            time.sleep(0.5)
            assert all(process.is_alive() for process in playing.processes.values())
        done, seconds = playing.steps - first, time.monotonic() - began
        assert {party: held(process) for party, process in processes.items()} == before
        assert playing.answered - size == pytest.approx(80 * done, abs=80)
    finally:
        playing.end()
    slopes = {party: slope_of(np.array(times), np.array(memory[party])) for party in PARTIES}
    for party, (slope, error) in slopes.items():
        figure(
            f"soak {transport}, party {party!r}",
            f"{done:,} steps in {seconds:.0f} s, RSS by quarters {quarters(memory[party])} "
            f"MiB, slope {slope:+.2f} +- {error:.2f} MiB/h, "
            f"descriptors and threads {before[party]} constant",
            f"< {MIB_AN_HOUR} MiB/h",
        )
    for party, (slope, error) in slopes.items():
        grown = max(memory[party]) - memory[party][0]
        assert slope - 5 * error < MIB_AN_HOUR or grown < ONCE_MIB, f"{party}: {grown:.2f} MiB"


def quarters(mib: list[float]) -> str:
    """Memory at the beginning, after each quarter, and at the end."""
    return " ".join(f"{mib[(len(mib) - 1) * quarter // 4]:.2f}" for quarter in range(5))


def slope_of(hours: np.ndarray, mib: np.ndarray) -> tuple[float, float]:
    """Least-squares slope of memory over time and its standard error, MiB/h."""
    centred = hours - hours.mean()
    slope = float(centred @ mib / (centred @ centred))
    rest = mib - mib.mean() - slope * centred
    return slope, float(np.sqrt(rest @ rest / (len(hours) - 2) / (centred @ centred)))
