"""A shard directory behind a URL: opened by its manifest and one listing, its shards brought where they are used."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import partial

from pipeline.data.parallel import in_order
from pipeline.data.shards.digest import digest_text
from pipeline.data.shards.manifest import MANIFEST, Manifest, parse_manifest
from pipeline.data.shards.mapping import AlteredError, read_shard, wants_checksums
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import ShardInfo
from pipeline.data.stores.located import RemoteStore
from pipeline.data.stores.shard_cache import brought, remove
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError
from pipeline.redact import redacted

REQUESTS = 4  # at a time


@dataclass(frozen=True)
class RemoteShard:
    """A shard behind a URL; loading maps this machine's copy of it, which is made where there is none.

    The URL may hold credentials, which workers need; Dask writes what a failed task was given to their logs.
    """

    directory: str = field(repr=False)
    name: str
    bytes: int
    sha256: str
    first_row: int
    n_rows: int
    nnz: int
    n_features: int
    digest: str
    compared: bool = True
    classes: int = 0

    @property
    def path(self) -> str:
        """What people call it."""
        return redacted(f"{self.directory}/{self.name}")

    def load(self) -> Rows:
        """Return the rows as views of the local copy; one that was damaged on this machine's disk is brought anew."""
        try:
            rows = self._mapped()
        except AlteredError:
            remove(self.sha256)
            rows = self._mapped()
        if (rows.n_rows, rows.nnz) != (self.n_rows, self.nnz):
            raise DatasetError(f"{self.path}: its manifest says other rows than it has; copy the data set there again")
        return rows

    def _mapped(self) -> Rows:
        with brought(self.directory, self.name, self.bytes, self.sha256) as path:
            sha256 = self.sha256 if self.compared else ""
            return read_shard(str(path), self.n_features, sha256, used=True, classes=self.classes)


def remote_manifest(store: RemoteStore) -> Manifest | None:
    """Return the manifest behind a URL; None if there is none."""
    content = store.read(MANIFEST)
    if content is None:
        return None
    return parse_manifest(content, store.address(MANIFEST))


def open_remote(store: RemoteStore, full_check: bool = False) -> tuple[Manifest, tuple[RemoteShard, ...]]:
    """Read the manifest and check that every shard is there with its size, by one listing where there are such.

    ``full_check`` reads every shard and compares its checksum, too.
    """
    manifest = remote_manifest(store)
    if manifest is None:
        problem = "no manifest.json there: not a shard directory, or its copy did not finish"
        raise DatasetError(f"{store.url}: {problem}; run svmsieve datasets copy again")
    check_sizes(store, manifest.shards)
    if full_check:
        with ThreadPoolExecutor(REQUESTS) as pool:
            for _ in in_order(pool, [partial(_check_content, store, i) for i in manifest.shards], ahead=REQUESTS):
                pass
    shards, first, known = [], 0, (wants_checksums(), len(manifest.labels.classes))
    for info in manifest.shards:
        digest = digest_text(info.digest)
        sizes = (first, info.rows, info.nnz, manifest.features)
        shards.append(RemoteShard(store.url, info.name, info.bytes, info.sha256, *sizes, digest, *known))
        first += info.rows
    return manifest, tuple(shards)


def check_sizes(store: RemoteStore, shards: tuple[ShardInfo, ...]) -> None:
    """Raise DatasetError, naming the object, if a shard is missing or has another size."""
    listed = store.sizes()
    with ThreadPoolExecutor(REQUESTS) as pool:
        tasks = [partial(_check_size, store, info, listed.get(info.name)) for info in shards]
        for _ in in_order(pool, tasks, ahead=REQUESTS):
            pass


def _check_size(store: RemoteStore, info: ShardInfo, listed: int | None) -> None:
    size = store.size(info.name) if listed is None else listed
    remedy = "copy the data set there again: svmsieve datasets copy DIR URL --overwrite"
    if size is None:
        raise DatasetError(f"{store.address(info.name)}: the shard is missing; {remedy}")
    if size != info.bytes:
        raise DatasetError(f"{store.address(info.name)}: has {size} bytes instead of {info.bytes}; {remedy}")


def _check_content(store: RemoteStore, info: ShardInfo) -> None:
    digest = hashlib.sha256()
    for piece in store.pieces(info.name, info.bytes):
        digest.update(piece)
    if digest.hexdigest() != info.sha256:
        remedy = "copy the data set there again: svmsieve datasets copy DIR URL --overwrite"
        raise DatasetError(f"{store.address(info.name)}: the shard was altered (its checksum differs); {remedy}")
