"""Verify a run of several classes: every class against the rest on its own, and what run.json says of all together.

A class's run holds as any run of two classes does (``verify``), on the rows as its problem saw them: class k against
the rest, with the weights that follow from the data and the settings. All classes have the C that were asked for, in
multiples of the smallest C_min if so. Scores of all classes together, the best step, the chain over the classes' seals
and the seal of run.json itself must be what follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.reading.labels import UNKNOWN, label_text
from pipeline.data.shards.digest import row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.events import Listener, Note, silent
from pipeline.runs.chain import CHAIN
from pipeline.runs.classes import chain_of
from pipeline.runs.directory import FOLDS, PARTS, followed, read_item
from pipeline.runs.records import CLASSES_FORMAT
from pipeline.verify.calibration import LeftOutRows
from pipeline.verify.class_scores import ScoredRows, stored_classes, wrong_class_scores
from pipeline.verify.header import check_seal
from pipeline.verify.held_out import HeldOutClasses
from pipeline.verify.origin import check_origin
from pipeline.verify.said import SaidRun, read_said
from pipeline.verify.scores import WEIGHTED, best_steps, mean_scores, same_scores
from pipeline.verify.spaces import space_of
from pipeline.verify.split import left_out
from pipeline.verify.trained_rows import trained_rows
from pipeline.verify.tuned import FoldScores, check_curve, check_patience, check_stage, stages_of
from pipeline.verify.validation import stored_costs
from pipeline.verify.verify import Finding, verify


def verify_any(
    engine: Engine,
    path: str | Path,
    data: Dataset,
    step: int | None = None,
    listen: Listener = silent,
    validation: Dataset | None = None,
) -> list[Finding]:
    """Return a finding for every step of a run and of its folds, or for the one step of each, of any kind of run."""
    folder = followed(path)
    if read_item(folder)["format"] != CLASSES_FORMAT:
        data.expect_two_classes(f"the run {path}")
        return verify(engine, path, data, step, listen, validation)
    return _Classes(engine, folder, data, step, listen, validation).findings()


class _Classes:
    """Verifies one run of several classes, and its folds."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        data: Dataset,
        step: int | None,
        listen: Listener,
        validation: Dataset | None = None,
    ) -> None:
        self.engine, self.folder, self.data, self.step = engine, folder, data, step
        self.listen, self.validation = listen, validation
        self.item = read_item(folder)
        self.said = SaidRun(folder, self.item, [])
        check_origin(self.said, data, listen)
        self.spec = self.said.spec
        self.codes, self.held_out = self._rows()
        self.weights = self._weights()
        self.taker = HeldOutClasses(self.item.get("held_out") if step is None else None)
        self.views = [data.against_rest(k, self.weights) for k in range(len(data.classes))]

    def findings(self, left_out: Sequence[LeftOutRows] = (), held_out: HeldOutClasses | None = None) -> list[Finding]:
        """Return the findings of all classes, and of those of the folds; raise RunError for what is wrong above.

        ``left_out``, one a class, take the scores of the rows left out of training, and ``held_out`` what these are
        called, for a run that this one is a part of.
        """
        self._check_validation()
        runs = [read_said(self.folder / PARTS / str(k)) for k in range(len(self.views))]
        asked = self._grid(runs)
        grid = self._check_grid(runs, asked)
        found: list[Finding] = []
        takers = left_out or [LeftOutRows(None) for _ in runs]
        for run, view, taker in zip(runs, self.views, takers, strict=True):
            self._check_settings(run, asked)
            found += verify(self.engine, run.path, view, self.step, self.listen, left_out=taker, alone=False)
        self.runs = runs
        folds = [self._fold(k, asked) for k in range(self.spec.cv) if self.item.get("cv_scores") is not None]
        searches = self._searches() if self.item.get("cv_c") is not None else []
        scored = self._calibrated() if searches else []
        for fold in folds:
            found += fold.findings(held_out=self.taker)
        for k, search in enumerate(searches):
            for each in (run for stage in search for run in stage):
                found += each.findings(scored, self.taker) if k == 0 else each.findings()
        if all(finding.holds for finding in found):
            if self.step is None and self.item["status"] == "finished":
                self._check_whole(runs, folds, held_out)
                if self.spec.fold is None:
                    self._check_end(folds)
                if searches:
                    curves = [_curves(search) for search in searches]
                    check_curve(self.folder, self.item, self.spec.select, curves, grid[0])
                self._check_held_out(grid)
                for run, name, scores in zip(runs, self.data.classes, scored, strict=False):
                    scores.check(run, f"{self.folder}: class {name}")
            check_seal(self.said)
        return found

    def _calibrated(self) -> list[LeftOutRows]:
        """Return who takes the scores that calibrations were fitted on, one a class; none where there are none."""
        return [LeftOutRows(each) for each in self.item.get("calibration") or ()] if self.step is None else []

    def _searches(self) -> list[list[list[_Classes]]]:
        """Return the runs of a tuned run's searches: by gamma, its own first, then by stage and fold."""
        found = []
        for stages in stages_of(self.folder):
            search = []
            for folder in stages:
                first = _Classes(self.engine, folder / "0", self.data, self.step, silent)
                count = first.spec.fold[1] if first.spec.fold else 1
                rest = [_Classes(self.engine, folder / str(k), self.data, self.step, silent) for k in range(1, count)]
                for k, each in enumerate([first, *rest]):
                    check_stage(self.spec, first.spec, each.spec, k, str(each.folder))
                search.append([first, *rest])
            found.append(search)
        return sorted(found, key=lambda search: search[0][0].spec.gamma != self.spec.gamma)

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes of all rows, and which of them were left out of training."""
        parts = list(self.engine.stream(_shard_rows, self.data.shards, self.spec.splits))
        codes, hashes, classes = (np.concatenate([part[k] for part in parts]) for k in range(3))
        if not self.spec.splits:
            return codes, np.zeros(codes.size, np.bool_)
        return codes, left_out(hashes, classes, self.spec)

    def _weights(self) -> tuple[float, ...] | None:
        """Return the weights of the classes, from the data and the settings; those in run.json must be the same."""
        asked, count = self.spec.class_weight, len(self.data.classes)
        found: tuple[float, ...] | None = None
        if asked == "balanced":
            rows = np.bincount(self.codes[~self.held_out], minlength=count)
            found = tuple(float(rows.sum() / (count * n)) for n in rows)
        elif asked is not None:
            given = {label_text(str(each[0])): each[1] for each in asked if isinstance(each, tuple)}
            found = tuple(float(given.get(label_text(name), 1.0)) for name in self.data.classes)
        said = self.item.get("class_weights")
        if (None if said is None else tuple(said)) != found:
            raise RunError(f"{self.folder}: class_weights in run.json are {said}, not {found}; train again")
        return found

    def _check_validation(self) -> None:
        wanted = self.item["data"].get("validation")
        if self.validation is None and wanted:
            self.listen(Note(f"{self.folder}: scores on validation data are not checked; give them with --validation"))
        if self.validation is not None and self.validation.fingerprint != wanted:
            problem = f"was not scored on {self.validation.path}; give the data of path --validation"
            raise RunError(f"{self.folder}: {problem}")

    def _grid(self, runs: Sequence[SaidRun]) -> tuple[Any, ...]:
        """Return the C that were asked for.

        On the eps-path they are those of the class that is furthest; each keeps its promise between them (``verify``).
        """
        if self.spec.grid is None:
            return max((tuple(step.facts.get("c") for step in run.steps) for run in runs), key=len)
        unit = self._true_unit() if self.spec.grid_in_c_min else 1.0
        return tuple(unit * c for c in sorted(set(self.spec.grid)))

    def _check_grid(self, runs: Sequence[SaidRun], asked: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the C that all classes have: all that were asked for, or the first ones where patience ended."""
        grid = asked[: self.item.get("n_steps")] if self.item.get("stopped") else asked
        for run in runs:
            found = tuple(step.facts.get("c") for step in run.steps)
            whole = self.item["status"] != "finished" or len(found) == len(grid) == self.item.get("n_steps")
            if found != grid[: len(found)] or not whole:
                raise RunError(f"{run.path}: has not the C that all classes were to be trained at; train again")
        return grid

    def _true_unit(self) -> float:
        """Return the smallest C_min of all classes as run.json has it, if it is that of the rows."""
        said, spec = self.item.get("c_min"), replace(self.spec, class_weight=None)
        largest = None
        for view in self.views:
            start = space_of(self.engine, view, trained_rows(self.engine, view, spec), spec).start(lambda rows: None)
            largest = start if largest is None or start.largest > largest.largest else largest
        problem = "" if largest is None else largest.problem(said)
        if problem or said is None:
            raise RunError(f"{self.folder}: {problem or 'run.json does not say C_min'}; train again")
        return float(said)

    def _check_settings(self, run: SaidRun, grid: tuple[float, ...]) -> None:
        asked = replace(self.spec, grid_in_c_min=False, class_weight=None, cv=0)
        if self.spec.grid is not None:
            asked = replace(asked, grid=grid)
        changed = asked.difference(run.spec)
        if changed:
            raise RunError(f"{run.path}: the class has other settings than its run ({changed}); train again")

    def _check_end(self, folds: Sequence[_Classes]) -> None:
        """Raise RunError unless all classes, those of the folds, too, ended together where they may."""
        together = [self, *folds]
        stopped = {each.item.get("stopped") for each in together}
        check_patience([run for each in together for run in each.runs])
        if stopped != {self.runs[0].header.get("stopped")}:
            raise RunError(f"{self.folder}: run.json does not say why the runs of its classes ended; train again")

    def _fold(self, k: int, grid: tuple[float, ...]) -> _Classes:
        found = _Classes(self.engine, self.folder / FOLDS / str(k), self.data, self.step, self.listen)
        along = self.spec.grid is None and self.spec.patience  # folds go along the path with their run
        asked = replace(self.spec, grid=None if along else grid, grid_in_c_min=False, fold=(k, self.spec.cv), cv=0)
        changed = asked.difference(found.spec)
        if changed:
            raise RunError(f"{found.folder}: the fold has other settings than its run ({changed}); train again")
        return found

    def _check_whole(self, runs: Sequence[SaidRun], folds: Sequence[_Classes], held_out: HeldOutClasses | None) -> None:
        """Raise RunError unless run.json says of all classes together what their runs say."""
        if chain_of(self.item, [run.header.get("seal") for run in runs]) != self.item.get(CHAIN):
            raise RunError(f"{self.folder}: run.json is not that of its classes; one was replaced; train again")
        scores: Any = self.item.get("scores")
        rows = self._scored()
        if rows is not None:
            own = self.taker if self.item.get("cv_scores") is None else None
            takers = [taker for taker in (own, held_out) if taker is not None]
            for number, problem in wrong_class_scores(self.engine, runs, self.views, rows, scores, takers):
                raise RunError(f"{self.folder}: step {number}: {problem}; do not trust the run: train again")
        if self.spec.cv:
            scores = self.item.get("cv_scores")
            if scores is None:
                raise RunError(f"{self.folder}: its folds are not finished; run the same svmsieve path again")
            if not same_scores(scores, mean_scores([fold.item.get("scores") or [] for fold in folds])):
                raise RunError(f"{self.folder}: cv_scores in run.json are not the means of the folds'; train again")
        best = best_steps(scores or [None] * len(runs[0].steps), self.spec.select)
        if self.item.get("best_step") not in best:
            names = " or ".join(str(k) for k in sorted(best, key=str))
            problem = f"run.json calls step {self.item.get('best_step')} the best, but by the scores it is {names}"
            raise RunError(f"{self.folder}: {problem}; train again")

    def _check_held_out(self, grid: tuple[Any, ...]) -> None:
        """Raise RunError if what run.json says of rows left out is not what the models call them."""
        said = self.item.get("held_out")
        problem = "" if said is None else self.taker.problem(self.item, list(grid))
        if problem:
            raise RunError(f"{self.folder}: held_out in run.json: {problem}; train again")

    def _scored(self) -> ScoredRows | None:
        """Return the rows that scores are of; None if they are not at hand."""
        data, codes, wanted = self.data, self.codes, self.held_out
        if self.item["data"].get("validation"):
            if self.validation is None:
                return None
            data = self.validation
            codes = stored_classes(self.engine, data, self._table(data))
            wanted = codes != UNKNOWN
        costs = None
        if self.spec.select == WEIGHTED:
            weights = np.array(self.weights or [1.0] * len(self.views))
            costs = stored_costs(self.engine, data)[wanted] * weights[codes[wanted]]
        return ScoredRows(data, wanted, codes[wanted], costs)

    def _table(self, data: Dataset) -> np.ndarray:
        """Return the class of each code, or of signs -1 and +1, of other data, by name."""
        known = {label_text(name): k for k, name in enumerate(self.data.classes)}
        sides: list[tuple[str, ...]] = [(name,) for name in data.classes]
        sides = sides or [data.labels.negative, data.labels.positive]
        return np.array([known.get(label_text(s[0]), UNKNOWN) if len(s) == 1 else UNKNOWN for s in sides], np.int64)


def _curves(search: Sequence[Sequence[_Classes]]) -> list[FoldScores]:
    """Return the scores of every fold by C."""
    return [
        {c: scores for run in runs for c, scores in zip(run.spec.grid or (), run.item.get("scores") or (), strict=True)}
        for runs in zip(*search, strict=True)
    ]


def _shard_rows(shard: Shard, splits: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the codes of rows, and what they are split by: the hash of a row and its class, or that of its group."""
    rows = shard.load()
    codes = np.array(rows.labels)
    if not splits:
        return codes, np.empty(0, np.uint64), np.empty(0, np.int32)
    if rows.groups is not None:
        return codes, np.array(rows.groups), np.zeros(rows.n_rows, np.int32)
    return codes, row_hashes(rows), codes
