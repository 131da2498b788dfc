"""Keys, certificates and pins on disk."""

import re
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from cutlayer.errors import ConfigurationError
from cutlayer.protocol import Role, create_identity, load_identity, pair
from cutlayer.protocol.identity import fingerprint, word_of
from tests.protocol.certificates import make
from tests.protocol.networks import make_identities


@pytest.fixture
def folder(tmp_path):
    """The label party's identity, paired; the other one stands beside it."""
    make_identities(tmp_path)
    return tmp_path / "label-party"


def test_a_certificate_names_its_role_and_can_do_nothing_else(tmp_path):
    before = datetime.now(UTC)
    for role in Role:
        certificate = create_identity(tmp_path / word_of(role), role, days=30)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [f"{word_of(role)}.cutlayer"]
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        # RFC 5280: id-kp-serverAuth is 1.3.6.1.5.5.7.3.1, id-kp-clientAuth ends in 2.
        last = "1" if role is Role.LABEL else "2"
        assert [use.dotted_string for use in uses] == [f"1.3.6.1.5.5.7.3.{last}"]
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert not limits.ca
        assert certificate.public_key().curve.name == "secp256r1"
        over = certificate.not_valid_after_utc - before
        assert timedelta(days=30) - timedelta(seconds=5) <= over <= timedelta(days=30, minutes=5)


def test_c7_the_key_is_private_and_refused_otherwise(folder):
    """C7: mode 0600 from the start; a key that others can read is not used."""
    key = folder / "label-party.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    load_identity(folder, Role.LABEL)
    for mode in (0o644, 0o640, 0o604, 0o620):
        key.chmod(mode)
        with pytest.raises(ConfigurationError, match=f"{mode:04o}.*chmod 600"):
            load_identity(folder, Role.LABEL)
    key.chmod(0o400)
    load_identity(folder, Role.LABEL)


def test_c6_no_error_quotes_the_key(folder):
    """C6: a broken key is named by its file, and nothing of it is told."""
    begun = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEH"  # what such a file begins with
    (folder / "label-party.key").write_text(f"-----BEGIN PRIVATE KEY-----\n{begun}\n")
    with pytest.raises(ConfigurationError, match=r"label-party\.key is no private key") as caught:
        load_identity(folder, Role.LABEL)
    assert begun not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_key_is_never_overwritten(folder):
    before = (folder / "label-party.key").read_bytes()
    for role in Role:  # nor does one folder hold both parties
        with pytest.raises(ConfigurationError, match="not overwritten"):
            create_identity(folder, role)
    assert (folder / "label-party.key").read_bytes() == before


def test_pairing_gives_both_sides_the_same_two_fingerprints(tmp_path):
    certificates = {role: create_identity(tmp_path / word_of(role), role) for role in Role}
    told = {}
    for role in Role:
        sent = tmp_path / word_of(role.peer) / f"{word_of(role.peer)}.crt"
        found, own, peer = pair(tmp_path / word_of(role), sent)
        assert found is role
        told[role] = {role: own, role.peer: peer}
    assert told[Role.LABEL] == told[Role.NON_LABEL]
    for role, certificate in certificates.items():
        said = told[Role.LABEL][role]
        assert re.fullmatch(r"([0-9a-f]{4} ){15}[0-9a-f]{4}", said)
        assert bytes.fromhex(said) == certificate.fingerprint(hashes.SHA256())


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (make(Role.LABEL), "not the certificate of a non-label party"),
        (make(Role.NON_LABEL, name="a.example"), "not the certificate of a non-label party"),
        (make(Role.NON_LABEL, usages=False), "not made by `cutlayer init`"),
        (make(Role.NON_LABEL, days=(-9, -1)), "is valid from"),
        (make(Role.NON_LABEL, days=(1, 9)), "is valid from"),
        (make(Role.NON_LABEL, issuer=make(Role.NON_LABEL, ca=True)), "self-signed"),
    ],
    ids=["same role", "name", "no use", "expired", "not yet", "signed by another"],
)
def test_what_cannot_be_paired(folder, tmp_path, made, told):
    (tmp_path / "sent.crt").write_bytes(made.pem)
    before = (folder / "peer.crt").read_bytes()
    with pytest.raises(ConfigurationError, match=told) as caught:
        pair(folder, tmp_path / "sent.crt", replace=True)
    assert "label party" in str(caught.value)
    assert (folder / "peer.crt").read_bytes() == before


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n", bytes(99_999)])
def test_files_that_are_no_certificate(folder, tmp_path, data):
    (tmp_path / "sent.crt").write_bytes(data)
    with pytest.raises(ConfigurationError, match="not one self-signed certificate"):
        pair(folder, tmp_path / "sent.crt")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        pair(folder, tmp_path / "absent.crt")


def test_the_own_certificate_is_not_a_peer(folder):
    with pytest.raises(ConfigurationError, match="this party's own certificate"):
        pair(folder, folder / "label-party.crt")


def test_another_pin_needs_a_word(folder, tmp_path):
    create_identity(tmp_path / "new", Role.NON_LABEL)
    sent = tmp_path / "new" / "non-label-party.crt"
    with pytest.raises(ConfigurationError, match="--replace"):
        pair(folder, sent)
    pair(folder, sent, replace=True)
    pair(folder, sent)  # the same again is no change
    assert fingerprint(load_identity(folder, Role.LABEL).peer) == fingerprint(
        x509.load_pem_x509_certificate(sent.read_bytes())
    )


def test_an_identity_that_is_not_in_order_is_named_with_the_fix(folder, tmp_path):
    with pytest.raises(ConfigurationError, match="cutlayer init non-label-party"):
        load_identity(tmp_path / "absent", Role.NON_LABEL)
    with pytest.raises(ConfigurationError, match="is the label party's"):
        load_identity(folder, Role.NON_LABEL)
    other = make(Role.LABEL)
    right = (folder / "label-party.crt").read_bytes()
    (folder / "label-party.crt").write_bytes(other.pem)
    with pytest.raises(ConfigurationError, match="does not fit"):
        load_identity(folder, Role.LABEL)
    (folder / "label-party.crt").write_bytes(right)
    (folder / "peer.crt").write_bytes(make(Role.NON_LABEL, days=(-9, -1)).pem)
    with pytest.raises(ConfigurationError, match=r"peer\.crt is valid from"):
        load_identity(folder, Role.LABEL)
    (folder / "peer.crt").unlink()
    with pytest.raises(ConfigurationError, match=r"cutlayer pair non-label-party\.crt"):
        load_identity(folder, Role.LABEL)
