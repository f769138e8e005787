"""Compacting: small neighbouring shards become one of normal size; the rows, their order and the fingerprint stay.

Every append leaves a shard at least, however small, and every pass pays for each; so appends merge what earlier ones
left (``merging`` says when), and ``compact`` merges all that is small. What is merged is proved first (a damaged shard
must not get a new checksum), and the new shard's digest must be that of its parts. Readers that opened the data set
before find the rows of a shard that is gone where they are now (``moved``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.cores import available_cores
from pipeline.data.ingest.assemble import DEFAULT_SHARD_BYTES
from pipeline.data.parallel import in_order
from pipeline.data.shards.digest import join_digests
from pipeline.data.shards.directory import OpenDirectory, existing_directory
from pipeline.data.shards.ids import joined_ids
from pipeline.data.shards.manifest import Manifest
from pipeline.data.shards.mapping import forget_maps, read_shard
from pipeline.data.shards.merging import Full, ShardRun, groups_of, mergeable, whole_files, with_few_sources
from pipeline.data.shards.rows import Rows, joined_groups
from pipeline.data.shards.shard import ShardInfo, write_shard
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError
from pipeline.events import Listener, Progress, silent

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
    sparing: bool = False,
) -> Compacted:
    """Merge neighbouring shards that are smaller than half of ``shard_bytes``, up to that size, all at once.

    ``groups`` are collections of shards' names: only shards of one group are merged (None: any). ``planned`` is told
    what becomes what before anything becomes visible: whoever keeps names of shards can then tell after being killed
    whether it happened. ``sparing`` leaves what will grow further, for whoever comes again and again.
    """
    group_of = groups_of(groups)
    with existing_directory(out) as directory:
        assert directory.old is not None
        old = directory.old
        runs = mergeable(old.shards, group_of, Full(shard_bytes), sparing)
        names = [directory.name_of(k) for k in range(len(runs))]
        merged = {name: tuple(shard.name for shard in run) for name, run in zip(names, runs, strict=True)}
        if not merged:
            return Compacted(old, {})
        if planned is not None:
            planned(merged)
        manifest = _merged(directory, old, dict(zip(names, runs, strict=True)), listen)
        directory.finish(manifest)
    forget_maps()
    return Compacted(manifest, merged)


def merge_appended(directory: OpenDirectory, grown: Manifest, full: Full, listen: Listener) -> Manifest:
    """Return the manifest of an append, ``grown``, with what earlier appends left merged where that pays.

    It is one change with the append: both become visible at once. The shards that came just now stay.
    """
    old = directory.old
    assert old is not None
    runs = mergeable(old.shards, groups_of([whole_files(old)]), full, sparing=True)
    if not runs:
        return with_few_sources(grown)
    came = len(grown.shards) - len(old.shards)
    plan = {directory.name_of(came + k): run for k, run in enumerate(runs)}
    return with_few_sources(_merged(directory, grown, plan, listen))


def _merged(directory: OpenDirectory, manifest: Manifest, plan: Mapping[str, ShardRun], listen: Listener) -> Manifest:
    """Write the new shards; return the manifest with each in the place of those that it is made of."""
    new = _write_all(directory.path, plan, manifest, listen)
    done = replace(manifest, shards=_replaced(manifest.shards, list(plan.values()), new))
    if done.fingerprint != manifest.fingerprint:
        raise DatasetError(f"{directory.final}: the merged shards have other rows; nothing was changed")
    return done


def _write_all(directory: Path, plan: Mapping[str, ShardRun], manifest: Manifest, listen: Listener) -> list[ShardInfo]:
    sizes = [sum(shard.bytes for shard in run) for run in plan.values()]
    written: list[ShardInfo] = []
    rows = done = 0
    with ThreadPoolExecutor(available_cores(), "svmsieve-compact") as pool:
        about = manifest.features, len(manifest.labels.classes)
        tasks = [partial(_merge, directory, name, run, *about) for name, run in plan.items()]
        for info, size in zip(in_order(pool, tasks, ahead=available_cores()), sizes, strict=True):
            written.append(info)
            rows, done = rows + info.rows, done + size
            listen(Progress("compact", rows, done, sum(sizes)))
    return written


def _merge(directory: Path, name: str, run: ShardRun, n_features: int, classes: int) -> ShardInfo:
    parts = [read_shard(str(directory / shard.name), n_features, shard.sha256, classes=classes) for shard in run]
    info = write_shard(directory, name, _joined(parts), classes)
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
        groups=joined_groups([rows.groups for rows in parts]),
        ids=joined_ids([rows.ids for rows in parts]),
    )


def _replaced(shards: Sequence[ShardInfo], runs: Sequence[ShardRun], new: Sequence[ShardInfo]) -> tuple[ShardInfo, ...]:
    """Return the shards in order, every run as the one that it became."""
    first = {run[0].name: info for run, info in zip(runs, new, strict=True)}
    gone = {shard.name for run in runs for shard in run[1:]}
    return tuple(first.get(shard.name, shard) for shard in shards if shard.name not in gone)
