"""Passes straight over Parquet files: every row group is a shard that is decoded when it is loaded.

Opening reads the label columns to settle the signs, then every row group once to check it and to know its size; the
fingerprint equals that of the same rows in a shard directory. Memory is bounded by the largest row group.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from pipeline.cores import available_cores
from pipeline.data.assemble import Piece, join
from pipeline.data.block import Block, Origin, ReadRules
from pipeline.data.dataset import Dataset
from pipeline.data.digest import Lanes, digest_rows, digest_text, fingerprint
from pipeline.data.labels import LabelCoder, LabelMap
from pipeline.data.parallel import in_order
from pipeline.data.rows import Rows
from pipeline.data.sources.base import ReadOptions
from pipeline.data.sources.columns import Layout, block_of, labels_of
from pipeline.data.sources.files import expand, open_binary
from pipeline.data.sources.parquet import ParquetSource, damaged, open_parquet
from pipeline.data.stores import is_url
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
    digest: str = ""

    def load(self) -> Rows:
        """Decode the row group."""
        return self.rows_of(self.block())

    def block(self) -> Block:
        """Decode and check the row group, before labels are mapped."""
        origin = Origin(self.path, self.first_in_file, columns=self.layout.features)
        block = block_of(self._read(self.layout.names), self.layout, origin, self.rules)
        if block.n_rows != self.n_rows:
            raise DataError("the file was replaced since it was opened; run again", path=self.path)
        return block

    def rows_of(self, block: Block) -> Rows:
        """Map the labels and add the bias."""
        assert self.labels is not None
        signs = LabelCoder(fixed=self.labels).encode(block.labels, self.path)
        rows = join([Piece(block, signs, 0, block.n_rows)], self.bias, self.n_features - 1)
        return replace(rows, n_features=self.n_features)

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
            labels=labels,
            n_features=n_features,
            bias=bias,
            nnz=found.nnz,
            digest=digest_text(found.lanes),
        )
        for g, found in zip(groups, looks, strict=True)
    )
    return Dataset(
        path=path,
        kind="parquet",
        n_features=n_features,
        labels=labels,
        bias=bias,
        shards=shards,
        n_positive=sum(found.positives for found in looks),
        fingerprint=fingerprint([(found.lanes, g.n_rows) for found, g in zip(looks, shards, strict=True)], n_features),
        bytes=sum(source.size for source in sources),
    )


def _from_anywhere(path: str) -> str:
    """Return a path that a worker finds whose current directory is another."""
    return path if is_url(path) else str(Path(path).absolute())


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


@dataclass(frozen=True)
class _Look:
    """What opening needs to know of a row group; ``largest`` is its largest index but for the bias."""

    nnz: int
    largest: int
    positives: int
    lanes: Lanes


def _look(group: ParquetGroup) -> _Look:
    block = group.block()
    rows = group.rows_of(block)
    return _Look(rows.nnz, block.largest, int((rows.labels == 1).sum()), digest_rows(rows))


def _known_features(sources: list[ParquetSource], reading: ReadOptions) -> int | None:
    given = reading.rules.features
    return sources[0].n_features if given is None else given
