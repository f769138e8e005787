"""Sparse matrices whose arrays do not fit each other: SciPy looks at them when it makes a matrix, and not at changes.

Compiled code, SciPy's own too, would read beyond them, or take the values of one row for those of another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.errors import DataError


def refuse_torn(x: Any, where: str) -> None:
    """Raise DataError for a compressed matrix (CSR, CSC, BSR) that is not what it says; other matrices pass."""
    if not all(hasattr(x, name) for name in ("indptr", "indices", "data", "shape")):
        return
    indptr, indices, format_ = np.asarray(x.indptr), np.asarray(x.indices), getattr(x, "format", "csr")
    stored = min(len(indices), len(x.data))
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or indptr[-1] > stored:
        problem = f"'indptr' does not begin with 0, decreases or goes beyond the {stored:,} stored values"
        raise DataError(f"{problem}; make the matrix again", path=where)
    across = x.shape[0] if format_ == "csc" else x.shape[1]
    limit = across // (x.blocksize[1] if format_ == "bsr" else 1)
    used = indices[: int(indptr[-1])]
    if used.size and not (used.min() >= 0 and used.max() < limit):
        entry = int(np.argmax((used < 0) | (used >= limit)))
        line = int(np.searchsorted(indptr, entry, side="right")) - 1
        what = "column" if format_ == "csc" else "row"
        problem = f"{what} {line} has the index {used[entry]}, and there may be 0 to {limit - 1}"
        raise DataError(f"{problem}; make the matrix again", path=where)
