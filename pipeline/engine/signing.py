"""The certificates of a cluster as X.509 has them: who signs, what each may be used for, and for which hosts."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pipeline.errors import EngineError

ROLES = ("scheduler", "worker", "client")
CA = "ca.pem"
HERE = ("localhost", "127.0.0.1", "::1")
_CLOCKS_DIFFER = datetime.timedelta(minutes=5)  # between the machines of a cluster
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_PEM = serialization.Encoding.PEM


def signed(names: list[x509.GeneralName], lifetime: datetime.timedelta) -> dict[str, bytes]:
    """Return what is in every file: of an authority whose key is gone then, and of the roles that it signed for."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("svmsieve cluster authority")
    of_ca = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = _unsigned(issuer, issuer, ca_key, lifetime)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(_usage(signs_certificates=True), critical=True)
    found = {CA: ca.add_extension(of_ca, critical=False).sign(ca_key, hashes.SHA256()).public_bytes(_PEM)}
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _unsigned(_name(f"svmsieve {role}"), issuer, key, lifetime)
        cert = cert.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        cert = cert.add_extension(_usage(signs_certificates=False), critical=True)
        authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(of_ca)
        cert = cert.add_extension(authority, critical=False)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role != "client":
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            cert = cert.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = cert.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        found[f"{role}.pem"] = cert.sign(ca_key, hashes.SHA256()).public_bytes(_PEM)
        found[f"{role}-key.pem"] = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    return found


def alternative_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Return the names of hosts, and of this one, as a certificate has them."""
    found: list[x509.GeneralName] = []
    for host in dict.fromkeys((*HERE, *hosts)):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if not _HOST.fullmatch(host) or len(host) > 253:  # RFC 1035
                problem = f"{host[:80]!r} is neither the name of a host nor an IP address"
                raise EngineError(f"{problem}; write for example node-1.example.org") from None
            found.append(x509.DNSName(host))
    return found


def named_in(cert: x509.Certificate) -> list[x509.GeneralName]:
    """Return the names that a certificate has."""
    try:
        return list(cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        **dict.fromkeys(
            (
                *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
                *("crl_sign", "encipher_only", "decipher_only"),
            ),
            False,
        ),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(tz=datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCKS_DIFFER,
        not_valid_after=now + lifetime,
    )
