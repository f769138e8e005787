"""The right C, and a certified model at it: ``svmsieve tune``.

    C_min -> C = 10^(k/2) from 10 C_min on, in folds (or scored on a hold-out) that are trained together, until the mean
    score has not improved for ``patience`` values of C
          -> 10^(k/8): two more C on either side of the best, in the same folds, from the models that are there
          -> the C with the best mean score, or the smallest within one standard error of it, on all rows

The C are on one lattice whatever the data, so that tomorrow's are today's. RUN is a run at the one C that was chosen;
run.json has the curve (``cv_c``, ``cv_scores``, ``cv_se``, ``c_best``, ``c_1se``), and what makes probabilities of the
scores, fitted on those of rows that were left out. The runs of the search lie in RUN/search/coarse and RUN/search/fine,
a folder a fold; of several gammas in RUN/search/gamma-0 and so on. They are all the state there is: killed anywhere,
the same command goes on with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.engine.together import Member, Together
from pipeline.errors import DataError, SpecError
from pipeline.events import Event, Listener, StepProgress, silent
from pipeline.files import write_json
from pipeline.maths.calibration import Calibration, fit_calibration
from pipeline.maths.eps_grid import check_grid
from pipeline.maths.score import best, gain, mean_scores, one_se, standard_errors
from pipeline.path.agreement import has_peaked
from pipeline.path.batch import Problem, run_together
from pipeline.path.class_judge import split_rows
from pipeline.path.class_weights import settled_for_two
from pipeline.path.classes import train_classes
from pipeline.path.folds import check_folds
from pipeline.path.path import run_path
from pipeline.path.spaces import make_space, projected
from pipeline.runs.classes import ClassesRun, ClassesStep
from pipeline.runs.directory import HEADER, SEARCH, Run, StepView, open_run, stored_spec
from pipeline.runs.records import Scores
from pipeline.runs.writer import alone_in
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import any_model_of
from pipeline.spec import PathSpec
from pipeline.working.state import collect

COARSE, FINE = 2, 8  # values of C a decade: scores change little in less than a factor of 10^(1/8) = 1.33
AROUND = (-2, -1, 1, 2)  # of the fine ones, about the best of the coarse ones
FIRST, MOST_DECADES = (
    10.0,
    9,
)  # times C_min, where all rows but a few are at their bound; then no margin is left to gain
FIRST_OF_KERNEL = 0.01  # C_min takes all kernel values to find; K(x, x) is 1, and at this C all alpha are small
AT_A_TIME = 3  # of the coarse C, where several classes are trained before they are scored
CHOICES = ("best", "1se")


@dataclass(frozen=True)
class Curve:
    """Mean scores and their standard errors by C, ascending, from the scores of each fold."""

    cs: tuple[float, ...]
    means: list[Scores]
    errors: list[Scores]
    select: str

    @classmethod
    def of(cls, runs: Sequence[Sequence[Run | ClassesRun]], select: str) -> Curve:
        """Put the runs of all folds together; each fold has some, at different C."""
        found = [{step.c: step.scores or {} for run in fold for step in run.steps} for fold in runs]
        cs = sorted(found[0])
        scores = [[fold[c] for c in cs] for fold in found]
        return cls(tuple(cs), mean_scores(scores), standard_errors(scores), select)

    @property
    def best(self) -> int | None:
        """The number of the C with the best mean score."""
        return best(self.means, self.select)

    @property
    def gain(self) -> float:
        """The best mean score, such that more is better."""
        number = self.best
        assert number is not None
        return gain(self.select, self.means[number][self.select] or 0.0)

    @property
    def c_best(self) -> float:
        """The C with the best mean score."""
        number = self.best
        assert number is not None
        return self.cs[number]

    @property
    def c_1se(self) -> float:
        """The smallest C whose mean score is within one standard error of the best."""
        number = one_se(self.cs, self.means, self.errors, self.select)
        assert number is not None
        return self.cs[number]


def lattice(k: int, a_decade: int) -> float:
    """Return 10^(k/a_decade), in four digits, as tables show it."""
    return float(f"{10 ** (k / a_decade):.4g}")


def coarse_grid(first: float, c_max: float | None) -> list[float]:
    """Return the C of the lattice from ``first`` to C_max, or for as many decades as make sense."""
    k = math.ceil(COARSE * math.log10(first) - 1e-9)
    last = k + COARSE * MOST_DECADES if c_max is None else math.floor(COARSE * math.log10(c_max) + 1e-9)
    if last < k:
        raise SpecError(f"C_max = {c_max:g} is below {first:.4g}, where scores begin to matter; raise --c-max")
    return [lattice(number, COARSE) for number in range(k, last + 1)]


def fine_grid(c: float, coarse: Sequence[float]) -> list[float]:
    """Return the C around one of the coarse ones, none below the first."""
    k = round(COARSE * math.log10(c)) * (FINE // COARSE)
    return [fine for fine in (lattice(k + more, FINE) for more in AROUND) if fine > coarse[0]]


def tune_run(
    engine: Engine,
    data: Dataset,
    specs: Sequence[PathSpec],
    out: Path,
    listen: Listener = silent,
    choose: str = "best",
    calibration: str | None = "sigmoid",
    c_max: float | None = None,
) -> Run | ClassesRun:
    """Find C by the folds or the hold-out that all ``specs`` have, and train at it on all rows.

    Of several specs, which differ in gamma, the one with the best score counts. With a grid all of its C are tried, and
    no others.
    """
    if not data.classes:
        specs = [settled_for_two(data, each) for each in specs]
    first = specs[0]
    if choose not in CHOICES:
        raise SpecError(f"unknown choice {choose!r}; there are {', '.join(CHOICES)}")
    if first.grid_in_c_min and first.kernel != "linear":
        raise SpecError("the grid of a kernel is in C, not in multiples of C_min (all kernel values to find)")
    if not (first.cv or first.holdout):
        raise SpecError("tuning needs rows to score on; give folds (--cv) or a hold-out (--holdout)")
    if first.cv and not data.classes:
        check_folds(engine, data, first)
    told = _Told(listen, first, len(specs) * (len(data.classes) or 1))
    folders = [out / SEARCH / f"gamma-{k}" for k in range(len(specs))] if len(specs) > 1 else [out / SEARCH]
    found = [
        _Search(engine, data, spec, folder, told.search).found(c_max)
        for spec, folder in zip(specs, folders, strict=True)
    ]
    spec, (curve, folds) = max(zip(specs, found, strict=True), key=lambda each: each[1][0].gain)  # of equals the first
    chosen = curve.c_best if choose == "best" else curve.c_1se
    models = [step for fold in folds for run in fold for step in run.steps if step.c == chosen]
    final = replace(spec, grid=(chosen,), grid_in_c_min=False, cv=0, holdout=0.0, patience=0)
    run = _trained(engine, data, final, out, told.last, models[:1])
    return _told(run, curve, run.header.calibration or _calibrated(engine, data, models, calibration))


def _trained(
    engine: Engine, data: Dataset, spec: PathSpec, out: Path, listen: Listener, near: Sequence[Any]
) -> Run | ClassesRun:
    train: Any = train_classes if data.classes else run_path
    found: Run | ClassesRun = train(engine, data, spec, out, None, listen, near)
    return found


class _Search:
    """Trains folds, or one run with a hold-out, at C that are worth a try."""

    def __init__(self, engine: Engine, data: Dataset, spec: PathSpec, folder: Path, listen: Listener) -> None:
        self.engine, self.data, self.spec, self.folder, self.listen = engine, data, spec, folder, listen
        self.folds: list[list[Run | ClassesRun]] = [[] for _ in range(spec.cv or 1)]

    def found(self, c_max: float | None) -> tuple[Curve, list[list[Run | ClassesRun]]]:
        """Search, or go on with it; return the curve, and the runs of each fold."""
        if self.spec.grid is not None:
            self._train("coarse", self._asked(self.spec.grid))
            return self._curve(), self.folds
        coarse = coarse_grid(self._first(), c_max)
        if self.data.classes:
            self._some_at_a_time(coarse)
        else:
            self._train("coarse", coarse, self.spec.patience)
        curve = self._curve()
        fine = fine_grid(curve.c_best, coarse)
        if fine:
            self._train("fine", fine)
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
        stored = stored_spec(self.folder / "coarse" / "0")
        return [] if stored is None else list(stored.grid or ())

    def _some_at_a_time(self, grid: list[float]) -> None:
        """Train several classes at some C after the other: how they score together is known after their training."""
        for first in range(0, len(grid), AT_A_TIME):
            self._train("coarse" if not first else f"coarse-{first // AT_A_TIME}", grid[first : first + AT_A_TIME])
            scores = [[step.scores for run in fold for step in run.steps] for fold in self.folds]
            if has_peaked(list(zip(*scores, strict=True)), self.spec):
                return

    def _train(self, stage: str, grid: list[float], patience: int = 0) -> None:
        """Train at these C, from models that are near; add a run to every fold."""
        same = replace(self.spec, grid=tuple(grid), grid_in_c_min=False, cv=0, patience=patience)
        count, places = self.spec.cv, [self.folder / stage / str(k) for k in range(len(self.folds))]
        specs = [replace(same, fold=(k, count)) if count else same for k in range(len(self.folds))]
        near = [_near([step for run in fold for step in run.steps], grid) for fold in self.folds]
        found: Sequence[Run | ClassesRun]
        if self.data.classes:
            each = zip(specs, places, near, strict=True)
            found = [_trained(self.engine, self.data, spec, place, self.listen, steps) for spec, place, steps in each]
        else:
            names = [f"fold {k + 1} of {count}" if count else "" for k in range(len(self.folds))]
            problems = [
                Problem(self.data, spec, place, None, steps, name, inner=True)
                for spec, place, steps, name in zip(specs, places, near, names, strict=True)
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
    c_min = min(Together(engine).run([partial(_c_min, data=view, spec=spec) for view in views]))
    if math.isinf(c_min):
        raise SpecError("the rows sum to zero, so that w = 0 at every C: there is nothing to tune")
    return FIRST * c_min


def _c_min(engine: Member, data: Dataset, spec: PathSpec) -> float:
    space = make_space(engine, data, collect(engine, data, spec, None), spec, projected(engine, data, spec))
    try:
        return space.c_min()
    finally:
        space.release()


def _near(steps: Sequence[Any], grid: Sequence[float]) -> list[Any]:
    """Return the steps whose C are next to those of a grid, on either side."""
    below, above = [step for step in steps if step.c < grid[0]], [step for step in steps if step.c > grid[-1]]
    between = [step for step in steps if grid[0] <= step.c <= grid[-1]]
    nearest = [max(below, key=lambda step: step.c, default=None), min(above, key=lambda step: step.c, default=None)]
    return [step for step in (nearest[0], *between, nearest[1]) if step is not None]


def _told(run: Run | ClassesRun, curve: Curve, calibration: Any) -> Run | ClassesRun:
    """Write what was found into run.json."""
    several = isinstance(calibration, tuple)
    told = [each.to_json() for each in calibration] if several else calibration and calibration.to_json()
    header = run.header.changed(
        cv_c=list(curve.cs),
        cv_scores=curve.means,
        cv_se=curve.errors,
        c_best=curve.c_best,
        c_1se=curve.c_1se,
        calibration=told,
    )
    if header != run.header:
        with alone_in(run.path):
            write_json(run.path / HEADER, header.to_json())
    return open_run(run.path)


def _calibrated(
    engine: Engine, data: Dataset, models: Sequence[StepView | ClassesStep], kind: str | None
) -> Calibration | tuple[Calibration, ...] | None:
    """Fit probabilities, of every class, to the scores that each fold's model gives the rows it was not trained on."""
    if kind is None:
        return None
    found = Together(engine).run([partial(_left_out, data=data, step=step) for step in models])
    scores, labels = (np.concatenate([part[k] for part in found]) for k in (0, 1))
    if not data.classes:
        return fit_calibration(scores, labels, kind, models[0].c)
    signs = (np.where(labels == k, 1, -1) for k in range(len(data.classes)))
    return tuple(fit_calibration(scores[:, k], each, kind, models[0].c) for k, each in enumerate(signs))


