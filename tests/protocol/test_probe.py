import socket

import pytest

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError
from cutlayer.protocol import Role
from cutlayer.protocol.address import Address
from cutlayer.protocol.codec import decode, encode
from cutlayer.protocol.messages import Kind, Message
from cutlayer.protocol.transports.probe import probe
from tests.protocol.networks import make_identities, meet


def test_it_tells_what_was_negotiated(secured):
    with secured.listener() as listener:
        negotiated = probe(listener.address, secured.other, grpc=secured.name == "grpc")
    version, cipher = negotiated.split()
    assert version == "TLSv1.3"
    assert cipher.startswith("TLS_")


def test_a_session_that_is_going_on_is_not_disturbed(secured):
    with secured.listener() as listener, secured.connector(listener.address) as connector:
        here, there = meet(listener, connector)
        for _ in range(2):
            probe(listener.address, secured.other, grpc=secured.name == "grpc")
        there.send(*encode(Message(Kind.BYE, fields={}), "run"), deadline=5.0)
        header, payload = here.receive(lambda _: None, deadline=5.0)
        assert decode(header, payload).kind is Kind.BYE
        with pytest.raises(DeadlineError):  # nor would the listener take it for its peer
            listener.meet(deadline=0.3)


def test_strangers_are_refused(secured, tmp_path):
    stranger = make_identities(tmp_path)[Role.NON_LABEL]
    # It knows the label party's certificate, and the label party does not know its own.
    object.__setattr__(stranger, "peer", secured.other.peer)
    with secured.listener() as listener, pytest.raises(PeerRefusedError, match="no trust"):
        probe(listener.address, stranger, grpc=secured.name == "grpc")


def test_a_foreign_label_party_is_refused(secured, tmp_path):
    foreign = make_identities(tmp_path)[Role.LABEL]
    with (
        secured.listener(identity=foreign) as listener,
        pytest.raises(PeerRefusedError, match="no trust"),
    ):
        probe(listener.address, secured.other, grpc=secured.name == "grpc")


def test_nobody_and_somebody_silent(secured, unused_port):
    with pytest.raises(ConnectionLostError, match="Nobody listens"):
        probe(Address("127.0.0.1", unused_port), secured.other)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        with pytest.raises(DeadlineError):
            probe(address, secured.other, seconds=0.3)


def test_without_an_identity_it_only_connects():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert probe(Address(*server.getsockname()), None) == "plain text"
