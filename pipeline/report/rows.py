"""Scores of the chosen model on rows at hand, for a run that has kept none: ``svmsieve report RUN --data DATA``.

Of the data that a run was trained on, the rows that it left out count, each fold's for its own; of any other data all
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.reading.labels import UNKNOWN
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.path.left_out import left_out_scores, record_of
from pipeline.runs.classes import AnyRun, ClassesRun
from pipeline.runs.directory import FOLDS, open_run
from pipeline.runs.held_out import VALIDATION, ClassesHeldOut, HeldOut, classes_held_out_of, held_out_of
from pipeline.scoring.models import any_model_of


def judged_on(
    run: AnyRun, data: Dataset, engine: Engine | None = None
) -> tuple[HeldOut | ClassesHeldOut | None, str | None]:
    """Return the scores of the chosen model on rows of ``data``, and which rows these are, in words."""
    if engine is None:
        with Engine("threads") as mine:
            return judged_on(run, data, mine)
    several = isinstance(run, ClassesRun)
    if data.fingerprint == run.header.data.fingerprint:
        models = _left_out_by(run)
        if not models:
            problem = "all of its rows were trained on; give other rows with --data, or a run with a hold-out"
            raise RunError(f"{data.path}: {problem}")
        return _read(run, record_of(data, models, left_out_scores(engine, data, models))), None
    number = run.best_step
    model = any_model_of(run.steps[-1 if number is None else number], training=None)
    parts = list(model.shard_scores(engine, data))
    scores, labels = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    if several:
        known = labels != UNKNOWN
        item = classes_held_out_of(model.c, VALIDATION, scores[known].T, labels[known], len(run.header.data.classes))
    else:
        item = held_out_of(model.c, VALIDATION, scores, labels)
    why = ", by the model of the last C, as the run has scored nothing" if number is None else ""
    return _read(run, item), f"all rows of {data.path}{why}"


def _left_out_by(run: AnyRun) -> list[Any]:
    """Return the models of the chosen C that left rows of the training data out: the run's own, or its folds'."""
    if not (run.spec.splits or run.spec.cv):
        return []
    chosen = run.best
    if run.spec.splits:
        return [chosen]
    folds = [open_run(run.path / FOLDS / str(k)) for k in range(run.spec.cv)]
    return [fold.steps[chosen.step] for fold in folds]


def _read(run: AnyRun, item: dict[str, Any] | None) -> HeldOut | ClassesHeldOut | None:
    if item is None:
        return None
    if isinstance(run, ClassesRun):
        return ClassesHeldOut.from_json(item, len(run.classes))
    return HeldOut.from_json(item)
