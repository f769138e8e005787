"""Partitions become shards where they are computed, and only what the manifest says of them comes back.

    partition -> blocks -> shards, on a worker        labels, counts, digests -> manifest.json, here

What labels mean is known when all partitions have been seen. A worker writes what the labels of its own partition
suggest, which is right if it has all of them; shards where it was not are amended on the workers, so that a collection
is computed once. Shards get their numbers at the end. A task that is repeated writes the same file again, all at once.

All of them write to one folder, whose name nobody knows before: who does not see it has another file system. When
something fails it gets another name before it is removed: whoever still writes, or comes late, finds none.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np

from pipeline.collections.part import Part, Reader
from pipeline.collections.partitioned import Partitioned
from pipeline.data.ingest.amend import Amendment, Relabelling, amend_shard
from pipeline.data.ingest.assemble import Piece, ShardCutter
from pipeline.data.ingest.ingest import IngestSpec, write_pieces
from pipeline.data.reading.labels import LabelCoder, LabelMap
from pipeline.data.shards.directory import OpenDirectory, new_directory
from pipeline.data.shards.manifest import Manifest, SourceInfo
from pipeline.data.shards.shard import ShardInfo
from pipeline.dataclass import dataclass
from pipeline.engine.delayed import computed
from pipeline.engine.engine import Engine
from pipeline.errors import DatasetError, NoRowsError
from pipeline.events import Listener, Progress
from pipeline.files import remove_folder
from pipeline.installed import version

WHERE = "pass shards=DIR (to dataset_of: out=DIR; to an estimator: what open_dataset makes of the rows)"


@dataclass(frozen=True)
class Writing:
    """What a worker needs to write partitions: it travels once."""

    folder: str
    reader: Reader
    spec: IngestSpec

    def expect_folder(self) -> Path:
        """Return the folder, if this process sees the one that the client made."""
        folder = Path(self.folder)
        if not folder.is_dir():
            problem = f"a worker does not see the folder {folder.parent.parent} as the client does"
            raise DatasetError(f"{problem}; {WHERE} on a file system that all share")
        return folder


@dataclass(frozen=True)
class WrittenPart:
    """A shard of a partition: ``labels`` are those that were known when it was written, as ``values``."""

    info: ShardInfo
    labels: tuple[str, ...]
    present: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class WrittenPartition:
    """What comes back of a partition."""

    rows: int
    shards: tuple[WrittenPart, ...]


def write_collection(source: Partitioned, out: Path, spec: IngestSpec, engine: Engine, listen: Listener) -> Manifest:
    """Compute a collection once, every partition on whoever has it, and write it as the shard directory ``out``."""
    with new_directory(out, spec.overwrite) as directory, _given_up_whole(directory):
        folder = directory.path / secrets.token_hex(8)
        folder.mkdir()
        writing = Writing(str(folder), source.reader, spec)
        parts = _written(source, writing, engine, listen)
        coder = LabelCoder(spec.positive)
        for part in parts:
            for shard in part.shards:
                coder.admit(tuple(shard.labels[k] for k in shard.present), source.name)
        labels = coder.finish(source.name)
        shards = [shard for part in parts for shard in part.shards]
        infos = _amended(shards, coder, labels, writing, engine)
        manifest = Manifest(
            features=source.reader.n_features + (1 if spec.bias else 0),
            labels=labels,
            shards=tuple(_numbered(directory, folder, info, k) for k, info in enumerate(infos)),
            sources=(SourceInfo(source.name, 0, sum(part.rows for part in parts)),),
            bias=spec.bias,
            columns=source.reader.columns,
            encoding=source.reader.encoding,
            group=source.group,
            created_by=f"svmsieve {version('svmsieve')}",
        )
        remove_folder(folder)
        directory.finish(manifest)
    return manifest


def _written(source: Partitioned, writing: Writing, engine: Engine, listen: Listener) -> list[WrittenPartition]:
    """Have all partitions written; return what came back, in their order."""
    shared = dask.delayed(writing, traverse=False, pure=False)
    task = dask.delayed(write_partition, pure=False, traverse=False)
    nothing = (None,) * len(source.x)
    tasks = [
        task(shared, k, source.where(k), x, y, weight)
        for k, (x, y, weight) in enumerate(zip(source.x, source.y or nothing, source.weight or nothing, strict=True))
    ]
    done = rows = 0

    def told(part: WrittenPartition) -> None:
        nonlocal done, rows
        done, rows = done + 1, rows + part.rows
        listen(Progress("ingest", rows, done, len(tasks), "partitions"))

    parts = computed(tasks, engine.backend, told)
    if not rows:
        problem = "no rows" if source.weight is None else "no rows of weight above 0"
        raise NoRowsError(f"{problem} in any partition; see what the filters before it leave", path=source.name)
    return parts


def write_partition(writing: Writing, k: int, where: str, x: Any, y: Any, weight: Any) -> WrittenPartition:
    """Write partition ``k`` as shards; runs on the worker that has it."""
    folder, spec, own = writing.expect_folder(), writing.spec, writing.reader.n_features
    coder = LabelCoder(spec.positive)
    cutter = ShardCutter(spec.rows_per_shard, spec.shard_bytes, has_bias=bool(spec.bias))
    found: list[WrittenPart] = []

    def write(pieces: list[Piece]) -> None:
        name = f"part-{k:05d}-{len(found):05d}.arrow"
        written = write_pieces(folder, name, pieces, coder.values, spec.bias, own)
        found.append(WrittenPart(written.info, tuple(coder.numbers), written.present, written.values))

    rows = 0
    for block in writing.reader.blocks(Part(x, where, y, weight)):
        rows += block.n_rows
        for pieces in cutter.add(block, coder.numbered(block.labels, where)):
            write(pieces)
    if last := cutter.take():
        write(last)
    return WrittenPartition(rows, tuple(found))


def _amended(
    shards: list[WrittenPart], coder: LabelCoder, labels: LabelMap, writing: Writing, engine: Engine
) -> list[ShardInfo]:
    """Have the shards written again whose labels mean something else than their partition alone suggested."""
    meaning = dict(zip(coder.numbers, coder.values, strict=True))
    infos, classes = [shard.info.counted(len(labels.classes)) for shard in shards], len(labels.classes)
    tasks, places = [], []
    amend = dask.delayed(_amend, pure=False, traverse=False)
    shared = dask.delayed(replace(writing, spec=IngestSpec()), traverse=False, pure=False)
    for place, shard in enumerate(shards):
        now = np.array([meaning[label] for label in shard.labels], coder.values.dtype)
        relabelling = Relabelling(shard.values, now)
        if relabelling.changes(shard.present):
            places.append(place)
            tasks.append(amend(shared, shard.info, Amendment(relabelling), classes))
    for place, info in zip(places, computed(tasks, engine.backend) if tasks else [], strict=True):
        infos[place] = info
    return infos


def _amend(writing: Writing, info: ShardInfo, amendment: Amendment, classes: int) -> ShardInfo:
    return amend_shard(writing.expect_folder(), info, amendment, classes)


def _numbered(directory: OpenDirectory, folder: Path, info: ShardInfo, number: int) -> ShardInfo:
    """Give a shard the place and the name that it keeps."""
    name = directory.name_of(number)
    (folder / info.name).rename(directory.path / name)
    return replace(info, name=name)


@contextmanager
def _given_up_whole(directory: OpenDirectory) -> Iterator[None]:
    """If it fails, take the folder away from whoever still writes there."""
    try:
        yield
    except BaseException:
        aside = directory.path.with_name(f"{directory.path.name}-{secrets.token_hex(4)}")
        with suppress(OSError):
            directory.path.rename(aside)
        remove_folder(aside)
        raise
