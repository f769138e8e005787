"""A search for C in folds that are made by what is in the rows: that of ``path.tune``, or the path and its folds.

Equal rows stay together, so that a class cannot be in more folds than it has different rows. Arrays of a few rows are
common (a first try, a test): they get as many folds as there can be, and a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import ARRAYS
from pipeline.data.shards.digest import row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import SieveWarning
from pipeline.estimators.inputs import TrainingRows
from pipeline.estimators.searched import SearchAsked, Searched, seconds_of
from pipeline.events import Listener
from pipeline.maths.calibration import fit_calibrations
from pipeline.maths.score import gain
from pipeline.path.left_out import left_out_scores
from pipeline.path.train import kept, train_run
from pipeline.path.tune import calibration_json, tuned
from pipeline.runs.classes import AnyRun
from pipeline.runs.directory import FOLDS, open_run
from pipeline.runs.memory import Place
from pipeline.runs.writer import rewritten
from pipeline.spec import PATIENCE, PathSpec

FEWEST = 2  # folds: with one there are no rows to train on


def possible_folds(data: Dataset, asked: int) -> int:
    """Return how many folds there are to be: as many as were asked for, or as many as arrays have different rows for.

    Fewer than two there cannot be; who makes them says why.
    """
    if data.kind != ARRAYS or asked <= FEWEST:
        return asked
    rows = [shard.load() for shard in data.shards]
    hashes, labels = (np.concatenate(parts) for parts in (list(map(row_hashes, rows)), [each.labels for each in rows]))
    most = max(np.unique(hashes[labels == label]).size for label in np.unique(labels))
    if most >= asked:
        return asked
    found = max(FEWEST, most)
    said = f"no class has more than {most} different rows, which stay together: {found} folds are made, not {asked}"
    warnings.warn(said, SieveWarning, stacklevel=3)
    return found


def in_folds(engine: Engine, training: TrainingRows, spec: PathSpec, asked: SearchAsked, listen: Listener) -> Searched:
    """Search in the folds of the settings, and train on all rows."""
    data, kind = training.data, "sigmoid" if asked.probability else None
    folds: list[Any] = []

    def tune(place: Place) -> Any:
        patient = replace(spec, patience=PATIENCE)
        run, parts = tuned(engine, data, [patient], place, listen, asked.selection, kind, asked.c_max)
        folds.extend(parts)
        return run

    def path(place: Place) -> Any:
        run = train_run(engine, data, spec, place, None, listen)
        folds.extend([open_run(place / FOLDS / str(k))] for k in range(spec.cv))
        chosen = _of_folds(run, folds, spec.select).chosen(asked.selection)
        models = [step for (fold,) in folds for step in fold.steps if step.c == chosen]
        if kind is None:
            return run
        fitted = fit_calibrations(*left_out_scores(engine, data, models), kind, models[0].c)
        return rewritten(run, calibration=calibration_json(fitted))

    run = kept(asked.out, data, tune if asked.auto else path)
    return _of_folds(run, folds, spec.select)


def _of_folds(run: AnyRun, folds: Sequence[Sequence[AnyRun]], select: str) -> Searched:
    """Put the runs of all folds together; each fold has some, at different C. Of losses the negative counts."""
    steps = [{step.c: step for part in fold for step in part.steps} for fold in folds]
    cs = sorted(steps[0])
    found = [[(fold[c].scores or {}).get(select) for c in cs] for fold in steps]
    scores = np.array([[np.nan if value is None else gain(select, value) for value in fold] for fold in found])
    return Searched(run, tuple(cs), scores, np.array([[seconds_of(fold[c]) for c in cs] for fold in steps]))
