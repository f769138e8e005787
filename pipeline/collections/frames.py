"""Frames of pandas, polars and pyarrow as Arrow tables, their row index left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.collections.kinds import PANDAS, POLARS, kind_of
from pipeline.data.reading.plain import plain_table
from pipeline.errors import DataError


def arrow_table(frame: Any, where: str, wanted: Collection[str] | None = None) -> pa.Table:
    """Return a frame as an Arrow table, or say in one line why it is none.

    Where only some columns are ``wanted``, others may be of types that Arrow does not know.
    """
    kind = kind_of(frame, where)
    if isinstance(frame, pa.Table):
        return plain_table(frame)
    if isinstance(frame, pa.RecordBatch):
        return plain_table(pa.Table.from_batches([frame]))
    if kind == POLARS:
        if not hasattr(frame, "to_arrow") or not hasattr(frame, "columns"):
            problem = f"a {type(frame).__name__} of polars is no table of rows"
            raise DataError(f"{problem}; give a DataFrame (a LazyFrame: .collect())", path=where)
        return plain_table(frame.to_arrow())
    if kind != PANDAS or not hasattr(frame, "columns"):
        raise DataError(f"a {type(frame).__name__} is no table with columns; give a frame", path=where)
    return _from_pandas(frame, where, wanted)


def _from_pandas(frame: Any, where: str, wanted: Collection[str] | None) -> pa.Table:
    known = None if wanted is None else frozenset(wanted)
    named = [(k, str(name)) for k, name in enumerate(frame.columns) if known is None or str(name) in known]
    arrays = [_column(frame.iloc[:, k], name, where) for k, name in named]
    return pa.Table.from_arrays(arrays, names=[name for _, name in named])


def _column(column: Any, name: str, where: str) -> pa.Array:
    if hasattr(column.dtype, "fill_value"):  # a sparse column of pandas, which Arrow does not know
        column = column.sparse.to_dense()
    if isinstance(column.dtype, np.dtype) and not column.dtype.isnative:  # nor bytes the other way round
        column = column.astype(column.dtype.newbyteorder("="))
    try:
        made = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"column '{name}' cannot be read ({said}); give it one type", path=where) from error
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
