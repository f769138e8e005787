"""Writing so that nothing is ever half-written, and locking so that nobody writes in between."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.errors import OutputError, SieveError

SECONDS_BETWEEN_LOOKS = 0.1
_NO_LOCKS_HERE = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}  # NFS and the like


def write_json(path: Path, item: Any) -> None:
    """Write under a temporary name, force to disk, then rename."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        json.dump(item, stream, indent=1, allow_nan=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the file ``path``, all at once at the end; a failure leaves what was there.

    The temporary name holds the process id: two programs that write the same file do not meet in it.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file as --out")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with one_line(
        lambda reason: OutputError(f"{path}: cannot be written ({reason}); choose another --out or make room")
    ):
        try:
            with temporary.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


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
def waiting_for(path: Path, shared: bool = False) -> Iterator[None]:
    """Hold a lock file alone (or ``shared``), among threads and processes; wait while others have it.

    The file stays: removing it would let two in, one by the old file and one by the new. Where the file system has no
    locks, nobody waits.
    """
    with path.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
        yield


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
