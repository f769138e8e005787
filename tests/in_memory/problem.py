"""The problem by its definition, rows in memory: the linear SVM with hinge loss, per-row costs, and its dual.

For rows z_i = y_i x_i with costs c_i > 0 and a regularisation C > 0

    primal   P_C(w)     = |w|^2 / 2 + C xi(w),     xi(w) = sum_i c_i max(0, 1 - f_i),  f_i = z_i . w
    dual     D_C(alpha) = sum_i alpha_i - |w_alpha|^2 / 2,     0 <= alpha_i <= u_i = C c_i,  w_alpha = sum_i alpha_i z_i

P_C(w) >= D_C(alpha) for every w and every feasible alpha, with equality exactly at the optimum, where w = w_alpha and
f_i > 1 => alpha_i = 0,  f_i < 1 => alpha_i = u_i. Rows may be a SciPy sparse matrix or a dense array.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from pipeline.maths.path_start import doubt_by

Matrix: TypeAlias = Any
"""A SciPy sparse matrix (which carries no types) or a dense array."""


def signed(x: Matrix, labels: np.ndarray) -> Matrix:
    """Return z with rows z_i = y_i x_i."""
    if sp.issparse(x):
        return sp.csr_array(x.multiply(np.asarray(labels, dtype=np.float64)[:, None]))
    return np.asarray(labels, dtype=np.float64)[:, None] * np.asarray(x, dtype=np.float64)


def dense(x: Matrix) -> np.ndarray:
    """Return rows as a dense array."""
    return x.toarray() if sp.issparse(x) else np.asarray(x)


def margins(z: Matrix, w: np.ndarray) -> np.ndarray:
    """Return f_i = z_i . w."""
    return np.asarray(z @ w, dtype=np.float64)


def combination(z: Matrix, alpha: np.ndarray) -> np.ndarray:
    """Return w_alpha = sum_i alpha_i z_i."""
    return np.asarray(z.T @ alpha, dtype=np.float64)


def row_norms(z: Matrix) -> np.ndarray:
    """Return |z_i|."""
    if sp.issparse(z):
        return np.sqrt(np.asarray(z.multiply(z).sum(axis=1), dtype=np.float64).reshape(-1))
    return np.sqrt(np.einsum("ij,ij->i", z, z))


def row_lengths(z: Matrix) -> np.ndarray:
    """Return the number of terms in each row's dot products."""
    if sp.issparse(z):
        return np.diff(sp.csr_array(z).indptr)
    return np.full(z.shape[0], z.shape[1])


def hinge_sum(f: np.ndarray, costs: np.ndarray) -> float:
    """Return xi = sum_i c_i max(0, 1 - f_i) from the margins."""
    return float(np.sum(costs * np.maximum(0.0, 1.0 - f)))


def primal(w: np.ndarray, f: np.ndarray, costs: np.ndarray, c: float) -> float:
    """Return P_C(w), where f are the margins of all rows at w."""
    return float(w @ w) / 2 + c * hinge_sum(f, costs)


def dual(alpha: np.ndarray, w_alpha: np.ndarray) -> float:
    """Return D_C(alpha); it depends on C only through the box that alpha must lie in."""
    return float(np.sum(alpha)) - float(w_alpha @ w_alpha) / 2


def doubt_of(costs: np.ndarray, norms: np.ndarray) -> float:
    """Bound |z_i . s| where s = sum c_j z_j is 0 but for rounding."""
    return doubt_by(float(norms.max(initial=0.0)), float(costs @ norms), costs.size)
