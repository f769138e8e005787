"""Sums of products in twice the precision of float64, for ``verify``: nothing here is used in training.

A product is p + e exactly, e by a fused multiply-add; a sum of two is s + e exactly (Knuth's TwoSum). The rounded parts
are added up in ``high``, what was lost in ``low``. With k terms of sizes that add up to A, high + low is off by at most

    4 (k + 4)^2 u^2 A  +  k 2^-1074,    u = 2^-53

(Ogita, Rump, Oishi, "Accurate sum and dot product", 2005: the lost parts add up to at most k u A, and adding them up
loses (2 k + 2) u of that; the last term is for products that underflow). The inner loops run over models.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pipeline.jit import inline, intrinsic, kernel

UNIT = 2.0**-53  # float64's unit roundoff
LEAST = 2.0**-1074  # the smallest positive float64
UP = 1 + 2.0**-40  # makes an upper bound of a handful of roundings in a bound itself


def exact(high: float, low: float) -> Fraction:
    """Return a sum in two parts as a fraction."""
    return Fraction(high) + Fraction(low)


def lost(terms: int, magnitude: Fraction) -> Fraction:
    """Bound what a sum of so many terms, whose sizes add up to ``magnitude``, has lost."""
    return 4 * (terms + 4) ** 2 * Fraction(UNIT) ** 2 * magnitude + terms * Fraction(LEAST)


@intrinsic
def fma(typing_context, a, b, c):  # type: ignore[no-untyped-def]
    """Return a b + c, rounded once."""
    from numba import types  # noqa: PLC0415

    del typing_context, a, b, c

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        del context, signature
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@inline
def lost_in_sum(a, b, s):  # type: ignore[no-untyped-def]
    """Return a + b - s exactly, where s = a + b as it rounds."""
    other = s - a
    return (a - (s - other)) + (b - other)


@kernel
def row_norms(indptr, values):  # type: ignore[no-untyped-def]
    """Return upper bounds of |x_i|, by a few roundings, that neither overflow nor underflow before |x_i| does."""
    norms = np.zeros(indptr.size - 1)
    for i in range(norms.size):
        largest, total = 0.0, 0.0
        for j in range(indptr[i], indptr[i + 1]):
            largest = max(largest, abs(values[j]))
        if largest > 0.0:
            for j in range(indptr[i], indptr[i + 1]):
                total += (values[j] / largest) ** 2
            norms[i] = largest * np.sqrt(total) * (UP + 2 * (indptr[i + 1] - indptr[i]) * UNIT)
    return norms


@kernel
def products(rows, w, high, low, size):  # type: ignore[no-untyped-def]
    """Add y_i x_i . w to high + low and sum_j |x_ij w_j| to ``size``, for all rows i and all columns of w.

    ``rows`` are indptr, indices, values and labels.
    """
    indptr, indices, values, labels = rows
    for i in range(labels.size):
        for j in range(indptr[i], indptr[i + 1]):
            x, column = labels[i] * values[j], w[indices[j]]
            for k in range(w.shape[1]):
                p = x * column[k]
                s = high[i, k] + p
                low[i, k] += fma(x, column[k], -p) + lost_in_sum(high[i, k], p, s)
                high[i, k] = s
                size[i, k] += abs(p)


@kernel
def hinges(lengths, costs, share, high, low, size, out):  # type: ignore[no-untyped-def]
    """Add sum c_i max(0, 1 - f_i) to out[0] + out[1] and a bound of what margins do to it to out[2].

    The margins f_i = high + low are rounded to ``high``, and ``low`` becomes a bound of their error before that: with m
    terms 16 (m + 4)^2 u^2 (1 + size), which covers that of 1 - f_i and of c_i times it too, and share_i of the size
    where the terms themselves are off by so much.
    """
    for i in range(costs.size):
        scale = 16.0 * (lengths[i] + 4.0) ** 2 * UNIT * UNIT
        for k in range(out.shape[1]):
            error = scale * (1.0 + size[i, k]) + share[i] * size[i, k]
            s = 1.0 - high[i, k]
            rest = lost_in_sum(1.0, -high[i, k], s) - low[i, k]
            slack = s + rest
            rest = lost_in_sum(s, rest, slack)
            high[i, k], low[i, k] = high[i, k] + low[i, k], error
            if not slack <= -error:
                out[2, k] += costs[i] * error
            if not slack <= 0.0:
                p = costs[i] * slack
                total = out[0, k] + p
                out[1, k] += fma(costs[i], slack, -p) + lost_in_sum(out[0, k], p, total) + costs[i] * rest
                out[0, k] = total


@kernel
def row_sums(rows, costs, c, alpha, high, low, out):  # type: ignore[no-untyped-def]
    """Add sum alpha_i y_i x_i to high + low and sum alpha_i to out[0] + out[1].

    alpha_i = C c_i as it rounds may lie above C c_i: what is added is the exact C c_i then. Nothing else is clipped.
    """
    indptr, indices, values, labels = rows
    models = c.size
    rest = np.empty(models)
    for i in range(labels.size):
        some = False
        for k in range(models):
            a, u = alpha[i, k], c[k] * costs[i]
            excess = fma(c[k], costs[i], -u)
            rest[k] = excess if a == u and excess < 0.0 else 0.0
            s = out[0, k] + a
            out[1, k] += lost_in_sum(out[0, k], a, s) + rest[k]
            out[0, k] = s
            some = some or a != 0.0
        if some:
            for j in range(indptr[i], indptr[i + 1]):
                x, to, lost_to = labels[i] * values[j], high[indices[j]], low[indices[j]]
                for k in range(models):
                    p = x * alpha[i, k]
                    s = to[k] + p
                    lost_to[k] += fma(x, alpha[i, k], -p) + lost_in_sum(to[k], p, s) + x * rest[k]
                    to[k] = s


@kernel
def _squares(high, low, scale):  # type: ignore[no-untyped-def]
    """Return the sums of ((high + low) scale)^2 by column, in two parts; high must be high + low as it rounds."""
    out = np.zeros((2, high.shape[1]))
    for j in range(high.shape[0]):
        for k in range(high.shape[1]):
            h = high[j, k] * scale[k]
            p = h * h
            s = out[0, k] + p
            out[1, k] += fma(h, h, -p) + lost_in_sum(out[0, k], p, s) + 2.0 * h * (low[j, k] * scale[k])
            out[0, k] = s
    return out


def squares(high: np.ndarray, low: np.ndarray) -> list[Fraction | None]:
    """Return |high + low|^2 by column, None where that is not finite. Powers of 2 keep squares from underflowing."""
    largest = np.abs(high).max(axis=0, initial=0.0)
    powers = np.clip(np.frexp(largest)[1], -1000, 1000)
    sums = _squares(high, low, np.ldexp(1.0, -powers))
    whole = np.isfinite(sums).all(axis=0) & np.isfinite(largest)
    return [
        exact(*sums[:, k].tolist()) * Fraction(4) ** int(powers[k]) if whole[k] else None for k in range(whole.size)
    ]


def add_to(high: np.ndarray, low: np.ndarray, more_high: np.ndarray, more_low: np.ndarray | float = 0.0) -> None:
    """Add a sum in two parts to another one, in place."""
    s = high + more_high
    other = s - high
    low += (high - (s - other)) + (more_high - other) + more_low
    high[...] = s


def normalise(high: np.ndarray, low: np.ndarray) -> None:
    """Make ``high`` what high + low rounds to, and ``low`` the rest, in place."""
    s = high + low
    other = s - high
    low[...] = (high - (s - other)) + (low - other)
    high[...] = s


@kernel
def product(a, b):  # type: ignore[no-untyped-def]
    """Return a b in two parts."""
    p = a * b
    return p, fma(a, b, -p)
