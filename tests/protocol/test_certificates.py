"""C2: whose connection is accepted, case by case, at both ends and over both secured transports.

A stranger here speaks TLS by Python's own library, without any of cutlayer's code.
"""

import contextlib
import dataclasses
import socket
import ssl
import threading
import time
import warnings

import pytest

from cutlayer.errors import ConfigurationError, DeadlineError, PeerRefusedError
from cutlayer.protocol import Address, Identity, Role
from cutlayer.protocol.identity import name_of
from cutlayer.protocol.transports.probe import probe
from cutlayer.protocol.transports.stream import GREETING
from tests.protocol.certificates import USE, make
from tests.protocol.networks import make_identities, meet

NOT_YET_OVER = 0.3
FIRST_WORDS = {
    "tls": GREETING,
    "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5),
}


@dataclasses.dataclass
class Case:
    """What a stranger shows, and what this party has pinned (``None``: the right peer)."""

    shown: object = None
    pinned: object = None
    highest: ssl.TLSVersion | None = None


def cases(role, identities):
    """The table of C2, for strangers that play ``role``."""
    right = identities[role]
    own = identities[role.peer]
    authority = make(role, ca=True, usages=False)
    expired = make(role, days=(-9, -1))
    return {
        "no certificate": Case(shown=None),
        "a foreign authority's": Case(shown=make(role, issuer=authority)),
        "a stranger's own": Case(shown=make(role)),
        "expired": Case(shown=expired, pinned=expired),
        "of the other role": Case(shown=make(role, use=USE[role.peer])),
        "another name": Case(shown=make(role, name="someone-else.cutlayer")),
        "this party's own": Case(shown=own),
        "TLS 1.1": Case(shown=right, highest=ssl.TLSVersion.TLSv1_1),
        "TLS 1.2": Case(shown=right, highest=ssl.TLSVersion.TLSv1_2),
        "the right one": Case(shown=right),
    }


NAMES = [
    "no certificate",
    "a foreign authority's",
    "a stranger's own",
    "expired",
    "of the other role",
    "another name",
    "this party's own",
    "TLS 1.1",
    "TLS 1.2",
    "the right one",
]


def accepted(name, transport):
    """The right certificate; and gRPC cannot be told to refuse TLS 1.2 (documented)."""
    return name == "the right one" or (name == "TLS 1.2" and transport == "grpc")


def context_of(kind, case, transport, folder):
    """A plain TLS context that shows the case's certificate and checks nothing itself."""
    context = ssl.SSLContext(kind)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if case.shown is not None:
        if hasattr(case.shown, "files"):
            context.load_cert_chain(*case.shown.files(folder / "shown"))
        else:
            context.load_cert_chain(case.shown.certificate_file, case.shown.key_file)
    if case.highest is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = case.highest
        if case.highest is ssl.TLSVersion.TLSv1_1:
            context.set_ciphers("ALL:@SECLEVEL=0")
    if transport == "grpc":
        context.set_alpn_protocols(["h2"])
    return context


def pinning(identity, case):
    """An identity that has pinned the case's certificate, when that was still valid."""
    if case.pinned is None:
        return identity
    return dataclasses.replace(identity, peer=case.pinned.certificate)


@pytest.mark.parametrize("name", NAMES)
def test_c2_who_may_connect_to_the_label_party(secured, identities, tmp_path, name):
    """C2: one certificate opens; with every other one nothing reaches the party."""
    case = cases(Role.NON_LABEL, identities)[name]
    context = context_of(ssl.PROTOCOL_TLS_CLIENT, case, secured.name, tmp_path)
    with secured.listener(identity=pinning(secured.label, case)) as listener:
        target = (listener.address.host, listener.address.port)
        answer, began = b"", time.monotonic()
        with (
            contextlib.suppress(OSError),
            socket.create_connection(target, timeout=10) as raw,
            context.wrap_socket(raw, server_hostname=name_of(Role.LABEL)) as tls,
        ):
            tls.sendall(FIRST_WORDS[secured.name])
            answer = tls.recv(100)
        took = time.monotonic() - began
        if accepted(name, secured.name):
            # cutlayer's greeting, or HTTP/2's first frame (SETTINGS is type 4).
            assert answer == GREETING if secured.name == "tls" else answer[3] == 4
            return
        assert answer == b""
        assert took < 4  # refused by an alert and not by the deadline; measured 3 to 20 ms
        with pytest.raises(DeadlineError):
            listener.meet(deadline=NOT_YET_OVER)


