"""K-fold cross-validation: K more runs on the same data set, each leaving out the rows whose hash falls into its part.

All runs have the C of the main run, so that scores can be averaged C by C. A fold is a mask (cost 0), never a copy, and
folds are trained together (``batch``). Their runs lie in RUN/folds and continue after an interruption as the main run
does. Which rows a fold has is known before any training, and so is whether it can be trained and scored:
``check_folds``.

A fold starts from its own model at the C before. From the whole data's at the same C it takes longer (CPU seconds for
ten C of one fold: a9a 0.26 against 0.21, imdb50k_uni 3.8 against 2.8): the rows left out move w further than a step of
C does, and carrying a model over costs passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.digest import row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError
from pipeline.events import Event, Listener, Note, StepProgress
from pipeline.maths.eps_grid import check_grid
from pipeline.maths.score import Scores, best, mean_scores
from pipeline.path.batch import Problem, run_together
from pipeline.path.left_out import left_out_scores, record_of
from pipeline.path.path import begin_path, run_path, versions
from pipeline.runs.directory import FOLDS
from pipeline.runs.memory import Place
from pipeline.runs.run import Run, StepView
from pipeline.runs.writer import changed_versions, rewritten
from pipeline.spec import PathSpec
from pipeline.working.split import Split, split_keys, split_of


def check_folds(engine: Engine, data: Dataset, spec: PathSpec) -> None:
    """Raise DataError unless every fold leaves rows out, and trains on rows of both classes."""
    data.expect_two_classes("a path")
    cure = "use fewer folds"
    if spec.cv > data.n_rows:
        raise DataError(f"{data.n_rows:,} rows cannot be cut into {spec.cv:,} folds; {cure}", path=data.path)
    if spec.stratified and data.group is None:
        _check_different_rows(engine, data, spec.cv)
        return
    split = _split_of_groups(engine, data, spec) if spec.stratified else Split(replace(spec, fold=(0, spec.cv)))
    counts = np.zeros((2, spec.cv), np.int64)  # negative and positive rows of each fold
    for part in engine.stream(_fold_counts, data.shards, split):
        counts += part
    for k, (negative, positive) in enumerate(counts.T):
        where = f"fold {k + 1} of {spec.cv} (rows are assigned by what is in them)"
        if not negative + positive:
            raise DataError(f"{where} has no row to be scored on; {cure}", path=data.path)
        if negative == counts[0].sum() or positive == counts[1].sum():
            raise DataError(f"{where} has all rows of a class, and none to train on are left; {cure}", path=data.path)


def _check_different_rows(engine: Engine, data: Dataset, folds: int) -> None:
    """Raise DataError unless a class has a row for every stratified fold, and each two: none is in one fold alone."""
    different = [np.empty(0, np.uint64) for _ in (-1, 1)]
    for part in engine.stream(_different_rows, data.shards, folds):
        different = [np.union1d(one, two)[:folds] for one, two in zip(different, part, strict=True)]
    counts = [each.size for each in different]
    if min(counts) < 2 or max(counts) < folds:
        few = min(counts) if min(counts) < 2 else max(counts)
        problem = f"a class has {few} different rows, too few for {folds} stratified folds (equal rows stay together)"
        raise DataError(f"{problem}; use fewer folds, or leave stratified out", path=data.path)


def _different_rows(shard: Shard, most: int) -> list[np.ndarray]:
    rows = shard.load()
    hashes = row_hashes(rows)
    return [np.unique(hashes[rows.labels == y])[:most] for y in (-1, 1)]


def _split_of_groups(engine: Engine, data: Dataset, spec: PathSpec) -> Split:
    """Return stratified folds of groups, which are few beside the rows: each is known by its hash and its size."""
    groups, sizes = np.empty(0, np.uint64), np.empty(0, np.int64)
    for some, counts in engine.stream(_group_sizes, data.shards, spec.seed):
        groups, place = np.unique(np.concatenate([groups, some]), return_inverse=True)
        sizes = np.bincount(place, np.concatenate([sizes, counts]), groups.size).astype(np.int64)
    rows, one_class = np.repeat(groups, sizes), np.zeros(sizes.sum(), np.int8)
    folds = replace(spec, fold=(0, spec.cv))
    return split_of(folds, rows, one_class, partial(np.empty, rows.size), [slice(0, rows.size)])


def _group_sizes(shard: Shard, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(split_keys(shard.load(), seed)[0], return_counts=True)


def _fold_counts(shard: Shard, split: Split) -> np.ndarray:
    rows, folds = shard.load(), split.parts
    fold = split.part_of(*split_keys(rows, split.spec.seed))
    return np.stack([np.bincount(fold[rows.labels == y], minlength=folds) for y in (-1, 1)])


def cross_validate(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: Place,
    validation: Dataset | None,
    listen: Listener,
    references: Sequence[StepView],
) -> Run:
    """Train a run and its folds, and name its best step by their mean score.

    With a grid all are trained together. The C of an eps-path are known only when the run itself is done, unless
    patience may end it: then the folds go along with it, at the same C.
    """
    check_folds(engine, data, spec)
    if spec.grid is None and not spec.patience:
        told = _Told(listen, spec.cv)
        run = run_path(engine, data, spec, out, validation, told.main, references)
        _check_versions(run)
        grid = [step.c for step in run.steps]
        folds = run_together(engine, _problems(data, spec, out, grid), partial(told.folds, np.log(grid)))
    else:
        header = begin_path(engine, data, spec, out, validation, references)
        asked = None if spec.grid is None else check_grid(list(spec.grid))
        if asked is not None and spec.grid_in_c_min:
            asked = [(header.c_min or math.nan) * c for c in asked]
        main = Problem(data, spec, out, validation, references)
        run, *folds = run_together(engine, [main, *_problems(data, spec, out, asked)], listen)
        _check_versions(run)
    return _scored(engine, data, run, folds, listen)


def _problems(data: Dataset, spec: PathSpec, out: Place, grid: Sequence[float] | None) -> list[Problem]:
    """Return the paths of the folds, at these C if they are known."""
    same = replace(spec, grid=None if grid is None else tuple(grid), grid_in_c_min=False, cv=0)
    folds = [(k, replace(same, fold=(k, spec.cv)), f"fold {k + 1} of {spec.cv}") for k in range(spec.cv)]
    return [Problem(data, part, out / FOLDS / str(k), name=name, inner=True) for k, part, name in folds]


class _Told:
    """Tells how far all of it is, where folds follow the main run: each takes about as long."""

    def __init__(self, listen: Listener, folds: int) -> None:
        self.listen, self.count = listen, folds

    def main(self, event: Event) -> None:
        """Hear of the main run."""
        if isinstance(event, StepProgress):
            event = replace(event, share=event.share / (1 + self.count), follow=self.count)
        self.listen(event)

    def folds(self, way: np.ndarray, event: Event) -> None:
        """Hear of the folds, which all have steps at these log C: how far they are on average."""
        if isinstance(event, StepProgress):
            done = np.interp(way[0] + event.share * (way[-1] - way[0]), way, np.arange(way.size)) + 1
            share = (1 + self.count * event.share) / (1 + self.count)
            event = replace(event, share=share, steps_left=self.count * (way.size - float(done)))
        self.listen(event)


def _check_versions(run: Run) -> None:
    """Raise RunError if a finished run has folds to be trained by other versions than it was itself."""
    other = changed_versions(run.header, versions()) if run.header.cv_scores is None else ""
    if other:
        raise RunError(f"{run.path}: its folds were begun with {other}; remove {run.path} or choose another --out")


def _scored(engine: Engine, data: Dataset, run: Run, folds: Sequence[Run], listen: Listener) -> Run:
    """Write the mean scores of the folds into run.json, the best step by them, and its scores of rows left out."""
    if run.header.cv_scores is not None:
        return run
    found = [[step.scored for step in fold.steps] for fold in folds]
    means = mean_scores(found)
    _mention_what_is_not_defined(found, run.spec.select, listen)
    number, held_out = best(means, run.spec.select), None
    if number is not None and not run.in_memory:
        models = [fold.steps[number] for fold in folds]
        held_out = record_of(data, models, left_out_scores(engine, data, models))
    return rewritten(run, cv_scores=means, best_step=number, held_out=held_out)


def _mention_what_is_not_defined(found: list[list[Scores]], select: str, listen: Listener) -> None:
    missing = sum(any(scores[select] is None for scores in fold) for fold in found)
    if missing:
        name = select.replace("_", " ")
        listen(
            Note(f"{name} is not defined in {missing} of {len(found)} folds (a class is missing): they do not count")
        )
