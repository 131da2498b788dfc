"""kill -9 at any moment, of either party or both: the same weights, no step lost or doubled.

A lost or doubled step, or one with other bytes, would make the journal differ from that of the
undisturbed run; see `rounds.survive`.
"""

import time
from dataclasses import replace

import numpy as np
import pytest

from tests.faults.rounds import survive

TRANSPORTS = ("plain", "tls", "grpc")


def killed(plan, folder, kills, seed, figure):
    began = time.monotonic()
    toll = survive(plan, folder, kills, seed)
    places = ", ".join(f"{place} {count}" for place, count in sorted(toll.places.items()))
    figure(
        f"kill -9 over {plan.transport}",
        f"{toll.kills} kills ({places}), {60 * toll.kills / (time.monotonic() - began):.0f} a "
        f"minute, 0 steps lost, 0 doubled, recovery p95 {np.percentile(toll.recoveries, 95):.2f} s",
        "recovery p95 <= 5 s",
    )
    return toll


@pytest.mark.timeout(900)  # half a minute alone, more beside other tests
def test_two_hundred_kills_change_nothing(plan, folder, seed, figure):
    toll = killed(plan, folder, 200, seed, figure)
    assert set(toll.places) == {"any moment", "handshake", "checkpoint write", "journal write"}


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_kills_over_other_transports(plan, folder, identities, seed, transport, figure):
    plan = replace(plan, transport=transport, identities=identities)
    killed(plan, folder, 12, seed, figure)


@pytest.mark.parametrize(
    "changes",
    [
        {"protection": "marvell:s=4"},
        {"protection": "max_norm", "wire": "bfloat16"},
        {"staleness": 3},
        {"record": True},
        {"micro_batches": 2},
        {"micro_batches": 2, "staleness": 1},
    ],
    ids=str,
)
def test_what_protections_remember_and_what_is_on_its_way_survives(plan, folder, seed, changes):
    survive(replace(plan, **changes), folder, 8, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_kills_of_a_release(plan, folder, identities, seed, transport, figure, pytestconfig):
    if transport != "plain":
        plan = replace(plan, transport=transport, identities=identities)
    kills = pytestconfig.getoption("kills") // len(TRANSPORTS) + 1
    toll = killed(plan, folder, kills, seed, figure)
    assert np.percentile(toll.recoveries, 95) <= 5
