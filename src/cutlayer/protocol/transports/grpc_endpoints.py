"""Endpoints of the gRPC transport: mutual TLS with pinned certificates."""

import asyncio
import ssl
from contextlib import suppress

import grpc
from grpc import aio
from typing_extensions import override

from cutlayer.descriptors import room_for_strangers
from cutlayer.errors import ConfigurationError, ConnectionLostError, ProtocolError
from cutlayer.protocol.address import Address
from cutlayer.protocol.endpoint import Endpoint
from cutlayer.protocol.identity import Identity, name_of
from cutlayer.protocol.messages import Role
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.connection_slot import ConnectionSlot
from cutlayer.protocol.transports.connector import Connector
from cutlayer.protocol.transports.event_loop import EventLoop
from cutlayer.protocol.transports.grpc_transport import PIECE_BYTES, GrpcTransport, Pipe
from cutlayer.protocol.transports.network_transport import PEER_LEFT
from cutlayer.protocol.transports.reconnect import HANDSHAKE_SECONDS, HungUpError
from cutlayer.protocol.transports.refusal import PAIR_AGAIN, UNSEEN, no_trust, other_transport
from cutlayer.protocol.transports.stream_endpoints import listen

_SERVICE, _METHOD = "cutlayer.Session", "Exchange"
_LOOP_SECONDS = 10.0
_STOP_SECONDS = 2.0
_SECURITY = "gRPC over TLS with pinned certificates"
_VERSIONS = "TLS 1.2 or 1.3 (gRPC does not tell which; two current versions take 1.3)"
_UNREACHABLE = ("Connection refused", "No route", "unreachable", "timed out", "DNS", "resolution")
_HUNG_UP = "Handshake read failed"
"""gRPC's words where the other side left before it had seen this party's certificate."""
_KEEPALIVE = [
    # A dead network is noticed after 12 s at most, idle or not.
    ("grpc.keepalive_time_ms", 7000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.ping_timeout_ms", 5000),  # for a process that is stopped: its kernel still answers
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
_BOTH_SIDES = [
    *_KEEPALIVE,
    ("grpc.max_receive_message_length", PIECE_BYTES),
    ("grpc.max_send_message_length", PIECE_BYTES),
    ("grpc.max_metadata_size", 8192),
]
_SERVER = [
    *_BOTH_SIDES,
    # Must lie below the peer's interval of pings, or the server ends the connection for them.
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
    ("grpc.max_concurrent_streams", 4),
    ("grpc.server_handshake_timeout_ms", int(1000 * HANDSHAKE_SECONDS)),
    ("grpc.so_reuseport", 0),
]
_CLIENT = [
    *_BOTH_SIDES,
    ("grpc.ssl_target_name_override", name_of(Role.LABEL)),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.service_config_disable_resolution", 1),
]


class GrpcListener(Endpoint):
    """The label party's end."""

    def __init__(self, address: Address, identity: Identity) -> None:
        """Start to listen.

        Args:
            address: where; port 0 takes any that is free.
            identity: of the label party.

        Raises:
            ConfigurationError: the address cannot be used.
        """
        listen(address).close()  # with gRPC's own words a taken port is hard to recognise
        self._identity = identity
        self._loop = EventLoop.shared()
        self._reception: ConnectionSlot[GrpcTransport] = ConnectionSlot(UNSEEN)
        self._server, port = self._loop.run(self._start(address), _LOOP_SECONDS)
        self.address = Address(address.host, port)
        """Where it listens, with the port that was taken."""

    @override
    def meet(self, *, deadline: float) -> GrpcTransport:
        return self._reception.meet(
            Clock(deadline, f"the non-label party to connect to {self.address}")
        )

    @override
    def describe(self) -> str:
        return f"{_SECURITY}, listening on {self.address}"

    @override
    def close(self) -> None:
        self._reception.close()
        self._loop.run(self._server.stop(_STOP_SECONDS), _LOOP_SECONDS)

    async def _start(self, address: Address) -> tuple[aio.Server, int]:
        """Bind and serve."""
        # One that has not authenticated itself leaves after five seconds, and one beyond at once.
        room = ("grpc.max_allowed_incoming_connections", room_for_strangers())
        server = aio.server(options=[*_SERVER, room], maximum_concurrent_rpcs=4)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._exchange
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),)
        )
        try:
            port = server.add_secure_port(
                str(address),
                grpc.ssl_server_credentials(
                    [(self._identity.key_pem, self._identity.certificate_pem)],
                    root_certificates=self._identity.peer_pem,
                    require_client_auth=True,
                ),
            )
        except RuntimeError as error:
            raise ConfigurationError(f"label party: cannot listen on {address}.") from error
        await server.start()
        return server, port

    async def _exchange(self, _: object, context: "aio.ServicerContext[bytes, bytes]") -> None:
        """One connection of the peer, until either side ends it."""
        (pem,) = context.auth_context().get("x509_pem_cert", [b""])
        if not self._identity.is_peer(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))):
            self._reception.refuse(
                f"its certificate is not the pinned one ({context.peer()}). {PAIR_AGAIN}"
            )
            await context.abort(grpc.StatusCode.UNAUTHENTICATED)
        who = context.peer()
        transport = GrpcTransport(
            self._loop, _ServerPipe(context), f"gRPC over {_VERSIONS} with {who}"
        )
        await context.send_initial_metadata(())  # tells the peer that it was accepted
        self._reception.arrive(transport)
        try:
            await transport.until_over()
        finally:
            await transport.break_off_now(PEER_LEFT)


