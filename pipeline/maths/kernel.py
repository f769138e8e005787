"""A kernel: K(x, x') = exp(-gamma |x - x'|^2) + B^2, and how far float64 can carry its values from the exact ones.

B is the bias of the data: a constant feature adds B^2 to every inner product in the kernel's space, as it does in the
linear one, and nothing to distances. With rows z_i = y_i Phi(x_i)

    Q_ij = z_i . z_j = y_i y_j K(x_i, x_j),    |z_i|^2 = K(x_i, x_i) = 1 + B^2 = kappa^2.

Rounding. u = 2^-53; rows have at most L nonzeros. The squares and the product in |x_i|^2 + |x_j|^2 - 2 x_i . x_j are
sums of at most L terms, so the distance is off by at most (L + 6) u (|x_i| + |x_j|)^2. As (a + b)^2 <= 2 a^2 + 2 b^2,
exp(-t), t being gamma times it, is off by a factor between exp(-o) and exp(o) with

    o = 2 gamma (L + 6) u (|x_i|^2 + |x_j|^2).

The exponent's own rounding is worth u t exp(-t) <= u/e, the exponential's 4 u (``kernel_values``), adding B^2 one more.
So, o being below 1/2 (else nothing is known),

    |computed K_ij - K_ij| <= 2 o (K_ij - B^2) + 8 u kappa^2,

and a sum over columns, A_i = sum_j a_j K_ij with a_j >= 0, S = sum a_j and R = max |x_j|, by at most

    u [4 gamma (L + 6) (|x_i|^2 + R^2) (A_i - a_i - B^2 S) + 24 kappa^2 S],

products and the last additions included, and what bins lose (``binned``): nothing beside it, unless most coefficients
are far below the largest that there may be. A row is at a distance of 0 from itself, exactly. K_ij and A_i may be the
computed ones. Features that were not scaled do no harm where what is far away is far; it is sum alpha that governs a
certificate's rounding, not |w|.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import kernel
from pipeline.maths.rounding import UNIT

SAFE = 1 + 1e-6  # the second order of (1 + u)^k, and the rounding of a bound's own few operations


@dataclass(frozen=True)
class Rbf:
    """exp(-gamma |x - x'|^2) + bias^2."""

    gamma: float
    bias: float = 0.0

    @property
    def shift(self) -> float:
        """What is added to every value."""
        return self.bias * self.bias

    @property
    def square(self) -> float:
        """kappa^2, the square of every row's norm, and the largest value there is."""
        return 1.0 + self.shift

    @property
    def norm(self) -> float:
        """kappa."""
        return math.sqrt(self.square)


@dataclass(frozen=True)
class SumError:
    """Bounds the errors of sums over columns: ``steep`` is 4 gamma (L + 6), ``far`` R^2, ``shift`` B^2."""

    steep: float
    far: float
    shift: float

    @property
    def is_known(self) -> bool:
        """Whether o is below 1/2 for all rows."""
        return 2 * self.steep * self.far * UNIT * SAFE < 1.0

    def __call__(self, squares: np.ndarray, sums: np.ndarray, own: np.ndarray, total: float, lost: float) -> np.ndarray:
        """Bound |computed - exact| of the sums A_i of rows with these |x_i|^2, where the coefficients add up to S.

        ``own`` are the rows' own coefficients a_i among them; bins have ``lost`` no more than that.
        """
        found = np.empty(sums.size)
        _errors((self.steep, self.far, self.shift), squares, sums, own, (total, lost), found)
        return found


@kernel
def _errors(bound, squares, sums, own, totals, out):  # type: ignore[no-untyped-def]
    steep, far, shift = bound
    total, lost = totals
    own_rounding = (24 * (1.0 + shift) * total * UNIT + lost) * SAFE
    for i in range(out.size):
        off = steep * (squares[i] + far) * (UNIT * SAFE)  # 2 o
        others = max(sums[i] - own[i] - shift * total, 0.0) + 8 * UNIT * sums[i]
        out[i] = off * (1 + off) * others + own_rounding


def sum_error(kernel: Rbf, longest: int, far: float) -> SumError:
    """Return the bound for rows of at most ``longest`` nonzeros and of squares up to ``far``."""
    return SumError(4 * kernel.gamma * (longest + 6), far, kernel.shift)
