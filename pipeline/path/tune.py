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

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.events import Event, Listener, StepProgress, silent
from pipeline.maths.calibration import fit_calibrations
from pipeline.path.class_weights import settled_for_two
from pipeline.path.curve import AROUND, Curve
from pipeline.path.folds import check_folds
from pipeline.path.left_out import left_out_scores, record_of
from pipeline.path.search import Search, train_any
from pipeline.runs.classes import AnyRun
from pipeline.runs.directory import SEARCH
from pipeline.runs.memory import Place
from pipeline.runs.searched import GAMMA
from pipeline.runs.writer import rewritten
from pipeline.spec import PathSpec

CHOICES = ("best", "1se")
USUAL = 12  # values of C before the fine ones, with the patience: 5 to 24 on ten real sets


def tune_run(
    engine: Engine,
    data: Dataset,
    specs: Sequence[PathSpec],
    out: Place,
    listen: Listener = silent,
    choose: str = "best",
    calibration: str | None = "sigmoid",
    c_max: float | None = None,
) -> AnyRun:
    """Find C by the folds or the hold-out that all ``specs`` have, and train at it on all rows.

    Of several specs, which differ in gamma, the one with the best score counts. With a grid all of its C are tried, and
    no others.
    """
    return tuned(engine, data, specs, out, listen, choose, calibration, c_max)[0]


def tuned(
    engine: Engine,
    data: Dataset,
    specs: Sequence[PathSpec],
    out: Place,
    listen: Listener,
    choose: str,
    calibration: str | None,
    c_max: float | None,
) -> tuple[AnyRun, list[list[AnyRun]]]:
    """Do what ``tune_run`` does; return the run, and the runs of each fold."""
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
    told = _Told(listen, first, len(data.classes) or 1, len(specs))
    folders = [out / SEARCH / f"{GAMMA}{k}" for k in range(len(specs))] if len(specs) > 1 else [out / SEARCH]
    found = [
        Search(engine, data, spec, folder, told.search, told.last_stage).found(c_max)
        for spec, folder in zip(specs, folders, strict=True)
    ]
    spec, (curve, folds) = max(zip(specs, found, strict=True), key=lambda each: each[1][0].gain)  # of equals the first
    chosen = curve.c_best if choose == "best" else curve.c_1se
    models = [step for fold in folds for run in fold for step in run.steps if step.c == chosen]
    final = replace(spec, grid=(chosen,), grid_in_c_min=False, cv=0, holdout=0.0, patience=0)
    run = train_any(engine, data, final, out, told.last, models[:1])
    if run.header.cv_c is not None and (calibration is None or run.header.calibration is not None):
        return run, folds
    if calibration is None and run.in_memory:
        return _recorded(run, curve, None, None), folds
    left_out = left_out_scores(engine, data, models)
    fitted = None if calibration is None else fit_calibrations(*left_out, calibration, chosen)
    return _recorded(run, curve, fitted, record_of(data, models, left_out)), folds


def _recorded(run: AnyRun, curve: Curve, calibration: Any, held_out: Any) -> AnyRun:
    """Write what was found into run.json."""
    found = {"cv_c": list(curve.cs), "cv_scores": curve.means, "cv_se": curve.errors}
    found |= {"calibration": calibration_json(calibration), "held_out": held_out}
    return rewritten(run, **found, c_best=curve.c_best, c_1se=curve.c_1se)


def calibration_json(calibration: Any) -> Any:
    """Return what run.json says of a calibration, or of those of several classes."""
    several = isinstance(calibration, tuple)
    return [each.to_json() for each in calibration] if several else calibration and calibration.to_json()


class _Told:
    """Tells how far tuning is: of the C that are done, and of those that are still to come as far as that is known.

    While C are tried nobody knows how many there will be: as many as usual, and if these are done it is taken that the
    last was the best, so that the patience is to come; then the fine ones. Of several gammas each has a last stage:
    those that are still to come are taken to have as many C as those before. The run on all rows, which nobody shares
    passes with, counts as a C in all folds does.
    """

    def __init__(self, listen: Listener, spec: PathSpec, classes: int, gammas: int) -> None:
        self.listen, self.runs = listen, (spec.cv or 1) * classes
        self.done, self.gammas, self.ended, self.ends = 0, gammas, 0, 0
        self.patience, self.usual = spec.patience + 1, max(USUAL, spec.patience + 1)

    def last_stage(self, count: int) -> None:
        """Hear of how many C the last stage of a gamma has."""
        self.ended += 1
        self.ends = self.done + self.runs * count

    def _left(self) -> float:
        """Return how many steps are to come, that on all rows among them."""
        others = self.gammas - self.ended
        if self.done < self.ends:
            return self.ends - self.done + others * self.ends / self.ended + self.runs
        if not others:
            return self.runs
        tried = (self.done - self.ends) / self.runs
        coarse = max(self.usual - tried, self.patience) + (others - 1) * self.usual
        return self.runs * (coarse + len(AROUND) * others + 1)

    def search(self, event: Event) -> None:
        """Hear of the search."""
        if isinstance(event, StepProgress):
            self.done += event.done
            left = self._left()
            event = replace(event, share=self.done / (self.done + left), at_bound=None, steps_left=left)
        self.listen(event)

    def last(self, event: Event) -> None:
        """Hear of the run on all rows."""
        if isinstance(event, StepProgress):
            event = replace(event, share=0.99, at_bound=None, steps_left=0 if event.done else self.runs)
        self.listen(event)
