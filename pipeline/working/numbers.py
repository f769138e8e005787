"""Numbers of rows, and numbers by row, on their way: in fewer bytes, and with the same bits.

Ascending numbers are the gaps between them, in as few bytes as the widest takes: rows that are solved for are one in
250 at least where they are many, which is a byte each instead of eight. Values by row are compressed: alphas are mostly
0 or at their bound, and take 0.8, 1.5 and 3.1 bytes instead of eight where 2, 10 and 30 % of them are neither (50 to
100 ns each; to send them as they are takes as long, with TLS).
"""

from __future__ import annotations

import zlib

import numpy as np

from pipeline.dataclass import dataclass

QUICKLY = 1  # zlib's level: others take longer than what they save


@dataclass(frozen=True)
class PackedNumbers:
    """Ascending numbers: the first, and the gaps from each to the next."""

    first: int
    gaps: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> PackedNumbers:
        """Pack them."""
        if not rows.size:
            return cls(-1, np.empty(0, np.uint8))
        gaps = np.diff(rows)
        return cls(int(rows[0]), gaps.astype(np.min_scalar_type(int(gaps.max(initial=0)))))

    def unpacked(self) -> np.ndarray:
        """Return the numbers."""
        if self.first < 0:
            return np.empty(0, np.int64)
        rows = np.empty(self.gaps.size + 1, np.int64)
        rows[0] = self.first
        np.cumsum(self.gaps, dtype=np.int64, out=rows[1:])
        rows[1:] += self.first
        return rows


def packed_values(values: np.ndarray) -> bytes:
    """Pack values by row."""
    return zlib.compress(np.ascontiguousarray(values).data, QUICKLY)


def unpacked_values(packed: bytes | memoryview, dtype: str | np.dtype) -> np.ndarray:
    """Return the values, which are not to be written to."""
    return np.frombuffer(zlib.decompress(packed), dtype)
