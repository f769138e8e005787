"""K-fold cross-validation: K more runs on the same data set, each leaving out the rows whose hash falls into its part.

All runs have the C of the main run, so that scores can be averaged C by C. A fold is a mask (cost 0), never a copy. The
folds' runs lie in RUN/folds and continue after an interruption as the main run does. Which rows a fold has is known
before any training, and so is whether it can be trained and scored: ``check_folds``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.digest import row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError
from pipeline.events import Listener, Note
from pipeline.files import write_json
from pipeline.maths.score import best, mean_scores
from pipeline.path.path import run_path, versions
from pipeline.runs.directory import HEADER, Run, open_run
from pipeline.runs.records import Scores
from pipeline.runs.writer import alone_in, changed_versions
from pipeline.spec import PathSpec
from pipeline.working.state import fold_of

FOLDS = "folds"


def check_folds(engine: Engine, data: Dataset, spec: PathSpec) -> None:
    """Raise DataError unless every fold leaves rows out, and trains on rows of both classes."""
    cure = "use fewer folds"
    if spec.cv > data.n_rows:
        raise DataError(f"{data.n_rows:,} rows cannot be cut into {spec.cv:,} folds; {cure}", path=data.path)
    counts = np.zeros((2, spec.cv), np.int64)  # negative and positive rows of each fold
    for part in engine.stream(_fold_counts, data.shards, spec.cv):
        counts += part
    for k, (negative, positive) in enumerate(counts.T):
        where = f"fold {k + 1} of {spec.cv} (rows are assigned by what is in them)"
        if not negative + positive:
            raise DataError(f"{where} has no row to be scored on; {cure}", path=data.path)
        if negative == counts[0].sum() or positive == counts[1].sum():
            raise DataError(f"{where} has all rows of a class, and none to train on are left; {cure}", path=data.path)


def _fold_counts(shard: Shard, folds: int) -> np.ndarray:
    rows = shard.load()
    fold = fold_of(row_hashes(rows), folds)
    return np.stack([np.bincount(fold[rows.labels == y], minlength=folds) for y in (-1, 1)])


def cross_validate(engine: Engine, data: Dataset, run: Run, listen: Listener) -> Run:
    """Train the folds of a finished run, and name its best step by their mean score."""
    with alone_in(run.path):
        return _cross_validate(engine, data, run, listen)


def _cross_validate(engine: Engine, data: Dataset, run: Run, listen: Listener) -> Run:
    spec = run.spec
    other = changed_versions(run.header, versions()) if run.header.cv_scores is None else ""
    if other:
        raise RunError(f"{run.path}: its folds were begun with {other}; remove {run.path} or choose another --out")
    grid = tuple(step.c for step in run.steps)
    found = []
    for k in range(spec.cv):
        listen(Note(f"fold {k + 1} of {spec.cv}"))
        part = replace(spec, grid=grid, grid_in_c_min=False, fold=(k, spec.cv), cv=0)
        fold = run_path(engine, data, part, run.path / FOLDS / str(k), None, listen, inner=True)
        found.append([step.scored for step in fold.steps])
    means = mean_scores(found)
    _mention_what_is_not_defined(found, spec.select, listen)
    header = run.header.changed(cv_scores=means, best_step=best(means, spec.select))
    if header != run.header:
        write_json(run.path / HEADER, header.to_json())
    return open_run(run.path)


def _mention_what_is_not_defined(found: list[list[Scores]], select: str, listen: Listener) -> None:
    missing = sum(any(scores[select] is None for scores in fold) for fold in found)
    if missing:
        name = select.replace("_", " ")
        listen(
            Note(f"{name} is not defined in {missing} of {len(found)} folds (a class is missing): they do not count")
        )
