"""Tonight's model: rows screened with yesterday's, training from there, both judged on the same rows, the certificate.

train     around yesterday's best C, or the whole path, starting from yesterday's model; the first night as ``tune``
screen    yesterday's w, and its alpha carried over to today's rows, are feasible today: their ball is valid and
          settles rows before any training; part of training where that starts from there
judge     today's best model and yesterday's on the same rows, held out of both trainings; the gates
verify    the certificate of today's best model, recomputed; of several classes, that of each
"""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import JobError, RunError
from pipeline.events import Listener
from pipeline.nightly.job import Job
from pipeline.nightly.records import PUBLISHED, REFUSED, NightRecord
from pipeline.nightly.store import Store
from pipeline.nightly.yesterday import Yesterday, found_by, yesterday_of
from pipeline.path.class_weights import settled_for_two
from pipeline.path.clock import Clock
from pipeline.path.curve import coarse_grid
from pipeline.path.path import versions
from pipeline.path.search import first_c
from pipeline.path.train import budget_for, train_run
from pipeline.path.usual_score import usual_score
from pipeline.runs.classes import AnyRun, AnyStep, ClassesHeader, parts_of
from pipeline.runs.directory import open_run, read_header, read_item
from pipeline.runs.records import CLASSES_FORMAT, RunHeader
from pipeline.runs.run import RunOf
from pipeline.runs.writer import changed_versions
from pipeline.spec import PATIENCE, PathSpec
from pipeline.verify.classes import verify_any


@dataclass(frozen=True)
class Tonight:
    """Makes and judges the model of a night. ``clock`` has the parts screen, train and verify."""

    job: Job
    store: Store
    engine: Engine
    data: Dataset
    listen: Listener
    clock: Clock

    def run(self, night: NightRecord) -> NightRecord:
        """Do it all in the night's run, from that of its reference; return the record with what was found."""
        name, reference = night.night, night.reference
        self._expect_rows()
        old = open_run(self.store.runs / reference) if reference else None
        before = old.best if old else None
        folder = self.store.runs / name
        spec = self.job.training.spec(before.c if before else None, self._budget(folder))
        if not self.job.selects:
            spec = replace(spec, select=usual_score(self.engine, self.data, spec))
        if before is None and not self.job.training.whole_path:
            spec = self._first_spec(spec)
        with self.clock("train"):
            run = self._trained(spec, folder, _nearest(old, spec.grid))
        yesterday = self._yesterday(before, run, spec) if before else None
        self._check_scores(run, spec)
        best = run.best
        scored = dict(best.scores or {})
        verdicts = [gate.judge(scored, yesterday.scores if yesterday else None) for gate in self.job.gates]
        with self.clock("verify"):
            findings = verify_any(self.engine, folder, self.data, best.step, self.listen)
        holds = all(finding.holds for finding in findings)
        passed = holds and all(verdict.passed for verdict in verdicts)
        return replace(
            night,
            status=PUBLISHED if passed else REFUSED,
            c=best.c,
            models=len(run.steps) * (len(self.data.classes) or 1),
            relative_gap=best.relative_gap,
            verified=holds,
            problem=next((finding.problem for finding in findings if finding.problem), ""),
            settled=yesterday.settled if yesterday else None,
            reference_gap=yesterday.relative_gap if yesterday else None,
            scores=scored,
            yesterday=dict(yesterday.scores) if yesterday and yesterday.scores is not None else None,
            gates=tuple(verdicts),
            passes=sum(step.passes for step in run.steps),
        )

    def _yesterday(self, before: AnyStep, run: AnyRun, spec: PathSpec) -> Yesterday:
        """Return what yesterday's model is worth tonight, which training may have found already."""
        with self.clock("screen"):
            found = found_by(self.engine, self.data, before, run)
            return found or yesterday_of(self.engine, self.data, before, spec)

    def _expect_rows(self) -> None:
        """Stop where a class has no row yet, or none any more."""
        for name, count in zip(self.data.classes, self.data.class_counts, strict=True):
            if not count:
                cure = "wait for files that have some, or leave it out of classes, in another store"
                raise JobError(f"class {name} has no row in the store, and no model; {cure}")

    def _first_spec(self, spec: PathSpec) -> PathSpec:
        """Return the settings of a night without a C to begin with: the C that ``tune`` tries, while scores rise."""
        grid = coarse_grid(first_c(self.engine, self.data, spec), self.job.training.settings.get("c_max"))
        return replace(spec, grid=tuple(grid), patience=spec.patience or PATIENCE)

    def _budget(self, folder: Path) -> int:
        """Return the memory of the run that goes on; one whose run.json is damaged begins afresh."""
        try:
            return self.job.training.settings.get("memory") or budget_for(folder)
        except RunError:
            return budget_for(None)

    def _trained(self, spec: PathSpec, folder: Path, starts: list[AnyStep]) -> AnyRun:
        """Train, or go on; what a killed attempt made of other data, settings or versions is begun afresh."""
        if folder.exists() and not self._goes_on(folder, spec):
            shutil.rmtree(folder)
        return train_run(self.engine, self.data, spec, folder, None, self.listen, starts)

    def _goes_on(self, folder: Path, spec: PathSpec) -> bool:
        try:
            header = _header(folder)  # its steps may be damaged: training mends that
        except RunError:
            return False
        same = self._same_settings(header.spec, spec) and header.data.fingerprint == self.data.fingerprint
        return same and not changed_versions(header, versions())

    def _same_settings(self, stored: PathSpec, spec: PathSpec) -> bool:
        """Compare settings; those of two classes are stored as their signs have them."""
        return stored == (spec if self.data.classes else settled_for_two(self.data, spec))

    def _check_scores(self, run: AnyRun, spec: PathSpec) -> None:
        """Stop where the rows held out cannot tell a good model from a bad one."""
        last = run.steps[-1].scores or {}
        for name in (spec.select, *(gate.score for gate in self.job.gates)):
            if last.get(name) is None:
                held = f"holdout {spec.holdout:g} of {self.data.n_rows:,} rows"
                problem = f"{name} is not defined: the rows held out ({held}) are of one class"
                raise JobError(f"{problem}; wait for more rows, or raise holdout")


