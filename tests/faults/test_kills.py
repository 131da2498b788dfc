"""kill -9 at any moment, of either party or both: the same weights, no step lost or doubled."""

import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.parties import DONE, PARTIES, Plan, outcome, start

KILLS = 200


@pytest.fixture
def plan(tmp_path, unused_port) -> Plan:
    return Plan(folder=str(tmp_path / "reference"), port=unused_port)


def play_through(plan: Plan, *, kills: int = 0, seed: int = 0) -> int:
    """Run both parties to the end; kill one or both at random moments on the way."""
    chance = random.Random(seed)  # noqa: S311
    processes = {party: start(plan, party) for party in PARTIES}
    killed = 0
    deadline = time.monotonic() + 240
    pause = 0.0
    while any(not (plan.of(party) / DONE).exists() for party in PARTIES):
        assert time.monotonic() < deadline, "the parties did not come to an end"
        if killed < kills and time.monotonic() > pause:
            for party in chance.choice([["label"], ["other"], list(PARTIES)]):
                if processes[party].is_alive():
                    processes[party].kill()
                    processes[party].join()
                    killed += 1
            pause = time.monotonic() + chance.uniform(0.02, 0.25)
        for party, process in processes.items():
            if not process.is_alive() and not (plan.of(party) / DONE).exists():
                crash = plan.of(party) / "crash.txt"
                assert not crash.exists(), crash.read_text()
                error = plan.of(party) / "error.txt"
                assert not error.exists(), error.read_text()
                processes[party] = start(plan, party)
        time.sleep(0.01)
    for process in processes.values():
        process.join(30)
    return killed


def prepared(plan: Plan, folder: Path) -> Plan:
    """A run of its own with the keys, and so the order and noise, of another."""
    for party in PARTIES:
        (folder / party).mkdir(parents=True)
        shutil.copy(plan.of(party) / "run.key", folder / party / "run.key")
    return replace(plan, folder=str(folder))


def survive(plan: Plan, tmp_path: Path, kills: int, seed: int) -> int:
    """Kill runs until so many kills were done; each run must end as the reference did."""
    play_through(plan)
    expected = outcome(plan)
    steps = plan.epochs * (int(expected["label"]["released"]) // plan.epochs)
    assert int(expected["label"]["released"]) == steps > 20
    done = runs = 0
    while done < kills:
        runs += 1
        again = prepared(plan, tmp_path / f"run-{runs}")
        done += play_through(again, kills=min(kills - done, 25), seed=seed + runs)
        assert outcome(again) == expected
        journal, reference = (
            (where.of("label") / "journal").read_bytes() for where in (again, plan)
        )
        assert journal == reference  # every step once, same request, same reply
        shutil.rmtree(again.folder)
    return runs


def test_two_hundred_kills_change_nothing(plan, tmp_path):
    survive(plan, tmp_path, KILLS, seed=int(time.time()))


@pytest.mark.parametrize(
    "changes",
    [
        {"protection": "marvell:s=4"},
        {"protection": "max_norm", "wire": "bfloat16"},
        {"staleness": 3},
    ],
    ids=str,
)
def test_what_protections_remember_and_what_is_on_its_way_survives(plan, tmp_path, changes):
    survive(replace(plan, **changes), tmp_path, 12, seed=int(time.time()))
