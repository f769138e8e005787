"""What a shard must be before a kernel may use it, whatever its file says: checked when it is first mapped.

Kernels index without bounds checks. So ``indptr`` starts at 0, never falls and ends at the number of nonzeros; indices
rise within a row and lie within the features; labels are signs, or codes of the classes there are; values, costs and
norms are finite, costs positive. One pass at the speed of memory.
"""

from __future__ import annotations

import numpy as np

from pipeline.data.reading.tidy import LARGEST_NORM
from pipeline.data.shards.rows import Rows
from pipeline.jit import kernel

_SOUND, _ROW_ENDS, _INDEX, _VALUE, _LABEL, _COST, _NORM = range(7)
_SAID = {
    _ROW_ENDS: "its row pointers are not in order",
    _INDEX: "an index is out of order or beyond the {features:,} features",
    _VALUE: "a value is not finite",
    _LABEL: "a label is {label}",
    _COST: "a cost is not a positive number",
    _NORM: "a norm is not a number from 0 to {largest:g}",
}
_EXPONENT = {4: np.uint32(0x7F800000), 8: np.uint64(0x7FF0000000000000)}  # all ones: infinite or nan


def fault_of(rows: Rows, classes: int = 0) -> str | None:
    """Return what is wrong with rows that come from a file, and in which row; None if they may be used.

    ``classes`` is how many there are; 0 means that labels are -1 and +1.
    """
    n = rows.n_rows
    sizes = (rows.indptr.size - 1, rows.costs.size, rows.norms.size, rows.values.size)
    if sizes != (n, n, n, rows.nnz):
        return "its columns have different lengths"
    size = rows.values.itemsize
    bits = rows.values.view(f"u{size}")
    arrays = (rows.indptr, rows.indices, bits, _EXPONENT[size], rows.labels, rows.costs, rows.norms)
    code, row = _first_fault(*arrays, np.int64(rows.n_features), np.int64(classes))
    if code == _SOUND:
        return None
    label = f"none of the {classes:,} classes" if classes else "neither -1 nor 1"
    return f"{_SAID[code].format(features=rows.n_features, label=label, largest=LARGEST_NORM)}, row {row + 1}"


@kernel
def _first_fault(indptr, indices, bits, exponent, labels, costs, norms, n_features, classes):  # type: ignore[no-untyped-def]
    if indptr[0] != 0 or indptr[labels.size] != indices.size:
        return _ROW_ENDS, labels.size - 1
    for row in range(labels.size):
        if indptr[row + 1] < indptr[row]:
            return _ROW_ENDS, row
    for row in range(labels.size):
        before = np.int64(-1)
        for k in range(indptr[row], indptr[row + 1]):
            index = np.int64(indices[k])
            if index <= before:
                return _INDEX, row
            before = index
            if bits[k] & exponent == exponent:
                return _VALUE, row
        if before >= n_features:
            return _INDEX, row
        label = np.int64(labels[row])
        if not (0 <= label < classes if classes else label in (1, -1)):
            return _LABEL, row
        if not 0.0 < costs[row] < np.inf:
            return _COST, row
        if not 0.0 <= norms[row] <= LARGEST_NORM:
            return _NORM, row
    return _SOUND, 0
