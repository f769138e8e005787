"""CSV with a header (or with given column names): one column per feature, one for the label."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from pipeline.data.reading.base import BlockTask, ReadOptions
from pipeline.data.reading.block import Block, Origin, ReadRules
from pipeline.data.reading.columns import block_of
from pipeline.data.reading.csv_lines import CheckedLines, Quotes, line_of, longest
from pipeline.data.reading.files import open_plain, position, size_of, too_long
from pipeline.data.reading.gaps import NOTHING
from pipeline.data.reading.layout import MOST_COLUMNS, Layout, layout_of, n_features_of
from pipeline.errors import DataError

READ_BYTES = 2 << 20  # of text a block: its cells take several times that
CELL_BYTES = 64  # a block has room for one line of cells as long as that
LARGEST_BLOCK = 1 << 30  # Arrow counts bytes of a block in 32 bits
TEXT = pa.dictionary(pa.int32(), pa.string())  # of columns that are encoded: a value is looked at once a block
SEPARATORS = (",", ";", "\t", "|")
_TOO_LONG = "straddling object"  # what Arrow calls a line longer than its blocks


class CsvSource:
    """One CSV file."""

    format = "csv"

    def __init__(self, path: str, options: ReadOptions, block_bytes: int = READ_BYTES) -> None:
        self.path, self.options = path, options
        self.rules = ReadRules(0, options.rules.features, unlabelled=options.rules.unlabelled)
        self.size = size_of(path)
        self.with_text = options.table is not None or options.encoding is not None
        first, self.separator = _header(path, options.max_line)
        self.names = list(options.columns) if options.columns else first
        self.block_bytes = min(max(block_bytes, CELL_BYTES * len(self.names)), options.max_line, LARGEST_BLOCK)
        self.layout = layout_of(self._schema(), path, options)
        self.columns: tuple[str, ...] | None = self.layout.features
        self.n_features: int | None = n_features_of(self.layout)
        self.types = dict.fromkeys(self.names, TEXT)
        self.untyped = frozenset(self.names)

    def again(self, options: ReadOptions) -> CsvSource:
        """Return the same file, to be read otherwise."""
        return CsvSource(self.path, options)

    def tasks(self) -> Iterator[BlockTask]:
        """Yield the conversion of every batch that Arrow's streaming reader returns."""
        for batch, origin, share in self.batches():
            yield partial(_block, batch, self.layout, origin, self.rules, share)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Origin, int]]:
        """Yield the columns of the layout, some rows at a time: where they stand, and their share of the bytes."""
        row = 1 if self.options.columns else 2
        before = 0
        try:
            for batch, after in self._batches(self._types()):
                origin = Origin(self.path, row, columns=self.columns, line_of=self._line)
                _refuse_header(batch, origin)
                yield batch, origin, after - before
                before, row = after, row + batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise self._translated(str(error)) from error

    def texts(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns as the text that stands there; a cell with nothing in it, not even quotes, is null."""
        types = dict.fromkeys(names, pa.string())
        as_text = {"strings_can_be_null": True, "quoted_strings_can_be_null": False, "null_values": [""]}
        try:
            for batch, _ in self._batches(pacsv.ConvertOptions(column_types=types, include_columns=names, **as_text)):
                yield batch
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise self._translated(str(error)) from error

    def _batches(self, types: pacsv.ConvertOptions) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield batches and how far the file has been read.

        Blocks are small, and lines longer than a block rare: where one turns up, the file is read again with blocks as
        long as a line may be, and the rows that are done are passed over. (Arrow would skip them itself, but counts
        empty lines.)
        """
        done = 0
        for block_bytes in (self.block_bytes, min(self.options.max_line, LARGEST_BLOCK)):
            try:
                with open_plain(self.path) as stream:
                    row, options = 0, self._reading(block_bytes)
                    parsing = pacsv.ParseOptions(delimiter=self.separator, newlines_in_values=self.with_text)
                    checked = CheckedLines(stream, self.path, self._quotes())
                    for batch in pacsv.open_csv(checked, options, parsing, types):
                        row += batch.num_rows
                        if row > done:
                            yield batch.slice(max(0, batch.num_rows - (row - done))), position(stream, self.size)
                            done = row
                checked.finish()
                return
            except pa.ArrowInvalid as error:
                if _TOO_LONG not in str(error):
                    raise
            length, line = longest(self.path, self._quotes(), self.options.max_line)
            if length > self.options.max_line or block_bytes >= min(self.options.max_line, LARGEST_BLOCK):
                raise too_long(self.path, line, self.options.max_line)

    def _types(self) -> pacsv.ConvertOptions:
        types = {name: pa.float64() for name in self.layout.names}
        types |= dict.fromkeys(self.layout.raw or (), TEXT)
        if self.layout.encoding is not None:
            types |= dict.fromkeys(self.layout.encoding.not_numbers, TEXT)
        if self.layout.label is not None:
            types[self.layout.label] = pa.string()
        if self.layout.group is not None:
            types[self.layout.group] = pa.string()
        if self.layout.weight is not None and self.rules.unlabelled:
            types[self.layout.weight] = pa.string()  # of rows to be scored it may be anything
        return pacsv.ConvertOptions(
            column_types=types, include_columns=self.layout.names, null_values=NOTHING, strings_can_be_null=True
        )

    def _reading(self, block_bytes: int) -> pacsv.ReadOptions:
        names = self.names if self.options.columns else None
        return pacsv.ReadOptions(block_size=block_bytes, use_threads=False, column_names=names)

    def _quotes(self) -> Quotes:
        """Return what tells records from lines: only text has line breaks."""
        return Quotes(self.separator, breaks=self.with_text)

    def _line(self, record: int) -> int:
        return line_of(self.path, record, self._quotes(), self.options.max_line)

    def _schema(self) -> pa.Schema:
        """Return the header as a schema that takes every column but the label, unless it is a feature, for a number.

        What is to be learnt of, or encoded, may be anything: that is text.
        """
        if self.with_text:
            weight = self.options.weight_column
            return pa.schema([(name, pa.float64() if name == weight else pa.string()) for name in self.names])
        label = None if self.options.label_column in (self.options.wanted or ()) else self.options.label_column
        return pa.schema([(name, pa.string() if name == label else pa.float64()) for name in self.names])

    def _translated(self, text: str) -> DataError:
        """Say what Arrow says in our words, with the column's name and the line."""
        found = re.search(r"(?:CSV column #(\d+): )?(?:CSV parse error: )?Row #(\d+): (.*)", text)
        if "Empty CSV file" in text:
            return DataError("no rows in the file; write them below the header", path=self.path)
        if not found:
            return DataError(f"is not a readable CSV file ({text.splitlines()[0]}); correct it", path=self.path)
        column = f"column '{self.names[int(found[1])]}': " if found[1] else ""
        problem = column.join(re.split(r"CSV conversion error to \w+: ", found[3], maxsplit=1))
        cure = "write the file as UTF-8 text" if "invalid UTF8" in problem else "correct the line"
        return DataError(f"{problem}; {cure}", path=self.path, row=self._line(int(found[2])), unit="line")


def _header(path: str, max_line: int) -> tuple[list[str], str]:
    """Return the names in the first line that is not empty, and what stands between them."""
    number = 0
    with open_plain(path) as stream:
        while (line := stream.readline(max_line + 1)) and not line.strip(b"\r\n"):
            number += 1
    if len(line) > max_line:
        raise too_long(path, number + 1, max_line)
    if max(line.count(separator.encode()) for separator in SEPARATORS) > MOST_COLUMNS:
        problem = f"the header has more than {MOST_COLUMNS:,} columns"
        raise DataError(f"{problem}; write rows this wide as svmlight or npz", path=path)
    first = next(iter(line.strip(b"\r\n").splitlines()), b"")
    if not first:
        raise DataError("no rows in the file; a CSV file starts with a header line", path=path)
    try:
        text = first.decode("utf-8-sig")
        separator = _separator(text)
        if not Quotes(separator, breaks=False).take(first, 1):
            raise DataError("a quote in the header is not closed, or text follows it; correct the line", path=path)
        return next(csv.reader([text], delimiter=separator)), separator
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"the header cannot be read ({error}); write the file as UTF-8 text", path=path) from error


def _separator(header: str) -> str:
    """Return what stands most often between the names of a header, outside quotes: comma, semicolon, tab or bar."""
    bare = re.sub(r'(?<![^,;\t|])"(?:[^"]|"")*"', "", header)  # quotes are letters unless a name begins with them
    return max(SEPARATORS, key=bare.count)  # of equal ones the first


def _refuse_header(batch: pa.RecordBatch, origin: Origin) -> None:
    """Refuse a row of column names: the header of a file that was put behind another. It would make text of numbers.

    Where columns are read as numbers, a name is none.
    """
    again = np.full(batch.num_rows, batch.num_columns > 1)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not again.any() or not (pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)):
            return
        names = pc.is_in(column, value_set=pa.array([name, f"\ufeff{name}"]))
        again &= names.to_numpy(zero_copy_only=False)
    if again.any():
        raise origin.error(int(np.argmax(again)), "the header stands here again; remove the line")


def _block(batch: pa.RecordBatch, layout: Layout, origin: Origin, rules: ReadRules, share: int) -> Block:
    return block_of(batch, layout, origin, rules).with_source_bytes(share)
