"""Columns of a table that tell its rows apart for the user, and mean nothing to a model: they are copied to outputs.

They are read beside the rows, in a stream of their own: of Parquet only these columns, with the types that they have;
of CSV as the text that stands there, so that 007 stays 007 and NA is a name as any other (an empty cell is null). What
is in memory is a batch, whatever the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipeline.data.reading.base import Source
from pipeline.data.reading.csv import CsvSource
from pipeline.data.reading.layout import SHOWN, listed
from pipeline.data.reading.parquet import ParquetSource
from pipeline.errors import DataError
from pipeline.events import Listener, Note

BATCH = 1 << 16  # rows


def usual_ids(sources: Sequence[Source], names: Sequence[str], path: str, listen: Listener) -> tuple[str, ...]:
    """Return those of the columns that are ids by the file of columns, and that all files have; a line names others."""
    tables = all(isinstance(source, CsvSource | ParquetSource) for source in sources)
    there = {name for name in names if tables and all(name in source.types for source in sources)}  # type: ignore[attr-defined]
    missing = [name for name in names if name not in there]
    if missing:
        listen(Note(f"{path}: has no column {listed(missing)}, an id in training; the output is without it"))
    return tuple(name for name in names if name in there)


class IdColumns:
    """The columns ``names`` of some files, from their first row on; ``schema`` is what all files together have."""

    def __init__(self, sources: Sequence[Source], names: Sequence[str], path: str) -> None:
        twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
        if twice is not None:
            raise DataError(f"--id {twice} stands twice; leave one out", path=path)
        self.sources, self.names, self.path = sources, list(names), path
        self.schema = _shared([(source.path, _schema(source, self.names)) for source in sources])
        self._batches = self._read()
        self._left = self.schema.empty_table()

    def take(self, rows: int) -> pa.Table:
        """Return the next rows."""
        parts = [self._left]
        while (there := sum(part.num_rows for part in parts)) < rows:
            found = next(self._batches, None)
            if found is None:
                raise self._changed()
            parts.append(found)
        waiting = pa.concat_tables(parts)
        self._left = waiting.slice(rows) if there > rows else self.schema.empty_table()
        return waiting.slice(0, rows)

    def finish(self) -> None:
        """Raise DataError if there are rows that nobody took: then those taken may be of others than was thought."""
        if self._left.num_rows or any(batch.num_rows for batch in self._batches):
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError("has other rows now than it had a moment ago; run again when it is complete", path=self.path)

    def _read(self) -> Iterator[pa.Table]:
        for source in self.sources:
            if isinstance(source, CsvSource):
                batches: Iterator[pa.RecordBatch | pa.Table] = source.texts(self.names)
            else:
                assert isinstance(source, ParquetSource)
                batches = source.table.batches(self.names, BATCH)
            for batch in batches:
                yield pa.table([self._column(batch, name, source.path) for name in self.names], schema=self.schema)

    def _column(self, batch: pa.RecordBatch | pa.Table, name: str, path: str) -> pa.Array | pa.ChunkedArray:
        column, kind = batch.column(name), self.schema.field(name).type
        try:
            return column if column.type == kind else column.cast(kind)
        except pa.ArrowException as error:
            problem = f"column '{name}' is {column.type} here and {kind} in all files together"
            raise DataError(f"{problem}, which has no room for all of it; convert it", path=path) from error


def _schema(source: Source, names: list[str]) -> pa.Schema:
    """Return the fields of the columns in a file, or the error that one is not there."""
    if not isinstance(source, CsvSource | ParquetSource):
        problem = f"{source.format} files have no columns with names, and so no ids"
        raise DataError(f"{problem}; leave --id out, or write the rows as CSV or Parquet", path=source.path)
    fields, there = [], list(source.types)
    for name in names:
        if name not in there:
            shown = ", ".join(there[:SHOWN]) + (", ..." if len(there) > SHOWN else "")
            raise DataError(f"no column '{name}' for --id; there are {shown}", path=source.path)
        kind = pa.string() if isinstance(source, CsvSource) else source.types[name]
        if pa.types.is_nested(kind):
            raise DataError(f"column '{name}' is {kind}; an id is one value: convert it", path=source.path)
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _shared(found: list[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return a schema that has room for the columns of all files."""
    shared = found[0][1]
    for path, schema in found[1:]:
        for k, field in enumerate(schema):
            before = shared.field(k)
            try:
                both = [pa.schema([before]), pa.schema([field])]
                shared = shared.set(k, pa.unify_schemas(both, promote_options="permissive").field(0))
            except pa.ArrowException as error:
                problem = f"column '{field.name}' is {field.type} here and {before.type} in {found[0][0]}"
                raise DataError(f"{problem}; convert one of them", path=path) from error
    return shared
