"""Identity: each party's key and certificate, and the one peer certificate that it trusts.

``cutlayer init`` makes a key and a self-signed certificate, ``cutlayer pair`` pins the peer's.
There is no authority: the pinned certificate is the only root of trust, the role in its name and
its key usage keep the two parties apart, and the operators compare fingerprints by voice.
"""

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cutlayer import check
from cutlayer.errors import ConfigurationError
from cutlayer.protocol.messages import Role

PEER_FILE = "peer.crt"
_MAX_CERTIFICATE_BYTES = 1 << 14
_OTHERS = 0o077
_CLOCK_SLACK = timedelta(hours=1)
_USAGE = {
    Role.LABEL: ExtendedKeyUsageOID.SERVER_AUTH,
    Role.NON_LABEL: ExtendedKeyUsageOID.CLIENT_AUTH,
}


def word_of(role: Role) -> str:
    """The role as commands and files name it: ``label-party`` or ``non-label-party``."""
    return role.value.replace(" ", "-")


def name_of(role: Role) -> str:
    """The only name in the certificate of a role; no host, so a party may move."""
    return f"{word_of(role)}.cutlayer"


@dataclass(frozen=True)
class Identity:
    """One party's key and certificate, and its peer's pinned certificate, checked."""

    role: Role
    key_file: Path
    certificate_file: Path
    peer: x509.Certificate

    def __post_init__(self) -> None:
        # gRPC looks neither at the name nor at the use of a client's certificate, so nothing that
        # could serve the other role is ever pinned.
        _require_role(self.peer, self.role.peer, f"{self.role.value}: the pinned certificate")

    @property
    def certificate_pem(self) -> bytes:
        """The own certificate."""
        return self.certificate_file.read_bytes()

    @property
    def key_pem(self) -> bytes:
        """The own private key."""
        return self.key_file.read_bytes()

    @property
    def peer_pem(self) -> bytes:
        """The pinned certificate."""
        return self.peer.public_bytes(serialization.Encoding.PEM)

    def is_peer(self, certificate_der: bytes | None) -> bool:
        """Whether this is the pinned certificate, byte for byte."""
        return certificate_der == self.peer.public_bytes(serialization.Encoding.DER)

    def tls_context(self, alpn: str) -> ssl.SSLContext:
        """TLS 1.3 and nothing older, both sides authenticated, one trusted certificate.

        Args:
            alpn: what is spoken inside; a side that says something else is let in all the same.
        """
        listens = self.role is Role.LABEL
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = not listens
        context.load_cert_chain(self.certificate_file, self.key_file)
        context.load_verify_locations(cadata=self.peer_pem.decode("ascii"))
        context.set_alpn_protocols([alpn])
        if listens:
            context.num_tickets = 0  # every connection authenticates anew
        return context


