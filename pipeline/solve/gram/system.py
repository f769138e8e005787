"""The linear systems of the solvers: (Q_JJ + diag) x = right over some rows J.

Conjugate gradients, where there are many rows and they get there soon: a round is a product with Q_JJ, and 20 to 30 of
them are a third of a Cholesky factorization of a thousand rows, a tenth of one of five thousand. They do where Q_JJ is
far from singular (a large gamma: dna at 10/d), and a few of their rounds tell. Elsewhere Cholesky.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.blas import dposv, dsymv
from pipeline.solve.gram.kernels import Square, block

REPAIRS = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)  # of the mean diagonal: rounding is worth about 1e-16 a row
NUMBERS_A_ROW = 30  # of the solvers' vectors; a plain choice, above what they have
# Plain choices, by what rounds and factorizations take; worse ones cost time:
MANY = 400  # rows: of fewer a factorization takes less than a few rounds
LOOK, GAINED = 10, 0.1  # rounds after which the residual is to be a tenth, or they are given up
MOST = 0.8  # of the rows: then the others are multiplied with, too, and no block is taken out
ROWS_A_ROUND = 20  # so many rounds at most; a factorization takes as long as one to each 10 to 30 rows


def mean_diagonal(q: np.ndarray) -> float:
    """Return the mean |z_i|^2 of a Gram matrix; where that is 0 a number whose inverse can still be squared."""
    return max(float(np.diagonal(q).mean()), 1e-90) if q.size else 1.0


def system_bytes(n: int) -> int:
    """Return what a system over all n rows takes: its matrix, factored in place, and the solver's vectors."""
    return 8 * n * (n + NUMBERS_A_ROW)


Enough = Callable[[np.ndarray], bool]


class GramSystems:
    """The systems of one solve: once conjugate gradients were given up, the others go without them."""

    def __init__(self, square: Square, n: int) -> None:
        self.square, self.n, self.direct = square, n, False

    def solve(
        self, rows: np.ndarray, diagonal: float, right: np.ndarray, enough: Enough | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return x with a residual that is ``enough``, or as small as float64 has it, and Q_JJ x.

        Where rounding has made the matrix indefinite a ridge at its level repairs it; nan if nothing does. The result
        is a direction for a line search, so that a ridge costs rounds, not correctness.
        """
        if enough is not None and rows.size >= MANY and not self.direct:
            found = conjugate(self._product(rows, diagonal), self._diagonal(rows) + diagonal, right, enough)
            if found is not None:
                return found[0], found[1] - diagonal * found[0]
            self.direct = True
        matrix = np.empty((rows.size, rows.size))
        own = matrix.reshape(-1)[:: rows.size + 1]
        for repair in REPAIRS:
            block(self.square, rows, matrix)
            ridge = diagonal + (repair * float(own.mean()) if repair else 0.0)
            own += ridge
            _, x, trouble = dposv()(matrix.T, right, lower=0, overwrite_a=1)
            if not trouble:
                return x, right - ridge * x
        return np.full(right.size, np.nan), right

    def _diagonal(self, rows: np.ndarray) -> np.ndarray:
        run, apart = self.square
        return run[rows * (apart + 1)]

    def _product(self, rows: np.ndarray, diagonal: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return what multiplies with Q_JJ + diag: all of Q, if it lies in one piece and J is most of it."""
        run, apart = self.square
        product = dsymv()
        if apart == self.n and rows.size > MOST * self.n:
            whole, padded = run.reshape(self.n, self.n).T, np.zeros(self.n)

            def by_all(x: np.ndarray) -> np.ndarray:
                padded[rows] = x
                return product(1.0, whole, padded)[rows] + diagonal * x

            return by_all
        matrix = np.empty((rows.size, rows.size))
        block(self.square, rows, matrix)
        return lambda x: product(1.0, matrix.T, x, lower=0) + diagonal * x


def conjugate(
    product: Callable[[np.ndarray], np.ndarray], scale: np.ndarray, right: np.ndarray, enough: Enough
) -> tuple[np.ndarray, np.ndarray] | None:
    """Solve with a positive semidefinite matrix, ``scale`` being its diagonal; return x and matrix x.

    None if that would take long. Every x of the way lowers x . matrix x / 2 - right . x, so that it is a direction of
    descent wherever it ends.
    """
    x, residual = np.zeros(right.size), right.copy()
    along = residual / scale
    square = first = float(residual @ along)
    for round_ in range(max(LOOK, right.size // ROWS_A_ROUND)):
        if enough(residual):
            return x, right - residual
        if round_ == LOOK and not square <= GAINED**2 * first:
            return None
        image = product(along)
        curvature = float(along @ image)
        if not 0.0 < curvature < np.inf:
            return None
        t = square / curvature
        x += t * along
        residual -= t * image
        scaled = residual / scale
        before, square = square, float(residual @ scaled)
        along *= square / before
        along += scaled
    return None