class GrpcConnector(Connector[GrpcTransport]):
    """The non-label party's end."""

    def __init__(self, address: Address, identity: Identity) -> None:
        """Prepare to connect.

        Args:
            address: of the label party.
            identity: of the non-label party.
        """
        super().__init__(address, _SECURITY)
        self._identity = identity
        self._loop = EventLoop.shared()

    @override
    def _attempt(self, seconds: float) -> GrpcTransport:
        try:
            return self._loop.run(self._connect(), seconds)
        except TimeoutError:
            raise ConnectionLostError(
                f"{self._address} did not answer within {seconds:.1f} s."
            ) from None

    async def _connect(self) -> GrpcTransport:
        """Open a channel of its own, and the only stream on it."""
        options = [*_CLIENT, ("grpc.enable_http_proxy", int(not self._address.is_loopback))]
        channel = aio.secure_channel(
            str(self._address),
            grpc.ssl_channel_credentials(
                root_certificates=self._identity.peer_pem,
                private_key=self._identity.key_pem,
                certificate_chain=self._identity.certificate_pem,
            ),
            options=options,
        )
        try:
            call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(
                f"/{_SERVICE}/{_METHOD}"
            )()
            await call.initial_metadata()
            failure = self._refusal(str(await call.details())) if call.done() else None
        except BaseException:
            await channel.close()
            raise
        if failure is not None:
            await channel.close()
            raise failure
        description = f"gRPC over {_VERSIONS} with {self._address}"
        return GrpcTransport(self._loop, _ClientPipe(channel, call), description)

    def _refusal(self, said: str) -> ConnectionLostError | ProtocolError:
        """Whether nobody was there, or somebody with another transport, or without trust."""
        if any(word in said for word in _UNREACHABLE):
            return ConnectionLostError(f"Nobody listens on {self._address} ({said}).")
        if "ALPN" in said:  # trust is there, and the two say different words inside TLS
            return other_transport(
                f"non-label party: {self._address} speaks TLS, and no HTTP/2 inside it ({said})"
            )
        if _HUNG_UP in said:
            return HungUpError(str(no_trust(self._address, said)))
        return no_trust(self._address, said)


class _ServerPipe(Pipe):
    """The stream as the listening side has it; it ends when the handler returns."""

    def __init__(self, context: "aio.ServicerContext[bytes, bytes]") -> None:
        self._context = context
        self._done = asyncio.Event()
        context.add_done_callback(lambda _: self._done.set())  # type: ignore[arg-type]  # stubs

    @override
    async def read(self) -> bytes | None:
        piece = await self._context.read()
        return piece if isinstance(piece, bytes) else None

    @override
    async def write(self, piece: bytes) -> None:
        await self._context.write(piece)

    @override
    async def finish(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._done.wait(), seconds)

    @override
    async def cut(self) -> None:
        return


class _ClientPipe(Pipe):
    """The stream as the connecting side has it, and its channel."""

    def __init__(self, channel: aio.Channel, call: "aio.StreamStreamCall[bytes, bytes]") -> None:
        self._channel, self._call = channel, call
        self._done = asyncio.Event()
        call.add_done_callback(lambda _: self._done.set())

    @override
    async def read(self) -> bytes | None:
        piece = await self._call.read()
        return piece if isinstance(piece, bytes) else None

    @override
    async def write(self, piece: bytes) -> None:
        await self._call.write(piece)

    @override
    async def finish(self, seconds: float) -> None:
        with suppress(TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
            async with asyncio.timeout(seconds):
                await self._call.done_writing()
                await self._done.wait()
        await self.cut()

    @override
    async def cut(self) -> None:
        self._call.cancel()
        await self._channel.close()
