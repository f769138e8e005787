"""Ingest: source files of any format become a directory of shards, streaming and in parallel.

Blocks are parsed by a pool of threads and come back in source order; their labels get numbers, their rows are cut into
shards, and the shards are written by the same pool. What is in memory is a few blocks and two shards.

Tables whose columns have to be made features of are read twice: what is in the columns is learnt (``data/tables``),
then rows are encoded. What was learnt becomes part of the data set, and is applied to what is appended.

Three things may be known only after the last row: what labels mean (the sign of the first, the codes of three or more),
whether indices count from 0, and (with a bias and no ``--features``) the index of the bias column. Where the guess made
at the start was wrong, the shards written so far are amended at the end, before the data set becomes visible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.cores import available_cores
from pipeline.data.ingest.amend import Amendment, Relabelling, amend_shard
from pipeline.data.ingest.assemble import DEFAULT_SHARD_BYTES, UNKNOWN_BIAS_INDEX, Piece, ShardCutter, join
from pipeline.data.ingest.settle import ids_of, refuse_columns, refuse_twice, say_known, say_odd_labels, settled
from pipeline.data.ingest.tables import encoded, others_of
from pipeline.data.parallel import in_order
from pipeline.data.reading.base import ReadOptions, Source
from pipeline.data.reading.block import LARGEST_FEATURES, ReadRules
from pipeline.data.reading.choose import open_sources
from pipeline.data.reading.labels import LabelCoder, named_classes
from pipeline.data.shards.compact import merge_appended
from pipeline.data.shards.directory import OpenDirectory, existing_directory, new_directory
from pipeline.data.shards.ids import as_text
from pipeline.data.shards.manifest import Manifest, SourceInfo
from pipeline.data.shards.mapping import forget_maps
from pipeline.data.shards.merging import Full
from pipeline.data.shards.shard import ShardInfo, write_shard
from pipeline.data.tables.asked import AUTO, with_columns
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, NoRowsError
from pipeline.events import Listener, Note, Progress, silent
from pipeline.installed import version
from pipeline.redact import last_name

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.data.reading.ids import IdColumns
    from pipeline.data.tables.encoding import Encoding
    from pipeline.data.tables.plan import TablePlan


@dataclass(frozen=True)
class IngestSpec:
    """How to ingest. ``bias`` 0 means no bias column; ``rows_per_shard`` None means shards of ``shard_bytes``.

    ``max_line`` is the most bytes a line of text may have; None leaves what ``reading`` says. ``ids`` are columns that
    are kept as text, to tell rows apart, and are no features unless a file of columns says so. ``classes`` are the
    labels that there may be, three or more; none are named where the rows say them.
    """

    reading: ReadOptions = field(default_factory=ReadOptions)
    positive: str | None = None
    bias: float = 0.0
    rows_per_shard: int | None = None
    shard_bytes: int = DEFAULT_SHARD_BYTES
    append: bool = False
    overwrite: bool = False
    workers: int | None = None
    max_line: int | None = None
    ids: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def options(self) -> ReadOptions:
        """How files are read."""
        return self.reading if self.max_line is None else replace(self.reading, max_line=self.max_line)


def reading_spec(  # noqa: PLR0913 - all are keywords
    *,
    format: str = "auto",  # noqa: A002
    positive: str | None = None,
    bias: float | None = None,
    columns: str | TablePlan | Encoding = AUTO,
    features: int | None = None,
    index_base: str = "auto",
    duplicates: str = "error",
    label_column: str = "label",
    weight_column: str = "weight",
    group: str | None = None,
    shard_size: int = DEFAULT_SHARD_BYTES,
    ignore: Sequence[str] = (),
    ids: Sequence[str] = (),
    **more: Any,
) -> IngestSpec:
    """Return the spec for settings as people give them; ``more`` are fields of IngestSpec.

    ``columns`` says what becomes of the columns of tables: see ``tables.asked``. ``bias`` None is 1 where they are
    encoded, else none.
    """
    base = None if index_base == "auto" else int(index_base)
    rules = ReadRules(base, features, duplicates == "sum")
    reading = ReadOptions(format, rules, label_column, weight_column, group, ignore=tuple(ignore))
    reading, known = with_columns(reading, columns, bias)
    asked = set() if reading.table is None else set(reading.table.named)
    aside = () if reading.encoding is not None else (name for name in ids if name not in asked)
    reading = replace(reading, ignore=tuple(dict.fromkeys([*reading.ignore, *aside])))
    return IngestSpec(reading, positive, known, shard_bytes=shard_size, ids=tuple(ids), **more)


@dataclass(frozen=True)
class Input:
    """A file, pattern, directory or URL, with what is known of how to read it (``reading``: fields of ReadOptions)."""

    path: str
    reading: Mapping[str, Any] = field(default_factory=dict)

    def open(self, options: ReadOptions) -> list[Source]:
        """Open every file that the path stands for."""
        return open_sources([self.path], replace(options, **self.reading))


def ingest(
    inputs: Sequence[str | Input | Source],
    out: str | Path,
    spec: IngestSpec,
    listen: Listener = silent,
    *,
    given: Collection[str] = (),
    merging: bool = True,
    only_two: bool = False,
) -> Manifest:
    """Turn files (or sources), in the given order, into the shard directory ``out`` and return its manifest.

    ``given`` are fields of the spec that the user named, were it with the value that they have anyway. An append merges
    small shards that earlier ones left, unless ``merging`` is off, for who keeps names of shards. ``only_two`` is for
    who has no use for three classes or more.
    """
    opened = existing_directory(out) if spec.append else new_directory(out, spec.overwrite)
    with opened as directory:
        plan = settled(spec, directory.old, given)
        sources: list[Source] = []
        for item in inputs:
            named = Input(item) if isinstance(item, str) else item
            sources += named.open(plan.options) if isinstance(named, Input) else [named]
        refuse_twice(sources)
        ids = ids_of(sources, plan)
        refuse_columns(sources, plan.options, directory.old is None)
        if directory.old is not None:
            say_known(sources, directory.old, listen)
        sources, plan = encoded(sources, plan, listen)
        manifest = _Ingest(directory, sources, plan, listen, only_two, ids).run()
        if directory.old is not None and merging:
            manifest = merge_appended(directory, manifest, Full(spec.shard_bytes, spec.rows_per_shard), listen)
        directory.finish(manifest)
    if directory.lets_go:
        forget_maps()
    return manifest


@dataclass(frozen=True)
class WrittenShard:
    """A shard on disk: the numbers of the labels in it, and what these were written as."""

    info: ShardInfo
    present: np.ndarray
    values: np.ndarray


class _Ingest:
    """One run: blocks in, shards out, and the tallies that the manifest needs."""

    def __init__(
        self,
        directory: OpenDirectory,
        sources: list[Source],
        spec: IngestSpec,
        listen: Listener,
        only_two: bool,
        ids: IdColumns | None,
    ) -> None:
        self.directory, self.sources, self.spec, self.listen = directory, sources, spec, listen
        self.old = directory.old
        self.cutter = ShardCutter(spec.rows_per_shard, spec.shard_bytes, has_bias=bool(spec.bias))
        named = named_classes(spec.classes) if spec.classes else None
        self.coder = LabelCoder(spec.positive, named if self.old is None else self.old.labels, only_two)
        self.workers = spec.workers or available_cores()
        self.rows, self.bytes, self.total_bytes = 0, 0, sum(source.size for source in sources)
        self.smallest, self.largest = LARGEST_FEATURES, -1
        self.read: list[SourceInfo] = []
        self.written: list[Future[WrittenShard]] = []
        self.ids = ids
        self.columns = self._shared_columns()
        self.bias_index = self._bias_index()

    def run(self) -> Manifest:
        """Read, cut, write, amend; the caller makes the result visible."""
        with ThreadPoolExecutor(self.workers, "svmsieve-ingest") as pool:
            for source in self.sources:
                self._take(source, pool)
            self._write(self.cutter.take(), pool)
            if self.ids is not None:
                self.ids.finish()
            labels = self.coder.finish(self._where())
            say_odd_labels(labels, self.rows, self._where(), self.listen)
            shards = self._amended([future.result() for future in self.written], len(labels.classes), pool)
        manifest = Manifest(
            features=self._features(),
            labels=labels,
            shards=tuple(shards),
            sources=tuple(self.read),
            bias=self.spec.bias,
            index_base=self._base(),
            columns=self._names(),
            encoding=self.spec.reading.encoding,
            group=self.spec.reading.group_column,
            ids=() if self.ids is None else tuple(self.ids.names),
            created_by=f"svmsieve {version('svmsieve')}",
        )
        return manifest if self.old is None else self.old.extended(manifest)

    def _where(self) -> str:
        """Name the files."""
        first, more = self.sources[0].path if self.sources else "", len(self.sources) - 1
        return f"{first} and {more} more" if more > 0 else first

    def _take(self, source: Source, pool: ThreadPoolExecutor) -> None:
        before, others = self.rows, others_of(self.spec.reading.encoding)
        for block in in_order(pool, source.tasks(), ahead=self.workers + 1):
            if others is not None:
                others.count(block)
            labels = self.coder.numbered(block.labels, source.path)
            self.smallest, self.largest = min(self.smallest, block.smallest), max(self.largest, block.largest)
            self.rows += block.n_rows
            self.bytes += block.source_bytes
            for pieces in self.cutter.add(block, labels):
                self._write(pieces, pool)
            self.listen(Progress("ingest", self.rows, self.bytes, self.total_bytes))
        if self.rows == before:
            raise NoRowsError("no rows in the file; remove it from the list or write it again", path=source.path)
        for said in () if others is None else others.notes():
            self.listen(Note(f"{source.path}: {said}"))
        self.read.append(SourceInfo(last_name(source.path), source.size, self.rows - before))

    def _write(self, pieces: list[Piece], pool: ThreadPoolExecutor) -> None:
        """Hand a shard to the pool, once the one before it is on disk: at most two are in memory."""
        if not pieces:
            return
        if self.written:
            self.written[-1].result()
        name = self.directory.name_of(len(self.written))
        more = self.spec.bias, self.bias_index, self._ids_of(sum(piece.stop - piece.start for piece in pieces))
        self.written.append(pool.submit(write_pieces, self.directory.path, name, pieces, self.coder.values, *more))

    def _ids_of(self, rows: int) -> pa.StructArray | None:
        """Return the ids of the next rows."""
        return None if self.ids is None else as_text(self.ids.take(rows), self._where())

    def _amended(self, shards: list[WrittenShard], classes: int, pool: ThreadPoolExecutor) -> list[ShardInfo]:
        shift = self._shift()
        bias_index = self._features() - 1 if self.spec.bias and self.bias_index == UNKNOWN_BIAS_INDEX else None
        values, tasks = self.coder.values, []
        for shard in shards:
            labels = Relabelling(shard.values, values)
            amendment = Amendment(labels if labels.changes(shard.present) else None, shift, bias_index)
            if amendment.is_needed:
                tasks.append(partial(amend_shard, self.directory.path, shard.info, amendment, classes))
            else:
                tasks.append(partial(shard.info.counted, classes))
        return list(in_order(pool, tasks, ahead=self.workers))

    def _shift(self) -> int:
        """Indices were taken to count from 1 unless told; one that was 0 (here -1) says that they count from 0."""
        if self.smallest >= 0:
            return 0
        if any(source.rules.base is not None for source in self.sources):
            problem = "index 0 occurs in svmlight text that was taken to count from 1, next to files of other formats"
            raise DataError(f"{problem}; pass --index-base 0")
        return 1

    def _base(self) -> int | None:
        text = [source.rules.assumed_base for source in self.sources if source.format == "svmlight"]
        if self.old is not None and self.old.index_base is not None:
            return self.old.index_base
        return text[0] - self._shift() if text else None

    def _known_features(self) -> int | None:
        """Return the number of features (without bias) if it is known before reading."""
        given = self.spec.reading.rules.features
        if given is not None:
            return given
        known = [source.n_features for source in self.sources if source.n_features is not None]
        return max(known) if known and len(known) == len(self.sources) else None

    def _features(self) -> int:
        known = self._known_features()
        found = self.largest + 1 + self._shift()
        if known is not None and found > known:
            problem = f"index {self.largest + self._shift()} is beyond the {known} features"
            raise DataError(f"{problem} (indices count from 0 here); raise --features")
        own = (known if known is not None else max(found, 1)) + (1 if self.spec.bias else 0)
        return own if self.old is None else max(own, self.old.features)

    def _names(self) -> tuple[str, ...] | None:
        """Return the names of the features, if all have one."""
        own = self._features() - (1 if self.spec.bias else 0)
        return self.columns if self.columns is not None and len(self.columns) == own else None

    def _bias_index(self) -> int:
        known = self._known_features()
        return UNKNOWN_BIAS_INDEX if known is None else known

    def _shared_columns(self) -> tuple[str, ...] | None:
        """Return the feature columns, which every file with columns must have alike.

        Next to features without names (svmlight, npz, list columns) they count by position: then as many as there are.
        """
        wanted = None if self.old is None else self.old.columns
        given = self.spec.reading.rules.features
        if self.old is not None and given is None:
            given = self.old.features
        for source in self.sources:
            if source.columns is not None and wanted is not None and source.columns != wanted:
                differing = sorted(set(source.columns) ^ set(wanted))
                what = (
                    f"column '{differing[0]}' is not in all files"
                    if differing
                    else "the columns stand in another order"
                )
                raise DataError(f"{what}; every file must have the same feature columns", path=source.path)
            if source.columns is not None and given is not None and len(source.columns) != given:
                problem = f"has {len(source.columns):,} feature columns, not {given:,}"
                raise DataError(f"{problem}; drop those that are too many, or leave out --features", path=source.path)
            wanted = wanted or source.columns
        return wanted


def write_pieces(
    directory: Path,
    name: str,
    pieces: list[Piece],
    values: np.ndarray,
    bias: float,
    bias_index: int,
    ids: pa.StructArray | None = None,
) -> WrittenShard:
    """Write a shard, whose labels are written as ``values`` says of their numbers."""
    rows = replace(join(pieces, bias, bias_index), ids=ids)
    present = np.flatnonzero(np.bincount(rows.labels, minlength=values.size))
    classes = values.size if values.dtype == np.int32 else 0
    info = write_shard(directory, name, replace(rows, labels=values[rows.labels]), classes)
    return WrittenShard(info, present, values)
