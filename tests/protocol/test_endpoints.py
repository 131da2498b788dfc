"""Meeting the peer, and meeting it again, whatever else comes to the port."""

import re
import select
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest
import torch

from cutlayer.errors import ConfigurationError, ConnectionLostError, DeadlineError, ProtocolError
from cutlayer.protocol import Address, StreamConnector, StreamListener
from cutlayer.protocol.codec import decode, encode
from cutlayer.protocol.messages import Kind, Message
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.backoff import FIRST_SECONDS, LONGEST_SECONDS, backoff
from cutlayer.protocol.transports.reconnect import Attempts
from tests.protocol.networks import meet
from tests.protocol.relay import Relay


@pytest.fixture
def listener(network):
    with network.listener() as listening:
        yield listening


@pytest.fixture
def connector(network, listener):
    with network.connector(listener.address) as connecting:
        yield connecting
        listener.close()  # first the listener: then the connector need not wait for its answer


def send(transport, tensor, deadline=5.0):
    transport.send(*encode(Message(Kind.GRADIENT, 0, tensor), "run"), deadline=deadline)


def receive(transport, deadline=5.0):
    return decode(*transport.receive(lambda header: None, deadline=deadline)).tensor


def assert_speak(here, there):
    """Both directions work."""
    for one, other in ((here, there), (there, here)):
        send(one, torch.ones(2, 3))
        assert torch.equal(receive(other), torch.ones(2, 3))


def test_the_peer_is_met_again_after_each_break(listener, connector):
    for number in range(3):
        here, there = meet(listener, connector)
        assert_speak(here, there)
        (here if number % 2 else there).close()
        with pytest.raises(ConnectionLostError):
            receive(there if number % 2 else here)
        here.close()
        there.close()


def test_a_connection_that_comes_anew_ends_the_older_one(network, listener, connector):
    here, _ = meet(listener, connector)
    waiting = []

    def wait():
        try:
            receive(here, deadline=30)
        except ConnectionLostError as error:
            waiting.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    # The peer has lost power: nothing closed its connection, and it comes again.
    with network.connector(listener.address) as again:
        here_anew, there_anew = meet(listener, again)
        thread.join(5)
        assert not thread.is_alive()
        assert "connected anew" in waiting[0]
        assert_speak(here_anew, there_anew)
        here.close()
        listener.close()


def test_only_the_newest_of_several_connections_is_given(network, listener):
    with network.connector(listener.address) as first, network.connector(listener.address) as last:
        old = first.meet(deadline=5)
        time.sleep(0.1)
        new = last.meet(deadline=5)
        time.sleep(0.1)
        here = listener.meet(deadline=5)
        assert_speak(here, new)
        with pytest.raises(ConnectionLostError):
            receive(old)
        with pytest.raises(DeadlineError):
            listener.meet(deadline=0.05)
        listener.close()


def test_either_side_may_start_first(network):
    with network.listener() as early:
        address = early.address
    got = []
    connecting = network.connector(address)
    thread = threading.Thread(target=lambda: got.append(connecting.meet(deadline=30)))
    thread.start()
    time.sleep(0.3)
    with network.listener(address) as late:
        here = late.meet(deadline=30)
        thread.join()
        assert_speak(here, got[0])
    connecting.close()


def test_nobody_listening_ends_at_the_deadline(network):
    with network.listener() as gone:
        address = gone.address
    with (
        network.connector(address) as connecting,
        pytest.raises(DeadlineError, match=f"listen on {address}.*Nobody listens"),
    ):
        connecting.meet(deadline=0.5)


def test_nobody_connecting_ends_at_the_deadline(listener):
    with pytest.raises(DeadlineError, match="non-label party to connect"):
        listener.meet(deadline=0.05)


