"""A certificate authority for one test process, and certificates by it, made when they are asked for."""

import functools
import ssl
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from everwhen import clock

NAMES = ("localhost", "receiver.test", "mail.test", "hooks.slack.test", "127.0.0.1")


@dataclass(frozen=True)
class Authority:
    """Signs certificates for names."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    folder: Path

    @property
    def file(self) -> Path:
        """The authority's certificate, as a client's setting names it."""
        return self.folder / "ca.pem"

    def server_context(self, *names: str, expired: bool = False) -> ssl.SSLContext:
        """TLS for a server that calls itself by these names."""
        file = self.server_file(*names, expired=expired)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        file.unlink()
        return context

    def server_file(self, *names: str, expired: bool = False) -> Path:
        """Key and certificate in one file, for a server that calls itself by these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _signed(self, key, names or NAMES, expired=expired)
        file = self.folder / f"{made.serial_number}.pem"
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(pem + made.public_bytes(Encoding.PEM))
        return file


@functools.cache
def authority() -> Authority:
    """The one of this process."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Everwhen's tests")])
    now = clock.process_now()
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=3))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Authority(key, certificate, Path(tempfile.mkdtemp(prefix="ew-ca-")))
    made.file.write_bytes(certificate.public_bytes(Encoding.PEM))
    return made


def _signed(by: Authority, key: ec.EllipticCurvePrivateKey, names: tuple[str, ...], *, expired: bool):
    now = clock.process_now()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    until = now - timedelta(days=1) if expired else now + timedelta(days=2)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()), critical=False)
        .sign(by.key, hashes.SHA256())
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
