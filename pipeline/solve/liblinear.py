"""LIBLINEAR (-s 3: L2-regularised hinge loss, dual), as it is, behind the same contract as the other solvers.

It returns no alpha, always starts from 0, stops silently after 300 sweeps, and knows neither costs by row nor an
offset. Two encodings make it usable (both leave the optimum where it is):

- alpha: row i gets one private feature of value delta; afterwards alpha_i = w[d + i] / delta. Q becomes Q + delta^2 I.
- fold: rows go in as z_i with label +1 and cost C; the folded vector v as ONE row -v/K with label -1 and cost K (by
  the class weight K/C of label -1). Its loss K max(0, 1 - v . w / K) is K - v . w, as the reduced problem wants it,
  wherever v . w < K; and v . w* <= |v| |w*| with |w*| <= |v| + sqrt(|v|^2 + 2 sum u), because P(w*) <= P(0).

The library's state is global to the process (rand() and a print hook): calls hold one lock, seed the generator, and
listen to the hook, which is the only way to learn that the 300-sweep cap was hit.
"""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any

import numpy as np
import scipy.sparse as sp

from pipeline.errors import SolverError, SpecError
from pipeline.solve.auto import solve_auto
from pipeline.solve.contract import Solver
from pipeline.solve.newton import newton_bytes
from pipeline.solve.reduced import ReducedProblem, Solution

DELTA = 1e-6  # a plain choice: Q is off by its square, 1e-12
NODE_BYTES = 16  # struct feature_node of linear.h: an int and a double, aligned
UNEVEN = "LIBLINEAR cannot weigh rows one by one; use --solver auto, dcd or newton"
CAP = 300  # of its dual solvers' sweeps, in linear.cpp
_LOCK = threading.Lock()


def liblinear_bytes(problem: ReducedProblem) -> int:
    """Return what LIBLINEAR needs: 16 bytes a nonzero, private features and end marks, and the copy it reads."""
    n, d = problem.z.shape
    nodes = problem.nnz + 3 * n + d + 3
    return nodes * NODE_BYTES + (problem.nnz + n + d) * 12 + (d + n) * 8


def check_expressible(problem: ReducedProblem) -> None:
    """Raise SolverError unless every row has the same cost: LIBLINEAR has one C for the rows with label +1."""
    if problem.u.size and problem.u.max() > problem.u.min():
        raise SolverError(UNEVEN)


def solve_liblinear(problem: ReducedProblem, target_gap: float = 0.0, tolerance: float = 0.1) -> Solution:
    """Solve once with ``-e tolerance``, from 0, and report the gap that was really reached; never prints."""
    check_expressible(problem)
    n, d = problem.z.shape
    if n == 0 or problem.u.max() == 0.0:
        w = problem.combine(np.zeros(n))
        return Solution(np.zeros(n), w, problem.gap(w, np.zeros(n)), "converged", 0, "liblinear")
    c = float(problem.u[0])
    with np.errstate(all="ignore"):  # looked at below
        marked, labels, ratio = _encoded(problem, c)
    if not (math.isfinite(ratio) and np.isfinite(marked.data).all()):  # the folded rows as one are beyond its range
        w = problem.combine(np.zeros(n))
        return Solution(np.zeros(n), w, problem.gap(w, np.zeros(n)), "failed", 0, "liblinear")
    weigh = f" -w-1 {ratio!r}" if labels[-1] < 0 else ""  # of a label that is not there LIBLINEAR warns on stderr
    weights, text = _train(marked, labels, f"-s 3 -c {c!r} -e {tolerance!r}{weigh}")
    alpha = np.clip(weights[d : d + n] / DELTA * np.where(labels[:n] > 0, 1.0, -1.0), 0.0, problem.u)
    return _judged(problem, weights[:d], alpha, target_gap, "reaching max number of iterations" in text)


def _encoded(problem: ReducedProblem, c: float) -> tuple[sp.csr_matrix, np.ndarray, float]:
    """Return the rows with private features, their labels, and the class weight of label -1."""
    n = problem.u.size
    z = sp.csr_matrix(problem.z.scipy() if problem.is_sparse else problem.z)
    labels = np.ones(n)
    if not problem.v.any():
        if n > 1:  # without a fold, one row is turned around so that there are two classes
            labels[-1] = -1.0
            z = sp.csr_matrix(sp.diags_array(labels) @ z)
        return sp.csr_matrix(sp.hstack([z, DELTA * sp.eye_array(n)], format="csr")), labels, 1.0
    size = float(np.linalg.norm(problem.v))
    k = 1.01 * size * (size + float(np.sqrt(size * size + 2 * problem.u.sum())))
    fold = sp.csr_matrix(np.concatenate([-problem.v / k, np.zeros(n)])[None, :])
    rows = sp.hstack([z, DELTA * sp.eye_array(n)], format="csr")
    return sp.csr_matrix(sp.vstack([rows, fold], format="csr")), np.append(labels, -1.0), k / c


def _train(x: sp.csr_matrix, y: np.ndarray, options: str) -> tuple[np.ndarray, str]:
    """Call the library once, alone in this process, and return the weights of label +1 and what it said."""
    from liblinear import liblinear as library  # noqa: PLC0415 - loads a shared library, needed here only
    from liblinear.liblinearutil import train  # noqa: PLC0415

    said: list[str] = []
    hook = library.PRINT_STRING_FUN(lambda text: said.append(text.decode()))
    with _LOCK:
        ctypes.CDLL(None).srand(1)
        parameter = library.parameter(options)
        parameter.print_func = hook
        try:
            model: Any = train(library.problem(y, x), parameter)
            weights = np.array(model.w[: x.shape[1]])
        finally:
            library.liblinear.set_print_string_function(library.ctypes_print_null)
        first = model.get_labels()[0]
    return (weights if first > 0 else -weights), "".join(said)


def _judged(problem: ReducedProblem, w: np.ndarray, alpha: np.ndarray, target: float, capped: bool) -> Solution:
    """Certify: take LIBLINEAR's own w or that of its alpha, whichever has the smaller gap."""
    w_alpha = problem.combine(alpha)
    gap, best = min(((problem.gap(point, alpha), k) for k, point in enumerate((w, w_alpha))), key=lambda pair: pair[0])
    outcome = "failed" if not np.isfinite(gap) else "converged" if gap <= target else "limit"
    return Solution(alpha, (w, w_alpha)[best], gap, outcome, CAP if capped else 0, "liblinear")


class Liblinear(Solver):
    """LIBLINEAR; what it leaves is finished by ``auto``, from the better of two alphas."""

    name = "liblinear"

    def check_costs(self, costs: np.ndarray) -> None:
        """Refuse costs that differ: there is one C for all rows."""
        used = costs[costs > 0]
        if used.size and used.max() > used.min():
            raise SpecError(UNEVEN)

    def bytes_beside(self, problem: ReducedProblem, held: int) -> int:
        """Count its own copy, or those of whoever finishes."""
        return max(liblinear_bytes(problem), newton_bytes(held))

    def run(
        self, problem: ReducedProblem, start: np.ndarray | None, target_gap: float, shrink: bool = True
    ) -> Solution:
        """Solve; its shrinking cannot be switched off."""
        del shrink
        first = solve_liblinear(problem, target_gap)
        if first.converged:
            return first
        own = problem.feasible(start)
        better = problem.gap(problem.combine(first.alpha), first.alpha) < problem.gap(problem.combine(own), own)
        return solve_auto(problem, first.alpha if better else own, target_gap)


SOLVER = Liblinear()
