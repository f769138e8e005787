"""Writing so that nothing is ever half-written, and locking so that nobody writes in between."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import RunError, SieveError

_NO_LOCKS_HERE = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}  # NFS and the like


def write_json(path: Path, item: Any) -> None:
    """Write under a temporary name, force to disk, then rename."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        json.dump(item, stream, indent=1)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Force the names in a directory to disk, so that a rename survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(directory: Path, busy: SieveError) -> Iterator[None]:
    """Hold the only writer's lock on a directory, as far as its file system has locks; raise ``busy`` if taken."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _lock(descriptor, busy)
        if not directory.exists() or not os.path.samestat(os.fstat(descriptor), directory.stat()):
            raise busy  # it was renamed between our opening and our locking it
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, busy: SieveError) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise busy from error
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; what was written there takes its place at the end, all at once."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"{path}: cannot be written ({reason}); nothing was changed there") from error
    finally:
        temporary.unlink(missing_ok=True)
