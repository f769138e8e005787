"""Arrays for Arrow, in the same memory: ``pa.array`` imports pandas, which takes 0.4 s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def numbers(values: np.ndarray, known: np.ndarray | None = None) -> pa.Array:
    """Return numbers, those that are ``known``."""
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [bits, content])


def texts(names: Sequence[str]) -> pa.Array:
    """Return some texts."""
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))