@pytest.mark.parametrize("name", NAMES)
def test_c2_whom_the_non_label_party_talks_to(secured, identities, tmp_path, monkeypatch, name):
    """C2 the other way: nothing is sent to a label party with another certificate."""
    monkeypatch.setattr("cutlayer.protocol.transports.reconnect.backoff", lambda: iter([0.01] * 99))
    case = cases(Role.LABEL, identities)[name]
    if name == "no certificate":
        pytest.skip("a TLS server always shows one")
    context = context_of(ssl.PROTOCOL_TLS_SERVER, case, secured.name, tmp_path)
    heard = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                raw, _ = server.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), raw:
                raw.settimeout(5)
                raw.recv(1, socket.MSG_PEEK)  # wrapping a socket that is already shut leaks it
                with context.wrap_socket(raw, server_side=True) as tls:
                    heard.append(tls.recv(100))

    thread = threading.Thread(target=serve)
    thread.start()
    connector = secured.connector(
        Address(*server.getsockname()), identity=pinning(secured.other, case)
    )
    with pytest.raises(Exception) as caught:  # noqa: PT011  (looked at below)
        connector.meet(deadline=3 if accepted(name, secured.name) else 30)
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    if accepted(name, secured.name):
        assert any(heard)  # it spoke; this server only does not answer in its language
        return
    assert not any(heard)
    assert isinstance(caught.value, PeerRefusedError)
    for word in ("non-label party", "cutlayer pair", "127.0.0.1"):
        assert word in str(caught.value)


def test_c2_a_client_that_is_refused_is_told_likely_causes_and_the_fix(
    secured, tmp_path, monkeypatch, capfd
):
    """In TLS 1.3 the refused side sees a bare end: the message must say what it may mean."""
    monkeypatch.setattr("cutlayer.protocol.transports.reconnect.backoff", lambda: iter([0.01] * 99))
    strangers = make_identities(tmp_path)
    unknown = dataclasses.replace(strangers[Role.NON_LABEL], peer=secured.other.peer)
    with secured.listener() as listener:
        with pytest.raises(PeerRefusedError) as caught:
            secured.connector(listener.address, identity=unknown).meet(deadline=30)
        for word in ("non-label party", str(listener.address), "has not paired", "cutlayer pair"):
            assert word in str(caught.value)
        if secured.name == "tls":  # and the label party's operator learns of it as well
            with pytest.raises(DeadlineError, match=r"refused.*cutlayer pair"):
                listener.meet(deadline=0.05)
    assert capfd.readouterr().err == ""  # no library writes to the terminal behind our back


@pytest.mark.parametrize("role", list(Role))
def test_c2_a_certificate_of_another_name_or_use_cannot_even_be_pinned(identities, role):
    """C2: gRPC looks at neither, so no identity exists that trusts such a certificate."""
    for wrong in (
        make(role.peer, use=USE[role]),
        make(role.peer, name="someone-else.cutlayer"),
        make(role),
        make(role.peer, ca=True),
        make(role.peer, usages=False),
    ):
        with pytest.raises(ConfigurationError, match=f"{role.value}: the pinned certificate"):
            dataclasses.replace(identities[role], peer=wrong.certificate)