def test_a_connection_that_is_reset_at_once_is_attempted_again(monkeypatch):
    connect, met = socket.create_connection, []

    def reset(connected, accepted):
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        poll = select.poll()
        poll.register(connected, select.POLLIN)
        assert poll.poll(10_000)

    def reset_the_first(address, timeout):
        if met:
            return connect(address, timeout=timeout)
        with socket.create_server(("127.0.0.1", 0)) as server:
            met.append(connect(server.getsockname(), timeout=timeout))
            reset(met[0], server.accept()[0])
        return met[0]

    monkeypatch.setattr(socket, "create_connection", reset_the_first)
    with StreamListener() as listening, StreamConnector(listening.address) as connecting:
        here, there = meet(listening, connecting)
        assert_speak(here, there)
        here.close()
        there.close()


def test_a_taken_port_is_a_clear_error(network, listener):
    with pytest.raises(ConfigurationError, match=f"cannot listen on {listener.address}"):
        network.listener(listener.address)


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + bytes(99), bytes(500)])
def test_c1_foreign_bytes_reach_nobody_and_disturb_nobody(network, listener, connector, words):
    """C1: what is not a handshake of the peer is closed, and never given to the party."""
    here, there = meet(listener, connector)
    with socket.create_connection((listener.address.host, listener.address.port)) as stranger:
        stranger.sendall(words)
        stranger.settimeout(10)
        with suppress(ConnectionResetError):
            while stranger.recv(1 << 12):  # an alert, or HTTP/2's goodbye, then the end
                pass
    with pytest.raises(DeadlineError):
        listener.meet(deadline=0.2)
    assert_speak(here, there)


def test_c4_silent_connections_are_cut_and_the_peer_still_gets_in(network, listener, connector):
    """C4: 500 connections that say nothing; the peer connects at once, and none of them lasts."""
    target = (listener.address.host, listener.address.port)
    strangers = [socket.create_connection(target, timeout=10) for _ in range(500)]
    try:
        began = time.monotonic()
        here, there = meet(listener, connector)
        assert time.monotonic() - began < 5  # less than any of them may stay; measured 0.02 to 0.3
        assert_speak(here, there)
        strangers[-1].settimeout(20)
        with suppress(ConnectionResetError):
            while strangers[-1].recv(1 << 12):
                pass
        assert_speak(here, there)
    finally:
        for stranger in strangers:
            stranger.close()


def test_c4_half_open_handshakes_give_way(networks):
    """C4: at most four handshakes at once; one that stops in the middle leaves for the peer."""
    network = networks["tls"]
    with network.listener() as listener, network.connector(listener.address) as connector:
        target = (listener.address.host, listener.address.port)
        strangers = [socket.create_connection(target, timeout=10) for _ in range(50)]
        for stranger in strangers:
            stranger.sendall(b"\x16\x03\x01\x02\x00")  # a record header, and no ClientHello
        began = time.monotonic()
        here, there = meet(listener, connector)
        assert time.monotonic() - began < 5
        assert_speak(here, there)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("cutlayer handshake") <= 4
        for stranger in strangers:
            stranger.close()


def test_s3_a_message_takes_its_full_length_on_the_wire(network):
    """S3: nothing compresses, so no size tells what is in a message. Zeros and noise take alike."""
    size, lengths = 2 << 20, []
    for content in (torch.zeros(1, size), torch.rand(1, size, generator=torch.Generator())):
        message = (256 * content).to(torch.uint8)
        with (
            network.listener() as listener,
            Relay("127.0.0.1", listener.address.port) as relay,
            network.connector(Address("127.0.0.1", relay.port)) as connector,
        ):
            here, there = meet(listener, connector)
            for one, other in ((here, there), (there, here)):
                thread = threading.Thread(target=send, args=(one, message, 30))
                thread.start()
                assert torch.equal(receive(other, 30), message)
                thread.join()
            lengths.append(relay.copied)
            listener.close()
    assert min(lengths) >= 2 * (size + 48)
    # TLS records and HTTP/2 frames, window updates and pings add a little, whatever is inside.
    assert max(lengths) <= 2 * (size + 48) * 1.02


