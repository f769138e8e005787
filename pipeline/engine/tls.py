"""TLS for a cluster: an authority of its own, and a certificate with its private key for every part in it.

    ca.pem                              the authority's certificate
    scheduler.pem, scheduler-key.pem    the scheduler's
    worker.pem, worker-key.pem          the workers'
    client.pem, client-key.pem          the clients', which serves nobody: a client cannot pose as one of the others

Dask's TLS is mutual: whoever has no certificate of this authority can neither join the cluster nor use it. The
authority's key is never written, so that nobody signs another one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from distributed.security import Security

from pipeline.dataclass import dataclass
from pipeline.engine.signing import CA, ROLES, alternative_names, named_in, signed
from pipeline.errors import EngineError
from pipeline.files import one_line, open_new, private_folder, sync_directory

FILES = (CA, *(f"{role}{kind}.pem" for role in ROLES for kind in ("", "-key")))
DAYS = 365  # that a certificate is good for


@dataclass(frozen=True)
class Credentials:
    """Where the authority's certificate, one's own certificate and its private key are."""

    ca: str
    cert: str
    key: str


def credentials(folder: Path, role: str) -> Credentials:
    """Return where the credentials of a role are in a folder."""
    return Credentials(*(str(folder / name) for name in (CA, f"{role}.pem", f"{role}-key.pem")))


def make_credentials(folder: Path, hosts: Iterable[str] = (), days: int = DAYS) -> None:
    """Write the files to a folder; keys are for their owner only. Nothing that is there is written over."""
    names = alternative_names(hosts)
    with one_line(lambda reason: EngineError(f"{folder}: cannot be written ({reason}); name another folder")):
        there = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
        if there:
            problem = f"{there[0]} is there already and is not written over"
            raise EngineError(f"{folder}: {problem}; remove {' '.join(there)}, or name another folder")
        private_folder(folder)
        made: list[Path] = []
        try:
            for name, content in signed(names, datetime.timedelta(days=days)).items():
                with open_new(folder / name, 0o600 if name.endswith("-key.pem") else 0o644) as stream:
                    made.append(folder / name)
                    stream.write(content)
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise
        sync_directory(folder)


def check_credentials(folder: Path, hosts: Iterable[str] = ()) -> datetime.datetime:
    """Return until when the credentials in a folder hold; raise EngineError if they are not whole, ours, or valid."""
    cure = f"remove {' '.join(FILES)} there and make new ones"
    absent = [name for name in FILES if not (folder / name).is_file()]
    if len(absent) == len(FILES):
        raise EngineError(f"{folder}: has no credentials; make them with: svmsieve cluster certificates {folder}")
    if absent:
        raise EngineError(f"{folder}: there is no {absent[0]}, but others of {', '.join(FILES)}; {cure}")
    with one_line(lambda reason: EngineError(f"{folder}: cannot be read ({reason}); check its permissions")):
        content = {name: (folder / name).read_bytes() for name in FILES}
    ends = []
    for role in ROLES:
        try:
            ca, cert = (x509.load_pem_x509_certificate(content[name]) for name in (CA, f"{role}.pem"))
            key = serialization.load_pem_private_key(content[f"{role}-key.pem"], password=None)
            cert.verify_directly_issued_by(ca)
            fits = key.public_key() == cert.public_key()
        except (ValueError, TypeError, InvalidSignature):
            fits = False
        if not fits:
            raise EngineError(f"{folder}: {role}.pem, {role}-key.pem and {CA} do not belong together; {cure}")
        ends.append(min(ca.not_valid_after_utc, cert.not_valid_after_utc))
        missing = set() if role == "client" else set(alternative_names(hosts)) - set(named_in(cert))
        if missing:
            raise EngineError(f"{folder}: {role}.pem is not for {min(str(name.value) for name in missing)}; {cure}")
    if min(ends) <= datetime.datetime.now(tz=datetime.UTC):
        raise EngineError(f"{folder}: the certificates have expired on {min(ends):%Y-%m-%d}; {cure}")
    return min(ends)


def client_security(files: Credentials) -> Security:
    """Return what a client needs to connect."""
    return Security(require_encryption=True, tls_ca_file=files.ca, tls_client_cert=files.cert, tls_client_key=files.key)


def security_of_all(folder: Path) -> Security:
    """Return what a process needs that starts a whole cluster, as ``deploy/slurm`` does: all roles' credentials."""
    found = {role: credentials(folder.resolve(), role) for role in ROLES}
    check_credentials(folder)
    certs = {f"tls_{role}_cert": files.cert for role, files in found.items()}
    keys = {f"tls_{role}_key": files.key for role, files in found.items()}
    return Security(require_encryption=True, tls_ca_file=found["client"].ca, **certs, **keys)
