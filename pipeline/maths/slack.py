"""Slacks of rows near the margin, almost exactly: 1 - z_i . w where float64's own dot product says too little.

A margin is off by up to e_i = gamma |z_i| |w|. Times C, and summed over the rows on the margin, that can exceed the
gap: on separable data of size 1e5 at C = 1e4 it did so by far. For the rows with |1 - f_i| <= 2^26 e_i (in all others
half of the digits are right) the slack is summed again with error-free transformations: TwoProduct and TwoSum give
every operation's rounding error exactly, and what the errors' own sum loses is of second order (Ogita, Rump, Oishi,
"Accurate sum and dot product", 2005, algorithm 5.3, Dot2):

    |s - (1 - z_i . w)| <= u |s| + gamma^2 (1 + |z_i| |w|).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import inline, kernel
from pipeline.maths.rounding import UNIT, gamma, product_error

NEAR_MARGIN = 2.0**26  # roundings: in rows further off the margin, half of a slack's 53 digits are right as they are
_SPLIT = 2.0**27 + 1.0  # Dekker's and Veltkamp's: cuts 53 bits into 26 and 26 and a sign


@dataclass(frozen=True)
class Near:
    """Rows by number, ascending, with their slacks and how far these may be off."""

    rows: np.ndarray
    slack: np.ndarray
    error: np.ndarray

    @classmethod
    def none(cls) -> Near:
        """Return no rows."""
        return cls(np.empty(0, np.int64), np.empty(0), np.empty(0))

    @classmethod
    def joined(cls, parts: Sequence[tuple[int, Near]]) -> Near:
        """Put the rows of several parts together; each comes with what its row numbers count from."""
        rows = [near.rows + first for first, near in parts]
        return cls(*(np.concatenate(x) for x in (rows, [n.slack for _, n in parts], [n.error for _, n in parts])))

    def ordered(self) -> Near:
        """Return them by ascending number."""
        order = np.argsort(self.rows, kind="stable")
        return Near(self.rows[order], self.slack[order], self.error[order])

    def within(self, start: int, stop: int) -> Near:
        """Return those of the rows from ``start`` to before ``stop``, counted from there."""
        part = slice(*np.searchsorted(self.rows, (start, stop)))
        return Near(self.rows[part] - start, self.slack[part], self.error[part])


@inline
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """Return a + b as it rounds, and the rest (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@inline
def _halves(a):  # type: ignore[no-untyped-def]
    big = _SPLIT * a
    high = big - (big - a)
    return high, a - high


@inline
def two_product(a, b):  # type: ignore[no-untyped-def]
    """Return a b as it rounds, and the rest (Dekker, Veltkamp)."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@kernel
def _slacks(indptr, indices, values, labels, w, rows, out):  # type: ignore[no-untyped-def]
    for n in range(rows.size):
        i = rows[n]
        total, rest = 1.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            product, lost = two_product(-labels[i] * np.float64(values[k]), w[indices[k]])
            total, more = two_sum(total, product)
            rest += lost + more
        out[n] = total + rest


def near_margin(
    matrix: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    norms: np.ndarray,
    w: np.ndarray,
    f: np.ndarray,
    w_norm: float,
    some: np.ndarray | None = None,
) -> Near:
    """Return the slacks of those rows of ``matrix`` (indptr, indices, values, labels) that are near the margin of w.

    ``f`` are the margins as float64 gives them, ``w_norm`` >= |w|. A slack that is not finite, because a value is
    beyond what can be split into halves, leaves the margin as it is. Where f and norms are those of ``some`` rows, the
    rows that are found are counted among these.
    """
    lengths = np.diff(matrix[0]) if some is None else matrix[0][some + 1] - matrix[0][some]
    rows = np.flatnonzero(np.abs(1.0 - f) <= NEAR_MARGIN * product_error(lengths, norms, w_norm))
    slack = np.empty(rows.size)
    _slacks(*matrix, w, rows if some is None else some[rows], slack)
    second = gamma(lengths[rows] + 2) ** 2 * (1.0 + norms[rows] * w_norm)
    found = np.isfinite(slack)
    return Near(rows[found], slack[found], (2 * UNIT * np.abs(slack) + 4 * second)[found])