def create_identity(folder: Path, role: Role, *, days: int = 730) -> x509.Certificate:
    """Make a key that only its owner can read, and a certificate that names the role.

    Args:
        folder: gets ``ROLE.key`` and ``ROLE.crt``.
        role: of this party.
        days: until the certificate expires.

    Returns:
        The certificate, for the peer.

    Raises:
        ConfigurationError: the folder already holds a key, which is never overwritten.
        ValueError: ``days`` is below 1.
    """
    check.at_least("days", days, 1)
    held = sorted(folder.glob("*.key"))
    if held:
        raise ConfigurationError(
            f"{role.value}: {held[0]} exists and is not overwritten. Move {folder} away to make a "
            "new identity; the peer must then pair again."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(key, role, days)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write(folder / f"{word_of(role)}.key", secret, 0o600)
    _write(folder / f"{word_of(role)}.crt", certificate.public_bytes(_PEM), 0o644)
    return certificate


def pair(folder: Path, peer_file: Path, *, replace: bool = False) -> tuple[Role, str, str]:
    """Pin the peer's certificate.

    Args:
        folder: of this party's identity.
        peer_file: the certificate that the peer's ``cutlayer init`` wrote.
        replace: whether another certificate may already be pinned.

    Returns:
        This party's role, its own fingerprint, the peer's.

    Raises:
        ConfigurationError: the folder holds no identity, the certificate is not one of the other
            role, is expired or this party's own, or another is pinned.
    """
    role = role_in(folder)
    own = _own_certificate(folder, role)
    peer = read_certificate(peer_file, role)
    # The own one has the wrong role; say the likelier mistake.
    if peer.public_key() == own.public_key():
        raise ConfigurationError(
            f"{role.value}: {peer_file} is this party's own certificate. Ask the "
            f"{role.peer.value} for {word_of(role.peer)}.crt."
        )
    _require_role(peer, role.peer, f"{role.value}: {peer_file}")
    _require_valid_now(peer, f"{role.value}: {peer_file}")
    pinned = folder / PEER_FILE
    pem = peer.public_bytes(_PEM)
    if pinned.exists() and pinned.read_bytes() != pem and not replace:
        raise ConfigurationError(
            f"{role.value}: another certificate is pinned in {pinned}. If the "
            f"{role.peer.value} has a new identity, pair again with --replace."
        )
    partial = folder / f"{PEER_FILE}.partial"
    partial.unlink(missing_ok=True)
    _write(partial, pem, 0o644)
    partial.replace(pinned)
    return role, fingerprint(own), fingerprint(peer)


def load_identity(folder: Path, role: Role) -> Identity:
    """Read and check this party's identity before anything listens or connects.

    Raises:
        ConfigurationError: a file is missing, the key can be read by others, or a certificate has
            expired or is one of another role; the message says what to do.
    """
    if not folder.is_dir() or not any(folder.glob("*.key")):
        raise ConfigurationError(
            f"{role.value}: identity: there is none in {folder}. Make one with `cutlayer init "
            f"{word_of(role)}` and exchange certificates; or set insecure_loopback = true where "
            "both parties are processes of one machine."
        )
    if (found := role_in(folder)) is not role:
        raise ConfigurationError(f"{role.value}: identity: {folder} is the {found.value}'s.")
    key_file = folder / f"{word_of(role)}.key"
    mode = key_file.stat().st_mode & 0o777
    if mode & _OTHERS:
        raise ConfigurationError(
            f"{role.value}: identity: {key_file} has mode {mode:04o}, so others may have read "
            f"the key. Make it private with `chmod 600 {key_file}`, or make a new identity."
        )
    own = _own_certificate(folder, role)
    if _public_half(key_file, role) != own.public_key():
        raise ConfigurationError(f"{role.value}: identity: {key_file} does not fit its .crt.")
    pinned = folder / PEER_FILE
    if not pinned.exists():
        raise ConfigurationError(
            f"{role.value}: identity: no peer is pinned in {folder}. Get {word_of(role.peer)}.crt "
            f"from the {role.peer.value}, then `cutlayer pair {word_of(role.peer)}.crt`."
        )
    peer = read_certificate(pinned, role)
    _require_valid_now(own, f"{role.value}: identity: {folder / word_of(role)}.crt")
    _require_valid_now(peer, f"{role.value}: identity: {pinned}")
    return Identity(role, key_file, folder / f"{word_of(role)}.crt", peer)


def role_in(folder: Path) -> Role:
    """Whose identity a folder holds.

    Raises:
        ConfigurationError: nobody's, or both.
    """
    roles = [role for role in Role if (folder / f"{word_of(role)}.key").exists()]
    if len(roles) != 1:
        raise ConfigurationError(
            f"cutlayer: identity: {folder} must hold one party's key, got {len(roles)}. Make one "
            "with `cutlayer init label-party` or `cutlayer init non-label-party`."
        )
    return roles[0]


def read_certificate(path: Path, reader: Role) -> x509.Certificate:
    """Read one self-signed certificate.

    Raises:
        ConfigurationError: the file is missing, or is not exactly one such certificate.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{reader.value}: {path} cannot be read ({error.strerror})."
        ) from error
    try:
        if len(data) > _MAX_CERTIFICATE_BYTES:
            raise ValueError("it is too long")  # noqa: TRY301  (one message for every reason)
        (certificate,) = x509.load_pem_x509_certificates(data)
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise ConfigurationError(
            f"{reader.value}: {path} is not one self-signed certificate in PEM. Use the .crt file "
            "that `cutlayer init` wrote at the peer."
        ) from error
    return certificate


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate in groups of four, to be read out on the telephone."""
    digest = certificate.fingerprint(hashes.SHA256()).hex()
    return " ".join(digest[start : start + 4] for start in range(0, len(digest), 4))


_PEM = serialization.Encoding.PEM


def _self_signed(key: ec.EllipticCurvePrivateKey, role: Role, days: int) -> x509.Certificate:
    """A certificate for one role and one use, that can sign no other."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name_of(role))])
    public, now = key.public_key(), datetime.now(UTC)
    use = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)  # the peer's clock may be behind
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name_of(role))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([_USAGE[role]]), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(use, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _require_role(certificate: x509.Certificate, role: Role, where: str) -> None:
    """Refuse a certificate of another name, use or kind of key than ``init`` gives this role."""
    extensions = certificate.extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        limits = extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound as error:
        raise ConfigurationError(f"{where} was not made by `cutlayer init`: {error}") from error
    key = certificate.public_key()
    fits = (
        names.get_values_for_type(x509.DNSName) == [name_of(role)]
        and list(uses) == [_USAGE[role]]
        and not limits.ca
        and isinstance(key, ec.EllipticCurvePublicKey)
        and isinstance(key.curve, ec.SECP256R1)
    )
    if not fits:
        raise ConfigurationError(
            f"{where} is not the certificate of a {role.value}. Ask it for {word_of(role)}.crt, "
            f"as `cutlayer init {word_of(role)}` wrote it."
        )


def _require_valid_now(certificate: x509.Certificate, where: str) -> None:
    """Refuse a certificate before or after its time."""
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise ConfigurationError(
            f"{where} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}, and it is {now:%Y-%m-%d}. Make a new "
            "identity with `cutlayer init` and pair again."
        )


def _own_certificate(folder: Path, role: Role) -> x509.Certificate:
    """This party's certificate, checked for its role."""
    path = folder / f"{word_of(role)}.crt"
    certificate = read_certificate(path, role)
    _require_role(certificate, role, f"{role.value}: {path}")
    return certificate


def _public_half(key_file: Path, role: Role) -> object:
    """The public key of a private one."""
    try:
        return serialization.load_pem_private_key(key_file.read_bytes(), password=None).public_key()
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        # The cause may quote the file, so it is not chained.
        raise ConfigurationError(
            f"{role.value}: identity: {key_file} is no private key in PEM."
        ) from None


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a new file that has its mode from the first moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
