"""The certificates of a cluster: an authority of its own, and who is who by what it has signed."""

import ipaddress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from everwhen import clock

_LIFE = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Authority:
    """Signs certificates into a folder: `NAME.crt` and `NAME.key`; its own is `ca.crt`."""

    folder: Path
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    _name: x509.Name = field(default_factory=lambda: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")]))

    def __post_init__(self) -> None:
        """Write its own certificate."""
        usage = x509.BasicConstraints(ca=True, path_length=None)
        own = self._builder(self._name, self._key).add_extension(usage, critical=True)
        self._write("ca.crt", own.sign(self._key, hashes.SHA256()))

    def issue(self, name: str, *, common_name: str, group: str | None = None, hosts: tuple[str, ...] = ()) -> None:
        """Write a key and a certificate for a server and a client in one."""
        key = ec.generate_private_key(ec.SECP256R1())
        about = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if group is not None:
            about.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = self._builder(x509.Name(about), key).add_extension(usage, critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(each) for each in hosts]), critical=False
            )
        self._write(f"{name}.crt", builder.sign(self._key, hashes.SHA256()))
        (self.folder / f"{name}.key").write_bytes(_private(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = clock.process_now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _LIFE)
        )

    def _write(self, name: str, certificate: x509.Certificate) -> None:
        (self.folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_key_pair(folder: Path, name: str) -> None:
    """Write the key that tokens of service accounts are signed with, and the public one: `NAME.key`, `NAME.pub`."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    (folder / f"{name}.key").write_bytes(_private(key))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
