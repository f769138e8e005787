"""Retiring shards: the data set goes on without its oldest rows; nothing else is rewritten."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.data.shards.directory import existing_directory
from pipeline.data.shards.manifest import Manifest, SourceInfo
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
        gone, first = list[tuple[int, int]](), 0
        for shard in old.shards:
            gone += [(first, first + shard.rows)] if shard.name in names else []
            first += shard.rows
        manifest = replace(old, shards=kept, sources=still_there(old, gone))
        directory.finish(manifest)
    return manifest


def still_there(old: Manifest, gone: Sequence[tuple[int, int]]) -> tuple[SourceInfo, ...]:
    """Return the sources with the rows they still have without these ranges, those without any left out."""
    sources, first = [], 0
    for source in old.sources:
        last = first + source.rows
        lost = sum(max(0, min(last, stop) - max(first, start)) for start, stop in gone)
        if lost < source.rows:
            sources.append(replace(source, rows=source.rows - lost))
        first = last
    return tuple(sources)
