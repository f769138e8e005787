"""A slow, dense, independent SVM solver: the judge in tests. It shares no code with ``pipeline``.

    minimise |Z^T alpha|^2 / 2 - sum alpha,    0 <= alpha <= u

by a primal-dual interior point method (Mehrotra 1992) in extended precision (80 bits on x86), so that a relative gap of
1e-12 is within reach where float64 ends. Products of matrices are ``dot``, not ``@``: of this type, ``@`` takes thrice
as long for the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LONG = np.longdouble


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
        factor = _cholesky(gram + 1e-17 * np.diag(np.diag(gram))) if len(free) else None
        near = w
        for _ in range(4 if factor is not None else 0):
            near = near + _solve(factor, 1 - free @ near) @ free
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
        factor = _cholesky(q + np.diag(s / beta + t / rest))
        if factor is None:
            break
        target_s, target_t = -beta * s, -rest * t
        for corrector in (False, True):
            step = _solve(factor, -residual + target_s / beta - target_t / rest)
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
    return u * np.where(beta < 0.5, beta, 1 - rest)


def _room(x: np.ndarray, step: np.ndarray) -> LONG:
    falling = step < 0
    return np.min(-x[falling] / step[falling], initial=LONG(np.inf))


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
