"""Frames as parts: pandas, polars and pyarrow become Arrow tables, which are read as Parquet files are.

Labels and weights that are given apart become columns of the table under names that no user has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pipeline.collections.kinds import PANDAS, POLARS, kind_of
from pipeline.collections.part import Part, arrow_of
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import Block, Origin, ReadRules
from pipeline.data.reading.columns import block_of
from pipeline.data.reading.layout import Layout, layout_of, listed, refuse_unknown
from pipeline.errors import DataError

GIVEN_LABEL, GIVEN_WEIGHT = "\0label", "\0weight"


@dataclass(frozen=True)
class TableReader:
    """Reads tables by their columns' names; of rows to be scored (``unlabelled``) no label is asked."""

    layout: Layout
    unlabelled: bool = False

    @property
    def n_features(self) -> int:
        """The number of feature columns."""
        return len(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the features."""
        assert self.layout.features is not None
        return self.layout.features

    def blocks(self, part: Part) -> Iterator[Block]:
        """Yield the rows of a part in order."""
        table = with_given(arrow_table(part.x, part.where), part)
        missing = [name for name in self.layout.names if name not in set(table.column_names)]
        if missing:
            raise DataError(f"no column {listed(missing)}, which other parts have; add it", path=part.where)
        step, rules = self.layout.batch_rows(), ReadRules(base=0, unlabelled=self.unlabelled)
        for start in range(0, table.num_rows, step):
            origin = Origin(part.where, start, columns=self.columns)
            yield block_of(table.slice(start, step).select(self.layout.names), self.layout, origin, rules)


def reader_of(schema: pa.Schema, where: str, options: ReadOptions, y: bool, weight: bool) -> TableReader:
    """Return what reads tables of a schema; ``y`` and ``weight`` say whether these are given apart.

    Where labels are given apart, every column is a feature, one called weight, too. This is where columns of text and
    dates are refused, by their names.
    """
    if y:
        schema = schema.append(pa.field(GIVEN_LABEL, pa.string()))
        options = replace(options, label_column=GIVEN_LABEL)
    if y or weight:
        schema = schema.append(pa.field(GIVEN_WEIGHT, pa.float64()))
        options = replace(options, weight_column=GIVEN_WEIGHT)
    layout = layout_of(schema, where, options)
    refuse_unknown([layout], options, where)
    if layout.features is None:
        raise DataError("has list columns indices and values; give a SciPy CSR matrix instead", path=where)
    return TableReader(layout if weight or not y else replace(layout, weight=None))


def arrow_table(frame: Any, where: str) -> pa.Table:
    """Return a frame as an Arrow table, its row index left out."""
    kind = kind_of(frame, where)
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if kind == POLARS:
        if not hasattr(frame, "to_arrow") or not hasattr(frame, "columns"):
            problem = f"a {type(frame).__name__} of polars is no table of rows"
            raise DataError(f"{problem}; give a DataFrame (a LazyFrame: .collect())", path=where)
        return frame.to_arrow()
    if kind != PANDAS or not hasattr(frame, "columns"):
        raise DataError(f"a {type(frame).__name__} is no table with columns; give a frame", path=where)
    return _from_pandas(frame, where)


def _from_pandas(frame: Any, where: str) -> pa.Table:
    names = [str(name) for name in frame.columns]
    arrays = []
    for k, name in enumerate(names):
        column = frame.iloc[:, k]
        if hasattr(column.dtype, "fill_value"):  # pandas' sparse columns, which Arrow does not know
            column = column.sparse.to_dense()
        try:
            made = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"column '{name}' cannot be read ({said}); give it one type", path=where) from error
        arrays.append(made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made)
    return pa.Table.from_arrays(arrays, names=names)


def with_given(table: pa.Table, part: Part) -> pa.Table:
    """Return a table with the labels and weights that were given apart as columns."""
    for values, name, what in ((part.y, GIVEN_LABEL, "the labels"), (part.weight, GIVEN_WEIGHT, "the weights")):
        if values is not None:
            column = arrow_of(values, what, part.where)
            if len(column) != table.num_rows:
                problem = f"{table.num_rows:,} rows, but {what} are {len(column):,}"
                raise DataError(f"{problem}; give one a row", path=part.where)
            table = table.append_column(name, column)
    return table
