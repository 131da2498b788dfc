"""Opening: read the own file, meet the peer, and let it know at once if the file is no good."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace

import polars as pl

from cutlayer.data import TableReading, TextSequence
from cutlayer.errors import ConnectionLostError, CutlayerError
from cutlayer.parties.checkpoint import load_encoder, naming
from cutlayer.protocol import (
    Address,
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
    Transport,
    load_identity,
)
from cutlayer.protocol.address import require_loopback
from cutlayer.protocol.interruption import saying_farewell, whole
from cutlayer.protocol.session import code_for
from cutlayer.protocol.transports.backoff import LONGEST_SECONDS
from cutlayer.runs.aligned_records import aligned_records
from cutlayer.runs.configuration import PartyConfiguration
from cutlayer.runs.model_factory import require_model

_LINGER_SECONDS = LONGEST_SECONDS + 1.0
"""How long a listener waits for a peer that is there, and that calls after a pause."""
_CALL_SECONDS = 2.0
_AT_ONCE_SECONDS = 0.05


class _Opening:
    """The time before this party has an endpoint to meet its peer at."""

    is_over = False


_OPENING: ContextVar[_Opening | None] = ContextVar("opening", default=None)


def read_records(configuration: PartyConfiguration, *, predicting: bool = False) -> TableReading:
    """Read the records that take part; if that fails, tell a peer that is waiting before raising.

    These are all records of the party's file, or those that a private alignment found.

    Args:
        configuration: of the party.
        predicting: whether a finished run is to predict them: then exactly the columns that it was
            trained with are read, and no labels.

    Raises:
        ConfigurationError: the identity or the model of this party is not in order.
        DataError: the file breaks a rule, there is no private alignment yet, or the run that is to
            predict has not ended here.
    """
    table_file = configuration.table_file()
    with telling_peer(configuration):
        require_model(configuration)
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
    endpoint = _endpoint(configuration, address, identity)
    if (opening := _OPENING.get()) is not None:
        opening.is_over = True
    if on_listening is not None and isinstance(endpoint, GrpcListener | StreamListener):
        on_listening(endpoint.address.port)
    return endpoint


def _endpoint(
    configuration: PartyConfiguration, address: Address, identity: Identity | None
) -> Endpoint:
    """The endpoint of a role and transport."""
    by_grpc = identity is not None and configuration.transport == "grpc"
    if configuration.role is Role.NON_LABEL:
        if by_grpc and identity is not None:
            return GrpcConnector(address, identity)
        return StreamConnector(address, identity)
    if by_grpc and identity is not None:
        return GrpcListener(address, identity)
    return StreamListener(address, identity)


@contextmanager
def telling_peer(configuration: PartyConfiguration) -> Iterator[None]:
    """What is done before the peer is met: if it ends here, a peer that waits already is told so.

    Once :func:`endpoint_of` has been called, whoever called it answers for that. Within another
    such block, a block does nothing of its own.
    """
    if _OPENING.get() is not None:
        yield
        return
    opening = _Opening()
    before = _OPENING.set(opening)

    def tell(code: ErrorCode) -> None:
        if opening.is_over:
            return
        seconds = _LINGER_SECONDS if configuration.role is Role.LABEL else _CALL_SECONDS
        with suppress(CutlayerError, OSError), endpoint_of(configuration) as endpoint:
            tell_whoever_comes(configuration, endpoint, code, seconds)

    try:
        with saying_farewell(lambda: tell(ErrorCode.STOPPED)):
            identity_of(configuration)  # before a long file is read
            yield
    except BaseException as error:
        with whole():  # a signal waits until the peer is told
            tell(code_for(type(error)))
        raise
    finally:
        _OPENING.reset(before)


def tell_whoever_comes(
    configuration: PartyConfiguration, endpoint: Endpoint, code: ErrorCode, seconds: float
) -> None:
    """End the session of a peer that is there, or comes in time; whether one does not matter."""
    with suppress(CutlayerError, OSError):
        transport = endpoint.meet(deadline=seconds)
        say_end(configuration, transport, code)
        transport.close()


def say_end(configuration: PartyConfiguration, transport: Transport, code: ErrorCode) -> None:
    """Tell a peer that no session follows, or none any more."""
    session = Session(configuration.role, transport, run=configuration.run, deadlines=Deadlines())
    session.abort(code)


@contextmanager
def meeting(configuration: PartyConfiguration, endpoint: Endpoint) -> Iterator[None]:
    """While this party waits for its peer: if it ends here, a peer that is about to come is told.

    A peer that is there calls every two seconds, so who has waited longer has missed nobody.
    """
    began = time.monotonic()
    try:
        yield
    except ConnectionLostError:
        raise
    except BaseException as error:
        if configuration.role is Role.LABEL:
            left = max(_AT_ONCE_SECONDS, began + _LINGER_SECONDS - time.monotonic())
            with whole():
                tell_whoever_comes(configuration, endpoint, code_for(type(error)), left)
        raise


@contextmanager
def met(
    configuration: PartyConfiguration,
    endpoint: Endpoint,
    transport: Transport | None = None,
    *,
    has_left: Callable[[], bool] = bool,
) -> Iterator[None]:
    """While the peer is met: if it ends here, a peer that no session has told so is told.

    Args:
        configuration: of this party.
        endpoint: where the peer may have connected anew, since its old connection was lost.
        transport: to the peer, where this may end before a session begins.
        has_left: whether the farewell was said. What ends this party later may depend on labels,
            and is no affair of the peer's.
    """
    try:
        yield
    except ConnectionLostError:
        raise
    except BaseException as error:
        if has_left():
            raise
        code = code_for(type(error))
        if transport is not None:
            say_end(configuration, transport, code)
        if configuration.role is Role.LABEL:
            tell_whoever_comes(configuration, endpoint, code, _AT_ONCE_SECONDS)
        raise