@dataclasses.dataclass(frozen=True)
class Credulous(Identity):
    """An identity whose TLS lets another certificate in than the pinned one."""

    let_in: bytes = b""

    @property
    def peer_pem(self):
        return self.let_in


def trusting(identity, certificate_pem):
    """The same identity, for whom TLS alone would let this certificate in."""
    parts = {field.name: getattr(identity, field.name) for field in dataclasses.fields(identity)}
    return Credulous(**parts, let_in=certificate_pem)


def test_c2_the_label_party_compares_with_the_pinned_certificate_itself(
    secured, tmp_path, monkeypatch
):
    """Also where TLS has let somebody else in, nothing of him reaches the party."""
    monkeypatch.setattr("cutlayer.protocol.transports.reconnect.backoff", lambda: iter([0.01] * 99))
    stranger = make_identities(tmp_path)[Role.NON_LABEL]
    stranger = dataclasses.replace(stranger, peer=secured.other.peer)
    credulous = trusting(secured.label, stranger.certificate_pem)
    with secured.listener(identity=credulous) as listener:
        with (
            secured.connector(listener.address, identity=stranger) as connector,
            contextlib.suppress(PeerRefusedError),  # over gRPC it may only notice when it speaks
        ):
            connector.meet(deadline=30)
        with pytest.raises(DeadlineError, match="certificate is not the pinned one"):
            listener.meet(deadline=0.05)


def test_c2_the_non_label_party_compares_with_the_pinned_certificate_itself(
    networks, tmp_path, monkeypatch
):
    """gRPC at this end shows no certificate: there the pinned one alone is trusted by TLS."""
    monkeypatch.setattr("cutlayer.protocol.transports.reconnect.backoff", lambda: iter([0.01] * 99))
    network = networks["tls"]
    stranger = make_identities(tmp_path)[Role.LABEL]
    stranger = dataclasses.replace(stranger, peer=network.label.peer)
    credulous = trusting(network.other, stranger.certificate_pem)
    with network.listener(identity=stranger) as listener:
        with (
            network.connector(listener.address, identity=credulous) as connector,
            pytest.raises(PeerRefusedError, match="certificate is not the pinned one"),
        ):
            connector.meet(deadline=30)
        with pytest.raises(PeerRefusedError, match="certificate is not the pinned one"):
            probe(listener.address, credulous)


def test_c2_the_label_partys_name_is_checked_beside_its_certificate(secured, tmp_path, monkeypatch):
    """A certificate that was pinned although it names another role or host opens nothing."""
    monkeypatch.setattr("cutlayer.protocol.transports.reconnect.backoff", lambda: iter([0.01] * 99))
    for name, accepted_ in ((name_of(Role.LABEL), True), ("someone-else.cutlayer", False)):
        made = make(Role.LABEL, name=name)
        certificate_file, key_file = made.files(tmp_path / name)
        label = Identity(Role.LABEL, key_file, certificate_file, secured.label.peer)
        other = dataclasses.replace(secured.other)
        object.__setattr__(other, "peer", made.certificate)  # past the check of what may be pinned
        with (
            secured.listener(identity=label) as listener,
            secured.connector(listener.address, identity=other) as connector,
        ):
            if accepted_:
                meet(listener, connector)
                continue
            with pytest.raises(PeerRefusedError):
                connector.meet(deadline=30)
            if secured.name == "tls":
                with pytest.raises(PeerRefusedError):
                    probe(listener.address, other)


def test_c3_version_and_cipher_are_recorded(secured):
    """C3: what was negotiated stands in the description; gRPC says that it does not tell."""
    with secured.listener() as listener, secured.connector(listener.address) as connector:
        for transport in meet(listener, connector):
            said = transport.describe()
            if secured.name == "tls":
                assert said.startswith("TLSv1.3 TLS_")
            else:
                assert "TLS 1.2 or 1.3 (gRPC does not tell which" in said
            assert "127.0.0.1" in said
        listener.close()
