"""One contract for every transport."""

import socket
import threading
import time

import pytest
import torch

from cutlayer.errors import (
    ConfigurationError,
    ConnectionLostError,
    DeadlineError,
    ProtocolError,
)
from cutlayer.protocol import TcpListener, connect, in_memory_pair
from cutlayer.protocol.codec import decode, encode
from cutlayer.protocol.messages import Kind, Message


def tcp_pair():
    listener = TcpListener()
    there = connect("127.0.0.1", listener.port, deadline=5)
    here = listener.accept(deadline=5)
    listener.close()
    return here, there


@pytest.fixture(params=[in_memory_pair, tcp_pair], ids=["in memory", "tcp"])
def pair(request):
    here, there = request.param()
    yield here, there
    here.close()
    there.close()


def send(transport, tensor, deadline=5.0):
    transport.send(*encode(Message(Kind.GRADIENT, 0, tensor), "run"), deadline=deadline)


def receive(transport, deadline=5.0):
    return decode(*transport.receive(lambda header: None, deadline=deadline)).tensor


def test_messages_arrive_whole_and_in_order(pair):
    here, there = pair
    for number in range(20):
        send(here, torch.full((number + 1, 3), float(number)))
    for number in range(20):
        assert torch.equal(receive(there), torch.full((number + 1, 3), float(number)))


def test_32_mib_both_ways_at_once_do_not_block_each_other(pair):
    here, there = pair
    big = torch.arange(8 << 20, dtype=torch.float32).reshape(1 << 16, 128)
    got = []

    def answer():
        got.append(receive(there))
        send(there, big)

    thread = threading.Thread(target=answer)
    thread.start()
    send(here, big, deadline=30)
    back = receive(here, deadline=30)
    thread.join()
    assert torch.equal(got[0], big)
    assert torch.equal(back, big)


def test_the_receiver_owns_what_it_received(pair):
    here, there = pair
    sent = torch.ones(2, 2)
    send(here, sent)
    receive(there).mul_(5)
    assert torch.equal(sent, torch.ones(2, 2))


def test_silence_ends_at_the_deadline(pair):
    _, there = pair
    with pytest.raises(DeadlineError, match=r"0\.05 s"):
        receive(there, deadline=0.05)


def test_a_peer_that_goes_away_is_noticed(pair):
    here, there = pair
    here.close()
    here.close()  # twice is harmless
    for _ in range(2):
        with pytest.raises(ConnectionLostError):
            receive(there)


def test_a_refused_header_allocates_nothing_and_raises(pair):
    here, there = pair
    send(here, torch.ones(4, 4))

    def refuse(header):
        raise ProtocolError(f"no {header.kind.name} now")

    with pytest.raises(ProtocolError, match="no GRADIENT now"):
        there.receive(refuse, deadline=5)


def test_traffic_is_counted_to_the_byte(pair):
    here, there = pair
    send(here, torch.ones(4, 8))
    receive(there)
    assert (here.traffic.messages_sent, here.traffic.bytes_sent) == (1, 48 + 4 * 8 * 4)
    assert (there.traffic.messages_received, there.traffic.bytes_received) == (1, 48 + 4 * 8 * 4)


def test_foreign_bytes_are_refused():
    listener = TcpListener()
    stranger = socket.create_connection(("127.0.0.1", listener.port))
    here = listener.accept(deadline=5)
    stranger.sendall(b"GET / HTTP/1.1\r\nHost: label-party.example\r\n\r\n" + bytes(20))
    with pytest.raises(ProtocolError, match="CUTL"):
        receive(here)
    stranger.close()
    here.close()
    listener.close()


def test_a_message_that_drips_ends_at_the_deadline_not_at_each_byte():
    listener = TcpListener()
    stranger = socket.create_connection(("127.0.0.1", listener.port))
    here = listener.accept(deadline=5)
    stop = threading.Event()

    def drip():
        while not stop.wait(0.02):
            try:
                stranger.sendall(b"C")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    began = time.monotonic()
    with pytest.raises(DeadlineError):
        receive(here, deadline=0.3)
    assert time.monotonic() - began >= 0.3
    stop.set()
    thread.join()
    stranger.close()
    here.close()
    listener.close()


def test_a_connection_cut_in_the_middle_of_a_message_is_noticed():
    here, there = tcp_pair()
    header, payload = encode(Message(Kind.GRADIENT, 0, torch.ones(100, 100)), "run")
    here._socket.sendall(header + bytes(payload[:1000]))
    here.close()
    with pytest.raises(ConnectionLostError, match="middle"):
        receive(there)
    there.close()


def test_plain_tcp_stays_on_this_machine():
    for host in ("0.0.0.0", "192.0.2.1", "label-party.example", ""):  # noqa: S104
        with pytest.raises(ConfigurationError, match="loopback"):
            TcpListener(host)
        with pytest.raises(ConfigurationError, match="loopback"):
            connect(host, 1, deadline=0.1)


def test_a_taken_port_is_a_clear_error():
    listener = TcpListener()
    with pytest.raises(ConfigurationError, match=f"port {listener.port}"):
        TcpListener(port=listener.port)
    listener.close()


def test_either_side_may_start_first():
    listener = TcpListener()
    port = listener.port
    listener.close()
    got = []
    thread = threading.Thread(target=lambda: got.append(connect("127.0.0.1", port, deadline=10)))
    thread.start()
    time.sleep(0.2)
    late = TcpListener(port=port)
    here = late.accept(deadline=10)
    thread.join()
    assert got
    here.close()
    got[0].close()
    late.close()


def test_nobody_listening_ends_at_the_deadline():
    listener = TcpListener()
    port = listener.port
    listener.close()
    with pytest.raises(DeadlineError, match=str(port)):
        connect("127.0.0.1", port, deadline=0.2)
