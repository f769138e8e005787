"""Passes straight over Parquet files: every row group is a shard that is decoded when it is loaded.

Opening reads the label columns to settle the signs, then every row group once to check it and to know its size; the
fingerprint equals that of the same rows in a shard directory. Memory is bounded by the largest row group.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from pipeline.data.assemble import Piece, join
from pipeline.data.block import Block, Origin, ReadRules
from pipeline.data.dataset import Dataset
from pipeline.data.digest import digest_rows, fingerprint
from pipeline.data.labels import LabelCoder, LabelMap
from pipeline.data.parallel import available_cores, in_order
from pipeline.data.rows import Rows
from pipeline.data.sources.base import ReadOptions
from pipeline.data.sources.columns import Layout, block_of, labels_of
from pipeline.data.sources.files import expand, open_binary
from pipeline.data.sources.parquet import ParquetSource, damaged, open_parquet
from pipeline.errors import DataError


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
    labels: LabelMap | None = None
    n_features: int = 0
    bias: float = 0.0
    nnz: int = 0

    def load(self) -> Rows:
        """Decode the row group."""
        assert self.labels is not None
        block = self.block()
        signs = LabelCoder(fixed=self.labels).encode(block.labels, self.path)
        rows = join([Piece(block, signs, 0, block.n_rows)], self.bias, self.n_features - 1)
        return replace(rows, n_features=self.n_features)

    def block(self) -> Block:
        """Decode and check the row group, before labels are mapped."""
        table = self._read(self.layout.names)
        origin = Origin(self.path, self.first_in_file, columns=self.layout.features)
        return block_of(table, self.layout, origin, self.rules)

    def label_values(self) -> tuple[str, ...]:
        """Return the distinct labels, reading nothing else."""
        origin = Origin(self.path, self.first_in_file)
        return labels_of(self._read([self.layout.label]), self.layout, origin).values

    def _read(self, columns: list[str]) -> pa.Table:
        with open_binary(self.path) as stream:
            try:
                return open_parquet(stream, self.path).read_row_group(self.group, columns=columns, use_threads=False)
            except (pa.ArrowInvalid, OSError) as error:
                raise damaged(self.path, error) from error


def open_parquet_dataset(path: str, reading: ReadOptions, positive: str | None = None, bias: float = 0.0) -> Dataset:
    """Open a Parquet file, directory or pattern for passes, without ingesting it."""
    sources = [ParquetSource(file, reading) for file in expand(path)]
    groups = _groups(sources)
    if not groups:
        raise DataError("no rows there; name a Parquet file or directory with rows", path=path)
    with ThreadPoolExecutor(available_cores()) as pool:
        labels = _labels(in_order(pool, (g.label_values for g in groups), ahead=8), positive, path)
        sizes = list(in_order(pool, (partial(_size, g) for g in groups), ahead=available_cores()))
        n_features = _features(sources, reading, max(largest for _, largest in sizes)) + (1 if bias else 0)
        extra = 1 if bias else 0
        groups = [
            replace(g, labels=labels, n_features=n_features, bias=bias, nnz=nnz + extra * g.n_rows)
            for g, (nnz, _) in zip(groups, sizes, strict=True)
        ]
        digests = list(in_order(pool, (partial(_digest, g) for g in groups), ahead=available_cores()))
    return Dataset(
        path=path,
        kind="parquet",
        n_features=n_features,
        labels=labels,
        bias=bias,
        shards=tuple(groups),
        n_positive=sum(positives for _, positives in digests),
        fingerprint=fingerprint([(lanes, g.n_rows) for (lanes, _), g in zip(digests, groups, strict=True)], n_features),
        bytes=sum(source.size for source in sources),
    )


def _groups(sources: list[ParquetSource]) -> list[ParquetGroup]:
    groups, first = [], 0
    for source in sources:
        if source.columns != sources[0].columns:
            raise DataError("its feature columns differ from the first file's; they must be the same", path=source.path)
        in_file = 1
        for number, rows in enumerate(source.group_rows):
            if rows:
                groups.append(ParquetGroup(source.path, number, first, in_file, rows, source.layout, source.rules))
            first, in_file = first + rows, in_file + rows
    return groups


def _labels(found: Iterable[tuple[str, ...]], positive: str | None, path: str) -> LabelMap:
    coder = LabelCoder(positive)
    for values in found:
        coder.admit(values, path)
    return coder.finish()


def _size(group: ParquetGroup) -> tuple[int, int]:
    block = group.block()
    return block.indices.size, block.largest


def _digest(group: ParquetGroup) -> tuple[tuple[int, int], int]:
    rows = group.load()
    return digest_rows(rows), int((rows.labels == 1).sum())


def _features(sources: list[ParquetSource], reading: ReadOptions, largest: int) -> int:
    given = reading.rules.features
    known = sources[0].n_features if given is None else given
    return max(largest + 1, 1) if known is None else known
