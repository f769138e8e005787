"""Development data scaled as the issues ask, and reference solutions as good as float64 allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_svmlight_file

from pipeline.data.registry.synthetic import design, make_rows
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem
from tests.conftest import DEVELOPMENT_DATA
from tests.in_memory.screening import MemoryRows

TEXT = ("pcmac_asu", "imdb50k_uni", "news20_raw_bi")
ONE_HOT = ("dna_scale", "mushrooms", "a9a", "nycflights13", "census_income_kdd", "kddcup99_10pct")


def _digits() -> np.ndarray:
    x, y = load_digits(return_X_y=True)
    return np.where(y < 5, 1.0, -1.0)[:, None] * (x / 8.0 - 1.0)


def _gauss(n: int, d: int) -> np.ndarray:
    """Rows of n by d correlated features, a tenth of the labels wrong."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, d)) @ np.diag(10.0 ** rng.uniform(-1, 0, d)) @ rng.standard_normal((d, d))
    x /= np.abs(x).max()
    y = np.sign(x @ rng.standard_normal(d)) * np.where(rng.random(n) < 0.1, -1.0, 1.0)
    return y[:, None] * x


def _generated(name: str, scale: float) -> sp.csr_array:
    plan = design(name, scale)
    rows = make_rows(plan, 0, plan.rows)
    z = sp.csr_array(rows.csr(), dtype=np.float64)
    z.data *= np.repeat(rows.labels, np.diff(z.indptr))
    return z


MADE = {
    "digits": _digits,
    "gauss": lambda: _gauss(5000, 40),
    "wide": lambda: _gauss(300, 2000),
    "url-like": lambda: _generated("url-like", 0.003),
    "kdda-like": lambda: _generated("kdda-like", 0.001),
}


def load_set(name: str, folder: Path = DEVELOPMENT_DATA) -> tuple[sp.csr_array, np.ndarray]:
    """Return the rows x_i and labels of a development data set, as they are in the source."""
    path = folder / f"{name}.npz"
    if path.exists():
        stored = np.load(path, allow_pickle=False)
        x = sp.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=tuple(stored["shape"]))
        y = stored["y"].astype(np.float64)
    else:
        x, y = load_svmlight_file(str(folder / f"{name}.svm.gz"))
    return sp.csr_array(x, dtype=np.float64), y


def to_unit_range(x: sp.csr_array) -> np.ndarray:
    """Return the rows with every feature scaled to [-1, 1]; a constant one is -1."""
    dense = x.toarray()
    low, high = dense.min(axis=0), dense.max(axis=0)
    return 2 * (dense - low) / np.where(high > low, high - low, 1.0) - 1


def load_rows(name: str) -> MemoryRows:
    """Return rows z_i = y_i x_i of a data set; dense ones are scaled to [-1, 1] by feature."""
    if name in MADE:
        return MemoryRows.of(MADE[name]())
    x, y = load_set(name)
    if name not in TEXT and name not in ONE_HOT:
        return MemoryRows.of(y[:, None] * to_unit_range(x))
    z = sp.csr_array(x.multiply(y[:, None]))
    z.indices, z.indptr = z.indices.astype(np.int32), z.indptr.astype(np.int32)  # as rows are held on the path
    return MemoryRows.of(z)


def optimum(rows: MemoryRows, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (w_alpha, alpha) at C = ``c`` to a relative gap of about 1e-12, and say so if it is worse than 1e-9."""
    u = c * rows.costs
    problem = ReducedProblem(rows.z, u, np.zeros(rows.z.shape[1]))
    first = solve_newton(problem, None, 1e-9 * float(u.sum()))
    primal = float(first.w @ first.w) / 2 + float(u @ np.maximum(0.0, 1.0 - rows.z @ first.w))
    found = solve_newton(problem, first.alpha, 1e-13 * primal)
    if found.gap > 1e-9 * primal:
        raise RuntimeError(f"the reference at C = {c:g} has a relative gap of {found.gap / primal:.1e}")
    return problem.combine(found.alpha), found.alpha
