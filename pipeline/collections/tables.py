"""Tables as parts: a reader that finds columns by their names, and makes features of them as files' tables have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.collections.frames import arrow_table
from pipeline.collections.part import Part, arrow_of, expect_labels
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import Block, Origin, ReadRules
from pipeline.data.reading.columns import block_of
from pipeline.data.reading.layout import Layout, is_numeric, layout_of, listed, n_features_of, refuse_unknown
from pipeline.data.tables.encoding import Encoding
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

Batch = tuple[pa.Table, Origin]


@dataclass(frozen=True)
class TableReader:
    """Reads tables by their columns' names; of rows to be scored (``unlabelled``) no label is asked.

    Labels and weights that are given apart become columns of the names that the layout has for them; rows of weight 0
    are not there.
    """

    layout: Layout
    unlabelled: bool = False

    @property
    def n_features(self) -> int:
        """How many features the columns make."""
        found = n_features_of(self.layout)
        assert found is not None
        return found

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the features, where columns are features as they are."""
        return self.layout.features

    @property
    def encoding(self) -> Encoding | None:
        """What makes features of the columns, if they are not features as they are."""
        return self.layout.encoding

    def blocks(self, part: Part) -> Iterator[Block]:
        """Yield the rows of a part in order."""
        rules = ReadRules(base=0, unlabelled=self.unlabelled)
        for batch, origin in self.batches(part):
            yield block_of(batch, self.layout, origin, rules)

    def batches(self, part: Part) -> Iterator[Batch]:
        """Yield the columns of the layout, some rows at a time, and where they stand."""
        table = self._with_given(arrow_table(part.x, part.where), part)
        missing = [name for name in self.layout.names if name not in set(table.column_names)]
        if missing:
            raise DataError(f"no column {listed(missing)}, which other parts have; add it", path=part.where)
        step, wanted = self.layout.batch_rows(), table.select(self.layout.names)
        for start in range(0, table.num_rows, step):
            batch, kept = wanted.slice(start, step), None
            if part.weight is not None:
                batch, kept = _with_weight(batch, self.layout.weight)
            if batch.num_rows:
                yield batch, Origin(part.where, start, columns=self.layout.features, kept=kept)

    def encoded(self, encoding: Encoding) -> TableReader:
        """Return what reads the same tables with what was learnt of them."""
        return TableReader(replace(self.layout, raw=None, encoding=encoding), self.unlabelled)

    def _with_given(self, table: pa.Table, part: Part) -> pa.Table:
        given = ((part.y, self.layout.label, "the labels"), (part.weight, self.layout.weight, "the weights"))
        for values, name, what in given:
            if values is not None:
                column = arrow_of(values, what, part.where)
                if name == self.layout.label:
                    expect_labels(column.type, part.where)
                if len(column) != table.num_rows:
                    problem = f"{table.num_rows:,} rows, but {what} are {len(column):,}"
                    raise DataError(f"{problem}; give one a row", path=part.where)
                table = table.append_column(name, column)
        return table


def _with_weight(batch: pa.Table, name: str | None) -> tuple[pa.Table, np.ndarray | None]:
    """Return the rows whose weight is not 0, and which they are; None: all. What is no number is refused later."""
    column = batch.column(name)
    if not (is_numeric(column.type) or pa.types.is_boolean(column.type)):
        return batch, None
    there = pc.not_equal(column.cast(pa.float64(), safe=False), 0.0).fill_null(True)
    if pc.all(there).as_py() is not False:
        return batch, None
    return batch.filter(there), np.flatnonzero(there.to_numpy())


@dataclass(frozen=True)
class FrameAsked:
    """What is asked of a frame: how it is read, whether ``y`` and ``weight`` are given apart.

    ``numbers_too``: columns that are all numbers are encoded, too, where anything may be.
    """

    reading: ReadOptions
    y: bool
    weight: bool
    numbers_too: bool = True


def reader_of(schema: pa.Schema, where: str, asked: FrameAsked) -> TableReader:
    """Return what reads tables of a schema.

    Where labels are given apart, every column is a feature, one called weight, too. If columns are to be encoded, what
    is in them has to be learnt first (``surveys``); if not, text and dates are refused here, by their names.
    """
    options, y, weight = asked.reading, asked.y, asked.weight
    if y:
        options = replace(options, label_column=_free(options.label_column, schema))
        schema = schema.append(pa.field(options.label_column, pa.string()))
    if y or weight:
        options = replace(options, weight_column=_free(options.weight_column, schema))
        schema = schema.append(pa.field(options.weight_column, pa.float64()))
    layout = layout_of(schema, where, options)
    if layout.raw is not None and not asked.numbers_too and all(_is_plain(schema.field(name)) for name in layout.raw):
        layout = layout_of(schema, where, replace(options, table=None))
    refuse_unknown([layout], options, where)
    if layout.has_lists:
        raise DataError("has list columns indices and values; give a SciPy CSR matrix instead", path=where)
    return TableReader(layout if weight or not y else replace(layout, weight=None))


def _is_plain(field: pa.Field) -> bool:
    return is_numeric(field.type) or pa.types.is_boolean(field.type)


def _free(name: str, schema: pa.Schema) -> str:
    """Return a name for a column that no other has."""
    while name in schema.names:
        name += "_"
    return name
