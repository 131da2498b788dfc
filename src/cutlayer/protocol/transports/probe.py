"""The probe: a TLS handshake with the label party that begins no session.

A listener takes a new connection of its peer for the end of the old one, so whoever only wants to
know whether the peer would be met must stop before that: after TLS, before the first byte inside.
"""

import socket
import ssl
from contextlib import suppress

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError, ProtocolError
from cutlayer.protocol.address import Address
from cutlayer.protocol.identity import Identity, name_of
from cutlayer.protocol.messages import Role
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.deadline_socket import DeadlineSocket
from cutlayer.protocol.transports.reconnect import HANDSHAKE_SECONDS
from cutlayer.protocol.transports.refusal import ALPN, no_trust, other_transport
from cutlayer.protocol.transports.tls_channel import TlsChannel

_REFUSAL_SECONDS = 2.0
"""A listener that refuses our certificate says so, or hangs up, within a round trip."""
_FAREWELL_SECONDS = 0.5


def probe(
    address: Address,
    identity: Identity | None,
    *,
    grpc: bool = False,
    seconds: float = HANDSHAKE_SECONDS,
) -> str:
    """Connect to the label party as the non-label party would, authenticate, and leave.

    A session that is going on is not disturbed, and none begins.

    Args:
        address: of the label party.
        identity: of the non-label party; ``None`` only connects.
        grpc: whether the label party speaks gRPC inside TLS, else messages alone.
        seconds: until TLS must be negotiated.

    Returns:
        What was negotiated, for example ``TLSv1.3 TLS_AES_256_GCM_SHA384``, or ``plain text``.

    Raises:
        ConnectionLostError: nobody is there, or nobody who lets TLS begin.
        PeerRefusedError: one of the two does not trust the other's certificate.
        ProtocolError: the label party speaks another transport.
    """
    clock = Clock(seconds, f"an answer of {address}")
    try:
        connected = socket.create_connection((address.host, address.port), clock.remaining())
    except OSError as error:
        raise ConnectionLostError(
            f"Nobody listens on {address} ({error.strerror or error})."
        ) from error
    with connected:
        if identity is None:
            return "plain text"
        channel = TlsChannel(
            DeadlineSocket(connected), _context(identity, grpc), name_of(Role.LABEL)
        )
        try:
            channel.shake_hands(clock)
            if grpc and channel.protocol is None:
                raise other_transport("It speaks TLS, and no HTTP/2 inside it")
            if not identity.is_peer(channel.peer_certificate):
                raise PeerRefusedError("the certificate is not the pinned one")  # noqa: TRY301
            _wait_for_refusal(channel)
        except ProtocolError as error:
            raise ProtocolError(f"{Role.NON_LABEL.value}: {address}: {error}") from error
        except PeerRefusedError as error:
            raise no_trust(address, str(error)) from error
        except DeadlineError:
            raise
        except ConnectionLostError as error:
            raise ConnectionLostError(
                f"{address} broke the TLS handshake off ({error}) Look whether insecure_loopback "
                "is equal at both parties."
            ) from error
        negotiated = channel.version_and_cipher
        with suppress(ConnectionLostError):
            channel.finish(_FAREWELL_SECONDS)
    return negotiated


def _context(identity: Identity, grpc: bool) -> ssl.SSLContext:
    """As the transport's own, with what gRPC asks for inside TLS."""
    context = identity.tls_context("h2" if grpc else ALPN)
    if grpc:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _wait_for_refusal(channel: TlsChannel) -> None:
    """In TLS 1.3 the handshake of the connecting side ends before the other has judged it."""
    try:
        # gRPC speaks first; the listener of the other transport waits in silence.
        received = channel.receive_into(memoryview(bytearray(1)), Clock(_REFUSAL_SECONDS, "a word"))
    except DeadlineError:
        return
    except PeerRefusedError:
        raise
    except ConnectionLostError as error:
        raise PeerRefusedError(str(error)) from error
    if not received and channel.protocol is None:
        raise other_transport("It did not name this party's transport in TLS, and hung up")
    if not received:
        raise PeerRefusedError("it hung up after it had seen this party's certificate")
