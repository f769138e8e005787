"""Which neighbouring shards become one: all small ones (``compact``), or those whose merging pays (every append).

A shard is small below half of a full one. Small neighbours are cut into runs that fit into a full shard. A run that
cannot grow any more (a shard that is not small follows, or what follows does not fit) or that makes half a full shard
is merged for good. A run that still grows is merged from the end: the longest end whose total is ``FANOUT`` times its
largest shard, so that a row is copied about log(full shard/append) / log(FANOUT) times in all. A run of more than
``MANY`` (sizes differ wildly) is merged whole: less than half a full shard, and not again before as many appends. So
however many appends there were, the number of shards is a few times what full ones would be, plus ``MANY``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from pipeline.data.ingest.assemble import DEFAULT_SHARD_BYTES, MOST_NONZEROS
from pipeline.data.shards.manifest import Manifest, SourceInfo
from pipeline.data.shards.shard import ROW_BYTES, ShardInfo
from pipeline.dataclass import dataclass

FANOUT = 16  # fewer: rows are copied more often; more: more shards wait (up to FANOUT - 1 of each order of size)
MANY = 64  # above what appends of like sizes leave, which are some 50
KEPT_SOURCES = 1000  # files that the manifest names one by one; of more, those of a shard are named together
_TO = " ... "

ShardRun = tuple[ShardInfo, ...]


@dataclass(frozen=True)
class Full:
    """How large a shard gets: ``rows`` if that is given, else ``bytes``."""

    bytes: int = DEFAULT_SHARD_BYTES
    rows: int | None = None


@dataclass(frozen=True)
class _Size:
    """What some shards would be as one; a wide value makes all of them wide."""

    rows: int = 0
    nnz: int = 0
    wide: bool = False

    def plus(self, shard: ShardInfo) -> _Size:
        return _Size(self.rows + shard.rows, self.nnz + shard.nnz, self.wide or shard.values == "float64")

    def share(self, full: Full) -> float:
        """Return how much of a full shard that is."""
        if full.rows is not None:
            return self.rows / full.rows
        return (self.rows * ROW_BYTES + self.nnz * (4 + (8 if self.wide else 4))) / full.bytes

    def fits(self, full: Full) -> bool:
        return self.share(full) <= 1 and self.nnz <= MOST_NONZEROS


def groups_of(groups: Iterable[Collection[str]] | None) -> Callable[[str], int | None]:
    """Return the function that tells a shard's group by its name; None: all are of one."""
    if groups is None:
        return lambda name: 0
    numbers: dict[str, int] = {}
    for number, group in enumerate(groups):
        for name in group:
            if numbers.setdefault(name, number) != number:
                raise ValueError(f"{name} is in two groups")
    return numbers.get


def mergeable(
    shards: Sequence[ShardInfo], group_of: Callable[[str], int | None], full: Full, sparing: bool
) -> list[ShardRun]:
    """Return the runs of small neighbours of one group, two shards or more each; ``sparing``: those that pay."""
    runs: list[list[ShardInfo]] = [[]]
    size = _Size()
    for shard in shards:
        alone, group = _Size().plus(shard), group_of(shard.name)
        grown = size.plus(shard)
        if alone.share(full) >= 1 / 2 or group is None:
            runs.append([])
            size = _Size()
        elif runs[-1] and (group_of(runs[-1][0].name) != group or not grown.fits(full)):
            runs.append([shard])
            size = alone
        else:
            runs[-1].append(shard)
            size = grown
    if sparing:
        runs[-1] = _paying(runs[-1], full)
    return [tuple(run) for run in runs if len(run) > 1]


def _paying(run: list[ShardInfo], full: Full) -> list[ShardInfo]:
    """Return the end of a run, which may still grow, that is worth merging."""
    shares = [_Size().plus(shard).share(full) for shard in run]
    if sum(shares) >= 1 / 2 or len(run) > MANY:
        return run
    first, largest, total = len(run), 0.0, 0.0
    for k in reversed(range(len(run))):
        largest, total = max(largest, shares[k]), total + shares[k]
        if total >= FANOUT * largest:
            first = k
    return run[first:]


def whole_files(manifest: Manifest) -> list[str]:
    """Return the shards that hold one file or several: what small appends left. Others were cut on purpose, or full."""
    ends = {0, *accumulate(source.rows for source in reversed(manifest.sources))}
    last, found = 0, []
    for shard in reversed(manifest.shards):
        first = last + shard.rows
        if first in ends and last in ends:
            found.append(shard.name)
        last = first
    return found


def with_few_sources(manifest: Manifest) -> Manifest:
    """Return the manifest; if it names more than ``KEPT_SOURCES`` files, those of one shard become one entry."""
    if len(manifest.sources) <= KEPT_SOURCES:
        return manifest
    ends = list(accumulate(shard.rows for shard in reversed(manifest.shards)))
    sources: list[SourceInfo] = []
    last = k = 0
    room = False
    for source in reversed(manifest.sources):
        first = last + source.rows
        while k < len(ends) and ends[k] <= last:
            k, room = k + 1, False
        within = k < len(ends) and first <= ends[k]
        if within and room:
            sources[-1] = _joined(source, sources[-1])
        else:
            sources.append(source)
        last, room = first, within
    return replace(manifest, sources=tuple(reversed(sources)))


def _joined(one: SourceInfo, other: SourceInfo) -> SourceInfo:
    name = f"{one.name.partition(_TO)[0]}{_TO}{other.name.rpartition(_TO)[2]}"
    return SourceInfo(name, one.bytes + other.bytes, one.rows + other.rows)
