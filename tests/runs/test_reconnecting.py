"""Lost connections: which are waited for, and when a run gives up."""

import pytest

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerEndedError
from cutlayer.protocol import in_memory_pair
from cutlayer.protocol.endpoint import Endpoint
from cutlayer.runs import reconnecting
from cutlayer.runs.reconnecting import until_done


class Acceptor(Endpoint):
    """Lets the peer in at once, as often as it comes."""

    def __init__(self):
        self.met = 0

    def meet(self, *, deadline):
        self.met += 1
        return in_memory_pair()[0]

    def describe(self):
        return "a door"

    def close(self):
        pass


class Clock:
    """Moves when it is told to."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(reconnecting, "time", made)
    return made


def test_a_run_that_makes_no_step_is_given_up_however_often_the_peer_comes_back(clock):
    door, notices = Acceptor(), []

    def attempt(transport):
        clock.now += 30
        raise DeadlineError("silent")

    with pytest.raises(DeadlineError, match="silent"):
        until_done(attempt, door, made=lambda: 7, wait=100, tell=notices.append)
    assert door.met == 4  # after 30, 60, 90 and 120 seconds
    assert "silent for too long" in notices[1]


def test_a_run_that_makes_steps_goes_on_for_as_long_as_it_takes(clock):
    door, steps = Acceptor(), []

    def attempt(transport):
        clock.now += 90
        steps.append(1)
        if len(steps) == 20:
            return "done"
        raise ConnectionLostError("cut")

    done = until_done(attempt, door, made=lambda: len(steps), wait=100, tell=lambda _: None)
    assert (done, door.met) == ("done", 20)


def test_a_peer_that_says_why_it_leaves_ends_the_run(clock):
    def attempt(transport):
        raise PeerEndedError("bye", stopped=True)

    with pytest.raises(PeerEndedError):
        until_done(attempt, Acceptor(), made=lambda: 0, wait=100, tell=lambda _: None)
