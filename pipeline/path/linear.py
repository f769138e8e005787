"""The linear space: w is a vector, a row's margin a product, and a pass over the shards makes all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pipeline.budget import Projection
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.maths.ball import drift_of_sum
from pipeline.maths.path_start import c_min, doubt_by
from pipeline.maths.rounding import UNIT
from pipeline.maths.slack import Near
from pipeline.passes.products import products
from pipeline.path.certify import Certifier, LinearPoint
from pipeline.path.reference import carried_pair
from pipeline.path.space import Earlier, follows
from pipeline.runs.contract import KeptModel, StepWriter
from pipeline.runs.records import StepRecord
from pipeline.runs.run import StepView
from pipeline.scoring.linear_model import trained_on
from pipeline.solve import solver_named
from pipeline.spec import PathSpec
from pipeline.working.host import LocalHost, RowHost
from pipeline.working.lead import Lead
from pipeline.working.remote import RemoteHost
from pipeline.working.rows import WorkingRows
from pipeline.working.solve import Method
from pipeline.working.solver import LinearPair, RowSolver, Timer
from pipeline.working.state import ByRow, RowState

WORTH_LIFTING = 0.05  # of the gap: below that, lifting w cannot help


class LinearSpace:
    """The space of vectors w; ``budget`` says how much of the rows may be held and how they are solved for."""

    def __init__(self, engine: Engine, data: Dataset, state: RowState, spec: PathSpec, budget: Projection) -> None:
        solver_named(spec.solver).check_costs(np.ravel(state.each(_extent, state.costs)))
        self.engine, self.data, self.state = engine, data, state
        self.working = WorkingRows(self._host(), state, budget.working_set)
        self.certifier = Certifier(engine, data, self.working, spec.rule, spec.tol if budget.reads_less else None)
        self.solver = RowSolver(self.working, Method(spec.solver, spec.shrink, budget))
        self._cost_sum: np.ndarray | None = None

    def _host(self) -> RowHost:
        if self.engine.pinned is not None:
            return RemoteHost(self.engine.pinned, self.data, self.state.wide)
        return LocalHost(self.engine, self.data, self.state.wide, self.state.hot)

    starts_anywhere = False  # C_min takes two passes

    def start(self, c: float, c_min: float) -> LinearPoint:
        """Return the point at C_min, whatever C is to come."""
        del c
        return self.certify(c_min, self.first(c_min))

    def c_min(self) -> float:
        """Return 1/max z_i . sum c_j z_j."""
        rows, f = self.state, self.state.empty()
        found = rows.multiply(self.engine, self.data, [self.cost_sum], [f], math.nan, _largest, rows, f)
        doubt = doubt_by(max(part[1] for part in found), math.fsum(part[2] for part in found), rows.n_rows)
        return c_min(np.array([part[0] for part in found]), doubt)

    @property
    def cost_sum(self) -> np.ndarray:
        """sum c_i z_i, which is w/C below C_min."""
        if self._cost_sum is None:
            self._cost_sum = self.state.cost_sum(self.engine, self.data)
        return self._cost_sum

    def first(self, c: float) -> LinearPair:
        """Return the pair with alpha_i = u_i for all rows: the solution at C <= C_min."""
        rows, alpha = self.state, self.state.empty()
        reach = math.fsum(rows.each(_all_at_bound, c, rows, alpha))
        w = c * self.cost_sum
        return LinearPair(alpha, w, w, drift_of_sum(reach, rows.n_rows + 2))

    def scaled(self, point: LinearPoint, c: float) -> LinearPair:
        """Bring a pair to C by the better of two feasible ways: scaled with C (bounds stay bounds), or as it is."""
        rows, old, rho = self.state, point.pair, point.reach.model_at(c).alpha_scale
        if rho == 1.0:
            return LinearPair(old.alpha, old.w_alpha, old.w_alpha, old.drift)
        alpha = rows.empty()
        rows.later(_scale, alpha, old.alpha, rows.costs, (point.c, c, rho))
        w_alpha = old.w_alpha * rho
        size = math.sqrt(point.reach.dual_square) * point.unit
        drift = old.drift * rho + 4 * UNIT * rho * (size + float(point.reference.sums.reach))
        return LinearPair(alpha, w_alpha, w_alpha, drift)

    def stored(self, model: KeptModel, drift: float) -> LinearPair:
        """Return the pair that a step of this run has written, with the bits that it had."""
        alpha, w, apart = self.state.filled(model.alpha), model.w(), model.w_alpha()
        return LinearPair(alpha, w, w if apart is None else apart, drift)

    def carried(self, step: StepView, spec: PathSpec) -> LinearPair:
        """Return the pair that a step of any run makes on these rows."""
        return carried_pair(self.engine, self.data, self.state, step, spec)

    def certify(self, c: float, pair: LinearPair, tol: float = math.inf, ref: LinearPoint | None = None) -> LinearPoint:
        """Certify a pair, or (1 + delta) w with its alpha, where float64 keeps rows that are on the margin inside it.

        Such rows have slacks of about their rounding, and C times that may exceed ``tol``. Longer by a delta of a few
        roundings, w has them outside, and hardly costs more: delta |w|^2.
        """
        point = self.certifier.point(c, pair, ref)
        found = point.certificate
        if found.relative_gap <= tol or found.unattainable < WORTH_LIFTING * found.gap:
            return point
        longer = (1 + point.lift) * pair.w
        return self.certifier.point(c, LinearPair(pair.alpha, longer, pair.w_alpha, pair.drift, pair.solver), ref)

    def resumed(
        self, steps: Sequence[StepRecord], model: Callable[[int], KeptModel]
    ) -> tuple[LinearPoint, Earlier | None]:
        """Return the point of the last finished step, and the one before it if it came from there.

        Points that have not read all rows are made again from the last one that has.
        """
        last = len(steps) - 1
        first = next((k for k in range(last, 0, -1) if steps[k].read in (None, 1.0)), 0)
        before = model(first - 1).w() if follows(steps, first) else None
        pairs = (self.stored(model(k), steps[k].drift) for k in range(first, last + 1))
        point = self.certifier.point(steps[first].c, next(pairs), before=before)
        margins = point.before
        if margins is None and before is not None:
            margins = self.margins_again(model(first - 1))
        for k, pair in zip(range(first + 1, last + 1), pairs, strict=True):
            margins, point = point.margins, self.certifier.point(steps[k].c, pair, point)
        if margins is None:
            return point, None
        return point, Earlier(steps[last - 1].c, self.state.filled(model(last - 1).alpha), margins)

    def solve(
        self, c: float, pair: LinearPair, chosen: ByRow, target: float, clock: Timer, lead: Lead | None = None
    ) -> LinearPair:
        """Return the pair after solving to an absolute gap of ``target`` over the rows that ``chosen`` marks."""
        return self.solver.solve(c, pair, chosen, target, clock, lead)

    def fits(self, chosen: ByRow) -> bool:
        """Tell whether some rows can be held all at once."""
        return self.working.fits(chosen)

    def solved_for(self, chosen: ByRow) -> int:
        """Return how many of some rows the last round solved for: all, at once or in blocks."""
        return self.working.count(chosen)

    def margins_again(self, model: KeptModel) -> ByRow:
        """Return the margins of a step of this run, with the bits they had.

        Rows are summed up in another order when they are multiplied by several vectors at once, as they were then if w
        was not alone.
        """
        w, f = model.w(), self.state.empty()
        again = self.certifier.with_signs or model.w_alpha() is not None
        vectors, out = ([w, w], [f, self.state.empty()]) if again else ([w], [f])
        self.state.multiply(self.engine, self.data, vectors, out, math.nan, _nothing)
        return f

    def margins_on(self, pair: LinearPair, c: float, other: Dataset) -> np.ndarray:
        """Return the margins of the rows of another data set, whose columns are found by name."""
        f = np.empty(other.n_rows)
        model = trained_on(self.data, Path(self.data.path), c, pair.w)
        products(self.engine, other, [model.weights_on(other)], [f])
        return f

    def write(self, writer: StepWriter, facts: StepRecord, point: LinearPoint) -> StepRecord:
        """Write a finished step with its model; return its line."""
        pair = point.pair
        apart = None if pair.w_alpha is pair.w else pair.w_alpha
        alpha, verdicts = self.state.whole(pair.alpha, self.state.verdicts)
        return writer.append(facts, pair.w, alpha, verdicts, apart)

    def reading(self) -> tuple[int, int]:
        """Return the passes so far, and the nonzeros read besides."""
        return self.certifier.passes, self.working.host.read + self.certifier.read

    def release(self) -> None:
        """Let go of the rows that are held."""
        self.working.release()
        self.state.release()


def _extent(part: slice, costs: ByRow) -> tuple[float, float]:
    """Return the smallest and the largest cost of rows that are trained on, 0 where there are none."""
    used = costs[part][costs[part] > 0.0]
    return (float(used.min()), float(used.max())) if used.size else (0.0, 0.0)


def _largest(part: slice, near: Near, rows: RowState, f: ByRow) -> tuple[float, float, float]:
    """Return the largest product of rows that are trained on, and the longest row and sum c_i |z_i| of all."""
    del near
    costs, norms = rows.costs[part], rows.norms[part]
    return float(f[part].max(initial=0.0, where=costs > 0)), float(norms.max(initial=0.0)), float((costs * norms).sum())


def _all_at_bound(part: slice, c: float, rows: RowState, alpha: ByRow) -> float:
    """Write alpha_i = u_i; return sum alpha_i |z_i|."""
    alpha[part] = u = c * rows.costs[part]
    return float((u * rows.norms[part]).sum())


def _scale(part: slice, alpha: ByRow, old: ByRow, costs: ByRow, scales: tuple[float, float, float]) -> None:
    """Write alpha at C, rho times what it was: rows at their bound stay there."""
    (c_ref, c, rho), was, cost = scales, old[part], costs[part]
    u = c * cost
    alpha[part] = np.where(was == c_ref * cost, u, np.minimum(was * rho, u))


def _nothing(part: slice, near: Near) -> None:
    """Want the products only."""
