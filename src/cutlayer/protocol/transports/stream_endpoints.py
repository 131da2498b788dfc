"""Endpoints of the stream transport: TLS 1.3 with pinned certificates, or plain on loopback."""

import socket
import ssl
from contextlib import suppress

from typing_extensions import override

from cutlayer.errors import (
    ConfigurationError,
    ConnectionLostError,
    CutlayerError,
    DeadlineError,
    PeerRefusedError,
    ProtocolError,
)
from cutlayer.protocol.address import Address, require_loopback
from cutlayer.protocol.endpoint import Endpoint
from cutlayer.protocol.identity import Identity, name_of
from cutlayer.protocol.messages import Role
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.acceptor import Acceptor
from cutlayer.protocol.transports.connection_slot import ConnectionSlot
from cutlayer.protocol.transports.connector import Connector
from cutlayer.protocol.transports.deadline_socket import DeadlineSocket
from cutlayer.protocol.transports.reconnect import HANDSHAKE_SECONDS
from cutlayer.protocol.transports.refusal import ALPN, PAIR_AGAIN, no_trust
from cutlayer.protocol.transports.stream import StreamTransport
from cutlayer.protocol.transports.tls_channel import TlsChannel

_ANY_PORT = Address("127.0.0.1", 0)


class StreamListener(Endpoint):
    """The label party's end."""

    def __init__(self, address: Address = _ANY_PORT, identity: Identity | None = None) -> None:
        """Start to listen.

        Args:
            address: where; port 0 takes any that is free.
            identity: of the label party; ``None`` speaks plain text, on loopback only.

        Raises:
            ConfigurationError: the address cannot be used, or is not on loopback.
        """
        if identity is None:
            require_loopback(address)
        self._identity = identity
        self._context = identity.tls_context(ALPN) if identity else None
        self._reception: ConnectionSlot[StreamTransport] = ConnectionSlot()
        self._door = Acceptor(listen(address), self._authenticate, self._reception.arrive)
        self.address = Address(address.host, self._door.port)
        """Where it listens, with the port that was taken."""

    @override
    def meet(self, *, deadline: float) -> StreamTransport:
        return self._reception.meet(
            Clock(deadline, f"the non-label party to connect to {self.address}")
        )

    @override
    def describe(self) -> str:
        return f"{_security(self._identity)}, listening on {self.address}"

    @override
    def close(self) -> None:
        self._door.close()
        self._reception.close()

    def _authenticate(self, connected: socket.socket) -> StreamTransport | None:
        """Find out whether it is the peer that came."""
        clock = Clock(HANDSHAKE_SECONDS, "a handshake")
        who = "an unknown address"
        try:
            who = _address_of(connected)
            transport = _open(connected, self._identity, self._context, clock)
            transport.welcome(clock)
        except (CutlayerError, OSError) as error:
            fix = f" {PAIR_AGAIN}" if isinstance(error, PeerRefusedError) else ""
            self._reception.refuse(f"{str(error).rstrip('.')} ({who}).{fix}")
            with suppress(OSError):
                connected.close()
            return None
        return transport


class StreamConnector(Connector[StreamTransport]):
    """The non-label party's end."""

    def __init__(self, address: Address, identity: Identity | None = None) -> None:
        """Prepare to connect.

        Args:
            address: of the label party.
            identity: of the non-label party; ``None`` speaks plain text, on loopback only.

        Raises:
            ConfigurationError: without an identity, the address is not on loopback.
        """
        if identity is None:
            require_loopback(address)
        super().__init__(address, _security(identity))
        self._identity = identity
        self._context = identity.tls_context(ALPN) if identity else None

    @override
    def _attempt(self, seconds: float) -> StreamTransport:
        clock = Clock(seconds, f"an answer of {self._address}")
        try:
            connected = socket.create_connection(
                (self._address.host, self._address.port), timeout=clock.remaining()
            )
        except OSError as error:
            raise ConnectionLostError(
                f"Nobody listens on {self._address} ({error.strerror or error})."
            ) from error
        try:
            name = name_of(Role.LABEL)
            transport = _open(connected, self._identity, self._context, clock, server_name=name)
            self._greet(transport, clock)
        except PeerRefusedError as error:
            connected.close()
            raise no_trust(self._address, str(error)) from error
        except ProtocolError as error:
            connected.close()
            raise ProtocolError(f"{Role.NON_LABEL.value}: {error}") from error
        except BaseException:
            connected.close()
            raise
        return transport

    def _greet(self, transport: StreamTransport, clock: Clock) -> None:
        """In TLS 1.3 a refusal of our certificate shows only here, often without a word."""
        try:
            transport.greet(clock)
        except DeadlineError:
            raise
        except ConnectionLostError as error:
            if self._identity is None:
                raise
            raise PeerRefusedError(str(error)) from error


def listen(address: Address) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"label party: cannot listen on {address} ({error.strerror}). Choose a free port, or "
            "0 for any."
        ) from error


def _open(
    connected: socket.socket,
    identity: Identity | None,
    context: ssl.SSLContext | None,
    clock: Clock,
    server_name: str | None = None,
) -> StreamTransport:
    """The transport of a connection; with an identity, after the TLS handshake.

    Raises:
        PeerRefusedError: the certificates do not fit.
        ProtocolError: the other side does not speak TLS.
        ConnectionLostError: the other side went away.
    """
    try:
        who, patient = _address_of(connected), DeadlineSocket(connected)
    except OSError as error:  # it may reset a connection as soon as it is there
        raise ConnectionLostError(
            f"The other side closed the connection at once ({error.strerror or error})."
        ) from error
    if identity is None or context is None:
        return StreamTransport(patient, f"plain text with {who}")
    channel = TlsChannel(patient, context, server_name)
    channel.shake_hands(clock)
    if not identity.is_peer(channel.peer_certificate):
        raise PeerRefusedError("the certificate is not the pinned one")
    return StreamTransport(
        channel, f"{channel.version_and_cipher} with {who}", agreed=channel.protocol == ALPN
    )


def _address_of(connected: socket.socket) -> str:
    """The other end, for messages."""
    host, port = connected.getpeername()[:2]
    return str(Address(host, port))


def _security(identity: Identity | None) -> str:
    """How a stream is protected, in words."""
    return "TLS 1.3 with pinned certificates" if identity else "plain text on loopback"
