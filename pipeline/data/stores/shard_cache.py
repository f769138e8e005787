"""The cache of shards that lie behind a URL: brought once to a machine, checked, and memory-mapped from then on.

Files are named after what is in them (``SHA256.arrow``), so data sets that have a shard in common share it. One process
downloads a shard, the others wait for it; it gets its name when its checksum is right. The cache takes what
$SVMSIEVE_CACHE_SIZE says, else nine tenths of what is free on its disk: before a download the least recently used
shards give way. A shard that is mapped stays readable after that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from pipeline.data.cache import cache_directory
from pipeline.data.shards.mapping import forget_maps
from pipeline.data.stores.located import RemoteStore
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError, SpecError
from pipeline.files import one_line, private_folder, waiting_for
from pipeline.sizes import bytes_of

SIZE_VARIABLE = "SVMSIEVE_CACHE_SIZE"
DEFAULT_SHARE = 0.9  # of what is free on the disk
_DEAD = 3600.0  # seconds without a byte: the process that wrote this part is gone
_REMEDY = f"make room, or name another folder in SVMSIEVE_CACHE or another size in {SIZE_VARIABLE}"
_ATTEMPTS = 2  # at a download that arrives whole and is not what it should be


def shard_folder() -> Path:
    """Where the shards are."""
    return cache_directory() / "remote"


@contextmanager
def brought(directory: str, name: str, size: int, sha256: str) -> Iterator[Path]:
    """Yield the file of a shard on this machine, downloaded if it is not there; it does not give way in the block."""
    folder = shard_folder()
    target = folder / f"{sha256}.arrow"
    with ExitStack() as held:
        with one_line(lambda reason: DatasetError(f"{folder}: cannot keep shards ({reason}); {_REMEDY}")):
            private_folder(folder.parent)
            private_folder(folder / "locks")
            held.enter_context(_kept(folder))
            if not _used(target, size):
                held.close()
                with waiting_for(folder / "locks" / sha256[:2]):
                    held.enter_context(_kept(folder))
                    if not _used(target, size):
                        held.close()
                        with _downloaded(RemoteStore(directory), name, size, target) as part:
                            held.enter_context(_kept(folder))
                            part.replace(target)
        yield target


def room() -> int:
    """Return how many bytes of shards the cache may have."""
    folder = private_folder(shard_folder())
    return _limit(folder, sum(file.stored for file in _files(folder)))


def remove(sha256: str) -> None:
    """Let go of a shard whose copy here turned out to be damaged."""
    (shard_folder() / f"{sha256}.arrow").unlink(missing_ok=True)


def _kept(folder: Path) -> AbstractContextManager[None]:
    """Keep all that is in the cache there for a while."""
    return waiting_for(folder / "locks" / "room", shared=True)


def _used(target: Path, size: int) -> bool:
    """Whether the shard is there; if so it is the most recently used one. Its time of change stays."""
    try:
        status = target.stat()
        if status.st_size != size:
            return False
        os.utime(target, ns=(time.time_ns(), status.st_mtime_ns))
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _downloaded(store: RemoteStore, name: str, size: int, target: Path) -> Iterator[Path]:
    """Yield a file with the content of the object, checked, for the caller to give it its name."""
    part = target.with_name(f"{target.stem}.{size}.{uuid.uuid4().hex[:8]}.part")
    forget_maps()  # room is made by removing files, and a file that is mapped keeps its room
    try:
        part.touch(exist_ok=False)
        _make_room(target.parent, size)
        if not any(_write(store.pieces(name, size), part) == target.stem for _ in range(_ATTEMPTS)):
            problem = "the object is not the shard that the manifest names (its checksum differs)"
            raise DatasetError(f"{store.address(name)}: {problem}; copy the data set there again")
        yield part
    finally:
        part.unlink(missing_ok=True)


def _write(pieces: Iterator[bytes], part: Path) -> str:
    """Write a file, force it to disk (from then on only its size is looked at), and return its sha256."""
    digest = hashlib.sha256()
    with part.open("wb") as stream:
        for piece in pieces:
            stream.write(piece)
            digest.update(piece)
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()


@dataclass(frozen=True)
class _File:
    path: Path
    used: int
    stored: int

    @property
    def size(self) -> int:
        """What it takes, or will take: a part's name says it."""
        return int(self.path.name.split(".")[1]) if self.is_part else self.stored

    @property
    def is_part(self) -> bool:
        return self.path.suffix == ".part"


def _make_room(folder: Path, size: int) -> None:
    """Remove the least recently used shards until what is there and what is coming keeps the limit."""
    files = _files(folder)
    limit = _limit(folder, sum(file.stored for file in files))
    if size > limit:
        raise DatasetError(f"{folder}: the cache may take {limit:,} bytes, the next shard has {size:,}; {_REMEDY}")
    if sum(file.size for file in files) <= limit:
        return
    with waiting_for(folder / "locks" / "room"):
        files = _files(folder)
        total = sum(file.size for file in files)
        for file in sorted(files, key=lambda file: file.used):
            if total > limit and not file.is_part:
                file.path.unlink(missing_ok=True)
                total -= file.size


def _files(folder: Path) -> list[_File]:
    """Return the shards and the parts that are being written; parts that nobody writes any more are removed."""
    found = []
    for path in folder.iterdir():
        if path.suffix not in (".arrow", ".part"):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.suffix == ".part" and status.st_mtime < time.time() - _DEAD:
            path.unlink(missing_ok=True)
        else:
            found.append(_File(path, status.st_atime_ns, status.st_size))
    return found


def _limit(folder: Path, stored: int) -> int:
    given = os.environ.get(SIZE_VARIABLE)
    if not given:
        return int(DEFAULT_SHARE * (shutil.disk_usage(folder).free + stored))
    try:
        return bytes_of(given)
    except SpecError as error:
        raise SpecError(f"{SIZE_VARIABLE}: {error}") from error
