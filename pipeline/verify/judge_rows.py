"""What ``verify`` says of the rows of a shard, for many models at once: alphas in their boxes, verdicts that are true.

The optimum at C lies in the ball around (w + w_alpha)/2 of radius sqrt(gap - h^2), h = |w - w_alpha|/2: P and -D are
strongly convex. So it lies within R = h + sqrt(gap - h^2) of w. That a row was screened as ZERO, which says that
z_i . w* > 1, is a lie if R < (1 - f_i)/|z_i|, and that one is UPPER if R < (f_i - 1)/|z_i|. The gap is known only after
the pass; the furthest such row of a model is known before.
"""

from __future__ import annotations

import math

from pipeline.jit import kernel
from pipeline.verify.twofold import UNIT

EPS = 2 * UNIT  # from 1 to the next float64
_INFINITE = math.inf


@kernel
def boxes(first_row, costs, c, alpha, norms, reach, counts):  # type: ignore[no-untyped-def]
    """Add sum alpha_i |z_i| to ``reach``, free and upper alphas to ``counts``; counts[2] is the first row outside."""
    for i in range(costs.size):
        for k in range(c.size):
            a, u = alpha[i, k], c[k] * costs[i]
            reach[k] += abs(a) * norms[i]
            if a > 0.0 and a < u:
                counts[0, k] += 1
            if a == u and u > 0.0:
                counts[1, k] += 1
            if not (a >= 0.0 and a <= u):
                counts[2, k] = min(counts[2, k], first_row + i)


@kernel
def rounding_of_margins(lengths, costs, f, size, blur):  # type: ignore[no-untyped-def]
    """Add to ``blur`` what plain float64 may do to sum c_i max(0, 1 - f_i), with a factor of 2 to spare.

    A margin of m products, whose sizes add up to ``size``, is off by m EPS/2 size, 1 minus it by EPS/2 more.
    """
    for i in range(costs.size):
        for k in range(blur.size):
            error = EPS * (lengths[i] + 2.0) * (1.0 + size[i, k])
            if f[i, k] < 1.0 + error:
                blur[k] += costs[i] * error


@kernel
def count_verdicts(first_row, costs, norms, f, error, zero, upper, counts, furthest):  # type: ignore[no-untyped-def]
    """Count ZERO and UPPER among the rows that were trained on; furthest[0] is the largest distance as above.

    furthest[1] is its row. A row that is both, or UPPER without having been trained on, is infinitely far.
    """
    for i in range(costs.size):
        row = first_row + i
        byte, shift = row >> 3, 7 - (row & 7)
        for k in range(f.shape[1]):
            is_zero, is_upper = (zero[k, byte] >> shift) & 1, (upper[k, byte] >> shift) & 1
            if not (is_zero or is_upper):
                continue
            if costs[i] > 0.0:
                counts[0, k] += is_zero
                counts[1, k] += is_upper
            elif is_zero and not is_upper:
                continue
            beyond = (1.0 - f[i, k] if is_zero else f[i, k] - 1.0) - (error[i, k] + EPS * (1.0 + abs(f[i, k])))
            far = -1.0
            if (is_zero and is_upper) or costs[i] == 0.0:
                far = _INFINITE
            elif beyond > 0.0:
                far = beyond / norms[i] if norms[i] > 0.0 else _INFINITE
            if far > furthest[0, k]:
                furthest[0, k], furthest[1, k] = far, row
