"""Matrices as parts: NumPy, SciPy sparse of any format, and what else can become CSR.

A matrix may be large beside what its rows take in a shard (dense ones of zeros), so it is converted a slice at a time.
Entries that stand twice in a sparse matrix are added up, as SciPy does. Rows of weight 0 are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from pipeline.collections.part import Part, costs_of_rows, labels_of_rows
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import LARGEST_FEATURES, Block, Origin, ReadRules, make_block, zero_based
from pipeline.data.reading.labels import RawLabels
from pipeline.data.reading.layout import BATCH_CELLS, ROW_CELLS
from pipeline.data.torn import refuse_torn
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, SpecError

ROWS_AT_A_TIME, NONZEROS_AT_A_TIME = 1 << 16, 1 << 20  # of a sparse matrix: 16 MB as float64 with their indices
Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class MatrixReader:
    """Reads matrices of ``n_features`` columns; of rows to be scored (``unlabelled``) no label is asked."""

    n_features: int
    columns: tuple[str, ...] | None = None
    unlabelled: bool = False
    encoding: None = None

    def blocks(self, part: Part) -> Iterator[Block]:
        """Yield the rows of a part in order."""
        matrix = checked(part.x, part.where)
        if matrix.shape[1] != self.n_features:
            problem = f"{matrix.shape[1]:,} columns, not {self.n_features:,}"
            raise DataError(f"{problem}; every part must have the same columns", path=part.where)
        n_rows = matrix.shape[0]
        labels = self._labels(part, n_rows)
        costs = costs_of_rows(part.weight, n_rows, part.where)
        rules = ReadRules(base=0, features=self.n_features, add_duplicates=True, unlabelled=self.unlabelled)
        for start, stop, arrays in slices(matrix):
            csr = arrays
            origin, some = Origin(part.where, start, columns=self.columns), labels.codes[start:stop]
            mine = None if costs is None else costs[start:stop]
            if mine is not None and not mine.all():
                kept = np.flatnonzero(mine)
                origin, some, mine, csr = replace(origin, kept=kept), some[kept], mine[kept], _only(csr, mine != 0)
            if not some.size:
                continue
            indptr, indices, values = csr
            placed = indptr, zero_based(indices, indptr, rules, origin), np.array(values, np.float64)
            yield make_block(origin, RawLabels.coded(some, labels.values), placed, rules, mine)

    def _labels(self, part: Part, n_rows: int) -> RawLabels:
        if part.y is None and self.unlabelled:
            return RawLabels(np.zeros(n_rows, np.int32), ("",))
        return labels_of_rows(part.y, n_rows, part.where)


def _only(csr: Csr, rows: np.ndarray) -> Csr:
    """Return some rows; ``rows`` says of each whether it is one."""
    indptr, indices, values = csr
    lengths = np.diff(indptr)
    entries = np.repeat(rows, lengths)
    return np.concatenate([[0], np.cumsum(lengths[rows])]), indices[entries], values[entries]


def checked(x: Any, where: str) -> Any:
    """Return a matrix as a NumPy array or as CSR, or say in one line why it is none that can be trained on."""
    if isinstance(x, np.ma.MaskedArray):
        if np.ma.is_masked(x):
            row = int(np.argmax(np.ma.getmaskarray(x).reshape(len(x), -1).any(axis=1)))
            raise Origin(where, 0).error(row, "an entry is masked; fill it (x.filled(0)) or drop the row")
        x = x.data
    if not sp.issparse(x) and hasattr(x, "tocsr"):  # of the package sparse
        x = x.tocsr()
    refuse_torn(x, where)
    matrix: Any = x if sp.issparse(x) else np.asarray(x)
    expect_numbers(matrix.dtype, where)
    expect_two_dimensions(matrix.shape, where)
    return matrix.tocsr() if sp.issparse(matrix) else matrix


def expect_numbers(dtype: np.dtype, where: str) -> None:
    """Raise DataError for a matrix of anything but real numbers."""
    if dtype.kind not in "biuf":
        cure = "encode text and dates, then x.astype(float)" if dtype.kind == "O" else "convert it: x.astype(float)"
        raise DataError(f"the matrix is of type {dtype}, not of numbers; {cure}", path=where)


def expect_two_dimensions(shape: tuple[float, ...], where: str) -> None:
    """Raise DataError for what is no matrix of rows and features."""
    if len(shape) != 2:
        cure = "x.reshape(-1, 1) has one feature, x.reshape(1, -1) one row" if len(shape) == 1 else "flatten each row"
        raise DataError(f"has {len(shape)} dimensions, and rows of features have 2; {cure}", path=where)
    if not shape[1] or shape[1] > LARGEST_FEATURES:
        problem = f"{shape[1]:,} features, and there may be 1 to {LARGEST_FEATURES:,}"
        raise DataError(f"{problem}; give other columns", path=where)


def refuse_column_names(reading: ReadOptions, what: str) -> None:
    """Refuse to name columns of something that has none."""
    for field in ("label_column", "weight_column", "group_column", "ignore"):
        if getattr(reading, field) != getattr(ReadOptions, field):
            name = field.removesuffix("_column")
            raise SpecError(f"{name} names a column, and an {what} has none; give y and sample_weight instead")


def slices(matrix: Any) -> Iterator[tuple[int, int, Csr]]:
    """Yield (first row, row after the last, CSR arrays) of slices that are small beside a shard."""
    start, n_rows = 0, matrix.shape[0]
    while start < n_rows:
        if sp.issparse(matrix):
            ends = matrix.indptr[start + 1 : start + 1 + ROWS_AT_A_TIME]
            first = matrix.indptr[start]
            stop = start + max(1, int(np.searchsorted(ends, first + NONZEROS_AT_A_TIME, side="right")))
            last = matrix.indptr[stop]
            indptr = matrix.indptr[start : stop + 1].astype(np.int64) - int(first)
            yield start, stop, (indptr, matrix.indices[first:last], matrix.data[first:last])
        else:
            stop = min(n_rows, start + max(1, BATCH_CELLS // (matrix.shape[1] + ROW_CELLS)))
            csr = sp.csr_array(np.asarray(matrix[start:stop], np.float64))
            yield start, stop, (csr.indptr.astype(np.int64), csr.indices, csr.data)
        start = stop
