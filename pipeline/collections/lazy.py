"""Dask collections in, lazy Dask arrays out: a function of every partition's rows, computed when the user asks.

What the function needs (a model, whose w may have millions of entries) stands in the graph once, so that it travels
once, and not with each task; and Dask can make it again when a worker is lost. Chunks are those of the rows, their
sizes unknown where these are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

from pipeline.collections.kinds import DASK_ARRAY, kind_of

RowFunction = Callable[[Any, str, Any], np.ndarray]


def lazily(function: RowFunction, x: Any, shared: Any, dtype: Any, columns: int | None = None) -> Any:
    """Return function(rows of a partition, what to call it, shared) of all partitions, as a lazy Dask array.

    The array has one dimension, or two with so many ``columns``. ``x`` is a Dask array with all its columns in one
    block, a frame or a bag.
    """
    held = dask.delayed(shared, traverse=False, pure=False)
    meta = np.empty((0,) if columns is None else (0, 0), dtype)
    call = _Call(function, np.dtype(dtype), columns)
    kind = kind_of(x)
    if kind == DASK_ARRAY:
        shape: dict[str, Any] = {"drop_axis": 1} if columns is None else {"chunks": (x.chunks[0], (columns,))}
        return x.map_blocks(call, held, dtype=dtype, meta=meta, **shape)
    task = dask.delayed(call, pure=False, traverse=False)
    unknown = (math.nan,) if columns is None else (math.nan, columns)
    parts = [
        da.from_delayed(task(part, held, block_id=(k,)), unknown, dtype=dtype, meta=meta)
        for k, part in enumerate(x.to_delayed())
    ]
    return da.concatenate(parts)


def over_scores(scores: Any, function: Callable[..., np.ndarray], dtype: Any, columns: int | None = None) -> Any:
    """Return function(scores) of every block of a lazy array of scores, with one dimension or so many ``columns``.

    What the function holds travels with every task: it must be small.
    """
    meta = np.empty((0,) if columns is None else (0, 0), dtype)
    shape: dict[str, Any] = {} if columns is None else {"chunks": (scores.chunks[0], (columns,))}
    if scores.ndim == 2 and columns is None:
        shape = {"drop_axis": 1}
    if scores.ndim == 1 and columns is not None:
        shape["new_axis"] = 1
    return scores.map_blocks(function, dtype=dtype, meta=meta, **shape)


class _Call:
    """A function of rows as Dask calls it; of no rows nothing is asked."""

    __name__ = "svmsieve"

    def __init__(self, function: RowFunction, dtype: np.dtype, columns: int | None) -> None:
        self.function, self.dtype, self.columns = function, dtype, columns

    def __call__(self, rows: Any, shared: Any, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
        if (rows.shape[0] if hasattr(rows, "shape") else len(rows)) == 0:
            return np.empty((0,) if self.columns is None else (0, self.columns), self.dtype)
        found = self.function(rows, f"partition {block_id[0]}", shared)
        return np.asarray(found, self.dtype)
