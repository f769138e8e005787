"""TLS for a cluster on this machine: a certificate authority of its own and one certificate for all its members.

Dask's TLS is mutual: whoever has no certificate of this authority can neither join the cluster nor use it. The
authority's key is thrown away, so that it never signs another.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.security import Security

LIFETIME = datetime.timedelta(days=365)


@dataclass(frozen=True)
class Certificates:
    """Where the authority's certificate, the members' certificate and its private key are."""

    ca: str
    cert: str
    key: str


def make_certificates(folder: Path) -> Certificates:
    """Write ca.pem, cert.pem and key.pem (readable by the owner only) to a folder that is closed to others."""
    folder.chmod(0o700)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = _name("svmsieve cluster authority"), _name("svmsieve cluster")
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    ca = _unsigned(issuer, issuer, ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    cert = _unsigned(subject, issuer, key).add_extension(hosts, critical=False)
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    contents = {
        "ca.pem": ca.sign(ca_key, hashes.SHA256()).public_bytes(encoding),
        "cert.pem": cert.sign(ca_key, hashes.SHA256()).public_bytes(encoding),
        "key.pem": private,
    }
    for name, content in contents.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).touch(mode=0o600, exist_ok=False)
        (folder / name).write_bytes(content)
    return Certificates(*(str(folder / name) for name in contents))


def client_security(files: Certificates) -> Security:
    """Return what a client needs to connect."""
    return Security(require_encryption=True, tls_ca_file=files.ca, tls_client_cert=files.cert, tls_client_key=files.key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(tz=datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(minutes=5),
        not_valid_after=now + LIFETIME,
    )
