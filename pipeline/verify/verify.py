"""Verify a run: a run that verifies is the run that was made, and its certificates are true in exact arithmetic.

A step holds when its model is whole, the one that was written, and for the C that the step names; alpha is feasible;
P, D and the relative gap are what steps.jsonl says, and the gap is within the run's ``tol`` (see ``step``);
w_alpha is sum alpha_i z_i; counts and scores are right; no verdict is false; C ascends as grid or epsilon ask
(``spacing``); and its line follows the one before (``chain``). Then, whatever made the model, P_C(w) is at most
(relative gap) x P above the optimum. run.json must agree with the steps and with the data (``origin``), and be as it
was written (``header``).

The hashes have no key: who can write to the run can compute them anew. What follows from the data is recomputed and
cannot be forged; what does not is believed. Someone who writes all hashes anew can say that other settings were asked
for (a shorter grid, with the steps beyond it removed; a larger tol; another rule, everywhere), that steps took more or
fewer rows, rounds or seconds than they did, that bt1 or bt2 alone prove less than they do, that a certificate is worse
than it is, that other versions made it, and which rows predict is to know (the hashes in trained_rows.npy).
None of it makes a certificate better than the truth; who keeps a copy of the ``seal`` elsewhere finds it all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from pathlib import Path

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.events import Listener, Note, Progress, silent
from pipeline.runs.chain import MODEL, broken, is_chained
from pipeline.runs.directory import FOLDS
from pipeline.verify.calibration import LeftOutRows
from pipeline.verify.enclosure import rounded_down, rounded_up
from pipeline.verify.header import check_best, check_ends, check_seal, check_sketch
from pipeline.verify.held_out import HeldOutRows
from pipeline.verify.origin import check_origin
from pipeline.verify.said import SaidRun, SaidStep, read_said
from pipeline.verify.scores import wrong_score
from pipeline.verify.spaces import SpaceOfRun, space_of
from pipeline.verify.spacing import spacing_problem, wrong_c, wrong_c_ref
from pipeline.verify.start import TrueStart
from pipeline.verify.step import Claim, is_number
from pipeline.verify.stored_model import Model, read_model
from pipeline.verify.tally import Worth
from pipeline.verify.trained_rows import TrainedRows, trained_rows
from pipeline.verify.tuned import check_curve, check_patience, searched
from pipeline.verify.validation import Validation


@dataclass(frozen=True)
class Finding:
    """What a step is worth, or a problem: bounds of P from above, of D from below and of the relative gap from above.

    They are None where there is no model to compute them from.
    """

    run: str
    step: int
    c: float
    primal: float | None
    dual: float | None
    relative_gap: float | None
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether the certificate is what the run says it is."""
        return not self.problem

    def __str__(self) -> str:
        said = self.problem or f"holds, relative gap {self.relative_gap:.1e}"
        return f"{self.run}: step {self.step} (C = {self.c:.6g}): {said}"


