"""Paths over the same rows that are trained together: folds of a cross-validation, classes one against the rest.

Each is a run of its own, in a thread of its own; solves run side by side on the cores, and one pass over the data
serves all that wait for one (``engine.together``). The models have the bits that they have when the problems are
trained one after the other, in whatever parts; killed anywhere, every run goes on after its last finished step.

Memory is divided: with m problems at a time each may use its m-th part of what there is beside the program itself. As
many are trained at a time (the next begins when one is done) as leave each the room to hold a share of all rows. That
depends on the settings and the data only, and so do the models.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline.blas import one_thread
from pipeline.budget import BASE, Projection
from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.engine.together import Partner, Together
from pipeline.errors import BudgetError
from pipeline.events import Event, Listener, Note, StepProgress, silent
from pipeline.path.path import run_path
from pipeline.path.spaces import make_space, projected
from pipeline.runs.memory import Place
from pipeline.runs.run import Run, StepView
from pipeline.spec import PathSpec
from pipeline.working.facts import collect
from pipeline.working.held import bytes_held

SHARE_TO_HOLD = 0.25  # of all rows, by each of those that are trained at a time; a working set is seldom more
AT_A_TIME = 6  # at most: enough to share passes; rows of more would wait for theirs in fresh memory, which takes time
BESIDE = 2  # vectors of each problem that a pass for several lays side by side


@dataclass(frozen=True)
class Problem:
    """A path to be trained: rows with labels of its own, and what else ``run_path`` takes.

    ``spec.memory`` is what all of them may use together; ``name`` is what people call it. One that is ``inner`` lies in
    the directory of another, which keeps the sketch of the rows that were trained on.
    """

    data: Dataset
    spec: PathSpec
    out: Place
    validation: Dataset | None = None
    references: Sequence[StepView] = ()
    name: str = ""
    inner: bool = False


def run_together(engine: Engine, problems: Sequence[Problem], listen: Listener = silent) -> list[Run]:
    """Train all of them, or go on with what is there; return their runs."""
    count, memory = division(engine, problems)
    told = _Told(listen, problems)
    tasks = [
        partial(_run, problem=each, listen=told.by(k), memory=memory if count > 1 else None)
        for k, each in enumerate(problems)
    ]
    with one_thread():
        return Together(engine).run(tasks, count) if count > 1 else [task(engine) for task in tasks]


def _run(engine: Engine | Partner, problem: Problem, listen: Listener, memory: int | None) -> Run:
    each = problem
    more = (each.validation, listen, each.references, memory, each.inner)
    return run_path(engine, each.data, each.spec, each.out, *more)


def division(engine: Engine, problems: Sequence[Problem]) -> tuple[int, int]:
    """Return how many of the problems are trained at a time, and how much memory each may use.

    Runs that have to agree on their next C (``agreement``) are all trained at a time, or cannot be.
    """
    data, spec, most = problems[0].data, problems[0].spec, len(problems)
    carried = bool(problems[0].references)
    projected(engine, data, spec, carried=carried)
    agreeing = most > 1 and (spec.grid is None or spec.patience > 0)
    rows = bytes_held(data.n_rows, data.nnz, wide=True)
    for count in range(most if agreeing else min(most, AT_A_TIME), 1, -1):
        memory = BASE + (spec.memory - BASE) // count - 8 * BESIDE * data.n_features
        try:
            found = projected(engine, data, spec, memory, carried)
        except BudgetError as error:
            if agreeing:
                raise BudgetError(f"{most} problems have to be trained at a time, and of each {error}") from error
            continue
        if agreeing or (isinstance(found, Projection) and found.working_set >= SHARE_TO_HOLD * rows):
            return count, memory
    return 1, spec.memory  # kernels, too: what they keep, columns, is not shared, and their passes busy all cores


def smallest_c_min(engine: Engine, views: Sequence[Dataset], spec: PathSpec) -> float:
    """Return the smallest C_min of problems over the same rows; infinite if there is none."""
    problems = [Problem(view, spec, Path()) for view in views]
    count, memory = division(engine, problems)
    tasks = [partial(_c_min, data=view, spec=spec, memory=memory if count > 1 else None) for view in views]
    with one_thread():
        return min(Together(engine).run(tasks, count))


def _c_min(engine: Engine, data: Dataset, spec: PathSpec, memory: int | None) -> float:
    budget = projected(engine, data, spec, memory)
    with tempfile.TemporaryDirectory(prefix="svmsieve-") if budget.scratch else nullcontext() as scratch:
        state = collect(engine, data, spec, None if scratch is None else Path(scratch))
        space = make_space(engine, data, state, spec, budget)
        try:
            return space.c_min()
        finally:
            space.release()


class _Told:
    """Tells a listener, one at a time, what several runs report: how far they are on average."""

    def __init__(self, listen: Listener, problems: Sequence[Problem]) -> None:
        self.listen, self.problems = listen, problems
        self.shares, self.lock = [0.0] * len(problems), threading.Lock()

    def by(self, k: int) -> Listener:
        """Return what problem k reports to."""
        return partial(self._told, k)

    def _told(self, k: int, event: Event) -> None:
        with self.lock:
            if isinstance(event, StepProgress):
                self.shares[k] = event.share
                count = len(self.shares)
                usual = None if event.usual_left is None else count * event.usual_left
                event = replace(event, share=sum(self.shares) / count, at_bound=None, usual_left=usual)
            elif isinstance(event, Note) and self.problems[k].name:
                event = Note(f"{self.problems[k].name}: {event.text}")
            self.listen(event)
