"""CSV with a header (or with given column names): one column per feature, one for the label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from pipeline.data.block import Block, Origin, ReadRules
from pipeline.data.sources.base import ReadOptions, Task
from pipeline.data.sources.columns import Layout, block_of, layout_of
from pipeline.data.sources.files import open_plain, position, size_of
from pipeline.errors import DataError

READ_BYTES = 2 << 20


class CsvSource:
    """One CSV file."""

    def __init__(self, path: str, options: ReadOptions, block_bytes: int = READ_BYTES) -> None:
        self.path, self.options, self.block_bytes = path, options, block_bytes
        self.rules = ReadRules(0, options.rules.features)
        self.size = size_of(path)
        self.layout = layout_of(self._schema(), path, options)
        assert self.layout.features is not None
        self.columns: tuple[str, ...] | None = self.layout.features
        self.n_features: int | None = len(self.layout.features)

    def tasks(self) -> Iterator[Task]:
        """Yield the conversion of every batch that Arrow's streaming reader returns."""
        line = 1 if self.options.columns else 2
        types = {name: pa.float64() for name in self.layout.names} | {self.layout.label: pa.string()}
        convert = pacsv.ConvertOptions(column_types=types, include_columns=self.layout.names, strings_can_be_null=True)
        try:
            with open_plain(self.path) as stream:
                before = 0
                for batch in pacsv.open_csv(stream, read_options=self._reading(), convert_options=convert):
                    after = position(stream, self.size)
                    yield partial(_block, batch, self.layout, self.path, line, self.rules, after - before)
                    before, line = after, line + batch.num_rows
        except pa.ArrowInvalid as error:
            raise _translated(error, self.path) from error

    def _reading(self) -> pacsv.ReadOptions:
        names = list(self.options.columns) if self.options.columns else None
        return pacsv.ReadOptions(block_size=self.block_bytes, use_threads=False, column_names=names)

    def _schema(self) -> pa.Schema:
        """Return the header as a schema that takes every column but the label for a number."""
        if self.options.columns:
            names = list(self.options.columns)
        else:
            with open_plain(self.path) as stream:
                header = stream.readline(1 << 24)
            if not header.strip():
                raise DataError("the file is empty; a CSV file starts with a header line", path=self.path)
            table = pacsv.read_csv(
                pa.py_buffer(header),
                read_options=pacsv.ReadOptions(autogenerate_column_names=True),
                convert_options=pacsv.ConvertOptions(default_column_type=pa.string()),
            )
            names = [str(column[0]) for column in table.columns]
        return pa.schema([(name, pa.float64()) for name in names])


def _block(batch: pa.RecordBatch, layout: Layout, path: str, line: int, rules: ReadRules, share: int) -> Block:
    lines = np.arange(line, line + batch.num_rows)
    origin = Origin(path, lines=lines, columns=layout.features)
    return block_of(batch, layout, origin, rules).with_source_bytes(share)


def _translated(error: Exception, path: str) -> DataError:
    text = str(error).splitlines()[0]
    found = re.search(r"Row #(\d+): (.*)", text)
    if not found:
        return DataError(f"is not a readable CSV file ({text})", path=path)
    problem = found[2].replace("CSV conversion error to double: ", "not a number: ")
    return DataError(f"{problem}; correct the line", path=path, row=int(found[1]), unit="line")
