"""Clocks that jump, processes that stand still, versions that differ."""

import os
import signal
import time
from dataclasses import replace

import pytest

from tests.faults.parties import PARTIES
from tests.faults.rounds import Round, prepared


def played(plan, **sabotage):
    playing = Round(plan, sabotage)
    try:
        return playing.finish()
    finally:
        playing.end()


@pytest.mark.parametrize(("party", "seconds"), [("label", 3600), ("other", -3600)])
def test_a_clock_that_jumps_by_an_hour_changes_nothing(plan, folder, party, seconds):
    expected = played(plan)
    again = prepared(plan, folder / "jumping")
    assert played(again, **{party: f"clock:{seconds}"}) == expected


def stopped(plan, folder, party: str, seconds: float) -> float:
    """Let a party stand still in the middle; seconds from its awakening to the next new step."""
    expected = played(plan)
    again = prepared(plan, folder / "standing")
    playing = Round(again)
    try:
        playing.wait_for(lambda: playing.answered > 2000)
        os.kill(playing.processes[party].pid, signal.SIGSTOP)
        time.sleep(seconds)
        before = playing.answered
        os.kill(playing.processes[party].pid, signal.SIGCONT)
        resumed = playing.wait_for(lambda: playing.over or playing.answered > before, 60)
        assert playing.finish() == expected
    finally:
        playing.end()
    return resumed


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_that_stands_still_for_a_while_changes_nothing(plan, folder, party):
    stopped(replace(plan, epochs=12), folder, party, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [20, 60])
@pytest.mark.parametrize("transport", ["tls", "grpc"])
@pytest.mark.parametrize("party", PARTIES)
def test_a_party_that_stands_still_for_long_changes_nothing(
    plan, folder, identities, party, transport, seconds, figure
):
    plan = replace(plan, epochs=12, transport=transport, identities=identities, wait=120)
    plan = replace(plan, deadlines={**plan.deadlines, "step": 120.0})
    resumed = stopped(plan, folder, party, seconds)
    figure(f"SIGSTOP {seconds} s of party {party!r}, {transport}", f"resumed after {resumed:.1f} s")


def test_another_version_of_the_protocol_is_refused_by_both_names(plan, figure):
    playing = Round(plan, {"other": "protocol:3"})
    try:
        for party, (ours, theirs) in {"label": (2, 3), "other": (3, 2)}.items():
            process = playing.processes[party]
            process.join(60)
            assert process.exitcode == 1
            said = (plan.of(party) / "error.txt").read_text()
            assert f"The peer speaks protocol version {theirs}, this party {ours}" in said
            assert "install the same version of cutlayer at both parties" in said
    finally:
        playing.end()
    figure("protocol 2 with 3", "refused at both parties, both versions named")


def test_another_release_with_the_same_protocol_is_told_and_goes_on(plan, folder, figure):
    expected = played(plan)
    mixed = prepared(plan, folder / "mixed")
    assert played(mixed, other="release:0.0.9") == expected
    assert "runs cutlayer 0.0.9" in (mixed.of("label") / "notices.txt").read_text()
    assert "this party 0.0.9" in (mixed.of("other") / "notices.txt").read_text()
    figure("cutlayer 0.0.9 with this one", "a notice at both parties, same weights")
