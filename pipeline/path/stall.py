"""When a step ends without its certificate: rounds no longer help, and why is said."""

from __future__ import annotations

import math

from pipeline.errors import SolverError
from pipeline.maths.certificate import Certificate
from pipeline.spec import PathSpec

STALLED_ROUNDS = 8  # without progress: the rounds of that many sweeps, as blocks swept in turn need some
BLAMED = 0.05  # of the gap: what float64 itself is the cause of, to be named as the cause


class Stall:
    """Tells when rounds no longer help: for a while neither the gap has fallen nor the dual value risen, by its share.

    The gap at w = w_alpha goes up and down while the dual value rises: rows that are solved for some at a time need
    both. The dual value may be near its end, and rise by little, while the primal one is still far from it; where a
    round solves for some of the rows only (``sweep`` > 1) any rise counts, as long as rounding lets it be seen.
    """

    def __init__(self) -> None:
        self.gap, self.dual, self.quiet = math.inf, -math.inf, 0

    def noted(self, found: Certificate, tol: float, sweep: int = 1) -> bool:
        """Take note of a round's certificate; it takes ``sweep`` rounds to solve for all rows once."""
        worth = min(0.001 * found.gap, 0.01 * tol * found.primal) if sweep == 1 else 0.0
        better = found.gap < 0.98 * self.gap or found.dual > self.dual + worth
        self.quiet = 0 if better else self.quiet + 1
        self.gap, self.dual = min(self.gap, found.gap), max(self.dual, found.dual)
        return self.quiet >= STALLED_ROUNDS * sweep


def stalled(found: Certificate, spec: PathSpec, why: str) -> SolverError:
    """Return what is said of a gap that stays where it is."""
    if found.unattainable >= BLAMED * found.gap:
        why = "float64 cannot tell on which side of the margin some rows are"
    stays = f"at C = {found.c:.6g} the relative gap stays at {found.relative_gap:.2e}, above {spec.tol:.1e}"
    if found.relative_gap <= spec.tol:  # and still not enough for a next C
        stays = f"at C = {found.c:.6g} the relative gap of {found.relative_gap:.2e} leads to no next C"
        return SolverError(f"{stays} that epsilon = {spec.epsilon:g} allows ({why}); use a larger --epsilon, or --grid")
    return SolverError(f"{stays} ({why}); scale the features, for example to [-1, 1], or use a larger --tol")
