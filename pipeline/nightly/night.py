"""One night: intake, screening with yesterday's model, training, validation, publication.

    1 intake    new files in, old ones out
    2 screen    yesterday's w, and its alpha carried over to today's rows, are feasible today: their ball is valid and
                settles rows before any training
    3 train     around yesterday's best C, or the whole path, starting from yesterday's model
    4 judge     today's best model and yesterday's on the same rows, held out of both trainings; the gates
    5 verify    the certificate of today's best model, recomputed
    6 publish   ``current`` points to the new run if 4 and 5 allow it; otherwise yesterday's stays
    7 record    history, summary, old runs

How far a night is stands in night.json. Killed anywhere, the next run does again what is not known to be done; every
part is the same when done twice. The decision is written down before anything is published.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.manifest import MANIFEST
from pipeline.engine.engine import Engine
from pipeline.errors import JobError, RunError
from pipeline.events import Listener, Note, silent
from pipeline.files import replacing
from pipeline.flow.fit import budget_for, train_run
from pipeline.flow.path import versions
from pipeline.flow.run_directory import Run, StepView, open_run, read_header
from pipeline.flow.run_writer import changed_versions
from pipeline.flow.score import scores
from pipeline.flow.screen import screening
from pipeline.flow.step import Clock
from pipeline.flow.verify import verify
from pipeline.maths.verdicts import KEEP
from pipeline.nightly.arrivals import Plan, plan_intake
from pipeline.nightly.intake import Intake, report
from pipeline.nightly.job import Job
from pipeline.nightly.ledger import Ledger
from pipeline.nightly.store import Store
from pipeline.nightly.summary import summary
from pipeline.spec import PathSpec

PUBLISHED, REFUSED, NOTHING_NEW = "published", "refused", "nothing new"


@dataclass(frozen=True)
class Yesterday:
    """What yesterday's model is worth on today's data: rows it settles at its C, and its scores."""

    settled: float
    relative_gap: float
    scores: dict[str, float | None] | None


def run_nightly(job: Job, today: date, wait: float = 0.0, listen: Listener = silent) -> list[dict[str, Any]]:
    """Complete the night that was under way, then do today's; return the lines of the nights that this finished."""
    store = Store(job.store)
    with store.opened(wait):
        nights = Nights(job, store, listen)
        done = []
        unfinished = store.under_way()
        if unfinished:
            listen(Note(f"completing the night {unfinished['night']}"))
            done.append(nights.complete(unfinished))
        begun = nights.begin(today)
        if begun:
            done.append(nights.complete(begun))
        return done


def plan_night(job: Job, today: date) -> dict[str, Any]:
    """Return what a night would do, changing nothing."""
    store = Store(job.store)
    if not store.root.is_dir():
        plan, reference, night, old = plan_intake(job, store.ledger(), str(today), today), None, str(today), []
    else:
        nights = Nights(job, store, silent)
        unfinished = store.under_way()
        night = unfinished["night"] if unfinished else store.free_name(today)
        plan, reference, old = nights.plan(night, today), store.published(), store.superfluous(job.keep)
    c = open_run(store.runs / reference).best.c if reference else None
    grid = job.training.spec(c, budget_for(None)).grid
    return {
        "night": night,
        "add": [entry.name for entry in plan.add],
        "late": [entry.name for entry in plan.add if entry.late],
        "left_out": [{"file": e.name, "status": e.status, "reason": e.note} for e in plan.enter],
        "retire": [entry.name for entry in plan.retire],
        "reference": reference,
        "train_at": "the whole path" if grid is None else list(grid),
        "remove_runs": old,
    }


