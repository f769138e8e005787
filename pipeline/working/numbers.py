"""Row numbers on their way: ascending numbers as the gaps between them, in as few bytes as the widest takes.

Rows that are solved for are one in 250 at least where they are many: a byte each instead of eight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
