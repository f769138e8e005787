"""A shard that is gone since the data set was opened: its rows are where the manifest of today has them.

Appends merge small shards, and ``compact`` does; rows keep their number in the data set as long as none before them
leave. So the shard that holds row ``first_row`` today is read, and the rows from there on are the old shard's if their
digest is. Otherwise the data set has other rows, and whoever reads is told to run again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pipeline.data.shards.digest import digest_rows, digest_text
from pipeline.data.shards.manifest import read_manifest
from pipeline.data.shards.mapping import GoneError, read_shard
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError

_KEPT = 8192  # places; as many as maps are kept
_TRIES = 3  # shards that are merged again while they are looked for


@dataclass(frozen=True)
class Whereabouts:
    """A shard as it was: its file, its first row in the data set, how many there are, and their digest."""

    path: str
    first_row: int
    n_rows: int
    digest: str


@dataclass(frozen=True)
class _Place:
    """Where the rows are now: a file, its checksum, its features and classes, and the first of the rows there."""

    path: str
    sha256: str
    n_features: int
    classes: int
    start: int

    def rows(self, count: int) -> Rows:
        found = read_shard(self.path, self.n_features, self.sha256, classes=self.classes)
        return found.part(self.start, self.start + count)


def moved_rows(shard: Whereabouts, n_features: int, gone: GoneError) -> Rows:
    """Return the rows of a shard that is gone, or raise ``gone`` if the data set no longer has them."""
    for _ in range(_TRIES):
        try:
            place = _place(shard)
            if place is None:
                break
            return replace(place.rows(shard.n_rows), n_features=n_features)
        except GoneError:
            _place.cache_clear()
    raise gone


@lru_cache(maxsize=_KEPT)
def _place(shard: Whereabouts) -> _Place | None:
    """Find the rows and prove that they are the same; None if they are not there."""
    directory, first = Path(shard.path).parent, 0
    try:
        manifest = read_manifest(directory)
    except DatasetError as error:
        raise GoneError(str(error)) from error
    for info in manifest.shards:
        if first + info.rows > shard.first_row:
            break
        first += info.rows
    else:
        return None
    if first + info.rows < shard.first_row + shard.n_rows:
        return None
    about = info.sha256, manifest.features, len(manifest.labels.classes)
    place = _Place(str(directory / info.name), *about, shard.first_row - first)
    return place if digest_text(digest_rows(place.rows(shard.n_rows))) == shard.digest else None
