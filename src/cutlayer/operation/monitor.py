"""The monitor: keeps a run's status, and feeds its log and its metrics from it."""

import time
from contextlib import ExitStack
from importlib.metadata import version
from types import TracebackType
from typing import Self

from cutlayer.errors import PeerEndedError
from cutlayer.operation.metrics import MetricsServer
from cutlayer.operation.network_watch import WatchedEndpoint
from cutlayer.operation.run_log import STEP, RunLog
from cutlayer.operation.status import RunStatus
from cutlayer.parties.events import Event, EventKind
from cutlayer.protocol import Address, Endpoint, Role
from cutlayer.runs.configuration import FROZEN, PartyConfiguration


class Monitor:
    """Watches one party's run as its configuration asks. A context manager around the run.

    Args:
        configuration: of this party.

    Raises:
        ConfigurationError: metrics cannot be shown where the configuration says.
        StorageError: the log cannot be opened.
    """

    def __init__(self, configuration: PartyConfiguration) -> None:
        self._configuration = configuration
        planned = configuration.applied.planned_releases or configuration.epochs
        self.status = RunStatus(
            epochs=configuration.epochs,
            planned_releases=0 if configuration.protection == FROZEN else planned,
            releases=configuration.role is Role.LABEL and configuration.protection != FROZEN,
        )
        self._log: RunLog | None = None
        self._stack = ExitStack()
        self._began = self._last = time.monotonic()
        self._bytes = 0, 0
        self.metrics_address: Address | None = None

    def watched(self, endpoint: Endpoint) -> Endpoint:
        """The same endpoint, counted and timed."""
        return WatchedEndpoint(endpoint, self.status, self.on_event)

    def on_progress(self, step: int, steps: int, rows: int) -> None:
        """One step is done."""
        status, now = self.status, time.monotonic()
        status.on_progress(step, steps, rows)
        sent, received = status.bytes_sent - self._bytes[0], status.bytes_received - self._bytes[1]
        seconds, self._last = now - self._last, now
        self._bytes = status.bytes_sent, status.bytes_received
        self._write(
            STEP,
            step=step,
            rows=rows,
            seconds=round(seconds, 6),
            bytes_sent=sent,
            bytes_received=received,
        )
        if status.steps_per_epoch and step % status.steps_per_epoch == 0:
            self.on_event(Event(EventKind.EPOCH, step=step))

    def on_event(self, event: Event) -> None:
        """Something happened."""
        status = self.status
        status.on_event(event)
        kind = event.kind
        if kind is EventKind.HANDSHAKE and event.step:
            kind = EventKind.RESUME
        ends = kind in (EventKind.EPOCH, EventKind.END, EventKind.STOP, EventKind.ERROR)
        self._write(
            kind.value,
            step=event.step,
            seconds=None if event.seconds is None else round(event.seconds, 6),
            released=event.released,
            channel=event.channel,
            error=event.error,
            version=version("cutlayer") if kind is EventKind.START else None,
            steps=status.steps if ends else None,
            epoch=status.epoch if ends else None,
            bytes_sent=status.bytes_sent if ends else None,
            bytes_received=status.bytes_received if ends else None,
            reconnects=status.reconnects if ends else None,
        )

    def __enter__(self) -> Self:
        configuration = self._configuration
        with ExitStack() as stack:
            if configuration.log is not None:
                self._log = RunLog(
                    configuration.log,
                    party=configuration.role.value,
                    run=configuration.run,
                    level=configuration.log_level,
                )
                stack.callback(self._log.close)
            if configuration.metrics is not None:
                address = Address.parse(configuration.metrics, "metrics")
                server = MetricsServer(address, self.status, configuration.role, configuration.run)
                self.metrics_address = stack.enter_context(server).address
            self._stack = stack.pop_all()
        self._began = self._last = time.monotonic()
        self.on_event(Event(EventKind.START))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write how it ended."""
        seconds, step = time.monotonic() - self._began, self.status.step
        ending = EventKind.END
        if isinstance(error, KeyboardInterrupt) or (
            isinstance(error, PeerEndedError) and error.stopped
        ):
            ending = EventKind.STOP
        elif error is not None:
            ending = EventKind.ERROR
        name = None if kind is None else kind.__name__
        self.on_event(Event(ending, step=step, seconds=seconds, error=name))
        self._stack.close()

    def _write(self, event: str, **fields: str | int | float | None) -> None:
        """One line of the log, if there is one."""
        if self._log is not None:
            self._log.write(event, **fields)
