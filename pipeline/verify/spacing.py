"""Does a path keep what it promises between its steps? Recomputed values of a step against the C of the next.

With (w, alpha) at C0, W = |w|^2, A = |w_alpha|^2, S = sum alpha and xi the hinge sum, w has at C = rho C0 >= C0

    primal W/2 + C xi,    and a dual value of rho S - rho^2 A/2 (alpha scaled with C) or S - A/2 (alpha as it is).

The promise is that primal - dual <= epsilon dual for the better of the two at the next C, or at C_max if there is none.
primal - (1 + epsilon) dual is convex in C for either, so that it holds between two C if it holds at both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from pipeline.spec import PathSpec
from pipeline.verify.enclosure import Enclosure, nearest
from pipeline.verify.step import Claim
from pipeline.verify.tally import Worth

LARGEST = sys.float_info.max
ROOTS = Fraction(1e-12)  # of P: the next C is a root, computed in float64


def spacing_problem(claim: Claim, found: Worth, c: float, epsilon: float) -> str:
    """Say by how much a step's model misses the promise at a larger C; empty if it does not."""
    worth = found.enclosure
    if worth is None:
        return ""
    primal, dual, rho = _at(worth, c)
    rounding = min(sum(claim.slacks(found, worth)), LARGEST)
    slack = Fraction(rounding) * max(Fraction(1), rho) ** 2 + ROOTS * primal
    if primal - dual <= Fraction(epsilon) * dual + slack:
        return ""
    off = f"{nearest((primal - dual) / dual):.3g}" if dual > 0 else "infinitely"
    return f"at C = {c:.6g} its model is {off} off the optimum, more than epsilon {epsilon:g} allows"


def _at(worth: Enclosure, c: float) -> tuple[Fraction, Fraction, Fraction]:
    """Return the primal value of w at another C, the better dual value, and C/C0."""
    rho, primal = Fraction(c) / Fraction(worth.c), worth.square / 2 + Fraction(c) * worth.hinge
    scaled = rho * worth.alpha - rho * rho * worth.alpha_square / 2
    as_it_is = worth.alpha - worth.alpha_square / 2
    return primal, max(scaled, as_it_is) if rho >= 1 else scaled, rho


def expected_c(spec: PathSpec, c_min: float | None) -> Sequence[float] | None:
    """Return the C that the steps must have: all of a grid's, the first of a path's; None if C_min is missing."""
    if spec.grid is None:
        return [spec.c_max if c_min is None else min(c_min, spec.c_max)]
    if not spec.grid_in_c_min:
        return sorted(set(spec.grid))
    return None if c_min is None else [c_min * c for c in sorted(set(spec.grid))]


def wrong_c(spec: PathSpec, c_min: float | None, steps: Sequence[float]) -> Iterator[tuple[int, str]]:
    """Yield the steps whose C is not that of the grid, or beyond the start of the path.

    Of runs that go along together all but one start below their own C_min.
    """
    expected = expected_c(spec, c_min)
    if expected is None:
        yield 0, "run.json does not say C_min, but the grid is in multiples of it"
        return
    for k, (c, wanted) in enumerate(zip(steps, expected, strict=False)):
        if c != wanted if spec.grid else c > wanted:
            yield k, f"the C of the grid is {wanted:.12g}" if spec.grid else f"the path starts at C = {wanted:.12g}"


def wrong_c_ref(steps: Sequence[dict[str, Any]], others: Sequence[float | None]) -> Iterator[tuple[int, str]]:
    """Yield the steps that say they start from a C at which there is nothing: neither the step before, nor ``others``.

    A step also starts from its own C, where the solution is known in closed form.
    """
    before = None
    for k, facts in enumerate(steps):
        if facts.get("c_ref") not in [before, facts.get("c"), *others]:
            yield k, f"it starts from C = {facts.get('c_ref')}, which is not that of the step before it"
        before = facts.get("c")
