"""Download the file of a registry entry once, whole, and provably the same ever after.

The problem: the large sets take hours, connections break, servers change files, and a truncated file looks
like data. So bytes stream into ``FILE.part``; ``FILE.part.json`` remembers which version of the file they
belong to (ETag or Last-Modified), so that the next attempt goes on where this one stopped, and only if the
server still has that version. FILE appears by rename when its length is right and it is on the disk;
``FILE.sha256`` (sha256sum format) is what later calls check it against. Memory is bounded by one piece.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, IncompleteRead
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit

from pipeline.data.registry import download as http
from pipeline.data.registry.download import AGAIN, PIECE
from pipeline.data.registry.registry import SCHEMES, RegistryEntry
from pipeline.errors import FetchError, RegistryError
from pipeline.events import Listener, Progress, silent
from pipeline.files import write_whole
from pipeline.redact import identity

ELSEWHERE = "download it elsewhere and pass the file to `svmsieve ingest`"


def fetch(entry: RegistryEntry, directory: Path, listen: Listener = silent, force: bool = False) -> Path:
    """The entry's file in ``directory``: checked if it is there, downloaded (or resumed) if it is not.

    ``force`` downloads it anew and replaces what is there. Ctrl-C leaves FILE.part for the next call.
    """
    target = directory / _file_name(entry)
    with _one_line(entry, target):
        if target.exists() and not force:
            _verify(entry, target, listen)
            return target
        directory.mkdir(parents=True, exist_ok=True)
        with _locked_part(target) as part:
            http.download(entry, _beside(target, ".part.json"), part, listen, force)
            _finish(entry, target, part, listen)
    return target


def _file_name(entry: RegistryEntry) -> str:
    """The last part of the address, for an entry that has one."""
    if entry.kind == "bundled":
        raise RegistryError(f"{entry.name!r} comes with scikit-learn: use `svmsieve ingest {entry.name} --out DIR`")
    if entry.kind == "synthetic":
        raise RegistryError(
            f"{entry.name!r} is made, not downloaded: use `svmsieve datasets make {entry.name} --out DIR`"
        )
    if not entry.url:
        raise RegistryError(f"{entry.name!r} has no known public address: {ELSEWHERE}")
    address = urlsplit(entry.url)
    if address.scheme not in SCHEMES:
        raise RegistryError(f"{entry.name!r}: {entry.url} is not an address of {', '.join(SCHEMES)}")
    name = PurePosixPath(unquote(address.path)).name
    return entry.name if name in ("", "..") else name


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)


def _no_link(path: str, flags: int) -> int:
    """Open a file, never what a link of that name points to: others may write in a folder of downloads."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextmanager
def _locked_part(target: Path) -> Iterator[IO[bytes]]:
    """FILE.part open for appending, for this process alone; an empty one is not left behind."""
    path = _beside(target, ".part")
    with open(path, "ab", opener=_no_link) as part:
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = path.exists() and path.stat().st_ino == os.fstat(part.fileno()).st_ino
        except BlockingIOError:
            mine = False
        if not mine:
            raise FetchError(f"{path}: another process is downloading it; wait for it, then try again")
        try:
            yield part
        finally:
            if not part.tell():
                path.unlink(missing_ok=True)


def _finish(entry: RegistryEntry, target: Path, part: IO[bytes], listen: Listener) -> None:
    """Make the part safe on the disk, check it, record its hash, and only then give it its name."""
    os.fsync(part.fileno())
    path, state_path = _beside(target, ".part"), _beside(target, ".part.json")
    digest = _sha256(path, entry, listen)
    if entry.sha256 and digest != entry.sha256:
        path.unlink()
        state_path.unlink(missing_ok=True)
        raise FetchError(
            f"{entry.url}: sha256 is {digest[:12]}..., the registry says {entry.sha256[:12]}...; the "
            f"download was thrown away; correct sha256 of {entry.name!r} if the publisher changed the file"
        )
    _record(entry, target, digest)
    path.replace(target)
    state_path.unlink(missing_ok=True)


def _verify(entry: RegistryEntry, target: Path, listen: Listener) -> None:
    """Check a file that is already there against its record and the registry."""
    record = _beside(target, ".sha256")
    text = record.read_text(encoding="utf-8") if record.exists() else ""
    match = re.match(r"([0-9a-f]{64})  .*\n(?:# (.*))?", text)
    if not match and not entry.sha256:
        raise FetchError(
            f"{target} has no record {record.name} to check it against: pass the file itself to "
            "`svmsieve ingest`, or use --force to download it again"
        )
    source = identity(entry.url)
    if match and match[2] is not None and source not in (match[2], identity(match[2])):
        raise FetchError(
            f"{target} came from {match[2]}, not {entry.url}: use --force to replace it, or another directory"
        )
    digest = _sha256(target, entry, listen)
    for expected, who in ((match[1] if match else "", record.name), (entry.sha256, "the registry")):
        if expected and digest != expected:
            raise FetchError(
                f"{target} is not what was downloaded: sha256 is {digest[:12]}..., {who} says "
                f"{expected[:12]}...; use --force to download it again"
            )
    if not match or match[2] not in (None, source):  # an older svmsieve wrote the whole address
        _record(entry, target, digest)


def _sha256(path: Path, entry: RegistryEntry, listen: Listener) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            done += len(piece)
            listen(Progress(f"check {entry.name}", 0, done, total))
    return digest.hexdigest()


def _record(entry: RegistryEntry, target: Path, digest: str) -> None:
    """Write FILE.sha256, which `sha256sum -c` reads; the address is in a comment, so that two differ.

    Only what names the file is in it: a signature is another one every time.
    """
    write_whole(_beside(target, ".sha256"), f"{digest}  {target.name}\n# {identity(entry.url)}\n".encode())


@contextmanager
def _one_line(entry: RegistryEntry, target: Path) -> Iterator[None]:
    """Turn whatever network and disk throw into one line that says what failed and what to do."""
    try:
        yield
    except FetchError:
        raise
    except HTTPError as error:
        error.close()
        gone = error.code in (404, 410)
        advice = f"check url of {entry.name!r} in the registry" if gone else "try again later"
        raise FetchError(
            f"{entry.url}: the server answered HTTP {error.code} {error.reason}; {advice}, or {ELSEWHERE}"
        ) from error
    except (OSError, HTTPException) as error:
        raise FetchError(_explain(entry, target, error)) from error


def _explain(entry: RegistryEntry, target: Path, error: Exception) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{target.parent}: the disk is full; free some space, then {AGAIN}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}; check the directory or choose another one"
    host = urlsplit(entry.url).hostname
    if isinstance(cause, socket.gaierror):
        return f"{entry.url}: cannot find the host {host}; check the network, or {ELSEWHERE}"
    if isinstance(cause, TimeoutError):
        return f"{entry.url}: no answer from {host} in {http.TIMEOUT:g} s; try again later, or {ELSEWHERE}"
    if isinstance(cause, IncompleteRead | ConnectionResetError):
        return f"{entry.url}: the connection broke; {AGAIN}"
    reason = " ".join(str(getattr(cause, "strerror", None) or cause).split())
    return f"{entry.url}: cannot be downloaded ({reason}); check address and network, or {ELSEWHERE}"
