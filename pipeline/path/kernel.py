"""A kernel's space: w is a combination of the rows, alpha, and a row's margin a sum over kernel columns.

The working set is solved for by its Gram matrix, all other rows folded into b = f_W - Q_WW alpha_W; the certificate is
over all rows (``kernel_certify``).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pipeline.budget import KernelProjection
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.maths.kernel import Rbf
from pipeline.maths.path_start import c_min
from pipeline.maths.working_set import foremost
from pipeline.passes.gather import gather
from pipeline.passes.kernel_sums import KernelPasses
from pipeline.path.kernel_certify import KernelCertifier, KernelPair, KernelPoint, Signed
from pipeline.path.lazy import LazyCertifier
from pipeline.path.reference import carry_over, follow_costs
from pipeline.path.space import Earlier, follows
from pipeline.runs.contract import KeptModel, StepWriter
from pipeline.runs.records import StepRecord
from pipeline.runs.run import StepView
from pipeline.scoring.kernel_model import kernel_margins
from pipeline.solve.gram import gram_solver_named
from pipeline.solve.gram.problem import GramProblem, GramSolution
from pipeline.spec import PathSpec
from pipeline.working.gram import GramRows
from pipeline.working.lead import Lead
from pipeline.working.solver import Timer
from pipeline.working.state import RowState

# Plain choices: a worse one costs kernel values, never the answer.
FAR = 4  # working sets that the rows must be for a sample to be worth it
ROOM_BESIDE_FREE = 1.25  # times the free rows, where these are more than usual: a few come and go in a step
DIGITS_OF_SOME = 0.1  # of their gap before: magic in 600 MB took 15 rounds instead of 38, and as many kernel values
ROUGHLY = 1e-3  # the gap of a sample's solution, as a share of the loss at w = 0


class KernelSpace:
    """The space of a kernel. From now on the state's norms are those of the rows there: kappa, all of them."""

    def __init__(
        self, engine: Engine, data: Dataset, state: RowState, spec: PathSpec, budget: KernelProjection
    ) -> None:
        assert spec.gamma is not None
        self.engine, self.data, self.state = engine, data, state
        self.kernel = Rbf(spec.gamma, data.bias)
        self.solver = gram_solver_named(spec.solver)
        squares = state.empty()
        for part in state.chunks():
            squares[part] = state.norms[part] * state.norms[part] * (1 + 1e-12)
            state.norms[part] = self.kernel.norm
        capacity = min(data.n_rows, budget.columns // (8 * max(1, data.n_rows)))
        self.passes = KernelPasses(
            engine, data, self.kernel, state.lengths, state.wide, run=uuid.uuid4().hex, capacity=capacity
        )
        self.certifier = KernelCertifier(self.passes, state, squares, self.kernel, spec.rule)
        self.gram = GramRows(engine, data, state, self.passes, budget.free_rows)
        self.usual = min(budget.working_rows, data.n_rows)
        self.lazy = LazyCertifier(self.certifier) if capacity < data.n_rows else None  # all columns are kept: no need
        self._all: Signed | None = None
        self._counted = 0

    def c_min(self) -> float:
        """Return 1/max (Q c)_i."""
        rows, found, certifier = self.state, self._every_row().g, self.certifier
        products, doubt, total = rows.empty(), 0.0, float(rows.costs.sum())
        lost = found.lost(rows.costs)
        for part in rows.chunks():
            products[part] = rows.labels[part] * found.difference(part)
            errors = certifier.error(certifier.squares[part], found.total(part), rows.costs[part], total, lost)
            doubt = max(doubt, float(errors.max(initial=0.0)))
        return c_min(products[rows.costs > 0], doubt)

    def _every_row(self) -> Signed:
        """Return g of all rows that are trained on, which is f/C below C_min."""
        if self._all is None:
            self._all = self.certifier.signed(self.state.costs > 0.0)
        return self._all

    def first(self, c: float) -> KernelPair:
        """Return the pair with alpha_i = u_i for all rows: the solution at C <= C_min."""
        rows, alpha = self.state, self.state.empty()
        for part in rows.chunks():
            alpha[part] = c * rows.costs[part]
        return KernelPair(alpha, self._every_row())

    @property
    def starts_anywhere(self) -> bool:
        """Whether a guess is worth more than C_min, which takes n^2 kernel values."""
        return self.state.trained > FAR * self.usual

    def start(self, c: float, c_min: float) -> KernelPoint:
        """Return the point at C_min; without C_min one at C, where a sample's model says which rows are at their bound.

        In the sample's problem every row stands for as many as there are to one of it.
        """
        if c_min > 0.0:
            return self.certify(c_min, self.first(c_min))
        rows = self.state
        among = np.flatnonzero(rows.costs > 0.0)
        sample = np.sort(np.random.default_rng(0).choice(among, min(among.size, self.usual), replace=False))
        self.gram.hold(sample)
        q, u = self.gram.q, c * rows.costs[sample] * (among.size / sample.size)
        problem = GramProblem(q, u, np.zeros(sample.size))
        found = self.solver.run(problem, np.zeros(sample.size), ROUGHLY * float(u.sum()))
        alpha = rows.empty()
        alpha[sample] = found.alpha
        f = self.certifier.margins(alpha)
        for part in rows.chunks():
            alpha[part] = np.where(f[part] < 1.0, c * rows.costs[part], 0.0)
        return self.certifier.point(c, KernelPair(alpha))

    def scaled(self, point: KernelPoint, c: float) -> KernelPair:
        """Bring a pair to C, scaled with it: bounds stay bounds, and no column is needed.

        As it is where no row is at its bound: then no more of them would be free.
        """
        rows, old = self.state, point.pair
        rho = c / point.c if old.near.signs.any() or c < point.c else 1.0
        alpha, f = rows.empty(), rows.empty()
        for part in rows.chunks():
            u = c * rows.costs[part]
            alpha[part] = np.where(old.near.signs[part], u, np.minimum(old.alpha[part] * rho, u))
            f[part] = point.margins[part] * rho
        return KernelPair(alpha, old.near, f)

    def stored(self, model: KeptModel, drift: float) -> KernelPair:
        """Return the pair that a step of this run has written."""
        del drift
        alpha = self.state.empty()
        model.alpha(alpha)
        return KernelPair(alpha)

    def carried(self, step: StepView, spec: PathSpec) -> KernelPair:
        """Return the pair that a step of any run of this kernel makes on these rows; new rows have alpha 0."""
        del spec
        alpha = self.state.empty()
        carry_over(step, self.data, alpha)
        follow_costs(step, self.state, alpha, float(step.c))
        return KernelPair(alpha)

    def certify(self, c: float, pair: KernelPair, tol: float = math.inf, ref: KernelPoint | None = None) -> KernelPoint:
        """Certify a pair: by waking few rows as long as it does not reach ``tol``, if that is possible."""
        del ref  # the pair knows what is near
        if self.lazy is not None:
            found = self.lazy.point(c, pair) if math.isfinite(tol) else None
            if found is not None and found.certificate.relative_gap > tol:
                return found
            self.lazy.start()
        point = self.certifier.point(c, pair)
        self._all = None
        return point

    def solve(
        self, c: float, pair: KernelPair, chosen: np.ndarray, target: float, clock: Timer, lead: Lead | None = None
    ) -> KernelPair:
        """Return the pair after solving over the rows that ``chosen`` marks, or over those of them that matter most."""
        del lead  # newton's steps come from factors: on dna they take as long from there
        assert pair.margins is not None
        limit = self._limit(c, pair)
        with clock("gather"):
            self.gram.hold(self._foremost(c, pair, chosen, limit))
        with clock("solve"):
            rows, q = self.gram.rows, self.gram.q
            start = pair.alpha[rows]
            problem = GramProblem(q, c * self.state.costs[rows], pair.margins[rows] - q @ start)
            found = self._solved(problem, start, pair.margins[rows], target, some=rows.size == limit)
            alpha = self.state.empty()
            alpha[:] = pair.alpha
            alpha[rows] = found.alpha
        return replace(pair, alpha=alpha, margins=None, solver=found.solver)

    def _limit(self, c: float, pair: KernelPair) -> int:
        """Return how many rows a round solves for: as usual, or the free ones and a few more if these are more."""
        free = 0
        for part in self.state.chunks():
            alpha, u = pair.alpha[part], c * self.state.costs[part]
            free += int(np.count_nonzero((alpha > 0.0) & (alpha < u)))
        return min(self.gram.limit, max(self.usual, int(ROOM_BESIDE_FREE * free)))

    def _solved(
        self, problem: GramProblem, start: np.ndarray, f: np.ndarray, target: float, some: bool
    ) -> GramSolution:
        """Solve over the rows held. Of ``some`` among many no more digits are asked for than the others leave room for,
        but so many that the dual value rises.
        """
        enough = target
        if some:
            enough = max(target, DIGITS_OF_SOME * problem.gap(start, f))
        found = self.solver.run(problem, start, enough)
        while enough > target:
            moved = found.alpha - start
            if moved @ (1.0 - f) - moved @ (problem.q @ moved) / 2 > 0.0:
                break
            enough = max(target, DIGITS_OF_SOME * enough)
            found = self.solver.run(problem, found.alpha, enough)
        return found

    def _foremost(self, c: float, pair: KernelPair, chosen: np.ndarray, limit: int) -> np.ndarray:
        """Return the chosen rows by number; of more than ``limit``, those with the largest gradient.

        Rows that are asleep are where they belong, and stay there for now.
        """
        rows = np.flatnonzero(chosen if pair.awake is None else chosen & pair.awake)
        if rows.size <= limit:
            return rows
        assert pair.margins is not None
        slack, alpha, u = 1.0 - pair.margins[rows], pair.alpha[rows], c * self.state.costs[rows]
        seen = np.zeros(self.state.n_rows, np.bool_)
        seen[self.gram.rows] = True
        return rows[foremost(slack, alpha, u, seen[rows], limit)]

    def fits(self, chosen: np.ndarray) -> bool:
        """Tell whether some rows can be solved for all at once."""
        return int(np.count_nonzero(chosen)) <= self.usual

    def solved_for(self, chosen: np.ndarray) -> int:
        """Return how many of some rows the last round solved for."""
        del chosen
        return self.gram.rows.size

    def resumed(
        self, steps: Sequence[StepRecord], model: Callable[[int], KeptModel]
    ) -> tuple[KernelPoint, Earlier | None]:
        """Return the point of the last finished step, and the one before it if it came from there."""
        last = len(steps) - 1
        point = self.certify(steps[last].c, self.stored(model(last), steps[last].drift))
        if not follows(steps, last):
            return point, None
        before = model(last - 1)
        return point, Earlier(before.c, self.stored(before, 0.0).alpha, self.margins_again(before))

    def margins_again(self, model: KeptModel) -> np.ndarray:
        """Return the margins of a step of this run, with the bits they had."""
        return self.certifier.point(model.c, self.stored(model, 0.0)).margins

    def margins_on(self, pair: KernelPair, c: float, other: Dataset) -> np.ndarray:
        """Return the margins of the rows of another data set."""
        del c
        support = pair.alpha > 0.0
        rows = gather(self.engine, self.data, support, self.state.lengths, self.state.wide)
        return kernel_margins(self.engine, self.data, rows, pair.alpha[support], self.kernel, other)

    def write(self, writer: StepWriter, facts: StepRecord, point: KernelPoint) -> StepRecord:
        """Write a finished step with its model; return its line."""
        made = self.passes.values + self.gram.values
        facts, self._counted = replace(facts, kernel_values=made - self._counted), made
        return writer.append(facts, np.zeros(self.data.n_features), point.pair.alpha, self.state.verdicts, None)

    def reading(self) -> tuple[int, int]:
        """Return the passes so far, and the nonzeros read besides."""
        return self.passes.passes, self.gram.held.read

    def release(self) -> None:
        """Let go of the rows and of the columns that are held."""
        self.gram.release()
        self.passes.release()
