"""TLS over a socket, for one thread that sends and one that receives.

OpenSSL forbids to read and write one connection from two threads at once. Here it never touches
the socket: it turns plain bytes into records and back in memory, under a lock that nobody holds
while waiting for the network.
"""

import ssl
import threading
from contextlib import suppress
from typing import Protocol, cast

from cutlayer.errors import ConnectionLostError, PeerRefusedError
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.deadline_socket import DeadlineSocket
from cutlayer.protocol.transports.refusal import other_transport

_PIECE_BYTES = 1 << 16
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL")
"""OpenSSL's words for bytes that are no record of TLS."""


class ByteChannel(Protocol):
    """What a stream needs: a plain socket has it, and TLS over one."""

    def send_all(self, data: memoryview, clock: Clock) -> None:
        """Send everything."""

    def receive_into(self, view: memoryview, clock: Clock) -> int:
        """Read at least one byte; 0 means that nothing more comes."""

    def finish(self, seconds: float) -> None:
        """End in order."""

    def cut(self) -> None:
        """End at once."""


class TlsChannel:
    """A :class:`ByteChannel` that encrypts."""

    def __init__(
        self, connected: DeadlineSocket, context: ssl.SSLContext, server_name: str | None
    ) -> None:
        """Wrap a socket.

        Args:
            connected: the socket.
            context: of the own identity.
            server_name: the name that the certificate must have, at the side that connects.
        """
        self._socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._lock = threading.Lock()
        self._records = bytearray(_PIECE_BYTES)

    @property
    def version_and_cipher(self) -> str:
        """What was negotiated, for example ``TLSv1.3 TLS_AES_256_GCM_SHA384``."""
        cipher = self._tls.cipher()
        return f"{self._tls.version()} {cipher[0] if cipher else 'without a cipher'}"

    @property
    def protocol(self) -> str | None:
        """What both sides said that they speak inside TLS (ALPN); ``None`` for nothing shared."""
        return self._tls.selected_alpn_protocol()

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, after the handshake."""
        return self._tls.getpeercert(binary_form=True)

    def shake_hands(self, clock: Clock) -> None:
        """Authenticate both sides.

        Raises:
            PeerRefusedError: the peer's certificate was refused, or it refused ours.
            ProtocolError: what came is no TLS.
            ConnectionLostError, DeadlineError: as the socket's.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(clock)
                self._feed(clock)
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
                raise ConnectionLostError(
                    "The connection was closed before the peer showed its certificate."
                ) from error
            except ssl.SSLError as error:
                with suppress(ConnectionLostError):
                    self._flush(clock)  # the alert that tells the peer
                if error.reason in _NO_TLS:
                    raise other_transport(
                        f"This party speaks TLS, and what came is none ({_reason(error)})"
                    ) from error
                raise PeerRefusedError(_reason(error)) from error
            else:
                self._flush(clock)
                return

    def send_all(self, data: memoryview, clock: Clock) -> None:
        """Encrypt and send everything; see :class:`DeadlineSocket` for the errors."""
        for start in range(0, data.nbytes, _PIECE_BYTES):
            with self._lock:
                try:
                    self._tls.write(data[start : start + _PIECE_BYTES])
                except ssl.SSLError as error:
                    raise ConnectionLostError(
                        f"The connection to the peer broke ({_reason(error)})."
                    ) from error
            self._flush(clock)

    def receive_into(self, view: memoryview, clock: Clock) -> int:
        """Receive and decrypt at least one byte; 0 means that nothing more comes.

        Raises:
            PeerRefusedError: the peer says that it does not accept our certificate.
            ConnectionLostError, DeadlineError: as the socket's.
        """
        while True:
            with self._lock:
                try:
                    count = self._tls.read(view.nbytes, view)
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    return 0
                except ssl.SSLError as error:
                    raise PeerRefusedError(_reason(error)) from error
                else:
                    return cast(int, count)  # typeshed knows only the form without a buffer
            self._feed(clock)

    def finish(self, seconds: float) -> None:
        """Say that nothing more comes, let the peer finish, and close."""
        with suppress(ssl.SSLError, ConnectionLostError):
            with self._lock, suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
            self._flush(Clock(seconds, "the peer to take the end"))
        self._socket.finish(seconds)

    def cut(self) -> None:
        """End the connection at once."""
        self._socket.cut()

    def _flush(self, clock: Clock) -> None:
        """Send the records that are ready."""
        with self._lock:
            records = self._outgoing.read()
        if records:
            self._socket.send_all(memoryview(records), clock)

    def _feed(self, clock: Clock) -> None:
        """Receive some records."""
        view = memoryview(self._records)
        count = self._socket.receive_into(view, clock)
        with self._lock:
            if count:
                self._incoming.write(view[:count])
            else:
                self._incoming.write_eof()


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's word for what went wrong, with the certificate rule where it names one."""
    said = getattr(error, "verify_message", None) or (error.reason or str(error))
    return str(said).replace("_", " ").lower()
