"""The status of a run: the numbers that the status line, the log and the metrics show."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from cutlayer.audits.live.live_leak import LiveReading
from cutlayer.parties.events import Event, EventKind


class RunStatus:
    """Counts what happens in this start of a run; nothing in it is sent to the peer.

    Args:
        epochs: of the whole run.
        planned_releases: of each record.
        releases: whether this party answers steps, and its journal counts them.
    """

    def __init__(self, *, epochs: int, planned_releases: int, releases: bool) -> None:
        self.epochs = epochs
        self.planned_releases = planned_releases
        self.step = self.steps = self.rows = self.trained_steps = 0
        self.connections = self.checkpoints = 0
        self.bytes_sent = self.bytes_received = 0
        self.seconds_waiting = self.seconds_computing = 0.0
        self.released = 0
        self.leak_auc: float | None = None
        """At the label party: median of the live audit's last readings. It tells about labels."""
        self.connected = False
        self._releases = releases
        self._waiting_since: float | None = None

    @property
    def steps_per_epoch(self) -> int:
        """0 before the first step."""
        return self.steps // self.epochs

    @property
    def epoch(self) -> int:
        """The epoch of the last step, from 1; 0 before the first."""
        return -(-self.step // self.steps_per_epoch) if self.steps_per_epoch else 0

    @property
    def reconnects(self) -> int:
        """Connections after the first."""
        return max(0, self.connections - 1)

    @property
    def used_releases(self) -> int:
        """How often a record was sent at most, over all starts."""
        return -(-self.released // self.steps_per_epoch) if self.steps_per_epoch else 0

    @property
    def waiting_for(self) -> float:
        """Seconds since when this party has been waiting for its peer; 0 if it is not."""
        since = self._waiting_since
        return 0.0 if since is None else time.monotonic() - since

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While this party can do nothing without its peer."""
        began = self._waiting_since = time.monotonic()
        try:
            yield
        finally:
            self._waiting_since = None
            self.seconds_waiting += time.monotonic() - began

    def on_progress(self, step: int, steps: int, rows: int) -> None:
        """One step is done."""
        self.step, self.steps = step, steps
        self.trained_steps += 1
        self.rows += rows
        if self._releases:
            self.released = max(self.released, step)

    def on_event(self, event: Event) -> None:
        """Something happened."""
        if event.kind is EventKind.MET_PEER:
            self.connections += 1
            self.connected = True
        elif event.kind in (EventKind.CONNECTION_LOST, EventKind.STEP_DEADLINE, EventKind.END):
            self.connected = False
        elif event.kind is EventKind.CHECKPOINT:
            self.checkpoints += 1
        elif event.kind is EventKind.HANDSHAKE:
            self.step = event.step or 0
            self.released = max(self.released, event.released or 0)

    def on_reading(self, reading: LiveReading) -> None:
        """The live audit has read a batch."""
        self.leak_auc = reading.median
