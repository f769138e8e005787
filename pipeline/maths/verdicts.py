"""Verdicts: what bounds on z_i . w* prove about a row, and how good a rule is."""

from __future__ import annotations

import numpy as np

from pipeline.jit import kernel

KEEP, ZERO, UPPER = 0, 1, 2


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


def screened_share(found: np.ndarray) -> float:
    """Return the plain fraction of all rows that are decided."""
    return float(np.count_nonzero(found != KEEP)) / max(1, found.size)


def screening_rate(found: np.ndarray, on_margin: np.ndarray) -> float:
    """Return the paper's rate: decided rows over all rows that are not on the margin (f_i = 1) at the optimum."""
    decidable = found.size - int(np.count_nonzero(on_margin))
    return float(np.count_nonzero(found != KEEP)) / decidable if decidable else 1.0
