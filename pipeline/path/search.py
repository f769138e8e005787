"""The search for C: folds, or one run with a hold-out, trained at C that are worth a try.

Its runs lie in a folder, a stage of C after the other (coarse, fine), a folder a fold; they are all the state there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, SpecError
from pipeline.events import Listener
from pipeline.maths.eps_grid import check_grid
from pipeline.path.agreement import has_peaked
from pipeline.path.batch import Problem, run_together, smallest_c_min
from pipeline.path.classes import train_classes
from pipeline.path.curve import Curve, coarse_grid, fine_grid
from pipeline.path.path import run_path
from pipeline.runs.classes import AnyRun
from pipeline.runs.directory import stored_spec
from pipeline.runs.memory import Place
from pipeline.runs.searched import COARSE, FINE
from pipeline.spec import PathSpec

FIRST = 10.0  # times C_min, where all rows but a few are at their bound
FIRST_OF_KERNEL = 0.01  # C_min takes all kernel values to find; K(x, x) is 1, and at this C all alpha are small
AT_A_TIME = 3  # of the coarse C, where several classes are trained before they are scored


class Search:
    """Trains folds, or one run with a hold-out, at C that are worth a try."""

    def __init__(
        self,
        engine: Engine,
        data: Dataset,
        spec: PathSpec,
        folder: Place,
        listen: Listener,
        last: Callable[[int], None],
    ) -> None:
        self.engine, self.data, self.spec, self.folder, self.listen = engine, data, spec, folder, listen
        self.last = last  # told of how many C the last stage has
        self.folds: list[list[AnyRun]] = [[] for _ in range(spec.cv or 1)]

    def found(self, c_max: float | None) -> tuple[Curve, list[list[AnyRun]]]:
        """Search, or go on with it; return the curve, and the runs of each fold."""
        if self.spec.grid is not None:
            asked = self._asked(self.spec.grid)
            self.last(len(asked))
            self._train(COARSE, asked)
            return self._curve(), self.folds
        coarse = coarse_grid(self._first(), c_max)
        if self.data.classes:
            self._some_at_a_time(coarse)
        else:
            self._train(COARSE, coarse, self.spec.patience)
        curve = self._curve()
        fine = fine_grid(curve.c_best, coarse)
        if fine:
            self.last(len(fine))
            self._train(FINE, fine)
            curve = self._curve()
        return curve, self.folds

    def _curve(self) -> Curve:
        curve = Curve.of(self.folds, self.spec.select)
        if curve.best is None:
            name = self.spec.select.replace("_", " ")
            problem = f"{name} is not defined on the rows that were scored; use another --metric"
            raise DataError(problem, path=self.data.path)
        return curve

    def _asked(self, grid: Sequence[float]) -> list[float]:
        """Return the C that were asked for, which may be in multiples of C_min."""
        begun = self._begun()
        if begun or not self.spec.grid_in_c_min:
            return begun or check_grid(list(grid))
        unit = first_c(self.engine, self.data, self.spec) / FIRST
        return [unit * c for c in check_grid(list(grid))]

    def _first(self) -> float:
        """Return where the C begin: where they did if the search has begun."""
        begun = self._begun()
        return begun[0] if begun else first_c(self.engine, self.data, self.spec)

    def _begun(self) -> list[float]:
        """Return the C of a search that has begun."""
        stored = stored_spec(self.folder / COARSE / "0")
        return [] if stored is None else list(stored.grid or ())

    def _some_at_a_time(self, grid: list[float]) -> None:
        """Train several classes at some C after the other: how they score together is known after their training."""
        for first in range(0, len(grid), AT_A_TIME):
            self._train(COARSE if not first else f"{COARSE}-{first // AT_A_TIME}", grid[first : first + AT_A_TIME])
            scores = [[step.scores for run in fold for step in run.steps] for fold in self.folds]
            if has_peaked(list(zip(*scores, strict=True)), self.spec):
                return

    def _train(self, stage: str, grid: list[float], patience: int = 0) -> None:
        """Train at these C, from models that are near; add a run to every fold."""
        same = replace(self.spec, grid=tuple(grid), grid_in_c_min=False, cv=0, patience=patience)
        count, places = self.spec.cv, [self.folder / stage / str(k) for k in range(len(self.folds))]
        specs = [replace(same, fold=(k, count)) if count else same for k in range(len(self.folds))]
        starts = [near([step for run in fold for step in run.steps], grid) for fold in self.folds]
        found: Sequence[AnyRun]
        if self.data.classes:
            each = zip(specs, places, starts, strict=True)
            found = [train_any(self.engine, self.data, spec, place, self.listen, steps) for spec, place, steps in each]
        else:
            names = [f"fold {k + 1} of {count}" if count else "" for k in range(len(self.folds))]
            problems = [
                Problem(self.data, spec, place, None, steps, name, inner=True)
                for spec, place, steps, name in zip(specs, places, starts, names, strict=True)
            ]
            found = run_together(self.engine, problems, self.listen)
        for fold, run in zip(self.folds, found, strict=True):
            fold.append(run)


def first_c(engine: Engine, data: Dataset, spec: PathSpec) -> float:
    """Return where the C begin that are worth a try."""
    if spec.kernel != "linear":
        return FIRST_OF_KERNEL
    views = [data.against_rest(k) for k in range(len(data.classes))] or [data]
    spec = replace(spec, grid=None, cv=0, holdout=0.0, class_weight=None if data.classes else spec.class_weight)
    c_min = smallest_c_min(engine, views, spec)
    if math.isinf(c_min):
        raise SpecError("the rows sum to zero, so that w = 0 at every C: there is nothing to tune")
    return FIRST * c_min


def train_any(
    engine: Engine, data: Dataset, spec: PathSpec, out: Place, listen: Listener, near: Sequence[Any]
) -> AnyRun:
    """Train two classes, or several, from models that are near."""
    train: Any = train_classes if data.classes else run_path
    found: AnyRun = train(engine, data, spec, out, None, listen, near)
    return found


def near(steps: Sequence[Any], grid: Sequence[float]) -> list[Any]:
    """Return the steps whose C are next to those of a grid, on either side."""
    below, above = [step for step in steps if step.c < grid[0]], [step for step in steps if step.c > grid[-1]]
    between = [step for step in steps if grid[0] <= step.c <= grid[-1]]
    nearest = [max(below, key=lambda step: step.c, default=None), min(above, key=lambda step: step.c, default=None)]
    return [step for step in (nearest[0], *between, nearest[1]) if step is not None]