class Nights:
    """The nights of a job, one at a time, in a store that nobody else is writing to."""

    def __init__(self, job: Job, store: Store, listen: Listener) -> None:
        self.job, self.store, self.listen = job, store, listen

    def plan(self, night: str, today: date, ledger: Ledger | None = None) -> Plan:
        """Return what there is to take in."""
        return plan_intake(self.job, ledger or self.store.ledger(), night, today)

    def begin(self, today: date) -> dict[str, Any] | None:
        """Begin a night if there is anything to do, or if this day has none yet."""
        night = self.store.free_name(today)
        lines = self.store.history()
        if any(line["date"] == str(today) for line in lines) and not self._work_to_do(night, today):
            return None
        begun = {"night": night, "date": str(today), "reference": self.store.published()}
        self.store.note(begun)
        return begun

    def complete(self, night: dict[str, Any]) -> dict[str, Any]:
        """Do, or do again, all that is not known to be done; return the night's line."""
        if "line" not in night:
            night |= {"line": self._decide(night)}
            self.store.note(night)
        line: dict[str, Any] = night["line"]
        if line["status"] == PUBLISHED:
            self.store.publish(line["night"])
        self.store.record(line)
        with replacing(self.store.summaries / f"{line['night']}.md") as stream:
            stream.write(summary(line).encode())
        for name in self.store.superfluous(self.job.keep):
            self.store.discard(name)
        self.store.end()
        return line

    def _work_to_do(self, night: str, today: date) -> bool:
        return not self.plan(night, today).is_empty or self._settings_changed()

    def _settings_changed(self) -> bool:
        last = self._last_trained()
        return last is not None and last[1] != self.job.settings

    def _last_trained(self) -> tuple[str, str] | None:
        """Return fingerprint and settings of the last training."""
        trained = [line for line in self.store.history() if line["status"] != NOTHING_NEW]
        return (trained[-1]["fingerprint"], trained[-1]["settings"]) if trained else None

    def _decide(self, night: dict[str, Any]) -> dict[str, Any]:
        """Do everything up to the decision."""
        clock = Clock("intake", "screen", "train", "verify")
        name, today, ledger = night["night"], date.fromisoformat(night["date"]), self.store.ledger()
        with clock("intake"):
            if not night.get("taken_in"):
                intake = Intake(self.job, self.store, ledger, self.listen)
                intake.settle()
                intake.run(self.plan(name, today, ledger), name)
                night["taken_in"] = (self.store.shards / MANIFEST).is_file()
                self.store.note(night)
        line: dict[str, Any] = {"night": name, "date": night["date"], "status": NOTHING_NEW}
        line |= {"reference": night["reference"], "settings": self.job.settings, "files": report(ledger, name)}
        if not (self.store.shards / MANIFEST).is_file():
            if night["reference"] is None and line["files"]["left_out"]:
                problem = line["files"]["left_out"][0]
                raise JobError(f"no file could be added, first {problem['file']}: {problem['reason']}")
            return line | {"seconds": clock.seconds()}
        data = open_shards(self.store.shards)
        line |= {"rows": data.n_rows, "features": data.n_features, "fingerprint": data.fingerprint}
        if not self._is_new(data):
            return line | {"seconds": clock.seconds()}
        with Engine(self.job.scheduler, self.job.workers, self.job.solve_on) as engine:
            line |= self._train(engine, data, night, clock)
        return line | {"seconds": clock.seconds()}

    def _is_new(self, data: Dataset) -> bool:
        return self._last_trained() != (data.fingerprint, self.job.settings)

    def _train(self, engine: Engine, data: Dataset, night: dict[str, Any], clock: Clock) -> dict[str, Any]:
        old = open_run(self.store.runs / night["reference"]) if night["reference"] else None
        before = old.best if old else None
        folder = self.store.runs / night["night"]
        spec = self.job.training.spec(before.c if before else None, self._budget(folder))
        yesterday = None
        if before:
            with clock("screen"):
                yesterday = self._yesterday(engine, data, before, spec)
        with clock("train"):
            run = self._run(engine, data, spec, folder, _nearest(old, spec.grid))
        best = run.best
        verdicts = [gate.judge(best.scores, yesterday.scores if yesterday else None) for gate in self.job.gates]
        with clock("verify"):
            (finding,) = verify(engine, folder, data, best.step, self.listen)
        passed = finding.holds and all(verdict.passed for verdict in verdicts)
        return {
            "status": PUBLISHED if passed else REFUSED,
            "c": best.c,
            "models": len(run.steps),
            "relative_gap": best.relative_gap,
            "verified": finding.holds,
            "problem": finding.problem,
            "settled": yesterday.settled if yesterday else None,
            "reference_gap": yesterday.relative_gap if yesterday else None,
            "scores": best.scores,
            "yesterday": yesterday.scores if yesterday else None,
            "gates": [vars(verdict) for verdict in verdicts],
            "passes": sum(step.passes for step in run.steps),
        }

    def _budget(self, folder: Path) -> int:
        return self.job.training.settings.get("memory") or budget_for(folder)

    def _run(self, engine: Engine, data: Dataset, spec: PathSpec, folder: Path, starts: list[StepView]) -> Run:
        """Train, or go on; what a killed attempt made of other data, settings or versions is begun afresh."""
        if folder.exists() and not self._goes_on(folder, spec, data):
            shutil.rmtree(folder)
        return train_run(engine, data, spec, folder, None, self.listen, starts)

    @staticmethod
    def _goes_on(folder: Path, spec: PathSpec, data: Dataset) -> bool:
        try:
            header = read_header(folder)  # its steps may be damaged: training mends that
        except RunError:
            return False
        same = PathSpec.from_json(header["spec"]) == spec and header["data"]["fingerprint"] == data.fingerprint
        return same and not changed_versions(header, versions())

    def _yesterday(self, engine: Engine, data: Dataset, before: StepView, spec: PathSpec) -> Yesterday:
        """Screen today's rows with yesterday's model, and score it on the rows held out."""
        with screening(engine, data, before, before.c, spec.rule, spec.memory, spec) as found:
            arrays = found.arrays
            undecided = sum(int((part.verdicts == KEEP).sum()) for part in found.parts())
            held = arrays.held_out()
            scored = scores(arrays.products[0][held], arrays.labels[held]) if held.size else None
            certificate = found.proof.point.certificate
        return Yesterday(1 - undecided / max(1, arrays.trained), certificate.relative_gap, scored)


def _nearest(old: Run | None, grid: tuple[float, ...] | None) -> list[StepView]:
    """Return yesterday's models that are nearest to today's C, each once: there today's training starts."""
    if old is None or grid is None:
        return []
    near = {min(old.steps, key=lambda step: abs(math.log(step.c / c))).step for c in grid}
    return [old.steps[number] for number in sorted(near)]
