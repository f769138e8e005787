"""Development data scaled as the issues ask, and reference solutions as good as float64 allows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from pipeline.maths.screening import Rows
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem
from tests.conftest import DEVELOPMENT_DATA

TEXT = ("pcmac_asu", "imdb50k_uni", "news20_raw_bi")
ONE_HOT = ("dna_scale", "mushrooms", "a9a", "nycflights13", "census_income_kdd", "kddcup99_10pct")


def load_rows(name: str) -> Rows:
    """Return rows z_i = y_i x_i of a development data set; dense ones are scaled to [-1, 1] by feature."""
    path = DEVELOPMENT_DATA / f"{name}.npz"
    if path.exists():
        stored = np.load(path, allow_pickle=False)
        x = sp.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=tuple(stored["shape"]))
        y = stored["y"].astype(np.float64)
    else:
        x, y = load_svmlight_file(str(DEVELOPMENT_DATA / f"{name}.svm.gz"))
    x = sp.csr_array(x, dtype=np.float64)
    if name not in TEXT and name not in ONE_HOT:
        dense = x.toarray()
        low, high = dense.min(axis=0), dense.max(axis=0)
        return Rows.of(y[:, None] * (2 * (dense - low) / np.where(high > low, high - low, 1.0) - 1))
    z = sp.csr_array(x.multiply(y[:, None]))
    z.indices, z.indptr = z.indices.astype(np.int32), z.indptr.astype(np.int32)  # as rows are held on the path
    return Rows.of(z)


def optimum(rows: Rows, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (w_alpha, alpha) at C = ``c`` to a relative gap of about 1e-12, and say so if it is worse than 1e-9."""
    u = c * rows.costs
    problem = ReducedProblem(rows.z, u, np.zeros(rows.z.shape[1]))
    first = solve_newton(problem, None, 1e-9 * float(u.sum()))
    primal = float(first.w @ first.w) / 2 + float(u @ np.maximum(0.0, 1.0 - rows.z @ first.w))
    found = solve_newton(problem, first.alpha, 1e-13 * primal)
    if found.gap > 1e-9 * primal:
        raise RuntimeError(f"the reference at C = {c:g} has a relative gap of {found.gap / primal:.1e}")
    return problem.combine(found.alpha), found.alpha
