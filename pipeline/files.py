"""Writing so that nothing is ever half-written, and locking so that nobody writes in between."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.errors import OutputError, SieveError

SECONDS_BETWEEN_LOOKS = 0.1  # at a lock that another holds
TEMPORARY = ".tmp"  # ends the name of every file that is not whole yet
_NO_LOCKS_HERE = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}  # NFS and the like


def write_json(path: Path, item: Any) -> None:
    """Write a JSON file, all at once."""
    write_whole(path, (json.dumps(item, indent=1, allow_nan=False) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, all at once, and force its name to disk, too."""
    with atomic(path) as stream:
        stream.write(content)
    sync_directory(path.parent)


@contextmanager
def atomic(path: Path, sync: bool = True) -> Iterator[BufferedRandom]:
    """Yield a stream whose bytes become the file ``path`` at the end, forced to disk; a failure leaves what was there.

    The temporary file is a new one, under a name that nobody can know before: neither a second writer nor whoever may
    write in that folder (and left a link there) gets hold of it. It can be read again, too. Without ``sync`` a power
    cut may leave a file that is damaged: that is for files whose reader would notice.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    stream = open_new(temporary)
    try:
        with stream:
            yield stream
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_new(path: Path, mode: int = 0o666) -> BufferedRandom:
    """Open a file for writing and reading that was not there before: neither a file nor a link of that name is used."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w+b")


def link_whole(path: Path, target: Path) -> None:
    """Make or change a symbolic link, all at once, and force its name to disk."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    temporary.symlink_to(target)
    temporary.replace(path)
    sync_directory(path.parent)


def local(path: str | Path) -> Path:
    """Return the path of what is to be written here: an address would become a folder of that name.

    Nor is an empty name one (``Path`` takes it for the folder one is in), nor a link to itself.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise OutputError(f"{path!r} is no name of what is to be written; name a path as out")
    if "://" in str(path):
        raise OutputError(f"{path}: results are written to this machine; name a local path, and copy them there then")
    try:
        Path(path).stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutputError(f"{path}: its links go in a circle; choose another --out") from error
    return Path(path)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the user's file ``path``, all at once at the end; else it stays as it was."""
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file as --out")
    with one_line(
        lambda reason: OutputError(f"{path}: cannot be written ({reason}); choose another --out or make room")
    ):
        with atomic(path) as stream:
            yield stream
        sync_directory(path.parent)


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner looks into, unless it is there; return it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def one_line(said: Callable[[str], SieveError]) -> Iterator[None]:
    """Turn what the system says (an OSError) into an error for people, made from its reason."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SieveError):
            raise
        raise said(error.strerror or " ".join(str(error).split()) or type(error).__name__) from error


def remove_folder(folder: Path) -> None:
    """Remove a folder, if it is there, as far as one may; a Ctrl-C meanwhile waits until it is gone."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def sync_directory(directory: Path) -> None:
    """Force the names in a directory to disk, so that a rename survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(directory: Path, busy: SieveError, wait: float = 0.0) -> Iterator[None]:
    """Hold the only writer's lock on a directory, as far as its file system has locks.

    Raise ``busy`` if another still has it after ``wait`` seconds.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _lock(descriptor, busy, time.monotonic() + wait)
        if not directory.exists() or not os.path.samestat(os.fstat(descriptor), directory.stat()):
            raise busy  # it was renamed between our opening and our locking it
        yield
    finally:
        os.close(descriptor)


@contextmanager
def waiting_for(path: Path, shared: bool = False, busy: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock file alone (or ``shared``), among threads and processes; wait while others have it.

    ``busy`` is called before a wait. The file stays: removing it would let two in, one by the old file and one by the
    new. Where the file system has no locks, nobody waits.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("ab") as stream:
        try:
            if busy is not None and not _is_free(stream, kind):
                busy()
            fcntl.flock(stream, kind)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
        yield


def _is_free(stream: BinaryIO, kind: int) -> bool:
    try:
        fcntl.flock(stream, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock(descriptor: int, busy: SieveError, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise busy from error
            time.sleep(SECONDS_BETWEEN_LOOKS)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            return


class Temporary:
    """Removes a folder once nobody holds this any more; a copy of a step holds the same, one from a pickle nothing."""

    def __init__(self, folder: Path) -> None:
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __deepcopy__(self, known: dict[int, Any]) -> Temporary:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()
