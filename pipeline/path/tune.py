"""The right C, and a certified model at it: ``svmsieve tune``.

    C_min -> C = 10^(k/2) from 10 C_min on, in folds (or scored on a hold-out) that are trained together, until the mean
    score has not improved for ``patience`` values of C
          -> 10^(k/8): two more C on either side of the best, in the same folds, from the models that are there
          -> the C with the best mean score, or the smallest within one standard error of it, on all rows

The C are on one lattice whatever the data, so that tomorrow's are today's. RUN is a run at the one C that was chosen;
run.json has the curve (``cv_c``, ``cv_scores``, ``cv_se``, ``c_best``, ``c_1se``), and what makes probabilities of the
scores, fitted on those of rows that were left out. The runs of the search lie in RUN/search/coarse and RUN/search/fine,
a folder a fold. They are all the state there is: killed anywhere, the same command goes on with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.engine.together import Member, Together
from pipeline.errors import DataError, SpecError
from pipeline.events import Event, Listener, StepProgress, silent
from pipeline.files import write_json
from pipeline.maths.calibration import Calibration, fit_calibration
from pipeline.maths.score import best, mean_scores, one_se, standard_errors
from pipeline.path.batch import Problem, run_together
from pipeline.path.folds import check_folds
from pipeline.path.path import run_path
from pipeline.path.spaces import make_space, projected
from pipeline.runs.directory import HEADER, SEARCH, Run, StepView, open_path, stored_spec
from pipeline.runs.records import Scores
from pipeline.runs.writer import alone_in
from pipeline.scoring.models import model_of
from pipeline.spec import PathSpec
from pipeline.working.state import collect

COARSE, FINE = 2, 8  # values of C a decade: scores change little in less than a factor of 10^(1/8) = 1.33
AROUND = (-2, -1, 1, 2)  # of the fine ones, about the best of the coarse ones
FIRST, MOST_DECADES = (
    10.0,
    9,
)  # times C_min, where all rows but a few are at their bound; then no margin is left to gain
FIRST_OF_KERNEL = 0.01  # C_min takes all kernel values to find; K(x, x) is 1, and at this C all alpha are small
CHOICES = ("best", "1se")


@dataclass(frozen=True)
class Curve:
    """Mean scores and their standard errors by C, ascending, from the scores of each fold."""

    cs: tuple[float, ...]
    means: list[Scores]
    errors: list[Scores]
    select: str

    @classmethod
    def of(cls, runs: Sequence[Sequence[Run]], select: str) -> Curve:
        """Put the runs of all folds together; each fold has some, at different C."""
        found = [{step.c: step.scored for run in fold for step in run.steps} for fold in runs]
        cs = sorted(found[0])
        scores = [[fold[c] for c in cs] for fold in found]
        return cls(tuple(cs), mean_scores(scores), standard_errors(scores), select)

    @property
    def best(self) -> int | None:
        """The number of the C with the best mean score."""
        return best(self.means, self.select)

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
    spec: PathSpec,
    out: Path,
    listen: Listener = silent,
    choose: str = "best",
    calibration: str | None = "sigmoid",
    c_max: float | None = None,
) -> Run:
    """Find C by the folds or the hold-out of ``spec``, and train at it on all rows; the run has what was found."""
    if choose not in CHOICES:
        raise SpecError(f"unknown choice {choose!r}; there are {', '.join(CHOICES)}")
    if not (spec.cv or spec.holdout):
        raise SpecError("tuning needs rows to score on; give folds (--cv) or a hold-out (--holdout)")
    if spec.cv:
        check_folds(engine, data, spec)
    told = _Told(listen, spec)
    search = _Search(engine, data, spec, out, told.search)
    coarse = search.begun or coarse_grid(first_c(engine, data, spec), c_max)
    rough = search.runs("coarse", coarse, spec.patience, [()] * search.folds)
    curve = Curve.of([[run] for run in rough], spec.select)
    if curve.best is None:
        name = spec.select.replace("_", " ")
        raise DataError(f"{name} is not defined on the rows that were scored; use another --metric", path=data.path)
    fine = fine_grid(curve.c_best, coarse)
    folds = [[run] for run in rough]
    if fine:
        near = [_near(run.steps, curve.c_best) for run in rough]
        for fold, run in zip(folds, search.runs("fine", fine, 0, near), strict=True):
            fold.append(run)
    curve = Curve.of(folds, spec.select)
    chosen = curve.c_best if choose == "best" else curve.c_1se
    models = [step for fold in folds for run in fold for step in run.steps if step.c == chosen]
    final = replace(spec, grid=(chosen,), cv=0, holdout=0.0, patience=0)
    run = run_path(engine, data, final, out, None, told.last, models[:1])
    return _told(run, curve, run.header.calibration or _calibrated(engine, data, models, chosen, calibration))


class _Search:
    """Trains folds, or one run with a hold-out, at some C."""

    def __init__(self, engine: Engine, data: Dataset, spec: PathSpec, out: Path, listen: Listener) -> None:
        self.engine, self.data, self.spec, self.out, self.listen = engine, data, spec, out, listen
        self.folds = spec.cv or 1

    @property
    def begun(self) -> list[float] | None:
        """The C of a search that was begun, None if there is none."""
        stored = stored_spec(self.out / SEARCH / "coarse" / "0")
        return list(stored.grid) if stored is not None and stored.grid is not None else None

    def runs(self, stage: str, grid: list[float], patience: int, near: Sequence[Sequence[StepView]]) -> list[Run]:
        """Train at these C, from models that are near; return a run a fold."""
        same = replace(self.spec, grid=tuple(grid), cv=0, patience=patience)
        problems = [
            Problem(
                self.data,
                replace(same, fold=(k, self.spec.cv)) if self.spec.cv else same,
                self.out / SEARCH / stage / str(k),
                references=near[k],
                name=f"fold {k + 1} of {self.folds}" if self.spec.cv else "",
                inner=True,
            )
            for k in range(self.folds)
        ]
        return run_together(self.engine, problems, self.listen)


def first_c(engine: Engine, data: Dataset, spec: PathSpec) -> float:
    """Return where the C begin that are worth a try."""
    if spec.kernel != "linear":
        return FIRST_OF_KERNEL
    projection = projected(engine, data, spec)
    state = collect(engine, data, replace(spec, cv=0, holdout=0.0), None)
    space = make_space(engine, data, state, spec, projection)
    c_min = space.c_min()
    space.release()
    if math.isinf(c_min):
        raise SpecError("the rows sum to zero, so that w = 0 at every C: there is nothing to tune")
    return FIRST * c_min


def _near(steps: Sequence[StepView], c: float) -> list[StepView]:
    """Return the step at C and those beside it."""
    k = next(k for k, step in enumerate(steps) if step.c == c)
    return list(steps[max(0, k - 1) : k + 2])


def _told(run: Run, curve: Curve, calibration: Calibration | None) -> Run:
    """Write what was found into run.json."""
    header = run.header.changed(
        cv_c=list(curve.cs),
        cv_scores=curve.means,
        cv_se=curve.errors,
        c_best=curve.c_best,
        c_1se=curve.c_1se,
        calibration=None if calibration is None else calibration.to_json(),
    )
    if header != run.header:
        with alone_in(run.path):
            write_json(run.path / HEADER, header.to_json())
    return open_path(run.path)


def _calibrated(
    engine: Engine, data: Dataset, models: Sequence[StepView], c: float, kind: str | None
) -> Calibration | None:
    """Fit probabilities to the scores that each fold's model gives the rows it was not trained on."""
    if kind is None:
        return None
    found = Together(engine).run([partial(_left_out, data=data, step=step) for step in models])
    scores, labels = (np.concatenate([part[k] for part in found]) for k in (0, 1))
    return fit_calibration(scores, labels, kind, c)


