"""Tonight's model: rows screened with yesterday's, training from there, both judged on the same rows, the certificate.

screen    yesterday's w, and its alpha carried over to today's rows, are feasible today: their ball is valid and
          settles rows before any training
train     around yesterday's best C, or the whole path, starting from yesterday's model; the first night as ``tune``
judge     today's best model and yesterday's on the same rows, held out of both trainings; the gates
verify    the certificate of today's best model, recomputed
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import JobError, RunError
from pipeline.events import Listener
from pipeline.maths.score import scores
from pipeline.maths.verdicts import KEEP
from pipeline.nightly.job import Job
from pipeline.nightly.records import PUBLISHED, REFUSED, NightRecord
from pipeline.nightly.store import Store
from pipeline.path.clock import Clock
from pipeline.path.curve import coarse_grid
from pipeline.path.path import versions
from pipeline.path.search import first_c
from pipeline.path.train import budget_for, train_two
from pipeline.runs.directory import Run, StepView, open_path, read_header
from pipeline.runs.writer import changed_versions
from pipeline.spec import PATIENCE, PathSpec
from pipeline.use.screen import screening
from pipeline.verify.verify import verify


@dataclass(frozen=True)
class Yesterday:
    """What yesterday's model is worth on today's data: rows it settles at its C, and its scores."""

    settled: float
    relative_gap: float
    scores: dict[str, float | None] | None


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
        old = open_path(self.store.runs / reference) if reference else None
        before = old.best if old else None
        folder = self.store.runs / name
        spec = self.job.training.spec(before.c if before else None, self._budget(folder))
        if before is None and not self.job.training.whole_path:
            spec = self._first_spec(spec)
        yesterday = None
        if before:
            with self.clock("screen"):
                yesterday = self._yesterday(before, spec)
        with self.clock("train"):
            run = self._trained(spec, folder, _nearest(old, spec.grid))
        self._check_scores(run, spec)
        best = run.best
        verdicts = [gate.judge(best.scored, yesterday.scores if yesterday else None) for gate in self.job.gates]
        with self.clock("verify"):
            (finding,) = verify(self.engine, folder, self.data, best.step, self.listen)
        passed = finding.holds and all(verdict.passed for verdict in verdicts)
        return replace(
            night,
            status=PUBLISHED if passed else REFUSED,
            c=best.c,
            models=len(run.steps),
            relative_gap=best.relative_gap,
            verified=finding.holds,
            problem=finding.problem,
            settled=yesterday.settled if yesterday else None,
            reference_gap=yesterday.relative_gap if yesterday else None,
            scores=best.scored,
            yesterday=yesterday.scores if yesterday else None,
            gates=tuple(verdicts),
            passes=sum(step.passes for step in run.steps),
        )

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

    def _trained(self, spec: PathSpec, folder: Path, starts: list[StepView]) -> Run:
        """Train, or go on; what a killed attempt made of other data, settings or versions is begun afresh."""
        if folder.exists() and not self._goes_on(folder, spec):
            shutil.rmtree(folder)
        return train_two(self.engine, self.data, spec, folder, None, self.listen, starts)

    def _goes_on(self, folder: Path, spec: PathSpec) -> bool:
        try:
            header = read_header(folder)  # its steps may be damaged: training mends that
        except RunError:
            return False
        same = header.spec == spec and header.data.fingerprint == self.data.fingerprint
        return same and not changed_versions(header, versions())

    def _check_scores(self, run: Run, spec: PathSpec) -> None:
        """Stop where the rows held out cannot tell a good model from a bad one."""
        for name in (spec.select, *(gate.score for gate in self.job.gates)):
            if run.steps[-1].scored[name] is None:
                held = f"holdout {spec.holdout:g} of {self.data.n_rows:,} rows"
                problem = f"{name} is not defined: the rows held out ({held}) are of one class"
                raise JobError(f"{problem}; wait for more rows, or raise holdout")

    def _yesterday(self, before: StepView, spec: PathSpec) -> Yesterday:
        """Screen today's rows with yesterday's model, and score it on the rows held out."""
        found = screening(self.engine, self.data, before, before.c, spec.rule, spec.memory, spec)
        state, point = found.state, found.point
        undecided = sum(int((part.verdicts == KEEP).sum()) for part in found.parts())
        held = state.held_out()
        scored = scores(point.margins[held], state.labels[held], spec.select) if held.size else None
        return Yesterday(1 - undecided / max(1, state.trained), point.certificate.relative_gap, scored)


def reference_of(store: Store) -> tuple[str | None, list[str]]:
    """Return the run that tonight is compared with and starts from, and notes of what is wrong with the published one.

    That is the published run; if it is gone or damaged, the newest one that was published before it and can be read.
    """
    current = store.published()
    if current is None:
        return None, []
    try:
        _usable(store, current)
        return current, []
    except RunError as error:
        trouble = f"the published run cannot be used ({error})"
    for night in reversed(store.history()):
        name = night.night
        if night.status == PUBLISHED and name != current and (store.runs / name).is_dir():
            try:
                _usable(store, name)
                return name, [f"{trouble}; runs/{name}, published before it, is taken instead"]
            except RunError:
                continue
    return None, [f"{trouble}; the night starts from nothing"]


def _usable(store: Store, name: str) -> None:
    """Read what a night needs of a run, or raise RunError."""
    open_path(store.runs / name).best.model.w()


def _nearest(old: Run | None, grid: tuple[float, ...] | None) -> list[StepView]:
    """Return yesterday's models that are nearest to today's C, each once: there today's training starts."""
    if old is None or grid is None:
        return []
    near = {min(old.steps, key=lambda step: abs(math.log(step.c / c))).step for c in grid}
    return [old.steps[number] for number in sorted(near)]
