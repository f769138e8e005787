"""Values of exp(-gamma |x - x'|^2), each within a known share of what it is, for ``verify``: training has its own.

|x - x'|^2 = |x|^2 + |x'|^2 - 2 x . x' cancels where rows are near each other, so that squares and products come in two
parts (``twofold``). With at most L nonzeros a row the distance is off by at most

    8 (L + 4)^2 u^2 (|x| + |x'|)^2  +  8 L 2^-1074,    u = 2^-53,

and t = gamma times it, in two parts, by gamma times that and 4 u^2 t. Then exp(-t) = 2^-k exp(-r), k = rint(t/log 2),
|r| <= 0.35. t - k log 2 is exact in its first part (Sterbenz; k times a log 2 of 33 bits is), the rest of t and of
log 2 is subtracted from it, so that r is off by u/2 at most. exp(-r) = 1 - (r - r^2 q(r)) with Taylor's q up to r^13,
whose rest is below 2^-57: r^2 q is off by less than u/3, the bracket by u/2 more, the last subtraction by u of the
result, which is above 0.7. All together that is less than 4 u of it. Values below 2^-1000 are 0 here, which the share
does not cover: sum alpha times that is nothing beside the 16 (n + 4)^2 u^2 that a sum over rows is given anyway.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.jit import kernel
from pipeline.verify import twofold
from pipeline.verify.twofold import LEAST, UNIT, UP

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # 33 bits, and the rest
_LARGEST = 693.0  # exp of minus that is above 2^-1000
CUT_OFF = 2.0**-999  # smaller values may be 0, here and in training: beside it, scores have no order and no sign
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))
_POWERS = 2.0 ** -np.arange(1001.0)


@kernel
def rbf_values(squares, other_squares, high, low, gamma):  # type: ignore[no-untyped-def]
    """Replace products x_i . x'_j in two parts by exp(-gamma |x_i - x'_j|^2) in ``high``; squares are in two parts."""
    for i in range(high.shape[0]):
        a, a_low = squares[i, 0], squares[i, 1]
        for j in range(high.shape[1]):
            b, p = other_squares[j, 0], -2.0 * high[i, j]
            s = a + b
            far = s + p
            rest = (a_low + other_squares[j, 1] - 2.0 * low[i, j]) + twofold.lost_in_sum(a, b, s)
            rest += twofold.lost_in_sum(s, p, far)
            total = far + rest
            rest = twofold.lost_in_sum(far, rest, total)
            t = gamma * total
            rest = twofold.fma(gamma, total, -t) + gamma * rest
            k = np.rint(t * _LOG2E)
            r = (t - k * _LN2_HIGH) + (rest - k * _LN2_LOW)
            q = _TAYLOR[0]
            for n in range(1, 12):
                q = _TAYLOR[n] - q * r
            value = 1.0 - (r - r * r * q)
            if total <= 0.0:
                high[i, j] = 1.0
            elif t < _LARGEST:
                high[i, j] = value * _POWERS[int(k)]
            else:
                high[i, j] = 0.0 if t >= _LARGEST else np.nan


@kernel
def row_squares(indptr, values):  # type: ignore[no-untyped-def]
    """Return |x_i|^2 of all rows, in two parts."""
    found = np.zeros((indptr.size - 1, 2))
    for i in range(found.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            x = values[k]
            p = x * x
            s = found[i, 0] + p
            found[i, 1] += twofold.fma(x, x, -p) + twofold.lost_in_sum(found[i, 0], p, s)
            found[i, 0] = s
    return found


def share_of(gamma: float, longest: int, norms: np.ndarray, largest: float) -> np.ndarray:
    """Bound how far values are off, as a share of each, for rows of these norms against others of at most ``largest``.

    Infinite where an exponent is not even known to within a half.
    """
    with np.errstate(over="ignore"):
        far = 8.0 * (longest + 4.0) ** 2 * UNIT * UNIT * (norms + largest) ** 2 + 8.0 * longest * LEAST
        off = gamma * far * UP + 4.0 * UNIT * UNIT * _LARGEST
    return np.where(off < 0.5, (4.0 * UNIT + 2.0 * off) * UP, np.inf)
