"""The network stands still, in one direction or both: noticed in time, and gone on from."""

import random
import time
from dataclasses import replace
from itertools import cycle

import pytest

from tests.faults.parties import Plan, outcome
from tests.faults.rounds import Round, resident_mib
from tests.faults.test_far_link import far
from tests.faults.wan import FarLink

NOTICED_SECONDS, RESUMED_SECONDS = 15.0, 6.0
STEPS = 400
WAITING = 50
"""At this step the label party takes its time, with nothing on its way."""


def notices(plan: Plan, party: str) -> int:
    """How often a party said that it has lost its connection."""
    told = plan.of(party) / "notices.txt"
    return told.read_text().count("waiting for the peer") if told.exists() else 0


@pytest.fixture
def long_run(plan) -> Plan:
    """Long enough to be interrupted at a chosen step."""
    deadlines = {**plan.deadlines, "step": 120.0}
    return replace(plan, epochs=STEPS // 4, wait=240.0, checkpoint_every=2, deadlines=deadlines)


def frozen(link: FarLink, plan: Plan, where: str, seconds: float) -> tuple[float | None, float]:
    """Freeze a run once and let it finish.

    Args:
        link: between the parties.
        plan: of the run.
        where: ``idle`` or ``busy``, and who is not heard: ``label``, ``other`` or ``both``; or
            ``busy lost``, where all that is sent meanwhile is lost instead of late.
        seconds: how long.

    Returns:
        Seconds until both had noticed, ``None`` if they did not have to, and from the thaw to the
        next new step.
    """
    state, unheard = where.split()
    waiting = {"label": f"dawdle:{WAITING}:{seconds}"} if state == "idle" else {}
    playing = Round(plan, waiting)
    try:
        playing.wait_for(lambda: playing.steps >= WAITING)
        if state == "idle":
            time.sleep(0.5)  # until nothing is on its way
        if unheard == "lost":
            link.cut()
        else:
            link.freeze(*({"both": ()}.get(unheard, (unheard,))))
        began, noticed = time.monotonic(), None
        if seconds > NOTICED_SECONDS:
            noticed = playing.wait_for(
                lambda: notices(plan, "label" if state == "busy" else "other") > 0,
                NOTICED_SECONDS,
            )
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        before = playing.answered
        link.restore() if unheard == "lost" else link.thaw()
        resumed = playing.wait_for(lambda: playing.over or playing.answered > before, 60)
        playing.finish()
    finally:
        playing.end()
    return noticed, resumed


def test_a_short_standstill_is_waited_out(long_run, folder, identities, far_link):
    run = replace(long_run, epochs=30)
    near = Round(run).finish()
    link = far_link(round_trip=0.01)
    moved = far(link, run, folder / "frozen", identities)
    frozen(link, moved, "busy both", 2)
    assert outcome(moved) == near


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("transport", ["tls", "grpc"])
def test_standstills(long_run, folder, identities, far_link, transport, seed, figure, pytestconfig):
    near = Round(long_run).finish()
    link, chance = far_link(round_trip=0.01), random.Random(seed)  # noqa: S311
    freezes = pytestconfig.getoption("freezes")
    places = cycle(
        ["busy both", "idle both", "busy label", "busy lost", "busy other", "idle label"]
    )
    all_noticed, all_resumed = [], []
    for number, where in zip(range(freezes), places, strict=False):
        seconds = 20.0 if freezes < 20 else chance.uniform(1, 120)
        moved = far(link, long_run, folder / f"frozen-{number}", identities, transport)
        noticed, resumed = frozen(link, moved, where, seconds)
        assert outcome(moved) == near
        print(f"{where}, {seconds:.0f} s: noticed {noticed}, resumed {resumed:.1f} s")
        all_noticed += [noticed] if noticed is not None else []
        all_resumed.append(resumed)
    figure(
        f"{freezes} standstills over {transport}",
        f"noticed within {max(all_noticed):.1f} s, resumed within {max(all_resumed):.1f} s, "
        "bit-identical",
        "15 s, 6 s",
    )
    assert max(all_resumed) <= RESUMED_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tls", "grpc"])
def test_a_peer_that_lost_power_comes_back(
    long_run, folder, identities, far_link, transport, figure
):
    near = Round(long_run).finish()
    link = far_link(round_trip=0.01)
    moved = far(link, long_run, folder / "power", identities, transport)
    playing = Round(moved)
    try:
        playing.wait_for(lambda: playing.steps >= WAITING)
        link.cut()  # so that nobody hears the connection end
        playing.kill("other")
        link.restore()
        before = playing.answered
        playing.start("other")
        back = playing.wait_for(lambda: playing.answered > before, 60)
        assert playing.finish() == near
    finally:
        playing.end()
    figure(f"peer lost power, {transport}", f"back in {back:.1f} s", "15 s")
    assert back <= NOTICED_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tls", "grpc"])
def test_a_drip_ends_at_the_deadline_and_fills_no_memory(
    plan, folder, identities, far_link, transport, figure
):
    """1 KiB a second, where a message has 512 KiB."""
    deadlines = {**plan.deadlines, "step": 8.0}
    plan = replace(
        plan, records=4096, batch_size=1024, cut_width=128, epochs=40, deadlines=deadlines, wait=240
    )
    near = Round(plan).finish()
    link = far_link(round_trip=0.01)
    moved = far(link, plan, folder / "drip", identities, transport)
    playing = Round(moved)
    try:
        playing.wait_for(lambda: playing.steps >= 20)
        pids = {party: process.pid for party, process in playing.processes.items()}
        before = {party: resident_mib(pid) for party, pid in pids.items()}
        link.change_rate(8 * 1024)
        began, most = time.monotonic(), dict(before)
        while not (notices(moved, "label") and notices(moved, "other")):
            assert time.monotonic() < began + 60
            for party, pid in pids.items():
                most[party] = max(most[party], resident_mib(pid))
            time.sleep(0.05)
        noticed = time.monotonic() - began
        grown = max(most[party] - before[party] for party in pids)
        link.change_rate(500e6)
        assert playing.finish() == near
    finally:
        playing.end()
    figure(
        f"1 KiB/s drip, {transport}",
        f"ended after {noticed:.1f} s with a deadline of 8 s, RSS +{grown:.1f} MiB, bit-identical",
        "RSS +32 MiB",
    )
    assert grown < 32
