"""CSV with a header (or with given column names): one column per feature, one for the label."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.csv as pacsv

from pipeline.data.block import Block, Origin, ReadRules
from pipeline.data.sources.base import ReadOptions, Task
from pipeline.data.sources.columns import Layout, block_of, layout_of
from pipeline.data.sources.files import open_plain, position, size_of
from pipeline.errors import DataError

READ_BYTES = 2 << 20
CELL_BYTES = 64
LONGEST_LINE = 1 << 26


class CsvSource:
    """One CSV file."""

    format = "csv"

    def __init__(self, path: str, options: ReadOptions, block_bytes: int = READ_BYTES) -> None:
        self.path, self.options = path, options
        self.rules = ReadRules(0, options.rules.features)
        self.size = size_of(path)
        self.names = list(options.columns) if options.columns else _header(path)
        self.block_bytes = max(block_bytes, CELL_BYTES * len(self.names))
        self.layout = layout_of(self._schema(), path, options)
        assert self.layout.features is not None
        self.columns: tuple[str, ...] | None = self.layout.features
        self.n_features: int | None = len(self.layout.features)

    def tasks(self) -> Iterator[Task]:
        """Yield the conversion of every batch that Arrow's streaming reader returns."""
        row = 1 if self.options.columns else 2
        types = {name: pa.float64() for name in self.layout.names} | {self.layout.label: pa.string()}
        convert = pacsv.ConvertOptions(column_types=types, include_columns=self.layout.names, strings_can_be_null=True)
        try:
            with open_plain(self.path) as stream:
                before = 0
                for batch in pacsv.open_csv(stream, read_options=self._reading(), convert_options=convert):
                    after = position(stream, self.size)
                    yield partial(
                        _block,
                        batch,
                        self.layout,
                        Origin(self.path, row, columns=self.columns),
                        self.rules,
                        after - before,
                    )
                    before, row = after, row + batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise self._translated(str(error)) from error

    def _reading(self) -> pacsv.ReadOptions:
        names = self.names if self.options.columns else None
        return pacsv.ReadOptions(block_size=self.block_bytes, use_threads=False, column_names=names)

    def _schema(self) -> pa.Schema:
        """Return the header as a schema that takes every column but the label for a number."""
        label = self.options.label_column
        return pa.schema([(name, pa.string() if name == label else pa.float64()) for name in self.names])

    def _translated(self, text: str) -> DataError:
        """Say what Arrow says in our words, with the column's name and the line."""
        found = re.search(r"(?:CSV column #(\d+): )?(?:CSV parse error: )?Row #(\d+): (.*)", text)
        if "Empty CSV file" in text:
            return DataError("no rows in the file; write them below the header", path=self.path)
        if not found:
            return DataError(f"is not a readable CSV file ({text.splitlines()[0]}); correct it", path=self.path)
        column = f"column '{self.names[int(found[1])]}': " if found[1] else ""
        problem = re.sub(r"CSV conversion error to \w+: ", column, found[3])
        return DataError(
            f"{problem}; correct the line", path=self.path, row=_line(self.path, int(found[2])), unit="line"
        )


def _header(path: str) -> list[str]:
    """Return the names in the first line that is not empty."""
    with open_plain(path) as stream:
        while (line := stream.readline(LONGEST_LINE)) and not line.strip(b"\r\n"):
            pass
    first = next(iter(line.strip(b"\r\n").splitlines()), b"")
    if not first:
        raise DataError("no rows in the file; a CSV file starts with a header line", path=path)
    try:
        return next(csv.reader([first.decode("utf-8-sig")]))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"the header cannot be read ({error}); write the file as UTF-8 text", path=path) from error


def _block(batch: pa.RecordBatch, layout: Layout, origin: Origin, rules: ReadRules, share: int) -> Block:
    try:
        return block_of(batch, layout, origin, rules).with_source_bytes(share)
    except DataError as error:
        if error.row is None:
            raise
        raise DataError(error.problem, path=origin.path, row=_line(origin.path, error.row), unit="line") from error


def _line(path: str, row: int) -> int:
    """Return the line of a row (the header is one): Arrow passes over empty lines and does not count them."""
    with open_plain(path) as stream:
        number = 0
        while row and (line := stream.readline(LONGEST_LINE)):
            number += 1
            row -= 1 if line.strip(b"\r\n") else 0
    return number
