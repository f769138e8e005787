"""Sums that do not depend on their order: every term is cut into two bins, and bins are added up exactly.

A float64 x is rounded to a multiple of a power of two by x + big - big; sums of such multiples are exact as long as
they stay below 2^53 of it (Demmel and Hida, "Accurate and efficient floating point summation", 2003; Rump's extraction
with fixed bins). For up to 2^m terms of at most 2^e each the two bins are multiples of

    2^(e + m - 51)   and   2^(e + 2m - 103),

so that what is lost is below 2^(e + 2m - 104) a term: for a million rows 2^-64 of the largest term. Whoever adds which
terms when, removes some again, or starts anew after a loss: the sum has the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.jit import inline, kernel

Bins = tuple[float, float]
TILE = 1024  # rows of both sums that stay in the first cache while the columns go by


def bins_for(largest: float, terms: int) -> Bins:
    """Return the two numbers to round with, for up to ``terms`` terms of at most ``largest``."""
    e, m = math.frexp(largest)[1], max(1, int(terms)).bit_length()
    first = 1.5 * 2.0**52 * 2.0 ** (e + m - 51)
    return first, first * 2.0 ** (m - 52)


@inline
def _low(x, high, small):  # type: ignore[no-untyped-def]
    """Return what the first bin leaves of x, as a multiple for the second."""
    return ((x - high) + small) - small


@kernel
def bin_columns(columns, slots, coefficients, bins, first, second):  # type: ignore[no-untyped-def]
    """Add sum_j a_j columns[slots_j] to the two bins of every row, four columns at a time."""
    big, small = bins
    n, whole = first.size, slots.size - slots.size % 4
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        for j in range(0, whole, 4):
            a0, a1, a2, a3 = coefficients[j], coefficients[j + 1], coefficients[j + 2], coefficients[j + 3]
            k0, k1, k2, k3 = columns[slots[j]], columns[slots[j + 1]], columns[slots[j + 2]], columns[slots[j + 3]]
            for i in range(start, stop):
                x0, x1, x2, x3 = a0 * k0[i], a1 * k1[i], a2 * k2[i], a3 * k3[i]
                h0, h1, h2, h3 = (x0 + big) - big, (x1 + big) - big, (x2 + big) - big, (x3 + big) - big
                first[i] += (h0 + h1) + (h2 + h3)
                low = _low(x0, h0, small) + _low(x1, h1, small)
                second[i] += low + (_low(x2, h2, small) + _low(x3, h3, small))
        for j in range(whole, slots.size):
            a, k = coefficients[j], columns[slots[j]]
            for i in range(start, stop):
                x = a * k[i]
                high = (x + big) - big
                first[i] += high
                second[i] += _low(x, high, small)


def lost_in(bins: Bins, terms: int) -> float:
    """Bound what a sum of as many terms loses: half of a multiple of the second bin a term."""
    return terms * (bins[1] / 1.5 / 2.0**53)


class Binned:
    """A sum a row, in two bins."""

    def __init__(self, bins: Bins, first: np.ndarray, second: np.ndarray) -> None:
        self.bins, self.first, self.second = bins, first, second

    def add(self, rows: slice | np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        """Add the bins of some rows, made with the same numbers: exact."""
        self.first[rows] += first
        self.second[rows] += second

    def values(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the sums of some rows, rounded once."""
        return self.first[rows] + self.second[rows]
