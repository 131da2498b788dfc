"""What is gRPC's own: pieces, headers on the wire, keepalive."""

import asyncio
import struct
import zlib

import grpc
import pytest
import torch
from grpc import aio

from cutlayer.errors import ConnectionLostError, DeadlineError, ProtocolError
from cutlayer.protocol.codec import encode
from cutlayer.protocol.messages import Kind, Message
from cutlayer.protocol.transports.event_loop import EventLoop
from cutlayer.protocol.transports.grpc_endpoints import _CLIENT, _SERVER
from cutlayer.protocol.transports.grpc_transport import PIECE_BYTES
from tests.protocol.networks import meet

HEADER = encode(Message(Kind.GRADIENT, 0, torch.zeros(1, 1, dtype=torch.uint8)), "run")[0]


def header_for(size):
    """A header that announces one row of this many bytes."""
    head = HEADER[:28] + struct.pack("<IQI", size, size, 0)
    return head + struct.pack("<I", zlib.crc32(head))


class RawPeer:
    """The pinned peer, with a client of its own that sends any pieces and calls any method."""

    def __init__(self, address, identity, method="/cutlayer.Session/Exchange"):
        self._loop = EventLoop.shared()

        async def connect():
            credentials = grpc.ssl_channel_credentials(
                identity.peer_pem, identity.key_pem, identity.certificate_pem
            )
            options = [("grpc.ssl_target_name_override", "label-party.cutlayer")]
            channel = aio.secure_channel(str(address), credentials, options=options)
            return channel, channel.stream_stream(method)()

        self.channel, self.call = self._loop.run(connect(), 10)

    def run(self, work):
        return self._loop.run(work, 10)

    def send(self, *pieces):
        for piece in pieces:
            self.run(self.call.write(piece))

    def close(self):
        self.call.cancel()
        self.run(self.channel.close())


@pytest.fixture
def listener(networks):
    with networks["grpc"].listener() as listening:
        yield listening


@pytest.fixture
def raw(listener, networks):
    peer = RawPeer(listener.address, networks["grpc"].other)
    yield peer
    peer.close()


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([b""], "48 bytes"),
        ([b"x" * 10], "48 bytes"),
        ([b"GET / HTTP/1.1" + bytes(50)], "CUTL"),
        ([header_for(4) + b"abc"], "51 bytes where 52"),
        ([header_for(4) + b"abcde"], "53 bytes where 52"),
        ([header_for(4)], "48 bytes where 52"),
        ([header_for(PIECE_BYTES) + bytes(99)], f"147 bytes where {PIECE_BYTES}"),
        ([header_for(PIECE_BYTES) + bytes(PIECE_BYTES - 48), bytes(47)], "47 bytes where 48"),
        ([header_for(PIECE_BYTES) + bytes(PIECE_BYTES - 48), b""], "0 bytes where 48"),
    ],
    ids=range(9),
)
def test_i1_pieces_that_are_not_as_the_header_says(listener, raw, pieces, told):
    """I1 and I6: a message has exactly one form, so ten thousand tiny pieces are no message."""
    here = listener.meet(deadline=10)
    raw.send(*pieces)
    with pytest.raises(ProtocolError, match=told):
        here.receive(lambda header: None, deadline=10)


def test_a_piece_above_the_limit_ends_the_stream(listener, raw):
    here = listener.meet(deadline=10)
    raw.send(header_for(2 * PIECE_BYTES) + bytes(PIECE_BYTES))
    with pytest.raises(ConnectionLostError):
        here.receive(lambda header: None, deadline=10)


def test_another_method_reaches_nobody(listener, networks):
    peer = RawPeer(listener.address, networks["grpc"].other, "/cutlayer.Session/Other")

    async def code():
        return await peer.call.code()

    assert peer.run(code()) is grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(DeadlineError):
        listener.meet(deadline=0.1)
    peer.close()


def test_s3_the_answer_names_no_compression(listener, networks):
    """S3: no grpc-encoding header comes back, and no option asks for compression."""
    peer = RawPeer(listener.address, networks["grpc"].other)

    async def initial():
        return await peer.call.initial_metadata()

    assert "grpc-encoding" not in [key for key, _ in peer.run(initial())]
    assert not [name for name, _ in (*_CLIENT, *_SERVER) if "compress" in name]
    peer.close()
    listener.meet(deadline=10)


def test_the_server_allows_pings_more_often_than_the_client_sends_them():
    """Else it ends the connection with too_many_pings; gRPC's default is one in five minutes."""
    client, server = dict(_CLIENT), dict(_SERVER)
    allowed = server["grpc.http2.min_ping_interval_without_data_ms"]
    assert allowed < client["grpc.keepalive_time_ms"]
    noticed = client["grpc.keepalive_time_ms"] + client["grpc.keepalive_timeout_ms"]
    assert noticed <= 15_000
    assert client["grpc.http2.ping_timeout_ms"] == client["grpc.keepalive_timeout_ms"]


@pytest.mark.slow
def test_an_idle_connection_outlives_many_pings(networks):
    """Three strikes would end it within half a minute."""
    network = networks["grpc"]
    with network.listener() as listener, network.connector(listener.address) as connector:
        here, there = meet(listener, connector)
        EventLoop.shared().run(asyncio.sleep(60), 90)
        here.send(HEADER, memoryview(b"x"), deadline=5)
        assert there.receive(lambda header: None, deadline=5)[1] == b"x"
        listener.close()
