"""Several classes: each against the rest is a path of its own, and all of them are trained together.

    weights of classes, C -> K problems over the same rows -> run_together -> scores of all classes together, by C

All classes are trained at the same C, so that their scores can be compared: a row is of the class whose model gives it
the largest. With patience all of them end together, when the mean of their scores, each against the rest on the rows
left out, has not improved for so many C (``agreement``): what they say together is known only once all are trained.
What happens depends on the run directory alone, whose classes' runs go on where they were: killed anywhere, the same
command ends with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeline.blas import one_thread
from pipeline.data.dataset import Dataset
from pipeline.data.reading.labels import UNKNOWN
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.events import Listener, silent
from pipeline.maths.eps_grid import check_grid
from pipeline.maths.score import Scores, best, mean_scores, standard_errors
from pipeline.meter import MemoryMeter
from pipeline.path.batch import Problem, run_together, smallest_c_min
from pipeline.path.class_judge import ClassJudge, SplitRows, split_rows
from pipeline.path.class_weights import weights_of_classes
from pipeline.path.gamma import check_references
from pipeline.path.judge import mention_undefined
from pipeline.path.left_out import left_out_scores, record_of
from pipeline.path.path import versions
from pipeline.runs.classes import ClassesRun, ClassesStep, open_classes
from pipeline.runs.classes_writer import ClassesWriter, writing_classes
from pipeline.runs.data_record import DataRecord, ReferenceRecord
from pipeline.runs.directory import FOLDS
from pipeline.runs.held_out import HOLDOUT, VALIDATION
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.run import Run, StepView
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.linear_model import trained_on
from pipeline.scoring.models import classes_model_of
from pipeline.scoring.seen import mention_rows_seen, watch_for
from pipeline.spec import PathSpec


def train_classes(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: Place,
    validation: Dataset | None = None,
    listen: Listener = silent,
    references: Sequence[ClassesStep] = (),
) -> ClassesRun:
    """Train every class against the rest, at every C, into the run directory ``out``, or continue what is there.

    With cross-validation its folds are trained beside it, and name its best step by their mean score.
    """
    _check(data, spec, references)
    weights_of_classes(data, spec, np.array(data.class_counts))
    about = DataRecord.of(data, validation, tuple(map(_record, references)))
    if validation is not None:
        model = _check_validation(data, validation, listen)
    specs = [spec, *(replace(spec, fold=(k, spec.cv), cv=0) for k in range(spec.cv))]
    splits = [split_rows(engine, data, each) for each in specs]
    with ExitStack() as stack:
        meter = None if isinstance(out, MemoryPlace) else stack.enter_context(MemoryMeter())
        writer = stack.enter_context(writing_classes(out, spec, about, versions()))
        main = ClassesPath(engine, data, spec, writer, splits[0])
        runs, grid, count = list[Run](), main.grid, len(data.classes)
        paths, problems = [main], main.problems(references)
        if grid is None and spec.cv and not spec.patience:  # the folds' C are those of the path
            runs, problems = run_together(engine, problems, listen), []
            grid = tuple(step.c for step in runs[0].steps)
        for k, (each, split) in enumerate(zip(specs[1:], splits[1:], strict=True)):
            part = replace(each, grid=grid, grid_in_c_min=False)
            begun = writing_classes(out / FOLDS / str(k), part, DataRecord.of(data), versions())
            paths.append(ClassesPath(engine, data, part, stack.enter_context(begun), split))
            problems += paths[-1].problems((), f"fold {k + 1} of {spec.cv}, ")
        runs += run_together(engine, problems, listen)
        if validation is not None:
            watch = watch_for(runs[0], listen)
            sketch = None if watch is None else watch.sketch
            mention_rows_seen(engine, about, model, validation, sketch, spec, listen)
        for k, path in enumerate(paths):
            path.finish(runs[k * count : (k + 1) * count], validation if path is main else None, meter)
        if spec.cv:
            folds = [open_classes(out / FOLDS / str(k)) for k in range(spec.cv)]
            _cross_validated(engine, data, main.writer, folds)
    found = open_classes(out if isinstance(out, MemoryPlace) else out.resolve())
    mention_undefined(found.scores, found.header.best_step, spec.select, listen)
    return found


class ClassesPath:
    """One run of all classes: its problems, and what is known of all of them when they are solved."""

    def __init__(self, engine: Engine, data: Dataset, spec: PathSpec, writer: ClassesWriter, split: SplitRows) -> None:
        self.engine, self.data, self.spec, self.writer, self.split = engine, data, spec, writer, split
        self.begun = time.perf_counter()
        self.weights = weights = weights_of_classes(data, spec, split.trained)
        self.writer.update(class_weights=None if weights is None else list(weights))
        self.views = [data.against_rest(k, weights) for k in range(len(data.classes))]
        self.grid = self._grid()

    def problems(self, references: Sequence[ClassesStep], name: str = "") -> list[Problem]:
        """Return the path of every class against the rest."""
        spec = replace(self.spec, grid=self.grid, grid_in_c_min=False, class_weight=None, cv=0)
        inside = [bool(name) or k > 0 for k in range(len(self.views))]  # the first class's run knows the rows
        starts = [tuple(step.parts[step.classes.index(each)] for step in references) for each in self.data.classes]
        return [
            Problem(view, spec, self.writer.part(k), None, starts[k], f"{name}class {self.data.classes[k]}", inner)
            for k, (view, inner) in enumerate(zip(self.views, inside, strict=True))
        ]

    def finish(self, runs: Sequence[Run], validation: Dataset | None, meter: MemoryMeter | None) -> None:
        """Score the models of every C, once all classes have them, and finish run.json."""
        self.writer.expect_whole(runs)
        if self.writer.header.is_finished:
            return
        judge, found = ClassJudge(self.engine, self.data, self.split, validation, self.weights), list[Scores | None]()
        with one_thread():
            for k, parts in enumerate(zip(*(run.steps for run in runs), strict=True)):
                found.append(judge.scores(self._model(k, parts), self.spec.select))
            chosen = best(found, self.spec.select)
            held_out = None
            if chosen is not None and self.spec.fold is None and not runs[0].in_memory:
                model = self._model(chosen, tuple(run.steps[chosen] for run in runs))
                held_out = judge.held_out_of(model, HOLDOUT if validation is None else VALIDATION)
        scores = [each for each in found if each is not None]
        self.writer.finish(
            runs,
            n_steps=len(found),
            stopped=runs[0].header.stopped,
            scores=scores or None,
            best_step=chosen,
            held_out=held_out,
            peak_memory=None if meter is None else meter.look(),
            seconds=time.perf_counter() - self.begun,
        )

    def _model(self, number: int, parts: tuple[StepView, ...]) -> ClassesModel:
        step = ClassesStep(number, parts[0].c, None, parts, self.writer.header)
        return classes_model_of(self.writer.folder, step, self.data)

    def _grid(self) -> tuple[float, ...] | None:
        """Return the C that all classes are trained at, ascending; None on the eps-path, where they agree on each."""
        if self.spec.grid is None:
            return None
        unit = self._smallest_c_min() if self.spec.grid_in_c_min else 1.0
        return tuple(unit * c for c in check_grid(list(self.spec.grid)))

    def _smallest_c_min(self) -> float:
        """Return the smallest C_min of all classes, which run.json keeps."""
        if self.writer.header.c_min is None:
            found = smallest_c_min(self.engine, self.views, replace(self.spec, grid=None, class_weight=None))
            if not np.isfinite(found):
                raise SpecError("the rows of every class sum to zero, so that there is no C_min; give the grid in C")
            self.writer.update(c_min=found)
        assert self.writer.header.c_min is not None
        return self.writer.header.c_min


def _cross_validated(engine: Engine, data: Dataset, writer: ClassesWriter, folds: Sequence[ClassesRun]) -> None:
    """Write the mean scores of the folds into run.json, the best step by them, and what that calls rows left out."""
    if writer.header.cv_scores is not None:
        return
    scores = [fold.header.scores or [] for fold in folds]
    means, held_out = mean_scores(scores), None
    chosen = best(means, writer.header.spec.select)
    if chosen is not None and not folds[0].in_memory:
        models = [fold.steps[chosen] for fold in folds]
        held_out = record_of(data, models, left_out_scores(engine, data, models))
    writer.update(cv_scores=means, cv_se=standard_errors(scores), best_step=chosen, held_out=held_out)


def _check(data: Dataset, spec: PathSpec, references: Sequence[ClassesStep]) -> None:
    """Refuse what cannot be, before anything is written."""
    for step in references:
        if not isinstance(step, ClassesStep):
            problem = "the reference is a model of two classes, and the data have"
            raise SpecError(f"{problem} {len(data.classes):,}; give a run of the same classes")
        missing = [name for name in data.classes if name not in step.classes]
        if missing:
            raise SpecError(f"the reference has no model of class {missing[0]}; give a run of the same classes")
        check_references(spec, step.parts)
    if spec.patience and not (spec.cv or spec.splits):
        problem = "patience of several classes needs rows that are left out of training"
        raise SpecError(f"{data.path}: {problem}; give --holdout or --cv, or leave --patience out")


def _check_validation(data: Dataset, validation: Dataset, listen: Listener) -> ClassesModel:
    """Refuse validation data that the models could not score, before anything is trained; return such a model."""
    model = trained_on(data.against_rest(0), Path(data.path), 0.0, np.zeros(data.n_features))
    both = ClassesModel.of((model,), data.classes, Path(data.path), 0, 0.0)
    both.places_on(validation, listen)
    if (both.codes_on(validation, listen) == UNKNOWN).all():
        raise SpecError(f"{validation.path}: has none of the classes of {data.path}; score on rows with these labels")
    return both


def _record(step: ClassesStep) -> ReferenceRecord:
    return ReferenceRecord(step.c, step.header.data.fingerprint, step.header.seal)
