"""Parquet files: list columns ``indices``/``values``, or one numeric column per feature; ``label``, ``weight``.

Rows are read a batch at a time, column chunks through buffers, and labels as codes into their dictionary: what is in
memory depends on neither the file nor its row groups. A row group may be a thousand times as large as its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.reading.base import BlockTask, ReadOptions
from pipeline.data.reading.block import Block, Origin, ReadRules
from pipeline.data.reading.columns import block_of
from pipeline.data.reading.files import open_binary, size_of
from pipeline.data.reading.layout import Layout, is_text, layout_of, n_features_of
from pipeline.data.reading.parquet_footer import check_pages, list_entries
from pipeline.data.reading.partitions import Partitions, partitions_of
from pipeline.data.reading.plain import plain_schema, plain_table
from pipeline.data.stores.located import is_url
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)  # what Arrow raises for a file it cannot read
BUFFERS = 64 << 20  # for all columns together
SMALLEST_BUFFER = 1 << 14  # bytes a column: with less, reading is all calls
TABLE_BYTES = 8 << 20  # of a table, a batch: what is made of it is several times that
BYTES_A_PAIR = 4  # in a line of svmlight text, at least


@dataclass(frozen=True)
class ParquetTable:
    """The columns of one file: its own and those of its folders. ``coded`` ones are read as codes."""

    path: str
    partitions: Partitions
    coded: tuple[str, ...]
    some_column: tuple[str, ...]

    def batches(self, names: list[str], rows: int, group: int | None = None) -> Iterator[pa.RecordBatch | pa.Table]:
        """Yield some columns, so many rows at a time, of all row groups or of one."""
        own = [name for name in names if name not in self.partitions.names]
        groups = None if group is None else [group]
        with open_binary(self.path) as stream:
            file = open_parquet(stream, self.path, self.coded, len(own))
            try:
                columns = own or list(self.some_column)  # of no column Arrow would not tell the number of rows
                for batch in file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=group is None):
                    yield plain_table(self.partitions.fill(batch, names))
            except DAMAGE as error:
                raise damaged(self.path, error) from error


class ParquetSource:
    """One Parquet file."""

    format = "parquet"

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.path, self.options, self.max_entries = path, options, options.max_line // BYTES_A_PAIR
        self.rules = array_rules(options.rules)
        self.size = size_of(path)
        with open_binary(path) as stream:
            file = open_parquet(stream, path)
            if not is_url(path):  # elsewhere, looking at every page would bring the file twice
                check_pages(stream, path)
            schema = plain_schema(file.schema_arrow)
            partitions = partitions_of(path, schema.names, options.label_column)
            whole = partitions.schema(schema)
            self.layout = layout_of(whole, path, options)
            self.types = {name: whole.field(name).type for name in whole.names}
            self.untyped = frozenset(partitions.names)
            self.group_rows = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
            self.entries = [0] * len(self.group_rows)
            if self.layout.has_lists:
                self.entries = list_entries(stream, path, ("indices", "values"))
            self.row_bytes = _row_bytes(file.metadata, self.layout)
            self.table = ParquetTable(path, partitions, _coded(schema, self.layout), tuple(schema.names[:1]))
        if min(self.group_rows, default=0) < 0 or len(self.entries) != len(self.group_rows):
            raise damaged(path, ValueError("row groups of no length"))
        self._check_lists()
        self.columns = self.layout.features
        self.n_features = n_features_of(self.layout)

    def again(self, options: ReadOptions) -> ParquetSource:
        """Return the same file, to be read otherwise."""
        return ParquetSource(self.path, options)

    def tasks(self) -> Iterator[BlockTask]:
        """Yield the conversion of every batch of rows."""
        for batch, origin, share in self.batches():
            yield partial(_block, batch, self.layout, origin, self.rules, share)

    def batches(self) -> Iterator[tuple[pa.RecordBatch | pa.Table, Origin, int]]:
        """Yield the columns of the layout, some rows at a time: where they stand, and their share of the bytes."""
        row, total = 1, max(1, sum(self.group_rows))
        for batch in self.table.batches(self.layout.names, self.rows_at_a_time):
            yield batch, Origin(self.path, row, columns=self.columns), self.size * batch.num_rows // total
            row += batch.num_rows

    @property
    def rows_at_a_time(self) -> int:
        """How many rows make a small batch."""
        rows = self.layout.batch_rows(max(self._lengths(), default=0.0))
        return rows if not self.row_bytes else max(1, min(rows, round(TABLE_BYTES / self.row_bytes)))

    def _lengths(self) -> list[float]:
        """Return the mean length of the lists, by row group."""
        return [entries / max(1, rows) for entries, rows in zip(self.entries, self.group_rows, strict=True)]

    def _check_lists(self) -> None:
        """Refuse lists that are longer than a line may be, before they are in memory."""
        for mean in self._lengths():
            if mean > self.max_entries:
                problem = f"a row has {mean:,.0f} entries, more than the {self.max_entries:,} of a line of that length"
                raise DataError(f"{problem}; raise --max-line if that is right", path=self.path)


def array_rules(rules: ReadRules) -> ReadRules:
    """Indices in array formats count from 0 unless the user says otherwise."""
    return replace(rules, base=0 if rules.base is None else rules.base)


def open_parquet(stream: object, path: str, coded: tuple[str, ...] = (), columns: int = 1) -> pq.ParquetFile:
    """Open, or say in one line that the file is not Parquet; ``coded`` columns are read as codes."""
    buffer = max(SMALLEST_BUFFER, BUFFERS // max(1, columns))
    try:
        return pq.ParquetFile(stream, read_dictionary=list(coded), buffer_size=buffer, pre_buffer=False)
    except DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: str, error: Exception) -> DataError:
    """Return the error for a file that Arrow cannot read."""
    said = str(error).splitlines() or [type(error).__name__]
    return DataError(f"is not a readable Parquet file ({said[0]}); write it again", path=path)


def _coded(schema: pa.Schema, layout: Layout) -> tuple[str, ...]:
    """Return the columns of text: decoded, one long value in a dictionary would be as long in every row."""
    wanted = {layout.label, *(() if layout.has_lists or layout.features is not None else layout.inputs)}
    return tuple(name for name in schema.names if name in wanted and is_text(schema.field(name).type))


def _row_bytes(metadata: pq.FileMetaData, layout: Layout) -> float:
    """Return how many bytes a row of a table to be encoded has, in the row group where it has most."""
    if layout.has_lists or layout.features is not None:
        return 0.0
    groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
    return max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0.0)


def _block(
    batch: pa.RecordBatch | pa.Table, layout: Layout, origin: Origin, rules: ReadRules, source_bytes: int
) -> Block:
    return block_of(batch, layout, origin, rules).with_source_bytes(source_bytes)
