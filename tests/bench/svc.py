"""scikit-learn's SVC (LIBSVM) as a peer of kernel paths: what it takes at a C, and the gap that it reaches.

It minimises |w|^2/2 + C sum max(0, 1 - y_i (Phi(x_i) . w + b)), with a bias b that is not regularised. With its alpha
and b, the scores f and |w|^2 = sum alpha_i y_i (f_i - b), the gap is the difference of

    P = |w|^2/2 + C sum max(0, 1 - y_i f_i),    D = sum alpha - |w|^2/2.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from tests.bench.kernel_sets import KernelSet
from tests.bench.measure import Seconds

TOL = 1e-4  # the relative gap that is asked for
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)  # SVC's, its default first
MOST_STEPS = 10_000_000  # of LIBSVM at the tighter ones, a plain choice: at a large C it may take for ever


@dataclass(frozen=True)
class Fit:
    """What SVC took at a C, and the relative gap it reached."""

    took: Seconds
    gap: float


def fit(rows: KernelSet, c: float, gamma: float, tolerance: float) -> Fit:
    """Train once, cold."""
    took, default = Seconds(), tolerance == TOLERANCES[0]
    machine = SVC(C=c, gamma=gamma, tol=tolerance, cache_size=2000, max_iter=-1 if default else MOST_STEPS)
    with warnings.catch_warnings(), took.counted():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says it
        machine.fit(rows.x, rows.y)
    scores, coefficients = machine.decision_function(rows.x), machine.dual_coef_[0]
    square = float(coefficients @ (scores[machine.support_] - machine.intercept_[0]))
    primal = square / 2 + c * float(np.maximum(0.0, 1.0 - rows.y * scores).sum())
    dual = float(np.abs(coefficients).sum()) - square / 2
    return Fit(took, (primal - dual) / primal)


@dataclass
class Theirs:
    """SVC by C: at its default tol, and at the loosest that reaches the gap, or the tightest there is."""

    default: dict[float, Fit] = field(default_factory=dict)
    tight: dict[float, Fit] = field(default_factory=dict)

    def ask(self, rows: KernelSet, c: float, gamma: float) -> None:
        """Train at one C."""
        for tolerance in TOLERANCES:
            self.tight[c] = fit(rows, c, gamma, tolerance)
            self.default.setdefault(c, self.tight[c])
            if self.tight[c].gap <= TOL:
                return

    @property
    def arrived(self) -> int:
        return sum(found.gap <= TOL for found in self.tight.values())
