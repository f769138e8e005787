"""A few rows of a mapped shard: read page by page, with nothing around them.

Systems read megabytes around a page that is not there (8 MB where this was measured): 300 rows of 3 million, with their
entries, labels and norms, had all of 1.3 GB read once or twice.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pipeline.data.shards.rows import Rows


@contextmanager
def at_random(rows: Rows) -> Iterator[None]:
    """Say that rows are read here and there, for the length of the block; it is advice, and may mean nothing."""
    _advise(rows, getattr(mmap, "MADV_RANDOM", None))
    try:
        yield
    finally:
        _advise(rows, getattr(mmap, "MADV_NORMAL", None))


def _advise(rows: Rows, advice: int | None) -> None:
    for array in (rows.indptr, rows.indices, rows.values, rows.labels, rows.costs, rows.norms):
        if advice is not None and array.nbytes:
            _advise_array(array, advice)


def _advise_array(array: np.ndarray, advice: int) -> None:
    begin = array.ctypes.data - array.ctypes.data % mmap.PAGESIZE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(array.ctypes.data + array.nbytes - begin), advice)