def _left_out(engine: Member, data: Dataset, step: StepView | ClassesStep) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (of several classes a column each) and labels of the rows that a step was not trained on."""
    model = any_model_of(step, training=data)
    if isinstance(model, ClassesModel):
        wanted = split_rows(engine, data, step.spec).held_out
        parts = list(model.shard_scores(engine, data, wanted=wanted))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    held_out = collect(engine, data, step.spec, None).costs == 0.0
    scores, labels, row = [], [], 0
    for some, signs in model.shard_scores(engine, data):
        mine = held_out[row : row + some.size]
        scores.append(some[mine])
        labels.append(signs[mine])
        row += some.size
    return np.concatenate(scores), np.concatenate(labels)


class _Told:
    """Tells how far tuning is: of the C that are done, and of those that are still to come as far as that is known.

    While scores rise nobody knows how many C there will be; at least the patience, the fine ones and the last.
    """

    def __init__(self, listen: Listener, spec: PathSpec, problems: int) -> None:
        self.listen, self.spec, self.runs = listen, spec, (spec.cv or 1) * problems
        self.done = 0

    def search(self, event: Event) -> None:
        """Hear of the search."""
        if isinstance(event, StepProgress):
            self.done += event.done
            left = max(len(AROUND) + 1, self.spec.patience + len(AROUND) + 1 - self.done / self.runs)
            event = replace(event, share=self.done / (self.done + self.runs * left))
        self.listen(event)

    def last(self, event: Event) -> None:
        """Hear of the run on all rows."""
        if isinstance(event, StepProgress):
            event = replace(event, share=0.99)
        self.listen(event)
