"""Parquet files: list columns ``indices``/``values``, or one numeric column per feature; ``label``, ``weight``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.block import Block, Origin, ReadRules
from pipeline.data.sources.base import ReadOptions, Task
from pipeline.data.sources.columns import Layout, block_of, layout_of
from pipeline.data.sources.files import open_binary, size_of
from pipeline.errors import DataError

DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)  # what Arrow raises for a file it cannot read


class ParquetSource:
    """One Parquet file."""

    format = "parquet"

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.path = path
        self.rules = array_rules(options.rules)
        self.size = size_of(path)
        with open_binary(path) as stream:
            file = open_parquet(stream, path)
            self.layout = layout_of(file.schema_arrow, path, options)
            self.group_rows = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        self.columns = self.layout.features
        self.n_features = None if self.columns is None else len(self.columns)

    def tasks(self) -> Iterator[Task]:
        """Yield the conversion of every batch of rows."""
        row, total = 1, max(1, sum(self.group_rows))
        with open_binary(self.path) as stream:
            batches = open_parquet(stream, self.path).iter_batches(self.layout.batch_rows(), columns=self.layout.names)
            try:
                for batch in batches:
                    share = self.size * batch.num_rows // total
                    yield partial(
                        _block, batch, self.layout, Origin(self.path, row, columns=self.columns), self.rules, share
                    )
                    row += batch.num_rows
            except DAMAGE as error:
                raise damaged(self.path, error) from error


def array_rules(rules: ReadRules) -> ReadRules:
    """Indices in array formats count from 0 unless the user says otherwise."""
    return ReadRules(0 if rules.base is None else rules.base, rules.features, rules.add_duplicates)


def open_parquet(stream: object, path: str) -> pq.ParquetFile:
    """Open, or say in one line that the file is not Parquet."""
    try:
        return pq.ParquetFile(stream)
    except DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: str, error: Exception) -> DataError:
    """Return the error for a file that Arrow cannot read."""
    return DataError(f"is not a readable Parquet file ({str(error).splitlines()[0]}); write it again", path=path)


def _block(batch: pa.RecordBatch, layout: Layout, origin: Origin, rules: ReadRules, source_bytes: int) -> Block:
    return block_of(batch, layout, origin, rules).with_source_bytes(source_bytes)
