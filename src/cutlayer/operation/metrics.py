"""Metrics of a run for Prometheus: names and units as its convention asks for."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cutlayer.errors import ConfigurationError
from cutlayer.operation.status import RunStatus
from cutlayer.parties.release_journal import ENTRY_BYTES
from cutlayer.protocol import Address, Role
from cutlayer.protocol.transports.acceptor import Acceptor
from cutlayer.protocol.transports.network_transport import NetworkTransport

_REQUEST_SECONDS = 5.0

if TYPE_CHECKING:
    from prometheus_client import Metric


class MetricsServer:
    """Answers Prometheus at one address, from the status, for as long as the run lasts.

    Args:
        address: where; port 0 takes any that is free.
        status: of the run.
        role: of this party.
        run: its name.

    Raises:
        ConfigurationError: ``prometheus_client`` is not installed, or the address is taken.
    """

    def __init__(self, address: Address, status: RunStatus, role: Role, run: str) -> None:
        try:
            from prometheus_client import CollectorRegistry, MetricsHandler
        except ImportError as error:
            raise ConfigurationError(
                f"{role.value}: metrics need prometheus_client: pip install 'cutlayer[metrics]'."
            ) from error
        registry = CollectorRegistry()
        registry.register(_Collector(status, role, run))
        settings = {"registry": registry, "timeout": _REQUEST_SECONDS}
        self._handler = type("Handler", (MetricsHandler,), settings)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            listening = socket.create_server((address.host, address.port), family=family)
        except OSError as error:
            raise ConfigurationError(
                f"{role.value}: metrics: cannot listen on {address} ({error.strerror})."
            ) from error
        # It keeps idle connections few and short, which a server of one thread each does not.
        self._door: Acceptor[NetworkTransport] = Acceptor(
            listening, self._answer, NetworkTransport.discard
        )
        self.address = Address(address.host, self._door.port)
        """Where it answers, with the port that was taken."""

    def close(self) -> None:
        """Stop answering."""
        self._door.close()

    def _answer(self, connected: socket.socket) -> None:
        """One request and its answer; whoever goes away meanwhile gets none."""
        with connected, suppress(OSError, ValueError):
            self._handler(connected, connected.getpeername(), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Collector:
    """Reads the status whenever it is asked."""

    def __init__(self, status: RunStatus, role: Role, run: str) -> None:
        self._status, self._role = status, role
        self._labels = [role.value, run]

    def collect(self) -> Iterator["Metric"]:
        """All metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        status = self._status
        counters: list[tuple[str, str, float]] = [
            ("steps", "Training steps done in this start.", status.trained_steps),
            ("rows", "Records in these steps.", status.rows),
            ("sent_bytes", "Bytes of messages to the peer.", status.bytes_sent),
            ("received_bytes", "Bytes of messages from the peer.", status.bytes_received),
            ("waiting_seconds", "Time spent waiting for the peer.", status.seconds_waiting),
            ("computing_seconds", "Time between messages.", status.seconds_computing),
            ("reconnects", "Connections after the first.", status.reconnects),
            ("checkpoints", "States written in this start.", status.checkpoints),
        ]
        gauges: list[tuple[str, str, float | None]] = [
            ("last_step", "Steps of the run that are done.", status.step),
            ("planned_steps", "Steps of the whole run.", status.steps),
            ("epoch", "Epoch of the last step, from 1.", status.epoch),
            ("connected", "1 while the peer is connected.", int(status.connected)),
        ]
        if self._role is Role.LABEL:
            gauges += [
                ("journal_entries", "Steps on record, over all starts.", status.released),
                (
                    "journal_bytes",
                    "Bytes of these entries.",
                    status.released * ENTRY_BYTES,
                ),
                ("planned_releases", "Releases planned for a record.", status.planned_releases),
                ("used_releases", "Most releases of a record so far.", status.used_releases),
                ("leak_auc", "PRIVATE: live leak AUC, from labels.", status.leak_auc),
            ]
        for name, meaning, value in counters:
            counter = CounterMetricFamily(f"cutlayer_{name}", meaning, labels=["party", "run"])
            counter.add_metric(self._labels, value)
            yield counter
        for name, meaning, shown in gauges:
            if shown is None:
                continue
            gauge = GaugeMetricFamily(f"cutlayer_{name}", meaning, labels=["party", "run"])
            gauge.add_metric(self._labels, shown)
            yield gauge
