"""Copying a data set between a directory and a URL, so that it is never half there.

Behind a URL a shard is named after its checksum: an object of that name and of the right size is that shard. So a copy
that was stopped goes on where it was, a data set that has grown sends its new shards only, and whoever reads the data
set that was there before still finds its shards. The manifest comes last, when every shard is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline.data.dataset import open_local
from pipeline.data.parallel import in_order
from pipeline.data.shards.directory import new_directory
from pipeline.data.shards.manifest import MANIFEST, Manifest
from pipeline.data.shards.mapping import prove_shard
from pipeline.data.shards.shard import ShardInfo, is_shard_name, shard_name
from pipeline.data.stores.located import RemoteStore, located
from pipeline.data.stores.remote import REQUESTS, check_sizes, open_remote, remote_manifest
from pipeline.data.stores.shard_cache import brought
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError
from pipeline.events import Listener, Progress, silent
from pipeline.files import replacing

FileOf = Callable[[ShardInfo], AbstractContextManager[Path]]  # gives the file of a shard on this machine


@dataclass(frozen=True)
class Copied:
    """What a copy did: the manifest at its end, shards sent, and what lies there that the manifest does not name."""

    manifest: Manifest
    sent: int
    strays: tuple[str, ...] = ()


def copy_shards(
    source: str, target: str, overwrite: bool = False, prune: bool = False, listen: Listener = silent
) -> Copied:
    """Copy the data set ``source`` to ``target``; each is a shard directory or a URL, local URLs being directories.

    ``overwrite`` replaces another data set there; ``prune`` removes shards behind the URL that no manifest names then.
    """
    manifest, file_of = _opened(source)
    place = located(target)
    if isinstance(place, RemoteStore):
        return _copy_to_store(manifest, file_of, place, overwrite, prune, listen)
    return _copy_to_directory(manifest, file_of, place, overwrite, listen)


def _opened(source: str) -> tuple[Manifest, FileOf]:
    """Return the manifest, and what gives the file of a shard on this machine."""
    place = located(source)
    if isinstance(place, Path):
        return open_local(place)[0], partial(_proved, place)
    return open_remote(place)[0], lambda info: brought(place.url, info.name, info.bytes, info.sha256)


@contextmanager
def _proved(directory: Path, info: ShardInfo) -> Iterator[Path]:
    """Yield a shard's file if it is what the manifest says: nothing else leaves this machine."""
    prove_shard(directory, info)
    yield directory / info.name


def _copy_to_store(
    manifest: Manifest,
    file_of: FileOf,
    store: RemoteStore,
    overwrite: bool,
    prune: bool,
    listen: Listener,
) -> Copied:
    goal = replace(manifest, shards=tuple(_there(info) for info in manifest.shards), used=0)
    old = remote_manifest(store)
    if old is not None and old != goal and not overwrite:
        raise DatasetError(f"{store.url}: another data set is there already; pass --overwrite to replace it")
    there = store.sizes()
    pairs = zip(manifest.shards, goal.shards, strict=True)
    missing = {new.name: (info, new) for info, new in pairs if there.get(new.name) != new.bytes}
    tasks = [partial(_send, store, file_of, info, new) for info, new in missing.values()]
    _each(tasks, sum(new.bytes for _, new in missing.values()), listen)
    check_sizes(store, goal.shards)
    if old != goal:
        content = goal.to_bytes()
        store.patiently(MANIFEST, lambda: store.fs.pipe_file(store.path(MANIFEST), content))
    named = {info.name for info in goal.shards}
    strays = tuple(sorted(name for name in there if is_shard_name(name) and name not in named))
    for name in strays if prune else ():
        store.patiently(name, partial(store.fs.rm_file, store.path(name)))
    return Copied(goal, len(missing), () if prune else strays)


def _copy_to_directory(
    manifest: Manifest, file_of: FileOf, directory: Path, overwrite: bool, listen: Listener
) -> Copied:
    with new_directory(directory, overwrite) as opened:
        tasks = [
            partial(_place, file_of, info, opened.path / shard_name(number))
            for number, info in enumerate(manifest.shards)
        ]
        shards = _each(tasks, sum(info.bytes for info in manifest.shards), listen)
        copied = replace(manifest, shards=tuple(shards), used=0)
        opened.finish(copied)
    return Copied(copied, len(shards))


def _there(info: ShardInfo) -> ShardInfo:
    """Return what a shard is behind a URL: its number is a part of its checksum, its time of change tells nothing."""
    return replace(info, name=shard_name(int(info.sha256[:15], 16)), modified=0)


def _send(store: RemoteStore, file_of: FileOf, info: ShardInfo, new: ShardInfo) -> ShardInfo:
    with file_of(info) as file:
        store.patiently(new.name, lambda: store.fs.put_file(str(file), store.path(new.name)))
    return new


def _place(file_of: FileOf, info: ShardInfo, path: Path) -> ShardInfo:
    with file_of(info) as file, file.open("rb") as stream, replacing(path) as out:
        shutil.copyfileobj(stream, out, 1 << 20)
    return replace(info, name=path.name, modified=path.stat().st_mtime_ns)


def _each(tasks: Sequence[Callable[[], ShardInfo]], total: int, listen: Listener) -> list[ShardInfo]:
    """Return the results of the tasks, a few of which run at a time, and tell how far they are."""
    found: list[ShardInfo] = []
    rows = done = 0
    with ThreadPoolExecutor(REQUESTS, "svmsieve-copy") as pool:
        for info in in_order(pool, tasks, ahead=2 * REQUESTS):
            found.append(info)
            rows, done = rows + info.rows, done + info.bytes
            listen(Progress("copy", rows, done, total))
    return found