def verify(
    engine: Engine,
    path: str | Path,
    data: Dataset,
    step: int | None = None,
    listen: Listener = silent,
    validation: Dataset | None = None,
    left_out: LeftOutRows | None = None,
    alone: bool = True,
) -> list[Finding]:
    """Return a finding for every step of a run, of its folds and of its search, or for the one step of each.

    Scores on validation data are checked if those are given. ``left_out`` takes those of the rows left out of the run.
    One that is not ``alone`` was trained with others, and whoever knows these sees where all of them may end.
    """
    run = read_said(path)
    if not 0 <= (step or 0) < len(run.steps):
        raise RunError(f"{run.path}: there is no step {step or 0}; the run has {len(run.steps)} finished steps")
    searches = searched(run)
    folds = [*_folds(run), *(each for search in searches for each in search.runs)]
    judge = None if validation is None else Validation(engine, validation)
    if judge is not None:
        judge.check(run)
    elif run.header["data"].get("validation"):
        listen(Note(f"{run.path}: scores on validation data are not checked; give them with --validation"))
    for each in (run, *folds):
        check_origin(each, data, listen if each is run else silent)
        check_ends(each, listen)
    scored = LeftOutRows(run.header.get("calibration") if searches and step is None else None)
    held_out = HeldOutRows(run.header.get("held_out") if step is None else None)
    own: tuple[LeftOutRows | HeldOutRows, ...] = () if left_out is None else (left_out,)
    own += () if searches or run.header.get("cv_scores") is not None else (held_out,)
    found = _Verifier(engine, run, data, step, listen, judge, takers=own).findings()
    for fold in folds:
        mine = (scored, held_out) if not searches or fold in searches[0].runs else ()
        found += _Verifier(engine, fold, data, step, listen, takers=mine).findings()
    trusted = all(finding.holds for finding in found)  # else scores may be wrong, and the best step with them
    if step is None and trusted:
        check_best(run, folds if run.header.get("cv_scores") is not None else [])
        for fold in folds:
            check_best(fold, [])
        for together in [stage for search in searches for stage in search.stages] or [[run, *folds]]:
            if alone:
                check_patience(together)
        if searches:
            curves = [search.folds for search in searches]
            check_curve(run.path, run.header, run.spec.select, curves, _c_of(run.steps[0]))
            scored.check(run, str(run.path))
        held_out.check(run)
    if trusted:
        for each in (run, *folds):
            check_seal(each)
            check_sketch(each)
    return found


def _folds(run: SaidRun) -> Iterator[SaidRun]:
    """Yield the runs of cross-validation: all of them once their scores are in run.json."""
    grid = tuple(_c_of(step) for step in run.steps)
    for k in range(run.spec.cv):
        folder, scored = run.path / FOLDS / str(k), run.header.get("cv_scores") is not None
        if not (scored or folder.is_dir()):
            return
        fold = read_said(folder)
        asked = replace(run.spec, fold=(k, run.spec.cv), cv=0)
        if run.spec.grid is not None or not run.spec.patience:  # else folds go along the path with their run
            asked = replace(asked, grid=fold.spec.grid if run.spec.patience else grid, grid_in_c_min=False)
        changed = asked.difference(fold.spec)
        if changed:
            raise RunError(f"{folder}: the fold has other settings than its run ({changed}); train again")
        yield fold


