"""Opening: read the own file, meet the peer, and let it know at once if the file is no good."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import polars as pl

from cutlayer.data import TableReading, TextSequence
from cutlayer.errors import CutlayerError
from cutlayer.parties.checkpoint import load_encoder, naming
from cutlayer.protocol import (
    Deadlines,
    Endpoint,
    ErrorCode,
    GrpcConnector,
    GrpcListener,
    Identity,
    Role,
    Session,
    StreamConnector,
    StreamListener,
    load_identity,
)
from cutlayer.protocol.address import require_loopback
from cutlayer.runs.aligned_records import aligned_records
from cutlayer.runs.configuration import PartyConfiguration

_FAREWELL_SECONDS = 2.0


def read_records(configuration: PartyConfiguration, *, predicting: bool = False) -> TableReading:
    """Read the records that take part; if that fails, tell a peer that is waiting before raising.

    These are all records of the party's file, or those that a private alignment found.

    Args:
        configuration: of the party.
        predicting: whether a finished run is to predict them: then exactly the columns that it was
            trained with are read, and no labels.

    Raises:
        ConfigurationError: the identity of this party is not in order.
        DataError: the file breaks a rule, there is no private alignment yet, or the run that is to
            predict has not ended here.
    """
    table_file = configuration.table_file()
    with telling_peer(configuration):
        trained = None
        if predicting:
            with naming(configuration.role):
                trained = load_encoder(configuration.run_folder)
        reading = table_file.read(configuration.role.value, trained=trained)
        table = aligned_records(configuration, reading.table, predicting=predicting)
        whole = None
        if len(table) < len(reading.table):
            whole = replace(reading.table, features=pl.DataFrame())
        return replace(reading, table=table, whole=whole)


def read_ids(configuration: PartyConfiguration) -> TextSequence:
    """Read the ids of the party's file alone; tells a waiting peer as :func:`read_records` does.

    Raises:
        ConfigurationError: the file's records have no ids, or the identity is not in order.
        DataError: the file breaks a rule.
    """
    table_file = configuration.table_file()
    with telling_peer(configuration):
        return table_file.read_ids(configuration.role.value)


def identity_of(configuration: PartyConfiguration) -> Identity | None:
    """The identity that a party speaks with; ``None`` for plain text between two processes.

    Raises:
        ConfigurationError: it is not in order, or plain text would leave this machine.
    """
    if configuration.insecure_loopback:
        require_loopback(configuration.meeting_point)
        return None
    return load_identity(configuration.identity, configuration.role)


def endpoint_of(
    configuration: PartyConfiguration, on_listening: Callable[[int], None] | None = None
) -> Endpoint:
    """Where this party meets its peer: the label party listens, the non-label party connects.

    Args:
        configuration: of this party; its ``transport``, ``identity`` and ``insecure_loopback``
            choose what is spoken.
        on_listening: told the port once the label party listens.

    Raises:
        ConfigurationError: the address cannot be used, or the identity is not in order; nothing
            listens then.
    """
    address, identity = configuration.meeting_point, identity_of(configuration)
    by_grpc = identity is not None and configuration.transport == "grpc"
    if configuration.role is Role.NON_LABEL:
        if by_grpc and identity is not None:
            return GrpcConnector(address, identity)
        return StreamConnector(address, identity)
    listener: GrpcListener | StreamListener
    if by_grpc and identity is not None:
        listener = GrpcListener(address, identity)
    else:
        listener = StreamListener(address, identity)
    if on_listening is not None:
        on_listening(listener.address.port)
    return listener


@contextmanager
def telling_peer(configuration: PartyConfiguration) -> Iterator[None]:
    """What is done before the peer is met: if it fails, a peer that waits already is told so."""
    identity_of(configuration)  # before a long file is read
    try:
        yield
    except CutlayerError:
        _tell_peer(configuration)
        raise


def _tell_peer(configuration: PartyConfiguration) -> None:
    """End the session of a peer that is there already; whether one is does not matter."""
    with suppress(CutlayerError), endpoint_of(configuration) as endpoint:
        transport = endpoint.meet(deadline=_FAREWELL_SECONDS)
        Session(configuration.role, transport, run=configuration.run, deadlines=Deadlines()).abort(
            ErrorCode.FAILED
        )
        transport.close()
