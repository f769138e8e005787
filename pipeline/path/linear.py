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
from pipeline.maths.path_start import c_min, doubt_of
from pipeline.maths.rounding import UNIT
from pipeline.passes.products import products
from pipeline.passes.sums import row_sum
from pipeline.path.certify import Certifier, LinearPoint
from pipeline.path.reference import carried_pair
from pipeline.path.space import Earlier, Timer, follows
from pipeline.runs.contract import KeptModel, StepWriter
from pipeline.runs.directory import StepView
from pipeline.runs.records import StepRecord
from pipeline.scoring.linear_model import trained_on
from pipeline.solve import solver_named
from pipeline.spec import PathSpec
from pipeline.working.host import LocalHost, RowHost
from pipeline.working.lead import Lead
from pipeline.working.remote import RemoteHost
from pipeline.working.rows import WorkingRows
from pipeline.working.solve import Method
from pipeline.working.solver import LinearPair, RowSolver
from pipeline.working.state import RowState

WORTH_LIFTING = 0.05  # of the gap: below that, lifting w cannot help


class LinearSpace:
    """The space of vectors w; ``budget`` says how much of the rows may be held and how they are solved for."""

    def __init__(self, engine: Engine, data: Dataset, state: RowState, spec: PathSpec, budget: Projection) -> None:
        solver_named(spec.solver).check_costs(state.costs)
        self.engine, self.data, self.state = engine, data, state
        self.working = WorkingRows(self._host(), state, budget.working_set)
        self.certifier = Certifier(engine, data, self.working, spec.rule, spec.tol if budget.reads_less else None)
        self.solver = RowSolver(self.working, Method(spec.solver, spec.shrink, budget))
        self._cost_sum: np.ndarray | None = None

    def _host(self) -> RowHost:
        if self.engine.pinned is not None:
            return RemoteHost(self.engine.pinned, self.data, self.state.wide)
        return LocalHost(self.engine, self.data, self.state.wide, self.state.lengths)

    starts_anywhere = False  # C_min takes two passes

    def start(self, c: float, c_min: float) -> LinearPoint:
        """Return the point at C_min, whatever C is to come."""
        del c
        return self.certify(c_min, self.first(c_min))

    def c_min(self) -> float:
        """Return 1/max z_i . sum c_j z_j."""
        f, rows = self.state.empty(), self.state
        products(self.engine, self.data, [self.cost_sum], [f])
        return c_min(f[rows.costs > 0], doubt_of(rows.costs, rows.norms))

    @property
    def cost_sum(self) -> np.ndarray:
        """sum c_i z_i, which is w/C below C_min."""
        if self._cost_sum is None:
            self._cost_sum = row_sum(self.engine, self.data, self.state.costs)
        return self._cost_sum

    def first(self, c: float) -> LinearPair:
        """Return the pair with alpha_i = u_i for all rows: the solution at C <= C_min."""
        rows, alpha = self.state, self.state.empty()
        for part in rows.chunks():
            alpha[part] = c * rows.costs[part]
        reach = math.fsum(float(alpha[p] @ rows.norms[p]) for p in rows.chunks())
        w = c * self.cost_sum
        return LinearPair(alpha, w, w, drift_of_sum(reach, rows.n_rows + 2))

    def scaled(self, point: LinearPoint, c: float) -> LinearPair:
        """Bring a pair to C by the better of two feasible ways: scaled with C (bounds stay bounds), or as it is."""
        rows, old, rho = self.state, point.pair, point.reach.model_at(c).alpha_scale
        if rho == 1.0:
            return LinearPair(old.alpha, old.w_alpha, old.w_alpha, old.drift)
        alpha = rows.empty()
        for part in rows.chunks():
            was, bound, u = old.alpha[part], point.c * rows.costs[part], c * rows.costs[part]
            alpha[part] = np.where(was == bound, u, np.minimum(was * rho, u))
        w_alpha = old.w_alpha * rho
        size = math.sqrt(point.reach.dual_square) * point.unit
        drift = old.drift * rho + 4 * UNIT * rho * (size + float(point.reference.sums.reach))
        return LinearPair(alpha, w_alpha, w_alpha, drift)

    def stored(self, model: KeptModel, drift: float) -> LinearPair:
        """Return the pair that a step of this run has written, with the bits that it had."""
        alpha, w, apart = self.state.empty(), model.w(), model.w_alpha()
        model.alpha(alpha)
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
        alpha = self.state.empty()
        model(last - 1).alpha(alpha)
        return point, Earlier(steps[last - 1].c, alpha, margins)

    def solve(
        self, c: float, pair: LinearPair, chosen: np.ndarray, target: float, clock: Timer, lead: Lead | None = None
    ) -> LinearPair:
        """Return the pair after solving to an absolute gap of ``target`` over the rows that ``chosen`` marks."""
        return self.solver.solve(c, pair, chosen, target, clock, lead)

    def fits(self, chosen: np.ndarray) -> bool:
        """Tell whether some rows can be held all at once."""
        return self.working.fits(chosen)

    def solved_for(self, chosen: np.ndarray) -> int:
        """Return how many of some rows the last round solved for: all, at once or in blocks."""
        return int(np.count_nonzero(chosen))

    def margins_again(self, model: KeptModel) -> np.ndarray:
        """Return the margins of a step of this run, with the bits they had.

        Rows are summed up in another order when they are multiplied by several vectors at once, as they were then if w
        was not alone.
        """
        w, f = model.w(), self.state.empty()
        again = self.certifier.with_signs or model.w_alpha() is not None
        products(self.engine, self.data, [w, w] if again else [w], [f, self.state.empty()] if again else [f])
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
        return writer.append(facts, pair.w, pair.alpha, self.state.verdicts, apart)

    def reading(self) -> tuple[int, int]:
        """Return the passes so far, and the nonzeros read besides."""
        return self.certifier.passes, self.working.host.read + self.certifier.read

    def read_since(self, begun: tuple[int, int]) -> float:
        """Return how many times the data were read since then."""
        passes, read = self.reading()
        return passes - begun[0] + (read - begun[1]) / max(1, self.data.nnz)

    def release(self) -> None:
        """Let go of the rows that are held."""
        self.working.release()
