"""The paper's six approaches at some C of a path: Full, Shrink, BT1, Shrink+BT1, IT, Shrink+IT.

A rule starts from the certified model one step before on the same eps-path, and what it leaves open is trained, the
rows proven UPPER folded, to a relative gap of 1e-4. Linear: dcd, with or without its shrinking, from the model before.
With a kernel: LIBSVM without its bias (twice the rows, see ``pipeline.solve.gram.libsvm``; tol 1e-3, cold), its
shrinking off or on. LIBSVM shrinks for the first time after as many steps as it has rows, at most 1,000, and at many a
C is done by then. LIBLINEAR, whose shrinking cannot be turned off, stands beside the linear ones (-e 0.01, cold,
whatever gap that is).

Seconds are those of the rule and of training. The six take turns at each C, and only C where all of them arrive count.
The models that rules start from and the products that certify them are not counted, nor is Q, nor bringing LIBSVM the
part of it that it is to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, train
from liblinear.liblinearutil import problem as encoded
from sklearn import config_context

from pipeline.engine.engine import Engine
from pipeline.maths.verdicts import KEEP, UPPER, verdicts
from pipeline.path.space import Point, Space
from pipeline.path.spaces import make_space, projected
from pipeline.runs.run import StepView
from pipeline.solve.dcd import solve_dcd
from pipeline.solve.gram import libsvm
from pipeline.solve.gram.problem import GramProblem
from pipeline.solve.reduced import ReducedProblem
from pipeline.working.facts import collect
from tests.bench.measure import Seconds
from tests.bench.paper.exact import gram
from tests.bench.paper.exhibit import APPROACHES, Effort
from tests.bench.paper.paths import CutPath
from tests.bench.paper.sets import PaperSet
from tests.bench.path import spread
from tests.in_memory import problem

TOL = 1e-4
LIBRARY = "LIBLINEAR"


@dataclass
class Turn:
    """One approach at one C: its seconds, those of its rule, the share of rows left open, and whether it arrived."""

    took: Seconds = field(default_factory=Seconds)
    rule: Seconds = field(default_factory=Seconds)
    left_open: float = 1.0
    arrived: bool = True


@dataclass(frozen=True)
class Comparison:
    """The C where all six arrived, each one's CPU seconds and share of open rows there, and how many C were asked."""

    c: list[float]
    seconds: dict[str, list[float]]
    left_open: dict[str, list[float]]
    asked: int

    @property
    def counted(self) -> int:
        return len(self.c)

    def ratios(self) -> dict[str, float]:
        """Return CPU seconds over Full's."""
        full = sum(self.seconds["Full"])
        return {name: sum(took) / full for name, took in self.seconds.items() if full > 0}


Train = Callable[[np.ndarray, np.ndarray, bool, Turn], None]


def compare(rows: PaperSet, kernel: str, path: CutPath, effort: Effort) -> Comparison:
    """Have the six take turns at C spread over the path, as many as the seconds allow, at least one."""
    pairs = list(zip(path.run.steps, path.run.steps[1:], strict=False))
    q = None if kernel == "linear" else gram(rows, kernel)
    counted: list[tuple[float, dict[str, Turn]]] = []
    asked = 0
    with Engine("inline") as engine:
        space = space_of(engine, path)
        order = spread(len(pairs))
        begun = time.process_time()
        for place, k in enumerate([order[0], *order]):
            if place == 1:  # the first warmed up
                begun = time.process_time()
            before, step = pairs[k]
            point = space.certify(before.c, space.carried(before, path.run.spec))
            trained = linear(rows, before, step, effort.solve) if q is None else kernelled(q, step.c)
            found = {
                name: one_turn(point, step.c, rule, shrink, trained) for name, (rule, shrink) in APPROACHES.items()
            }
            if q is None:
                found[LIBRARY] = library(rows, step.c)
            if place:
                asked += 1
                if all(turn.arrived for turn in found.values()):
                    counted.append((step.c, found))
                if time.process_time() - begun > effort.cell:
                    break
        space.release()
    names = (*APPROACHES, *([LIBRARY] if q is None else []))
    seconds = {name: [found[name].took.cpu for _, found in counted] for name in names}
    left_open = {name: [found[name].left_open for _, found in counted] for name in names}
    return Comparison([c for c, _ in counted], seconds, left_open, asked)


def space_of(engine: Engine, path: CutPath) -> Space:
    """Return the space that the run was in."""
    spec = path.run.spec
    state = collect(engine, path.data, spec, None)
    return make_space(engine, path.data, state, spec, projected(engine, path.data, spec))


def one_turn(point: Point, c: float, rule: str, shrink: bool, trained: Train) -> Turn:
    """Screen and train at C from the point before it."""
    turn, n = Turn(), point.margins.size
    with turn.took.counted(), turn.rule.counted():
        found = np.full(n, KEEP)
        if rule != "none":
            found = verdicts(*point.proof(c, rule).for_verdicts(slice(0, n))[:2])
    kept, upper = np.flatnonzero(found == KEEP), np.flatnonzero(found == UPPER)
    turn.left_open = kept.size / n
    if kept.size:
        trained(kept, upper, shrink, turn)
    return turn


def linear(rows: PaperSet, before: StepView, step: StepView, limit: float) -> Train:
    """Return what trains by dcd, from the alpha before brought to C."""
    z, u = problem.signed(rows.x, rows.y), np.full(rows.n, step.c)
    start = np.minimum(before.alpha * (step.c / before.c), u)
    target = TOL * step.primal

    def trained(kept: np.ndarray, upper: np.ndarray, shrink: bool, turn: Turn) -> None:
        with turn.took.counted():
            some = z if kept.size == rows.n else z[kept]
            reduced = ReducedProblem(some, u[kept], problem.combination(z[upper], u[upper]))
            found = solve_dcd(reduced, start[kept], target, seconds=limit, shrink=shrink)
        turn.arrived = found.converged

    return trained


def library(rows: PaperSet, c: float) -> Turn:
    """Train LIBLINEAR on all rows; reading them into its form is not counted."""
    turn, known = Turn(), encoded(rows.y, sp.csr_matrix(rows.x))
    with turn.took.counted():
        train(known, parameter(f"-s 3 -q -c {c!r} -e 0.01"))
    return turn


def kernelled(q: np.ndarray, c: float) -> Train:
    """Return what trains by LIBSVM."""
    whole = GramProblem(q, np.full(q.shape[0], c), np.zeros(q.shape[0]))

    def trained(kept: np.ndarray, upper: np.ndarray, shrink: bool, turn: Turn) -> None:
        known = libsvm.encode(reduced(whole, kept, upper))
        with config_context(assume_finite=True), turn.took.counted():
            _, steps = libsvm.train(known, libsvm.TOLERANCE, shrink)
        turn.arrived = steps < libsvm.MOST_STEPS

    return trained


def reduced(whole: GramProblem, kept: np.ndarray, upper: np.ndarray) -> GramProblem:
    """Return the problem over the rows that are kept, those at their bound folded."""
    if kept.size == whole.u.size:
        return whole
    fold = whole.q[np.ix_(kept, upper)] @ whole.u[upper]
    return GramProblem(whole.q[np.ix_(kept, kept)], whole.u[kept], fold)
