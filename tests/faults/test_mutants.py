"""The power of the kill scenario: with each deliberate bug it fails, and for the right reason."""

import time

import pytest

from tests.faults.mutants import MUTANTS
from tests.faults.parties import DONE, PARTIES, Plan, start

REASONS = {
    "fresh noise on resend": "computing it again gives another answer, so nothing was sent",
    "equivocating peer": "was answered before, and the non-label party now sends another activ",
    "no journal": "the journal of the label party knows of 0 answered steps only",
}
EPOCH = 18
PATIENCE = 90.0


def killed_in_the_second_epoch(plan: Plan, party: str, sabotage: str, pause: float) -> str:
    """Kill one party after a checkpoint and some more steps, start it again; what the label party
    complained of, or nothing if both came to an end."""
    processes = {name: start(plan, name, sabotage) for name in PARTIES}
    kept = plan.of("label") / "checkpoints" / f"step-{EPOCH:010d}"
    end = time.monotonic() + PATIENCE
    while not kept.exists():
        assert time.monotonic() < end, "the run did not begin"
        time.sleep(0.001)
    time.sleep(pause)
    processes[party].kill()
    processes[party].join()
    processes[party] = start(plan, party, sabotage)
    complaint, done = plan.of("label") / "error.txt", plan.of("label") / DONE
    while not complaint.exists() and not done.exists():
        assert time.monotonic() < end, "the run did not end"
        time.sleep(0.01)
    for process in processes.values():
        process.join(5)
        process.kill()
        process.join()
    for name in PARTIES:
        assert not (plan.of(name) / "crash.txt").exists()
    return complaint.read_text() if complaint.exists() else ""


def scenario(bug: str, folder, port: int) -> str:
    """The kill scenario, until steps had to be repeated."""
    complaint = ""
    for run in range(
        5 if bug else 1
    ):  # a kill may fall on the end of an epoch, where nothing is repeated
        plan = Plan(
            folder=str(folder / f"{run}"),
            port=port,
            batch_size=8,
            epochs=4,
            checkpoint_every=1000,
        )
        party = "other" if bug == "equivocating peer" else "label"
        complaint = killed_in_the_second_epoch(
            plan, party, bug and f"bug:{bug}", pause=0.005 * (1 + run)
        )
        if complaint:
            break
    return complaint


@pytest.mark.parametrize("bug", MUTANTS)
def test_n4_a_deliberate_bug_is_caught_when_a_party_is_killed(bug, tmp_path, unused_port):
    assert REASONS[bug] in scenario(bug, tmp_path, unused_port)


def test_n4_without_a_bug_the_same_scenario_ends_well(tmp_path, unused_port):
    assert scenario("", tmp_path, unused_port) == ""
