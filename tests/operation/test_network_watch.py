import threading
import time

import pytest

from cutlayer.cli.training_progress import sentence_of
from cutlayer.errors import ConnectionLostError, DeadlineError
from cutlayer.operation.network_watch import WatchedEndpoint, WatchedTransport
from cutlayer.operation.status import RunStatus
from cutlayer.parties.events import Event, EventKind
from cutlayer.protocol import OutboxTransport, StreamConnector, StreamListener, in_memory_pair
from cutlayer.protocol.codec import encode
from cutlayer.protocol.messages import Kind, Message

BYE = Message(Kind.BYE, fields={})
BYE_BYTES = sum(len(bytes(part)) for part in encode(BYE, "run"))


def status():
    return RunStatus(epochs=4, planned_releases=4, releases=True)


@pytest.fixture
def ends():
    """A watched end, the other end, its status, and its events."""
    here, there = in_memory_pair()
    watched, events = status(), []
    yield WatchedTransport(here, watched, events.append), there, watched, events
    here.close()
    there.close()


def test_waiting_and_computing_are_told_apart(ends):
    here, there, watched, _ = ends
    here.send(*encode(BYE, "run"), deadline=1.0)
    time.sleep(0.3)  # computes
    timer = threading.Timer(0.5, lambda: there.send(*encode(BYE, "run"), deadline=1.0))
    timer.start()
    seen = []
    look = threading.Timer(0.25, lambda: seen.append(watched.waiting_for))
    look.start()
    here.receive(lambda _: None, deadline=5.0)
    for thread in (timer, look):
        thread.join()
    assert 0.3 <= watched.seconds_computing < 0.45
    assert 0.45 <= watched.seconds_waiting < 2.0
    assert seen[0] >= 0.2
    assert watched.waiting_for == 0.0
    assert (watched.bytes_sent, watched.bytes_received) == (BYE_BYTES, BYE_BYTES)


def test_a_thread_that_only_sends_keeps_nobody_waiting(ends):
    here, there, watched, _ = ends
    there.send(*encode(BYE, "run"), deadline=1.0)
    here.receive(lambda _: None, deadline=1.0)
    waited = watched.seconds_waiting
    outbox = OutboxTransport(here, 2)
    outbox.send(*encode(BYE, "run"), deadline=1.0)
    there.receive(lambda _: None, deadline=1.0)
    assert watched.seconds_waiting == waited
    there.send(*encode(BYE, "run"), deadline=1.0)
    outbox.receive(lambda _: None, deadline=1.0)
    assert watched.bytes_sent == BYE_BYTES  # counted with the next message that is timed
    outbox.close()


def test_a_break_is_told_once_and_by_its_kind(ends):
    here, there, _, events = ends
    with pytest.raises(DeadlineError):
        here.receive(lambda _: None, deadline=0.05)
    there.close()
    with pytest.raises(ConnectionLostError):
        here.receive(lambda _: None, deadline=1.0)
    assert events == [Event(EventKind.STEP_DEADLINE, error="DeadlineError")]


def test_connections_are_counted_and_described():
    watched, events = status(), []

    def on_event(event):
        watched.on_event(event)
        events.append(event)

    with StreamListener() as listener, StreamConnector(listener.address) as connector:
        endpoint = WatchedEndpoint(listener, watched, on_event)
        for _ in range(3):
            there = connector.meet(deadline=5.0)
            endpoint.meet(deadline=5.0).close()
            there.close()
    assert [event.kind for event in events] == [EventKind.MET_PEER] * 3
    assert all(event.channel.startswith("plain text with 127.0.0.1") for event in events)
    assert (watched.connections, watched.reconnects, watched.connected) == (3, 2, True)


def test_the_status_in_words():
    watched = status()
    assert sentence_of(watched) == ""
    watched.on_progress(5, 16, 10)  # 16 steps in 4 epochs: the 5th is in the second
    assert sentence_of(watched) == "epoch 2 of 4"
    assert (watched.epoch, watched.used_releases, watched.released) == (2, 2, 5)
    for _ in range(2):
        watched.on_event(Event(EventKind.MET_PEER))
    assert sentence_of(watched) == "epoch 2 of 4, 1 reconnect"
    with watched.waiting():
        assert sentence_of(watched) == "epoch 2 of 4, 1 reconnect"
        watched._waiting_since -= 7.2
        assert sentence_of(watched) == "epoch 2 of 4, 1 reconnect, waiting for the peer, 7 s"


def test_a_run_that_goes_on_counts_what_was_released_before():
    watched = status()
    watched.on_event(Event(EventKind.HANDSHAKE, step=8, released=11))
    watched.on_progress(9, 16, 10)  # a step that is answered again
    assert (watched.released, watched.used_releases, watched.trained_steps) == (11, 3, 1)
