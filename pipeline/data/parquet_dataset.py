"""Passes straight over Parquet files: every row group is a shard that is decoded when it is loaded.

Opening reads the label columns to settle what labels mean, then every row group once to check it and to know its size;
the fingerprint equals that of the same rows in a shard directory. Memory is bounded by the largest row group, and one
that would take more than the default budget is refused: ``ingest`` reads any, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.budget import default_budget
from pipeline.cores import available_cores
from pipeline.data.dataset import Dataset
from pipeline.data.ingest.assemble import Piece, join
from pipeline.data.parallel import in_order
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import Block, Origin, ReadRules
from pipeline.data.reading.columns import block_of, labels_of
from pipeline.data.reading.files import expand
from pipeline.data.reading.labels import LabelCoder, LabelMap
from pipeline.data.reading.layout import Layout, refuse_indices, refuse_unknown
from pipeline.data.reading.parquet import ParquetSource, ParquetTable
from pipeline.data.shards.digest import Lanes, digest_rows, digest_text, fingerprint
from pipeline.data.shards.rows import Rows
from pipeline.data.stores.located import is_url
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

CELL_BYTES = 12  # of a nonzero: its feature, and its value as float64


@dataclass(frozen=True)
class ParquetGroup:
    """One row group of a Parquet file."""

    path: str
    group: int
    first_row: int
    first_in_file: int
    n_rows: int
    layout: Layout
    rules: ReadRules
    table: ParquetTable
    rows_at_a_time: int
    labels: LabelMap | None = None
    n_features: int = 0
    bias: float = 0.0
    nnz: int = 0
    digest: str = ""

    def load(self) -> Rows:
        """Decode the row group."""
        return self.rows_of(self.blocks())

    def blocks(self) -> list[Block]:
        """Decode and check the row group, before labels are mapped."""
        blocks: list[Block] = []
        first = self.first_in_file
        for batch in self._read(self.layout.names):
            origin = Origin(self.path, first, columns=self.layout.features)
            blocks.append(block_of(batch, self.layout, origin, self.rules))
            first += batch.num_rows
        if first - self.first_in_file != self.n_rows:
            raise DataError("the file was replaced since it was opened; run again", path=self.path)
        return blocks

    def rows_of(self, blocks: list[Block]) -> Rows:
        """Map the labels and add the bias."""
        assert self.labels is not None
        coder = LabelCoder(fixed=self.labels)
        pieces = [Piece(block, coder.encode(block.labels, self.path), 0, block.n_rows) for block in blocks]
        return replace(join(pieces, self.bias, self.n_features - 1), n_features=self.n_features)

    def label_values(self) -> tuple[str, ...]:
        """Return the distinct labels, reading nothing else."""
        assert self.layout.label is not None
        found: set[str] = set()
        first = self.first_in_file
        for batch in self._read([self.layout.label]):
            found.update(labels_of(batch, self.layout, Origin(self.path, first), self.rules).values)
            first += batch.num_rows
        return tuple(sorted(found))

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return self.table.batches(columns, self.rows_at_a_time, self.group)


def open_parquet_dataset(path: str, reading: ReadOptions, positive: str | None = None, bias: float = 0.0) -> Dataset:
    """Open a Parquet file, directory or pattern for passes, without ingesting it."""
    sources = [ParquetSource(file, reading) for file in expand(path)]
    layouts = [source.layout for source in sources]
    refuse_unknown(layouts, reading, path)
    refuse_indices(layouts, reading, path)
    groups = _groups(sources)
    if not groups:
        raise DataError("no rows there; name a Parquet file or directory with rows", path=path)
    known = _known_features(sources, reading)
    extra = 1 if bias else 0
    with ThreadPoolExecutor(available_cores()) as pool:
        labels = _labels(in_order(pool, (g.label_values for g in groups), ahead=8), positive, path)

        def look(n_features: int) -> list[_Look]:
            settled = (replace(g, labels=labels, n_features=n_features, bias=bias) for g in groups)
            return list(in_order(pool, (partial(_look, g) for g in settled), ahead=available_cores()))

        looks = look(0 if known is None else known + extra)
        n_features = extra + (max(1, *(found.largest + 1 for found in looks)) if known is None else known)
        if bias and known is None:  # the bias column's index was not known yet
            looks = look(n_features)
    shards = tuple(
        replace(
            g,
            path=_from_anywhere(g.path),
            table=replace(g.table, path=_from_anywhere(g.path)),
            labels=labels,
            n_features=n_features,
            bias=bias,
            nnz=found.nnz,
            digest=digest_text(found.lanes),
        )
        for g, found in zip(groups, looks, strict=True)
    )
    counts = np.sum([found.counts for found in looks], axis=0).tolist()
    return Dataset(
        path=path,
        kind="parquet",
        n_features=n_features,
        labels=labels,
        bias=bias,
        shards=shards,
        n_positive=0 if labels.classes else counts[1],
        fingerprint=fingerprint([(found.lanes, g.n_rows) for found, g in zip(looks, shards, strict=True)], n_features),
        bytes=sum(source.size for source in sources),
        columns=sources[0].columns,
        group=reading.group_column,
        class_counts=tuple(counts) if labels.classes else (),
    )


def _from_anywhere(path: str) -> str:
    """Return a path that a worker finds whose current directory is another."""
    return path if is_url(path) else str(Path(path).absolute())


def _groups(sources: list[ParquetSource]) -> list[ParquetGroup]:
    groups, first, budget = [], 0, default_budget()
    for source in sources:
        if source.columns != sources[0].columns:
            raise DataError("its feature columns differ from the first file's; they must be the same", path=source.path)
        in_file = 1
        for number, (rows, entries) in enumerate(zip(source.group_rows, source.entries, strict=True)):
            needed = CELL_BYTES * (entries if source.n_features is None else rows * source.n_features)
            if needed > budget:
                problem = f"row group {number} may take {needed:,} bytes in memory, more than {budget:,}"
                raise DataError(f"{problem}; run svmsieve ingest on it, or write smaller row groups", path=source.path)
            if rows:
                known = source.path, number, first, in_file, rows, source.layout, source.rules, source.table
                groups.append(ParquetGroup(*known, source.rows_at_a_time))
            first, in_file = first + rows, in_file + rows
    return groups


def _labels(found: Iterable[tuple[str, ...]], positive: str | None, path: str) -> LabelMap:
    coder = LabelCoder(positive)
    for values in found:
        coder.admit(values, path)
    return coder.finish(path)


@dataclass(frozen=True)
class _Look:
    """What opening needs to know of a row group: ``largest`` is its largest index but for the bias.

    ``counts`` are its rows by class, or negative and positive ones.
    """

    nnz: int
    largest: int
    counts: np.ndarray
    lanes: Lanes


def _look(group: ParquetGroup) -> _Look:
    blocks = group.blocks()
    rows = group.rows_of(blocks)
    assert group.labels is not None
    classes = len(group.labels.classes)
    counts = np.bincount(rows.labels if classes else (rows.labels + 1) // 2, minlength=classes or 2)
    return _Look(rows.nnz, max(block.largest for block in blocks), counts, digest_rows(rows))


def _known_features(sources: list[ParquetSource], reading: ReadOptions) -> int | None:
    given = reading.rules.features
    return sources[0].n_features if given is None else given
