"""Two machines far apart: the link changes when a run ends, never what it comes to."""

from dataclasses import replace

import pytest

from tests.faults.parties import Plan
from tests.faults.rounds import Round, prepared
from tests.faults.wan import ADDRESS, FarLink

MILLISECONDS = (0, 10, 50, 100)


def far(link: FarLink, plan: Plan, folder, identities: str, transport: str = "tls") -> Plan:
    """The same run, with its parties at the two ends of a link."""
    moved = replace(
        plan, host=ADDRESS["label"], link=link.name, transport=transport, identities=identities
    )
    return prepared(moved, folder)


def played(plan: Plan) -> dict[str, dict[str, str]]:
    playing = Round(plan)
    try:
        return playing.finish()
    finally:
        playing.end()


def test_the_link_is_as_far_as_it_says(far_link):
    assert 0.2 <= far_link(round_trip=0.2).connect_seconds() < 0.4


@pytest.mark.parametrize("transport", ["tls", "grpc"])
def test_a_far_and_lossy_link_changes_nothing(plan, folder, identities, far_link, transport):
    link = far_link(round_trip=0.02, loss=0.01)
    assert played(plan) == played(far(link, plan, folder / "far", identities, transport))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("transport", ["tls", "grpc"])
def test_a_thousand_steps_with_loss(plan, folder, identities, far_link, transport, figure):
    plan = replace(plan, epochs=250, checkpoint_every=100, wait=300.0)
    near = played(plan)
    assert int(near["label"]["released"]) >= 1000
    link = far_link(round_trip=0.1, loss=0.01)
    assert near == played(far(link, plan, folder / "far", identities, transport))
    figure(
        f"RTT 100 ms, 1 % loss, {transport}",
        f"{near['label']['released']} steps, weights and predictions identical to loopback",
    )


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1, 3, 7])
def test_staleness_is_the_same_at_every_distance(
    plan, folder, identities, far_link, staleness, figure
):
    plan = replace(plan, staleness=staleness, checkpoint_every=12, batch_size=16)
    near = played(plan)
    for milliseconds in MILLISECONDS:
        link = far_link(round_trip=milliseconds / 1000)
        moved = far(link, plan, folder / f"far-{milliseconds}", identities)
        assert played(moved) == near
        link.close()
    figure(f"S = {staleness}", f"weights identical at RTT {MILLISECONDS} ms and on loopback")
