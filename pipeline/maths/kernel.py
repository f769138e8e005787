"""A kernel: K(x, x') = exp(-gamma |x - x'|^2) + B^2, and how far float64 can carry its values from the exact ones.

B is the bias of the data: a constant feature adds B^2 to every inner product in the kernel's space, as it does in the
linear one, and nothing to distances. With rows z_i = y_i Phi(x_i)

    Q_ij = z_i . z_j = y_i y_j K(x_i, x_j),    |z_i|^2 = K(x_i, x_i) = 1 + B^2 = kappa^2.

Rounding. u = 2^-53; rows have at most L nonzeros. The squares and the product in |x_i|^2 + |x_j|^2 - 2 x_i . x_j are
sums of at most L terms, so the distance is off by at most (L + 6) u (|x_i| + |x_j|)^2, and exp(-t) by no more than
twice what t is (by e - 1 times that up to 1, and never by more than 1); the exponent's own rounding is worth
u t exp(-t) <= u/e, the exponential's 4 u (``kernel_values``), adding B^2 one more. So, as (a + b)^2 <= 2 a^2 + 2 b^2,

    |computed K_ij - K_ij| <= u [4 gamma (L + 6) (|x_i|^2 + |x_j|^2) + 8 kappa^2],

and a sum over columns, sum_j a_j K_ij with S = sum |a_j| and T = sum |a_j| |x_j|^2, by at most

    u [4 gamma (L + 6) (|x_i|^2 S + T) + 24 kappa^2 S],

products and the last additions included; adding up itself loses nothing (``binned``). It is sum alpha that governs a
certificate's rounding, not |w|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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
    """Bounds the error of sums over columns with coefficients a_j: ``total`` = S, ``reach`` = T.

    ``steep`` is 4 gamma (L + 6), ``square`` kappa^2.
    """

    steep: float
    square: float
    total: float
    reach: float

    def of_rows(self, squares: np.ndarray) -> np.ndarray:
        """Bound |computed - exact| of sum_j a_j K_ij for rows of these |x_i|^2."""
        return (self.steep * (squares * self.total + self.reach) + 24 * self.square * self.total) * (UNIT * SAFE)

    def of_product(self, other: SumError) -> float:
        """Bound the error of sum_i b_i (sum_j a_j K_ij), where b is the ``other`` one's coefficients."""
        far = other.reach * self.total + other.total * self.reach
        return (self.steep * far + 24 * self.square * self.total * other.total) * (UNIT * SAFE)


def steepness(kernel: Rbf, longest: int) -> float:
    """Return 4 gamma (L + 6) for rows of at most ``longest`` nonzeros."""
    return 4 * kernel.gamma * (longest + 6)
