"""Problems in memory with optima as good as float64 allows: linear ones, and those of a kernel.

A kernel's Q = L L^T makes it a linear problem over the rows of L, so that the same rules apply to both. Q gets 1e-9 on
its diagonal, for rows that are alike; that is another kernel by as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.solve.gram.auto import solve_gram_auto
from pipeline.solve.gram.problem import GramProblem
from tests.bench.paper.sets import PaperSet
from tests.bench.references import optimum
from tests.in_memory import problem
from tests.in_memory.screening import MemoryPair, MemoryRows, refer, screening_rate

JITTER = 1e-9
GAP = 1e-9  # relative, asked for; of linear problems the reference solver reaches some 1e-12
CERTIFIED = 1e-6  # relative, rounding counted against us: a rule whose reference is no better would look bad for it
INSIDE = 1e-6  # of its box: an alpha that far from both bounds is of a row on the margin


def gamma_of(kernel: str, d: int) -> float:
    """Return 0.1/d as a number."""
    return float(kernel.removesuffix("/d")) / d


def gram(rows: PaperSet, kernel: str) -> np.ndarray:
    """Return Q of all rows in float64, from differences: squares that cancel have no part in it."""
    x = problem.dense(rows.x)
    q = cdist(x, x, "sqeuclidean")
    np.exp(np.multiply(q, -gamma_of(kernel, x.shape[1]), out=q), out=q)
    q *= rows.y[:, None]
    q *= rows.y[None, :]
    return q


@dataclass(frozen=True)
class Optimum:
    """The optimum at C as a reference, alpha, and which rows are on the margin (the paper's E)."""

    pair: MemoryPair
    alpha: np.ndarray
    on_margin: np.ndarray
    norms: np.ndarray

    def rate(self, found: np.ndarray) -> float:
        """Return the paper's screening rate of some verdicts at this C; one that is wrong is an error."""
        f = self.pair.products[0]
        away = math.sqrt(max(0.0, self.pair.reference.certificate.gap))  # at most: of w from w*
        doubt = away * self.norms + 1e-9
        wrong = ((found == ZERO) & (f < 1 - doubt)) | ((found == UPPER) & (f > 1 + doubt))
        wrong |= (found != KEEP) & self.on_margin
        if wrong.any():
            raise AssertionError(f"{np.count_nonzero(wrong)} rows are screened that the optimum contradicts")
        return screening_rate(found, self.on_margin)


class Exact:
    """A problem whose optima are asked for at several C, ascending or not."""

    def __init__(self, rows: PaperSet, kernel: str = "linear") -> None:
        self.q: np.ndarray | None = None
        if kernel == "linear":
            self.rows = MemoryRows.of(problem.signed(rows.x, rows.y))
        else:
            self.q = gram(rows, kernel)
            self.q[np.diag_indices_from(self.q)] += JITTER
            self.rows = MemoryRows.of(np.linalg.cholesky(self.q))
        self._last: np.ndarray | None = None

    def optimum(self, c: float) -> Optimum:
        """Return the optimum at C."""
        u = c * self.rows.costs
        if self.q is None:
            w, alpha = optimum(self.rows, c)
            alpha = np.minimum(alpha, u)
        else:
            whole = GramProblem(self.q, u, np.zeros(u.size))
            found = solve_gram_auto(whole, self._last, GAP * float(u.sum()) / 10)
            f = whole.margins(found.alpha)
            dual = float(found.alpha.sum() - found.alpha @ f / 2)
            found = solve_gram_auto(whole, found.alpha, GAP * dual)
            alpha = self._last = np.minimum(found.alpha, u)
            w = problem.combination(self.rows.z, alpha)
        pair = refer(self.rows, c, w, alpha, w_alpha=w)
        if pair.reference.certificate.relative_gap > CERTIFIED:
            raise RuntimeError(f"the optimum at C = {c:g} has a gap of {pair.reference.certificate.relative_gap:.1e}")
        inside = (alpha > INSIDE * u) & (alpha < (1 - INSIDE) * u)
        return Optimum(pair, alpha, inside, self.rows.norms)
