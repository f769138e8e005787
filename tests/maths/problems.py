"""Random SVM problems of every awkward kind, and references of every accuracy, for the tests of the maths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pipeline.maths.path_start import c_min
from tests.in_memory.problem import doubt_of
from tests.oracle import Optimum, solve


@dataclass(frozen=True)
class Problem:
    z: np.ndarray
    costs: np.ndarray
    c_min: float

    def solve(self, c: float) -> Optimum:
        return solve(self.z, c, self.costs)


def make_problem(seed: int, n: int, d: int, kind: str, spread: float) -> Problem:
    """``kind``: plain, shifted (nearly separable), duplicates, zeros, one class, integers; costs over 10^+-spread."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d))
    if kind == "shifted":
        z += rng.standard_normal(d)
    elif kind == "duplicates":
        z = z[rng.integers(0, max(1, n // 3), n)]
    elif kind == "opposites":
        z[n // 2 : 2 * (n // 2)] = -z[: n // 2]
    elif kind == "zeros":
        z[rng.random(n) < 0.3] = 0.0
    elif kind == "one class":
        z = np.abs(z) + 0.1
    elif kind == "integers":
        z = np.round(2 * z)
    costs = 10.0 ** rng.uniform(-spread, spread, n) if spread else np.ones(n)
    doubt = doubt_of(costs, np.linalg.norm(z, axis=1))
    return Problem(z, costs, c_min(z @ (z.T @ costs), doubt))


KINDS = ["plain", "shifted", "duplicates", "opposites", "zeros", "one class", "integers"]


@st.composite
def problems(draw, largest=(200, 50)) -> Problem:
    most_rows, most_features = draw(st.sampled_from([(6, 4), largest]))
    n, d = draw(st.integers(1, most_rows)), draw(st.integers(1, most_features))
    spread = draw(st.sampled_from([0.0, 1.0, 3.0]))
    return make_problem(draw(st.integers(0, 2**32)), n, d, draw(st.sampled_from(KINDS)), spread)


def worsened(problem: Problem, c: float, optimum: Optimum, gap: float, seed: int) -> np.ndarray:
    """Return an alpha, feasible at C = ``c``, whose relative gap (at w = w_alpha) is near ``gap``.

    It lies on the way from the optimum to a random feasible point, found by bisection.
    """
    rng = np.random.default_rng(seed)
    u = c * problem.costs
    best = np.clip(optimum.alpha.astype(np.float64), 0.0, u)
    away = u * rng.random(u.size) * (rng.random(u.size) < 0.7) - best
    low, high = 1e-18, 1.0
    while high / low > 1.1:
        middle = np.sqrt(low * high)
        low, high = (low, middle) if relative_gap(problem, c, best + middle * away) > gap else (middle, high)
    return np.clip(best + high * away, 0.0, u)


def relative_gap(problem: Problem, c: float, alpha: np.ndarray) -> float:
    w = problem.z.T @ alpha
    primal = w @ w / 2 + c * problem.costs @ np.maximum(0.0, 1.0 - problem.z @ w)
    return (primal - (alpha.sum() - w @ w / 2)) / primal
