"""Compacting: small neighbouring shards become one of normal size; the rows, their order and the fingerprint stay.

Every append leaves a shard at least, however small, and every pass pays for each. What is merged is proved first
(a damaged shard must not get a new checksum), and the new shard's digest must be that of its parts. Readers that opened
the data set before and come to a shard that is gone are told to run again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.cores import available_cores
from pipeline.data.ingest.assemble import DEFAULT_SHARD_BYTES, MOST_NONZEROS
from pipeline.data.parallel import in_order
from pipeline.data.shards.digest import join_digests
from pipeline.data.shards.directory import existing_directory
from pipeline.data.shards.manifest import Manifest
from pipeline.data.shards.mapping import forget_maps, read_shard
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import ROW_BYTES, ShardInfo, write_shard
from pipeline.errors import DatasetError
from pipeline.events import Listener, Progress, silent

ShardRun = tuple[ShardInfo, ...]
MergedFrom = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Compacted:
    """The manifest at the end, and the names of the new shards with those of the shards that each replaces."""

    manifest: Manifest
    merged: dict[str, tuple[str, ...]]


def compact(
    out: str | Path,
    groups: Iterable[Collection[str]] | None = None,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    planned: Callable[[MergedFrom], None] | None = None,
    listen: Listener = silent,
) -> Compacted:
    """Merge neighbouring shards that are smaller than half of ``shard_bytes``, up to that size, all at once.

    ``groups`` are collections of shards' names: only shards of one group are merged (None: any). ``planned`` is told
    what becomes what before anything becomes visible: whoever keeps names of shards can then tell after being killed
    whether it happened.
    """
    group_of = _group_of(groups)
    with existing_directory(out) as directory:
        assert directory.old is not None
        old = directory.old
        runs = _runs(old.shards, group_of, shard_bytes)
        names = [directory.name_of(k) for k in range(len(runs))]
        merged = {name: tuple(shard.name for shard in run) for name, run in zip(names, runs, strict=True)}
        if not merged:
            return Compacted(old, {})
        if planned is not None:
            planned(merged)
        new = _write_all(directory.path, dict(zip(names, runs, strict=True)), old.features, listen)
        manifest = replace(old, shards=_replaced(old.shards, runs, new))
        if manifest.fingerprint != old.fingerprint:
            raise DatasetError(f"{out}: the merged shards have other rows; nothing was changed")
        directory.finish(manifest)
    forget_maps()
    return Compacted(manifest, merged)


def _group_of(groups: Iterable[Collection[str]] | None) -> Callable[[str], int | None]:
    if groups is None:
        return lambda name: 0
    numbers: dict[str, int] = {}
    for number, group in enumerate(groups):
        for name in group:
            if numbers.setdefault(name, number) != number:
                raise ValueError(f"{name} is in two groups")
    return numbers.get


def _runs(shards: Sequence[ShardInfo], group_of: Callable[[str], int | None], shard_bytes: int) -> list[ShardRun]:
    """Return the runs of neighbours to be merged, two shards or more each."""
    runs: list[list[ShardInfo]] = [[]]
    size = _Size()
    for shard in shards:
        alone, group = _Size().plus(shard), group_of(shard.name)
        grown = size.plus(shard)
        if alone.bytes >= shard_bytes / 2 or group is None:
            runs.append([])
            size = _Size()
        elif runs[-1] and (group_of(runs[-1][0].name) != group or not grown.fits(shard_bytes)):
            runs.append([shard])
            size = alone
        else:
            runs[-1].append(shard)
            size = grown
    return [tuple(run) for run in runs if len(run) > 1]


@dataclass(frozen=True)
class _Size:
    """What some shards would be as one; a wide value makes all of them wide."""

    rows: int = 0
    nnz: int = 0
    wide: bool = False

    def plus(self, shard: ShardInfo) -> _Size:
        return _Size(self.rows + shard.rows, self.nnz + shard.nnz, self.wide or shard.values == "float64")

    @property
    def bytes(self) -> int:
        return self.rows * ROW_BYTES + self.nnz * (4 + (8 if self.wide else 4))

    def fits(self, shard_bytes: int) -> bool:
        return self.bytes <= shard_bytes and self.nnz <= MOST_NONZEROS


def _write_all(directory: Path, plan: Mapping[str, ShardRun], n_features: int, listen: Listener) -> list[ShardInfo]:
    sizes = [sum(shard.bytes for shard in run) for run in plan.values()]
    written: list[ShardInfo] = []
    rows = done = 0
    with ThreadPoolExecutor(available_cores(), "svmsieve-compact") as pool:
        tasks = [partial(_merge, directory, name, run, n_features) for name, run in plan.items()]
        for info, size in zip(in_order(pool, tasks, ahead=available_cores()), sizes, strict=True):
            written.append(info)
            rows, done = rows + info.rows, done + size
            listen(Progress("compact", rows, done, sum(sizes)))
    return written


def _merge(directory: Path, name: str, run: ShardRun, n_features: int) -> ShardInfo:
    parts = [read_shard(str(directory / shard.name), n_features, shard.sha256) for shard in run]
    info = write_shard(directory, name, _joined(parts))
    if info.digest != join_digests([(shard.digest, shard.rows) for shard in run]):
        raise DatasetError(f"{directory / run[0].name}: has other rows than manifest.json says; ingest the data again")
    return info


def _joined(parts: Sequence[Rows]) -> Rows:
    """Copy rows one after the other; values get the widest type of all."""
    starts = np.cumsum([0, *(rows.nnz for rows in parts)])
    indptr = [rows.indptr[1:] + np.int32(start) for rows, start in zip(parts, starts[:-1], strict=True)]
    return Rows(
        indptr=np.concatenate([np.zeros(1, np.int32), *indptr]),
        indices=np.concatenate([rows.indices for rows in parts]),
        values=np.concatenate([rows.values for rows in parts]),
        labels=np.concatenate([rows.labels for rows in parts]),
        costs=np.concatenate([rows.costs for rows in parts]),
        norms=np.concatenate([rows.norms for rows in parts]),
        n_features=parts[0].n_features,
    )


def _replaced(shards: Sequence[ShardInfo], runs: Sequence[ShardRun], new: Sequence[ShardInfo]) -> tuple[ShardInfo, ...]:
    """Return the shards in order, every run as the one that it became."""
    first = {run[0].name: info for run, info in zip(runs, new, strict=True)}
    gone = {shard.name for run in runs for shard in run[1:]}
    return tuple(first.get(shard.name, shard) for shard in shards if shard.name not in gone)
