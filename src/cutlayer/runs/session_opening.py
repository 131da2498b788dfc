"""Opening: read the own file, meet the peer, and let it know at once if the file is no good."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from cutlayer.data import TableReading, TextSequence
from cutlayer.errors import CutlayerError
from cutlayer.protocol import (
    Deadlines,
    ErrorCode,
    Role,
    Session,
    TcpListener,
    Transport,
    connect,
)
from cutlayer.runs.aligned_records import aligned_records
from cutlayer.runs.configuration import PartyConfiguration

_FAREWELL_SECONDS = 2.0


def read_records(configuration: PartyConfiguration, *, labelled: bool = True) -> TableReading:
    """Read the records that take part; if that fails, tell a peer that is waiting before raising.

    These are all records of the party's file, or those that a private alignment found.

    Args:
        configuration: of the party.
        labelled: whether the label party needs its labels, as for a training.

    Raises:
        DataError: the file breaks a rule, or there is no private alignment yet.
    """
    table_file = configuration.table_file()
    with _peer_told(configuration):
        reading = table_file.read(configuration.role.value, labelled=labelled)
        return replace(reading, table=aligned_records(configuration, reading.table))


def read_ids(configuration: PartyConfiguration) -> TextSequence:
    """Read the ids of the party's file alone; tells a waiting peer as :func:`read_records` does.

    Raises:
        ConfigurationError: the file's records have no ids.
        DataError: the file breaks a rule.
    """
    table_file = configuration.table_file()
    with _peer_told(configuration):
        return table_file.read_ids(configuration.role.value)


def open_transport(
    configuration: PartyConfiguration, on_listening: Callable[[int], None] | None = None
) -> Transport:
    """Meet the peer: the label party listens, the non-label party connects.

    Args:
        configuration: of this party.
        on_listening: told the port once the label party listens.

    Raises:
        ConfigurationError: the address cannot be used.
        DeadlineError: the peer did not appear in time.
    """
    return _open(configuration, configuration.wait, on_listening)


def _open(
    configuration: PartyConfiguration, seconds: float, on_listening: Callable[[int], None] | None
) -> Transport:
    """Listen or connect."""
    host, port = configuration.endpoint
    if configuration.role is Role.NON_LABEL:
        return connect(host, port, deadline=seconds)
    listener = TcpListener(host, port)
    try:
        if on_listening is not None:
            on_listening(listener.port)
        return listener.accept(deadline=seconds)
    finally:
        listener.close()


@contextmanager
def _peer_told(configuration: PartyConfiguration) -> Iterator[None]:
    """Let a peer that waits know of an error before it is raised."""
    try:
        yield
    except CutlayerError:
        _tell_peer(configuration)
        raise


def _tell_peer(configuration: PartyConfiguration) -> None:
    """End the session of a peer that is there already; whether one is does not matter."""
    with suppress(CutlayerError):
        transport = _open(configuration, _FAREWELL_SECONDS, None)
        Session(configuration.role, transport, run=configuration.run, deadlines=Deadlines()).abort(
            ErrorCode.FAILED
        )
        transport.close()
