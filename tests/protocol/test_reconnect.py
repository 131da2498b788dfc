import time

import pytest

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports import reconnect as attempts
from cutlayer.protocol.transports.reconnect import Attempts, HungUpError


@pytest.fixture
def rests(monkeypatch):
    """How long each pause was; none is taken."""
    taken: list[float] = []
    monkeypatch.setattr(attempts.time, "sleep", taken.append)
    monkeypatch.setattr(attempts, "backoff", lambda: iter([0.1, 0.2, 0.4, 0.8]))
    return taken


def test_connections_that_end_at_once_are_attempted_ever_more_rarely(rests):
    meeting = Attempts(lambda _: "met")
    for _ in range(4):
        meeting.until_met(Clock(10, "a peer"))
    assert rests == [0.1, 0.2, 0.4]


def test_a_connection_that_outlasts_its_pause_begins_them_anew(rests, monkeypatch):
    now = time.monotonic()
    meeting = Attempts(lambda _: "met")
    for passed in (0, 1, 2, 2):
        monkeypatch.setattr(attempts.time, "monotonic", lambda passed=passed: now + passed)
        meeting.until_met(Clock(10, "a peer"))
    assert rests == [0.1, 0.1, 0.2]


def test_the_last_failure_is_told_once():
    def fail(_: float) -> None:
        raise ConnectionLostError("Nobody listens.")

    with pytest.raises(DeadlineError) as caught:
        Attempts(fail).until_met(Clock(0.3, "the peer"))
    assert str(caught.value).count("The last attempt failed: Nobody listens.") == 1


def test_an_attempt_that_the_deadline_cuts_short_hides_no_reason():
    tried = []

    def fail(seconds: float) -> None:
        tried.append(seconds)
        raise ConnectionLostError("Nobody listens." if len(tried) == 1 else "No answer in 0.0 s.")

    with pytest.raises(DeadlineError, match="failed: Nobody listens"):
        Attempts(fail).until_met(Clock(0.6, "the peer"))
    assert len(tried) > 1


@pytest.mark.parametrize(("error", "attempts_made"), [(PeerRefusedError, 5), (HungUpError, 16)])
def test_a_listener_that_only_hangs_up_is_tried_for_longer(
    rests, monkeypatch, error, attempts_made
):
    """It may be full of strangers. One attempt a second: 5 refusals, or 15 s after the first."""
    monkeypatch.setattr(attempts, "backoff", lambda: iter([1.0] * 99))
    monkeypatch.setattr(attempts.time, "monotonic", lambda: sum(rests))
    made = []

    def attempt(_: float) -> None:
        made.append(1)
        raise error("refused")

    class Patient(Clock):
        def remaining(self):
            return 100.0

    with pytest.raises(error):
        Attempts(attempt).until_met(Patient(100, "a peer"))
    assert len(made) == attempts_made