@dataclass
class _Verifier:
    """Verifies the steps of one run, or one step; ``problems`` are those that are known without the models."""

    engine: Engine
    run: SaidRun
    data: Dataset
    step: int | None
    listen: Listener
    judge: Validation | None = None
    problems: dict[int, str] = field(default_factory=dict)
    takers: tuple[LeftOutRows | HeldOutRows, ...] = ()

    def findings(self) -> list[Finding]:
        """Return a finding a step."""
        run, spec = self.run, self.run.spec
        steps = run.steps if self.step is None else run.steps[self.step : self.step + 1]
        rows = trained_rows(self.engine, self.data, spec)
        space = space_of(self.engine, self.data, rows, spec)
        size = space.batch
        whole_path = self.step is None and (spec.grid is None or spec.grid_in_c_min)
        seen = _meter(self.data, -(-len(steps) // size) + space.start_passes * whole_path, self.listen)
        self._check_frame(rows, space.start(seen) if whole_path else None)
        found: list[Finding] = []
        for first in range(0, len(steps), size):
            found += self._batch(rows, space, steps[first : first + size], seen)
        for k, broke in enumerate(broken(run.header, (s.facts for s in run.steps)) if is_chained(run.header) else []):
            if broke:
                self.problems.setdefault(k, "its line in steps.jsonl does not follow from the one before it")
        return [replace(f, problem=f.problem or self.problems.get(f.step, "")) for f in found]

    def _check_frame(self, rows: TrainedRows, start: TrueStart | None) -> None:
        """Note what is wrong with the C of the steps and with what run.json says of classes, from rows and grid."""
        run, c_min = self.run, self.run.header.get("c_min")
        wrong = "" if start is None else start.problem(c_min)
        if wrong:
            self.problems[0] = wrong
        for k, problem in wrong_c(run.spec, c_min, [_c_of(step) for step in run.steps]):
            self.problems.setdefault(k, problem)
        others = [c_min, *(each["c"] for each in run.header["data"].get("reference") or ())]
        for k, problem in wrong_c_ref([step.facts for step in run.steps], others):
            self.problems.setdefault(k, problem)
        weights = tuple(run.header.get("class_weights") or rows.class_weights)
        if weights != rows.class_weights:
            self.problems.setdefault(0, f"class_weights in run.json are {weights}, not {rows.class_weights}")

    def _batch(
        self, rows: TrainedRows, space: SpaceOfRun, steps: list[SaidStep], seen: Callable[[int], None]
    ) -> list[Finding]:
        models: dict[int, Model] = {}
        damaged: dict[int, str] = {}
        for step in steps:
            try:
                models[step.step] = read_model(step.model.path, self.data.n_rows, self.data.n_features)
            except RunError as error:
                damaged[step.step] = str(error)
        values = space.worth(list(models.values()), seen) if models else []
        worth = dict(zip(models, values, strict=True))
        if self.judge is not None:
            weights = rows.class_weights
            for n, wrong in self.judge.wrong_scores(self.run, self.data, models, weights, self.takers).items():
                self.problems.setdefault(n, wrong)
        found = []
        for step in steps:
            n, c, name = step.step, _c_of(step), str(self.run.path)
            if n in damaged:
                found.append(Finding(name, n, c, None, None, None, damaged[n]))
                continue
            problem = space.wrong_kind(models[n]) or next(self._problems(step, models[n], worth[n], rows), "")
            found.append(Finding(name, n, c, *_bounds(worth[n]), problem))
        return found

    def _problems(self, step: SaidStep, model: Model, found: Worth, rows: TrainedRows) -> Iterator[str]:
        """Yield what is wrong with a step; its own numbers first, then its place in the run, then its seal."""
        run, spec, n = self.run, self.run.spec, step.step
        before = _c_of(run.steps[n - 1]) if n else 0.0
        claim = Claim(step.facts, before, rows.count, self.data.n_rows, spec, bounds=run.header["version"] > 1)
        yield from claim.problems(model, found)
        if self.step is None and spec.grid is None:
            following = _c_of(run.steps[n + 1]) if n + 1 < len(run.steps) else spec.c_max
            if n + 1 < len(run.steps) or (run.header["status"] == "finished" and not run.header.get("stopped")):
                yield from filter(None, [spacing_problem(claim, found, following, spec.epsilon)])
        if not run.header["data"].get("validation"):
            said, costs = step.facts.get("scores"), rows.left_out_costs
            yield from filter(None, [wrong_score(said, *found.margins, rows.held_out, spec.select, costs)])
            for taker in self.takers:
                taker.take(_c_of(step), *found.margins, rows.held_out)
        yield from filter(None, [self.problems.get(n)])
        if is_chained(run.header) and step.facts.get(MODEL) != step.model.digest():
            yield "its model file is not the one that was written"


def _bounds(found: Worth) -> tuple[float | None, float | None, float | None]:
    if found.enclosure is None:
        return None, None, None
    bounds = rounded_up(found.enclosure.primal.upper), rounded_down(found.enclosure.dual.lower)
    primal, dual, gap = (
        x if math.isfinite(x) else None for x in (*bounds, rounded_up(found.enclosure.relative_gap.upper))
    )
    return primal, dual, gap


def _c_of(step: SaidStep) -> float:
    c = step.facts.get("c")
    return float(c) if c is not None and is_number(c) else math.nan


def _meter(data: Dataset, passes: int, listen: Listener) -> Callable[[int], None]:
    """Return a function that is told of rows that were read, and reports how far the passes are."""
    rows = 0

    def seen(more: int) -> None:
        nonlocal rows
        rows += more
        listen(Progress("verify", rows, data.bytes * rows // data.n_rows, data.bytes * passes))

    return seen