def _header(folder: Path) -> RunHeader | ClassesHeader:
    """Read what run.json says of a run of two classes, or of several."""
    item = read_item(folder)
    return ClassesHeader.from_json(item) if item["format"] == CLASSES_FORMAT else read_header(folder)


def reference_of(store: Store) -> tuple[str | None, list[str]]:
    """Return the run that tonight is compared with and starts from, and notes of what is wrong with the published one.

    That is the published run; if it is gone or damaged, the newest one that was published before it and can be read.
    """
    current = store.published()
    if current is None:
        return None, []
    try:
        expect_usable(store.runs / current)
        return current, []
    except RunError as error:
        trouble = f"the published run cannot be used ({error})"
    for night in reversed(store.history()):
        name = night.night
        if night.status == PUBLISHED and name != current and (store.runs / name).is_dir():
            try:
                expect_usable(store.runs / name)
                return name, [f"{trouble}; runs/{name}, published before it, is taken instead"]
            except RunError:
                continue
    return None, [f"{trouble}; the night starts from nothing"]


def expect_usable(run: Path) -> None:
    """Read what a night needs of a run, or raise RunError."""
    best = open_run(run).best
    for part in parts_of(best):
        part.model.w()


def _nearest(old: RunOf[Any] | None, grid: tuple[float, ...] | None) -> list[AnyStep]:
    """Return yesterday's models that are nearest to today's C, each once: there today's training starts."""
    if old is None or grid is None:
        return []
    near = {min(old.steps, key=lambda step: abs(math.log(step.c / c))).step for c in grid}
    return [old.steps[number] for number in sorted(near)]
