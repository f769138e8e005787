"""A slow, dense, independent SVM solver: the judge in tests. It shares no code with ``pipeline``.

    minimise |Z^T alpha|^2 / 2 - sum alpha,    0 <= alpha <= u

by a primal-dual interior point method (Mehrotra 1992) in extended precision (80 bits on x86), so that a relative gap of
1e-12 is within reach where float64 ends. Products of matrices are ``dot``, not ``@``: of this type, ``@`` takes thrice
as long for the same bits. Systems of equations are solved with a factor in float64, and what that leaves is solved for
again, until nothing is left that extended precision could tell; where that leads nowhere, and where there are few, with
a factor in extended precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

LONG = np.longdouble
MOST_CORRECTIONS = 20
FEW = 60  # equations, for which a factor in extended precision takes no longer


@dataclass(frozen=True)
class Optimum:
    """w, alpha, margins and both objective values, all in extended precision."""

    w: np.ndarray
    alpha: np.ndarray
    margins: np.ndarray
    primal: LONG
    dual: LONG

    @property
    def relative_gap(self) -> float:
        return float((self.primal - self.dual) / self.primal) if self.primal > 0 else 0.0

    @property
    def distance(self) -> float:
        """A bound of |w - w*|: P is 1-strongly convex, so its square is at most twice the gap."""
        return float(np.sqrt(2 * np.maximum(self.primal - self.dual, 0) + LONG(1e-18) * self.primal))


def solve(z: np.ndarray, c: float, costs: np.ndarray | None = None) -> Optimum:
    """Return the optimum at C = ``c``; its ``relative_gap`` says how good it is."""
    z = np.asarray(z, dtype=LONG)
    u = LONG(c) * (np.ones(len(z), LONG) if costs is None else np.asarray(costs, dtype=LONG))
    alpha = _interior_point(z, u)
    w_alpha = alpha @ z
    dual = alpha.sum() - w_alpha @ w_alpha / 2
    w, primal = min(_candidates(z, u, alpha, w_alpha), key=lambda found: found[1])
    return Optimum(w, alpha, z @ w, primal, dual)


def _candidates(z: np.ndarray, u: np.ndarray, alpha: np.ndarray, w: np.ndarray) -> list[tuple[np.ndarray, LONG]]:
    """Return primal points: w_alpha, and those near it that put the rows with free alphas right on the margin.

    Where u is huge, w_alpha = sum alpha_i z_i cancels and its rounding alone, times u, is a large loss.
    """
    found = [(w, _primal(z, u, w))]
    for width in (1e-12, 1e-9, 1e-6, 1e-3):
        free = z[(alpha > width * u) & (alpha < (1 - width) * u)]
        gram = np.dot(free, free.T)
        system = _System(gram + 1e-17 * np.diag(np.diag(gram)))
        near = w
        for _ in range(4 if len(free) else 0):
            step = system.solve(1 - free @ near)
            if step is None:
                break
            near = near + step @ free
            found.append((near, _primal(z, u, near)))
    return found


def _primal(z: np.ndarray, u: np.ndarray, w: np.ndarray) -> LONG:
    return w @ w / 2 + u @ np.maximum(0, 1 - z @ w)


def _interior_point(z: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Work on beta = alpha / u in [0, 1] with multipliers s and t; ``rest`` = 1 - beta is kept apart to stay exact."""
    k = u[:, None] * z
    q = np.dot(k, k.T)
    n = len(u)
    beta, rest = np.full(n, LONG(0.5)), np.full(n, LONG(0.5))
    gradient = q @ beta - u
    s = np.maximum(gradient, 0) + u
    t = s - gradient
    for _ in range(300):
        mu = (beta @ s + rest @ t) / (2 * n)
        w = beta @ k
        if 2 * n * mu < LONG(1e-17) * abs(u @ beta - w @ w / 2):
            break
        residual = k @ w - u - s + t
        system = _System(q + np.diag(s / beta + t / rest))
        target_s, target_t = -beta * s, -rest * t
        for corrector in (False, True):
            step = system.solve(-residual + target_s / beta - target_t / rest)
            if step is None:
                return _alpha(u, beta, rest)
            step_s, step_t = (target_s - s * step) / beta, (target_t + t * step) / rest
            moves = ((beta, step), (rest, -step), (s, step_s), (t, step_t))
            length = min(LONG(1), *(LONG(0.9995) * _room(x, dx) for x, dx in moves))
            if not corrector:
                after = (beta + length * step) @ (s + length * step_s) + (rest - length * step) @ (t + length * step_t)
                centre = mu * (after / (2 * n) / mu) ** 3
                target_s, target_t = centre - beta * s - step * step_s, centre - rest * t + step * step_t
        if length < 1e-12:
            break
        beta, rest = beta + length * step, rest - length * step
        s, t = s + length * step_s, t + length * step_t
    return _alpha(u, beta, rest)


def _alpha(u: np.ndarray, beta: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return u * np.where(beta < 0.5, beta, 1 - rest)


def _room(x: np.ndarray, step: np.ndarray) -> LONG:
    falling = step < 0
    return np.min(-x[falling] / step[falling], initial=LONG(np.inf))


class _System:
    """Equations with a positive definite matrix, each scaled to have 1 on the diagonal."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def solve(self, right: np.ndarray) -> np.ndarray | None:
        """Return the solution, or None where rounding has made the matrix indefinite."""
        if len(right) > FEW and self._rough is not None:
            found = self._corrected(self._scale * right)
            if found is not None:
                return self._scale * found
        return None if self._exact is None else _solve(self._exact, right)

    def _corrected(self, right: np.ndarray) -> np.ndarray | None:
        """Return a solution whose error is one of rounding in extended precision, if float64 leads there."""
        x, left, size = np.zeros_like(right), right, LONG(np.inf)
        for _ in range(MOST_CORRECTIONS):
            x = x + cho_solve(self._rough, left.astype(np.float64), check_finite=False)
            left = right - np.dot(self._scaled, x)
            now = np.max(np.abs(left))
            if now <= np.finfo(LONG).eps * (len(x) * np.max(np.abs(x)) + np.max(np.abs(right))):
                return x
            if not now < size / 2:
                return None
            size = now
        return None

    @cached_property
    def _scale(self) -> np.ndarray:
        return 1 / np.sqrt(np.diag(self.matrix))

    @cached_property
    def _scaled(self) -> np.ndarray:
        return self.matrix * self._scale[:, None] * self._scale

    @cached_property
    def _rough(self) -> tuple[np.ndarray, bool] | None:
        if not np.all(np.diag(self.matrix) > 0):
            return None
        try:
            return cho_factor(self._scaled.astype(np.float64), lower=True, check_finite=False)
        except LinAlgError:
            return None

    @cached_property
    def _exact(self) -> np.ndarray | None:
        return _cholesky(self.matrix)


def _cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """Return the lower factor, or None where rounding has made the matrix indefinite; NumPy's has no extended type."""
    factor = matrix.copy()
    for j in range(len(factor)):
        factor[j:, j] -= np.dot(factor[j:, :j], factor[j, :j])
        if not factor[j, j] > 0:
            return None
        factor[j:, j] /= np.sqrt(factor[j, j])
    return factor


def _solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    x = right.copy()
    for j in range(len(x)):
        x[j] = (x[j] - np.dot(factor[j, :j], x[:j])) / factor[j, j]
    for j in reversed(range(len(x))):
        x[j] = (x[j] - np.dot(factor[j + 1 :, j], x[j + 1 :])) / factor[j, j]
    return x
