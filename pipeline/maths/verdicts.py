"""Verdicts: what bounds on z_i . w* prove about a row."""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import kernel

KEEP, ZERO, UPPER = 0, 1, 2


@dataclass(frozen=True)
class Screened:
    """Bounds of z_i . w* and what they prove."""

    lower: np.ndarray
    upper: np.ndarray
    verdicts: np.ndarray


def verdicts(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return ZERO where lower > 1 (so alpha_i = 0), UPPER where upper < 1 (so alpha_i = u_i), else KEEP, as int8.

    A row of zero norm has z_i . w* = 0 < 1 and is UPPER at every C. Bounds that are not numbers decide nothing.
    """
    found = np.empty(lower.size, dtype=np.int8)
    _judge(lower, upper, found)
    return found


@kernel
def _judge(lower, upper, found):  # type: ignore[no-untyped-def]
    for i in range(lower.size):
        found[i] = UPPER if upper[i] < 1.0 else ZERO if lower[i] > 1.0 else KEEP
