"""Cutting rows out of shards: a file that came again replaces its own rows, not those of others in the same shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.data.shards.directory import existing_directory
from pipeline.data.shards.manifest import Manifest
from pipeline.data.shards.mapping import forget_maps, read_shard
from pipeline.data.shards.retire import still_there
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import shard_name, write_shard
from pipeline.errors import DatasetError

Ranges = Sequence[tuple[int, int]]


def cut(
    out: str | Path,
    parts: Mapping[str, Ranges],
    planned: Callable[[Mapping[str, tuple[str, ...]]], None] | None = None,
) -> Manifest:
    """Take ranges of rows out of shards, all at once: each becomes a new shard in its place, without them.

    Names that the data set does not have are left aside. ``planned`` is told {new name: (old name,)} before anything
    becomes visible.
    """
    with existing_directory(out) as directory:
        assert directory.old is not None
        old = directory.old
        those = [shard for shard in old.shards if parts.get(shard.name)]
        if not those:
            return old
        names = {shard.name: shard_name(old.next_number + k) for k, shard in enumerate(those)}
        if planned is not None:
            planned({new: (was,) for was, new in names.items()})
        written, classes = {}, len(old.labels.classes)
        for shard in those:
            rows = read_shard(str(directory.path / shard.name), old.features, shard.sha256, classes=classes)
            kept = _without(rows, parts[shard.name])
            if not kept.n_rows:
                raise DatasetError(f"{out}: all rows of {shard.name} would be cut out; retire it instead")
            written[shard.name] = write_shard(directory.path, names[shard.name], kept, classes)
        gone, first = list[tuple[int, int]](), 0
        for shard in old.shards:
            gone += [(first + start, first + stop) for start, stop in parts.get(shard.name, ())]
            first += shard.rows
        shards = tuple(written.get(shard.name, shard) for shard in old.shards)
        manifest = replace(old, shards=shards, sources=still_there(old, gone))
        directory.finish(manifest)
    forget_maps()
    return manifest


def _without(rows: Rows, gone: Ranges) -> Rows:
    """Return a copy without some ranges of rows."""
    kept = np.ones(rows.n_rows, bool)
    for start, stop in gone:
        kept[start:stop] = False
    lengths = np.diff(rows.indptr)
    entries = np.repeat(kept, lengths)
    return Rows(
        indptr=np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int32),
        indices=rows.indices[entries],
        values=rows.values[entries],
        labels=rows.labels[kept],
        costs=rows.costs[kept],
        norms=rows.norms[kept],
        n_features=rows.n_features,
        groups=None if rows.groups is None else rows.groups[kept],
        ids=None if rows.ids is None else rows.ids.filter(pa.array(kept)),
    )
