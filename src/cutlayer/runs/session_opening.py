"""Opening: read the own file, meet the peer, and let it know at once if the file is no good."""

from collections.abc import Callable
from contextlib import suppress

from cutlayer.data import TableReading
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
from cutlayer.runs.configuration import PartyConfiguration

_FAREWELL_SECONDS = 2.0


def read_records(configuration: PartyConfiguration, *, labelled: bool = True) -> TableReading:
    """Read the party's file; if that fails, tell a peer that is waiting before raising.

    Args:
        configuration: of the party.
        labelled: whether the label party needs its labels, as for a training.

    Raises:
        DataError: the file breaks a rule.
    """
    try:
        return configuration.table_file().read(configuration.role.value, labelled=labelled)
    except CutlayerError:
        _tell_peer(configuration)
        raise


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


def _tell_peer(configuration: PartyConfiguration) -> None:
    """End the session of a peer that is there already; whether one is does not matter."""
    with suppress(CutlayerError):
        transport = _open(configuration, _FAREWELL_SECONDS, None)
        Session(configuration.role, transport, run=configuration.run, deadlines=Deadlines()).abort(
            ErrorCode.FAILED
        )
        transport.close()
