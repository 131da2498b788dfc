"""Certificates that a stranger, or a careless operator, may come with."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cutlayer.protocol import Role
from cutlayer.protocol.identity import name_of

USE = {
    Role.LABEL: ExtendedKeyUsageOID.SERVER_AUTH,
    Role.NON_LABEL: ExtendedKeyUsageOID.CLIENT_AUTH,
}


@dataclass
class Made:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self):
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def files(self, folder):
        """Certificate file and key file, the key private."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "made.crt").write_bytes(self.pem)
        (folder / "made.key").touch(0o600)
        (folder / "made.key").write_bytes(self.key_pem)
        return folder / "made.crt", folder / "made.key"


def make(role, *, name=None, use=None, days=(-1, 1), issuer=None, ca=False, usages=True):
    """A certificate, by default as `cutlayer init` makes it for this role."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name or name_of(role))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if usages:
        names = x509.SubjectAlternativeName([x509.DNSName(name or name_of(role))])
        builder = builder.add_extension(names, critical=False)
        uses = x509.ExtendedKeyUsage([use or USE[role]])
        builder = builder.add_extension(uses, critical=True)
    return Made(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)
