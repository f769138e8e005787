"""A data set that is ready for passes: where its shards are, and what is known of the whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from pipeline.cores import available_cores
from pipeline.data.digest import digest_text
from pipeline.data.labels import LabelMap
from pipeline.data.manifest import Manifest, read_manifest
from pipeline.data.parallel import in_order
from pipeline.data.remote import open_remote
from pipeline.data.rows import Rows
from pipeline.data.shard import check_shard, read_shard
from pipeline.data.stores import located
from pipeline.errors import DatasetError


class Shard(Protocol):
    """Rows ``first_row`` to ``first_row + n_rows`` of the data set: small enough to send, loaded where it is used.

    ``digest`` is that of its rows, in any data set.
    """

    @property
    def first_row(self) -> int: ...  # noqa: D102
    @property
    def n_rows(self) -> int: ...  # noqa: D102
    @property
    def nnz(self) -> int: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102
    def load(self) -> Rows:
        """Return the rows."""
        ...


@dataclass(frozen=True)
class MappedShard:
    """A shard file; loading maps it into memory and copies nothing."""

    path: str
    first_row: int
    n_rows: int
    nnz: int
    n_features: int
    digest: str

    def load(self) -> Rows:
        """Return the rows as views of the file."""
        rows = read_shard(self.path, self.n_features)
        if (rows.n_rows, rows.nnz) != (self.n_rows, self.nnz):
            raise DatasetError(f"{self.path}: the shard was replaced since the data set was opened; run again")
        return rows


@dataclass(frozen=True)
class Dataset:
    """Rows x_i, labels, costs and norms in shards, in order. Nothing is held in memory but this description.

    ``columns`` names the features but for the bias, where the source had names; ``index_base`` is what the indices of
    svmlight text that went into it count from, if there was any.
    """

    path: str
    kind: str
    n_features: int
    labels: LabelMap
    bias: float
    shards: tuple[Shard, ...]
    n_positive: int
    fingerprint: str
    bytes: int
    columns: tuple[str, ...] | None = None
    index_base: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(shard.n_rows for shard in self.shards)

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return sum(shard.nnz for shard in self.shards)


def open_shards(directory: str | Path, full_check: bool = False) -> Dataset:
    """Open a shard directory or the URL of one; a missing, truncated or altered shard is an error that names it.

    The check is cheap (see ``check_shard`` and ``open_remote``) unless ``full_check`` asks for every checksum.
    """
    shards: tuple[Shard, ...]
    place = located(str(directory))
    if isinstance(place, Path):
        manifest, shards = open_local(place, full_check)
    else:
        manifest, shards = open_remote(place, full_check)
    return Dataset(
        path=str(place),
        kind="shards",
        n_features=manifest.features,
        labels=manifest.labels,
        bias=manifest.bias,
        shards=shards,
        n_positive=manifest.positives,
        fingerprint=manifest.fingerprint,
        bytes=sum(info.bytes for info in manifest.shards),
        columns=names_of(manifest),
        index_base=manifest.index_base,
    )


def names_of(manifest: Manifest) -> tuple[str, ...] | None:
    """Return the names of the features but for the bias, if every one has a name."""
    own = manifest.features - (1 if manifest.bias else 0)
    return manifest.columns if manifest.columns is not None and len(manifest.columns) == own else None


def open_local(directory: Path, full_check: bool = False) -> tuple[Manifest, tuple[MappedShard, ...]]:
    """Read the manifest of a directory and check its shards."""
    manifest = read_manifest(directory)
    with ThreadPoolExecutor(available_cores()) as pool:
        checks = [partial(check_shard, directory, info, full_check) for info in manifest.shards]
        for _ in in_order(pool, checks, ahead=2 * available_cores()):
            pass
    shards, first = [], 0
    for info in manifest.shards:
        place = str(directory / info.name)
        shards.append(MappedShard(place, first, info.rows, info.nnz, manifest.features, digest_text(info.digest)))
        first += info.rows
    return manifest, tuple(shards)