def _left_out(engine: Member, data: Dataset, step: StepView) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of the rows that a step was not trained on."""
    held_out = collect(engine, data, step.spec, None).costs == 0.0
    scores, labels, row = [], [], 0
    for some, signs in model_of(step, training=data).shard_scores(engine, data):
        mine = held_out[row : row + some.size]
        scores.append(some[mine])
        labels.append(signs[mine])
        row += some.size
    return np.concatenate(scores), np.concatenate(labels)


class _Told:
    """Tells how far tuning is: of the C that are done, and of those that are still to come as far as that is known.

    While scores rise nobody knows how many C there will be; at least the patience, the fine ones and the last.
    """

    def __init__(self, listen: Listener, spec: PathSpec) -> None:
        self.listen, self.spec = listen, spec
        self.done = 0

    def search(self, event: Event) -> None:
        """Hear of the search."""
        if isinstance(event, StepProgress):
            folds = self.spec.cv or 1
            self.done += event.done
            left = max(len(AROUND) + 1, self.spec.patience + len(AROUND) + 1 - self.done / folds)
            event = replace(event, share=self.done / (self.done + folds * left))
        self.listen(event)

    def last(self, event: Event) -> None:
        """Hear of the run on all rows."""
        if isinstance(event, StepProgress):
            event = replace(event, share=0.99)
        self.listen(event)