def test_c1_plain_text_stays_on_this_machine():
    """C1: without an identity every address but loopback is refused, before anything listens."""
    for host in ("0.0.0.0", "192.0.2.1", "label-party.example", "::", "::ffff:192.0.2.1"):  # noqa: S104
        for kind in (StreamListener, StreamConnector):
            with pytest.raises(ConfigurationError, match="loopback"):
                kind(Address(host, 1))


NO_ADDRESSES = {
    "7700": "missing",
    ":7700": "missing",
    "host:": "missing",
    "": "missing",
    "host:x": "up to 65535",
    "host:65536": "up to 65535",
    "host:99999": "up to 65535",
    "host:000080": "up to 65535",
    "host:-1": "up to 65535",
    "host:+1": "up to 65535",
    "host:1_0": "up to 65535",
    "https://label-party.example:7700": "scheme",
    "//label-party.example:7700": "path",
    "label-party.example:7700/run": "path",
    "label-party.example/run:7700": "path",
    "user@label-party.example:7700": "user",
    " label-party.example:7700": "white space",
    "label-party.example : 7700": "white space",
    "label-party.example:7700\n": "white space",
    "127.0.0.1:\N{SUPERSCRIPT TWO}": "ASCII",
    "127.0.0.1:\N{ARABIC-INDIC DIGIT ONE}": "ASCII",
    "127.0.0.\N{SUPERSCRIPT TWO}:80": "ASCII",
    "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example:80": "xn--",
    "::1:7700": "brackets",
    "::1": "brackets",
    "[::1]": "neither|up to",
    "[::1]7700": "neither|up to",
    "[127.0.0.1]:80": "neither",
    "[]:80": "neither",
    "[::1:80": "neither",
    "256.0.0.1:80": "neither",
    "127.1:80": "neither",
    "1.2.3.4.5:80": "neither",
    "-host:80": "neither",
    "a..b:80": "neither",
    "ho\x1b[31mst:80": "neither|brackets",
}


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_an_address_is_host_and_port(text):
    with pytest.raises(ConfigurationError, match=r"address must be HOST:PORT") as caught:
        Address.parse(text)
    assert re.search(NO_ADDRESSES[text], str(caught.value).partition("got ")[2])
    assert repr(text) in str(caught.value)
    assert str(caught.value).isprintable()


def test_addresses_are_read_and_written():
    assert Address.parse("127.0.0.1:7700") == Address("127.0.0.1", 7700)
    assert str(Address.parse("[::1]:80")) == "[::1]:80"
    assert Address.parse("[::1]:80").is_loopback
    assert Address.parse("localhost:80").is_loopback
    assert Address.parse("[fe80::1%eth0]:80") == Address("fe80::1%eth0", 80)
    assert Address.parse("label_party-1.Example.:65535").host == "label_party-1.Example."
    assert Address.parse("xn--bcher-kva.example:080").port == 80
    assert not Address.parse("localhost.example:80").is_loopback


def test_the_backoff_doubles_to_two_seconds_with_full_jitter():
    class Highest:
        def uniform(self, low, high):
            assert low == 0
            return high

    waits = [wait for wait, _ in zip(backoff(Highest()), range(8), strict=False)]
    assert waits == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0]
    drawn = [wait for wait, _ in zip(backoff(), range(100), strict=False)]
    assert all(0 <= wait <= LONGEST_SECONDS for wait in drawn)
    assert drawn[0] <= FIRST_SECONDS
    assert len(set(drawn)) == 100


def test_one_refusal_is_tried_again_and_five_in_a_row_are_told(monkeypatch):
    monkeypatch.setattr("cutlayer.protocol.transports.reconnect.backoff", lambda: iter([0.0] * 99))
    answers = [ProtocolError("x")] * 4 + [ConnectionLostError("y")] + [ProtocolError("z")] * 5

    def attempt(seconds):
        raise answers.pop(0)

    with pytest.raises(ProtocolError, match="z"):
        Attempts(attempt).until_met(Clock(60, "nobody"))
    assert answers == []
