"""The seam for whoever watches a run: progress, events, and the way to the peer."""

from typing import Protocol

from cutlayer.parties.events import Event
from cutlayer.parties.observers import ProgressObserver
from cutlayer.protocol import Endpoint


class RunMonitor(ProgressObserver, Protocol):
    """Watches one party's run from inside, and changes nothing in it."""

    def on_event(self, event: Event) -> None:
        """Something happened."""

    def watched(self, endpoint: Endpoint) -> Endpoint:
        """The same endpoint, with someone who looks at its connections."""


class Unmonitored:
    """Nobody watches."""

    def on_progress(self, step: int, steps: int, rows: int) -> None:
        """Look away."""

    def on_event(self, event: Event) -> None:
        """Look away."""

    def watched(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as it is."""
        return endpoint
