"""Dask arrays, dense or of CSR blocks, as partitions; and labels and weights that are cut as the rows are.

Rows of a partition must be in one block, all columns of it. Where the numbers of rows are known, labels may be cut
otherwise: cutting them anew is cheap, and lazy. Where they are not (after a filter), partitions are taken in pairs and
their lengths compared where they are computed.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.collections.kinds import DASK_ARRAY, DASK_BAG, DASK_FRAME, PATH, kind_of
from pipeline.collections.matrices import MatrixReader, expect_numbers, expect_two_dimensions
from pipeline.collections.part import arrow_of
from pipeline.collections.partitioned import Partitioned
from pipeline.errors import DataError

NAME = "the Dask array"
Lengths = tuple[float, ...]  # rows of every partition; nan where they are not known


def partitions_of_array(x: Any, y: Any, weight: Any) -> Partitioned:
    """Return the row blocks of a Dask array with their labels and weights."""
    reader = array_reader(x)
    lengths = x.chunks[0]
    labels, weights = aligned(y, lengths, "y"), aligned(weight, lengths, "sample_weight")
    return Partitioned(NAME, tuple(x.to_delayed().reshape(-1)), labels, weights, reader)


def array_reader(x: Any, unlabelled: bool = False) -> MatrixReader:
    """Return what reads the blocks of a Dask array, or say in one line why they cannot be read."""
    expect_two_dimensions(x.shape, NAME)
    expect_numbers(x.dtype, NAME)
    if x.numblocks[1] > 1:
        problem = f"is cut into {x.numblocks[1]:,} blocks of columns, and a row must be in one"
        raise DataError(f"{problem}; pass x.rechunk({{1: -1}})", path=NAME)
    if math.isnan(x.shape[1]):
        raise DataError("does not know its number of columns; call x.compute_chunk_sizes() first", path=NAME)
    return MatrixReader(int(x.shape[1]), unlabelled=unlabelled)


def aligned(values: Any, lengths: Lengths, what: str) -> tuple[Any, ...] | None:
    """Return labels or weights, delayed, one piece for every partition of so many rows; None stays None."""
    if values is None:
        return None
    kind = PATH if isinstance(values, str) else kind_of(values, what)
    if kind == PATH:
        raise DataError(f"{what} is a text; give an array, or name a column of a frame with label=", path=what)
    if kind == DASK_ARRAY:
        return _of_array(values, lengths, what)
    if kind in (DASK_FRAME, DASK_BAG):
        return tuple(values.to_delayed())
    return _in_memory(values, lengths, what)


def _of_array(values: Any, lengths: Lengths, what: str) -> tuple[Any, ...]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"has {values.ndim} dimensions; give one value a row", path=what)
    if _known(lengths) and _known(values.chunks[0]):
        rows = int(sum(lengths))
        if values.shape[0] != rows:
            raise DataError(f"{values.shape[0]:,} values for {rows:,} rows; give one a row", path=what)
        if values.chunks[0] != lengths:
            values = values.rechunk({0: lengths})
    return tuple(values.to_delayed().reshape(-1))


def _in_memory(values: Any, lengths: Lengths, what: str) -> tuple[Any, ...]:
    """Cut what is in memory; it travels with the tasks, a piece with each."""
    if not _known(lengths):
        cure = f"call compute_chunk_sizes() on the rows, or give {what} as a Dask array or series"
        raise DataError(f"is in memory, and how it is to be cut is not known; {cure}", path=what)
    column = arrow_of(values, what, what)
    rows = int(sum(lengths))
    if len(column) != rows:
        raise DataError(f"{len(column):,} values for {rows:,} rows; give one a row", path=what)
    ends = np.cumsum([0, *lengths]).astype(int).tolist()
    return tuple(column.slice(start, stop - start) for start, stop in pairwise(ends))


def _known(lengths: Lengths) -> bool:
    return not any(math.isnan(length) for length in lengths)
