"""Two parties with different transports: what each is told, and that it is never "no trust"."""

import threading
from itertools import permutations

import pytest

from cutlayer.errors import ConnectionLostError, CutlayerError, ProtocolError
from cutlayer.protocol.transports.probe import probe
from cutlayer.protocol.transports.refusal import require_greeting

TOLD_THE_LABEL_PARTY = {
    ("grpc", "tls"): "gRPC does not tell whom it turned away",
    ("grpc", "plain"): "gRPC does not tell whom it turned away",
    ("tls", "grpc"): "did not name this transport in TLS",
    ("tls", "plain"): "This party speaks TLS, and what came is none",
    ("plain", "grpc"): "The other end speaks TLS, and this party plain text",
    ("plain", "tls"): "The other end speaks TLS, and this party plain text",
}
TOLD_THE_OTHER = {
    ("grpc", "tls"): "did not name this transport in TLS",
    ("tls", "grpc"): "speaks TLS, and no HTTP/2 inside it",
    # Nothing came back that would tell a reason.
    ("plain", "grpc"): "insecure_loopback is true at the label party only",
}


def told(meet):
    with pytest.raises(CutlayerError) as caught:
        meet()
    return str(caught.value)


@pytest.mark.parametrize("pair", list(permutations(("grpc", "tls", "plain"), 2)))
def test_both_learn_what_can_be_known(networks, pair):
    label, other = pair
    said = []
    with (
        networks[label].listener() as listener,
        networks[other].connector(listener.address) as connector,
    ):
        thread = threading.Thread(
            target=lambda: said.append(told(lambda: connector.meet(deadline=2)))
        )
        thread.start()
        at_label = told(lambda: listener.meet(deadline=2))
        thread.join()
    assert TOLD_THE_LABEL_PARTY[pair] in at_label
    assert "transport and insecure_loopback" in at_label
    assert "no trust" not in at_label
    if pair in TOLD_THE_OTHER:
        assert TOLD_THE_OTHER[pair] in said[0]
        assert "non-label party: " in said[0]


@pytest.mark.parametrize(
    ("label", "other", "word"),
    [
        ("grpc", "tls", "did not name this party's transport in TLS"),
        ("tls", "grpc", "speaks TLS, and no HTTP/2 inside it"),
        ("plain", "tls", "broke the TLS handshake off"),
    ],
)
def test_the_doctor_names_another_transport(networks, label, other, word):
    with (
        networks[label].listener() as listener,
        pytest.raises((ProtocolError, ConnectionLostError), match=word) as caught,
    ):
        probe(listener.address, networks["tls"].other, grpc=other == "grpc")
    assert "insecure_loopback" in str(caught.value)


@pytest.mark.parametrize(
    ("came", "told"),
    [
        (b"PRI * HT", "speaks HTTP/2"),  # RFC 9113, 3.4: "PRI * HTTP/2.0\r\n..."
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "speaks TLS"),  # RFC 8446, 5.1: handshake is 22
        (b"\x15\x03\x03\x00\x02\x02\x28", "speaks TLS"),  # and an alert 21
        (b"GET / HT", "does not begin as this transport does"),
    ],
)
def test_first_bytes_are_recognised(came, told):
    with pytest.raises(ProtocolError, match=told):
        require_greeting(came, b"cutlayer")


def test_the_greeting_itself_passes():
    require_greeting(b"cutlayer", b"cutlayer")
