"""Retiring shards: the data set goes on without its oldest rows; nothing else is rewritten."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from pipeline.data.directory import existing_directory
from pipeline.data.manifest import Manifest, SourceInfo
from pipeline.errors import DatasetError


def retire(out: str | Path, names: Collection[str]) -> Manifest:
    """Take the shards of these names out of the data set, all at once, and remove their files.

    Names that it does not have are as good as retired. The number of features stays.
    """
    with existing_directory(out) as directory:
        assert directory.old is not None
        old = directory.old
        kept = tuple(shard for shard in old.shards if shard.name not in names)
        if not kept:
            raise DatasetError(f"{out}: all {len(old.shards)} shards would be retired; choose a longer window")
        if len(kept) == len(old.shards):
            return old
        manifest = replace(old, shards=kept, sources=_still_there(old, names))
        directory.finish(manifest)
    return manifest


def _still_there(old: Manifest, names: Collection[str]) -> tuple[SourceInfo, ...]:
    """Return the sources with the rows they still have, those without any left out."""
    gone, first = [], 0
    for shard in old.shards:
        if shard.name in names:
            gone.append((first, first + shard.rows))
        first += shard.rows
    sources, first = [], 0
    for source in old.sources:
        last = first + source.rows
        lost = sum(max(0, min(last, stop) - max(first, start)) for start, stop in gone)
        if lost < source.rows:
            sources.append(replace(source, rows=source.rows - lost))
        first = last
    return tuple(sources)
