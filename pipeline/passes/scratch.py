"""Arrays in scratch files: their pages are the system's to write out, and count as file cache, not as memory.

Such a file is memory-mapped and has no name any more: it is gone with its array, or with the process.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np


def zeros(size: int, dtype: type, scratch: Path | None) -> np.ndarray:
    """Return an array of zeros, in a file if there is a folder for it, whose space is taken now: later, a full disk is
    a bus error.
    """
    if scratch is None or size == 0:
        return np.zeros(size, dtype)
    with tempfile.TemporaryFile(prefix="rows-", dir=scratch) as stream:
        os.posix_fallocate(stream.fileno(), 0, size * np.dtype(dtype).itemsize)
        return np.memmap(stream, dtype, "r+", shape=(size,)).view(np.ndarray)
