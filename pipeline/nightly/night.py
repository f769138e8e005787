"""One night: intake, training, validation, publication.

    1 intake    new files in, old ones out
    2 train     from yesterday's model, judged beside it, its certificate verified (tonight)
    3 publish   ``current`` points to the new run if all of 2 allows it; otherwise yesterday's stays
    4 record    history, summary, old runs, metrics, notify

How far a night is stands in night.json. Killed anywhere, the next run does again what is not known to be done; every
part is the same when done twice. The decision is written down before anything is published. A night that ends with an
error, or that is killed at the same place again and again, is over: it is recorded as failed, and the next one starts
afresh from what is published and from all the rows that were taken in. Run again on the same day, it is tried again if
there is anything to do, or if what made it fail no longer holds (a file dropped from quarantine, inputs back in place).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import takewhile
from typing import Any

from pipeline.data.dataset import open_shards
from pipeline.data.shards.manifest import MANIFEST, read_manifest
from pipeline.engine.engine import Engine
from pipeline.errors import JobError, SieveError
from pipeline.events import Listener, Note, silent
from pipeline.files import replacing
from pipeline.nightly.arrivals import Plan, plan_intake
from pipeline.nightly.days import now
from pipeline.nightly.intake import Intake, arrived, report
from pipeline.nightly.job import Job
from pipeline.nightly.ledger import INGESTED, QUARANTINE, RETIRED, Ledger
from pipeline.nightly.metrics import write_metrics
from pipeline.nightly.notify import notify
from pipeline.nightly.records import FAILED, HELD, NOTHING_NEW, PUBLISHED, TRAINED, NightFiles, NightRecord
from pipeline.nightly.store import Store
from pipeline.nightly.summary import summary
from pipeline.nightly.tonight import Tonight, reference_of
from pipeline.nightly.under_way import UnderWay
from pipeline.path.clock import Clock
from pipeline.path.train import budget_for
from pipeline.redact import redacted
from pipeline.runs.directory import PARTS, STEPS, open_run

MOST_STOPS = 5  # at the same place; a night's scheduler may try three times
Ended = Callable[[NightRecord, str], None]


def _nobody(night: NightRecord, trouble: str) -> None:
    """Tell nobody."""


def run_nightly(
    job: Job,
    today: date,
    wait: float = 0.0,
    listen: Listener = silent,
    ended: Ended = _nobody,
    stopped: Callable[[], bool] = lambda: False,
) -> list[NightRecord]:
    """Complete the night that was under way, then do today's; return the records of the nights that this finished.

    Today's error is raised, once it is recorded. ``ended`` is called with each night's record, failed or not, and with
    what went wrong when others were told of it. An error after this process was told to stop (``stopped``) is no
    failure: workers that get the signal, too, are missed.
    """
    store = Store(job.store)
    with store.opened(wait):
        nights = Nights(job, store, listen, ended, stopped)
        done = []
        unfinished = nights.unfinished()
        if unfinished:
            listen(Note(f"completing the night {unfinished.night}"))
            done.append(nights.complete_or_fail(unfinished))
        begun = nights.begin(today)
        if begun:
            with nights.recorded(begun):
                done.append(nights.complete(begun))
        return done


def plan_night(job: Job, today: date) -> dict[str, Any]:
    """Return what a night would do, changing nothing."""
    store = Store(job.store)
    nights, name, reference, notes, old = Nights(job, store, silent), str(today), None, list[str](), list[str]()
    if store.root.is_dir():
        unfinished = nights.unfinished(keep=True)
        name = unfinished.night if unfinished else store.free_name(today)
        (reference, notes), old = reference_of(store), store.superfluous(job.keep)
    plan = nights.plan(name, today)
    c = open_run(store.runs / reference).best.c if reference else None
    grid = job.training.spec(c, budget_for(None)).grid
    missing = job.expected.missing(len(plan.add) + arrived(store.ledger(), str(today))[0], job.expected.rows)
    return {
        "night": name,
        "add": [entry.name for entry in plan.add],
        "late": [entry.name for entry in plan.add if entry.late],
        "left_out": [{"file": e.name, "status": e.status, "reason": e.note} for e in plan.enter],
        "retire": [entry.name for entry in plan.retire],
        "reference": reference,
        "train_at": "the whole path" if grid is None else list(grid),
        "remove_runs": old,
        "hold": store.hold(),
        "notes": [*notes, f"the night would fail: {missing}"] if missing else notes,
    }


class Nights:
    """The nights of a job, one at a time, in a store that nobody else is writing to."""

    def __init__(
        self,
        job: Job,
        store: Store,
        listen: Listener,
        ended: Ended = _nobody,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.job, self.store, self.listen, self.ended, self.stopped = job, store, listen, ended, stopped

    def plan(self, night: str, today: date, ledger: Ledger | None = None) -> Plan:
        """Return what there is to take in."""
        return plan_intake(self.job, ledger or self.store.ledger(), night, today)

    def unfinished(self, keep: bool = False) -> UnderWay | None:
        """Return the night that was under way; a note of it that is damaged is set aside, unless to ``keep`` it."""
        try:
            return self.store.under_way()
        except JobError as error:
            self.listen(Note(str(error)))
            if not keep:
                self.store.set_aside()
            return None

    def begin(self, today: date) -> UnderWay | None:
        """Begin a night if there is anything to do, if this day has none yet, or if why its last one failed is gone."""
        history = self.store.read_history()
        for problem in history.damage:
            self.listen(Note(problem))
        night = UnderWay(self.store.free_name(today), str(today))
        with self.recorded(night):
            night.reference, notes = reference_of(self.store)
            night.notes = tuple(notes)
            for problem in night.notes:
                self.listen(Note(problem))
            known = [night.status for night in history.nights if night.date == str(today)]
            if known and not (self._work_to_do(night, today) or (known[-1] == FAILED and self._is_repaired(night))):
                return None
            self.store.note(night)
        return night

    @contextmanager
    def recorded(self, night: UnderWay) -> Iterator[None]:
        """Record a night as failed that ends with an error before its decision; one that is killed stays as it is."""
        try:
            yield
        except Exception as error:
            if night.record is None and not self.stopped():
                self._fail(night, error)
            raise

    def complete_or_fail(self, night: UnderWay) -> NightRecord:
        """Complete a night that was under way, if it can be: it must not keep today's from being done."""
        try:
            with self.recorded(night):
                self._count_stop(night)
                return self.complete(night)
        except SieveError as error:
            if night.record is None or night.record.status != FAILED:
                raise
            self.listen(Note(f"night {night.night} failed: {error}"))
            return night.record

    def _count_stop(self, night: UnderWay) -> None:
        """Note where a night was stopped; one that was killed there again and again gets no further (out of memory)."""
        if night.record is not None:
            return
        ledger = self.store.ledger()
        place = self._place(night, ledger)
        night.stops = night.stops + 1 if night.place == place else 1
        night.place = place
        self.store.note(night)
        if night.stops >= MOST_STOPS:
            problem = f"stopped {night.stops} times {place}; the system's log may say why (out of memory?)"
            Intake(self.job, self.store, ledger, self.listen, night.night).give_up(problem)
            raise JobError(problem)

    def _place(self, night: UnderWay, ledger: Ledger) -> str:
        """Say how far a night has come."""
        if not night.taken_in:
            adding = ledger.adding
            return f"while {adding.name} was added" if adding else f"in intake, with {len(ledger.entries)} files known"
        run = self.store.runs / night.night
        lines = [run / STEPS, *run.glob(f"{PARTS}/*/{STEPS}")]
        done = sum(steps.read_bytes().count(b"\n") for steps in lines if steps.is_file())
        return f"in training, after {done} steps"

    def complete(self, night: UnderWay) -> NightRecord:
        """Do, or do again, all that is not known to be done; return the night's record."""
        if night.record is None:
            decided = replace(self._decide(night), ended=now())
            night.record = NightRecord.from_json(decided.to_json())  # as it will be read: no nan
            self.store.note(night)
        if night.record.status == PUBLISHED and self.store.hold():
            night.record = replace(night.record, status=HELD)
        done, run = night.record, self.store.runs / night.night
        if done.status == PUBLISHED:
            if not run.is_dir():
                night.record = None
                raise JobError(f"{run}: was to be published and is gone")
            self.store.publish(done.night)
        self.store.record(done)
        trouble = [*self._tidy_up(done), notify(self.job.notify, done)]
        self.ended(done, "; ".join(filter(None, trouble)))
        self.store.end()
        return done

    def _tidy_up(self, done: NightRecord) -> Iterator[str]:
        """Do what no later night needs; yield what went wrong with it, which keeps none from being done."""
        failed = done.status == FAILED and (self.store.runs / done.night).is_dir()
        old = dict.fromkeys([*([done.night] if failed else []), *self.store.superfluous(self.job.keep)])
        tasks: list[Callable[[], None]] = [partial(self._write_summary, done)]
        tasks += [partial(self.store.discard, name) for name in old] + [partial(write_metrics, self.store)]
        for task in tasks:
            try:
                task()
            except SieveError as error:
                yield str(error)

    def _write_summary(self, done: NightRecord) -> None:
        with replacing(self.store.summaries / f"{done.night}.md") as stream:
            stream.write(summary(done).encode())

    def _fail(self, night: UnderWay, error: Exception) -> None:
        """End a night that met an error."""
        said = redacted(" ".join(str(error).split()))
        if not isinstance(error, SieveError):
            said = f"{type(error).__name__} {said}".rstrip()
        try:
            files = report(self.store.ledger(), night.night)
        except JobError:
            files = NightFiles()  # the ledger itself is what is wrong
        night.record = replace(self._head(night, files), status=FAILED, error=said, ended=now())
        self.store.note(night)
        self.complete(night)

    def _head(self, night: UnderWay, files: NightFiles) -> NightRecord:
        return NightRecord(
            night=night.night,
            date=night.date,
            status=NOTHING_NEW,
            reference=night.reference,
            settings=self.job.settings,
            files=files,
            notes=night.notes,
        )

    def _work_to_do(self, night: UnderWay, today: date) -> bool:
        if not self.plan(night.night, today).is_empty:
            return True
        shards = self.store.shards
        return (shards / MANIFEST).is_file() and not self._is_trained(read_manifest(shards).fingerprint, night)

    def _is_repaired(self, night: UnderWay) -> bool:
        """Whether a night that failed today is worth another try with nothing new: what was missed is no longer."""
        return not self._missed(night, self.store.ledger())

    def _is_trained(self, fingerprint: str, night: UnderWay) -> bool:
        """Whether the last training was of these data and settings, and need not be done again.

        It is done again when the published run cannot be used, and when a hold that kept its model back is released.
        """
        trained = [known for known in self.store.history() if known.status in TRAINED]
        if not trained or night.notes or (trained[-1].status == HELD and not self.store.hold()):
            return False
        return (trained[-1].fingerprint, trained[-1].settings) == (fingerprint, self.job.settings)

    def _decide(self, night: UnderWay) -> NightRecord:
        """Do everything up to the decision."""
        clock = Clock("intake", "screen", "train", "verify")
        ledger = self.store.ledger()
        with clock("intake"):
            self._take_in(night, ledger)
        done = self._head(night, report(ledger, night.night))
        if missed := self._missed(night, ledger):
            raise JobError(missed)
        if (self.store.shards / MANIFEST).is_file():
            data = open_shards(self.store.shards)
            done = replace(done, rows=data.n_rows, features=data.n_features, fingerprint=data.fingerprint)
            if not self._is_trained(data.fingerprint, night):
                with Engine(self.job.scheduler, self.job.workers, self.job.solve_on) as engine:
                    tonight = Tonight(self.job, self.store, engine, data, self.listen, clock)
                    done = tonight.run(done)
        return replace(done, seconds=clock.seconds())

    def _take_in(self, night: UnderWay, ledger: Ledger) -> None:
        if night.taken_in:
            return
        intake = Intake(self.job, self.store, ledger, self.listen, night.night)
        intake.settle()
        intake.run(self.plan(night.night, date.fromisoformat(night.date), ledger))
        night.taken_in = (self.store.shards / MANIFEST).is_file()
        self.store.note(night)

    def _missed(self, night: UnderWay, ledger: Ledger) -> str:
        """Say what was to come and did not: all that came is in quarantine, or less came than is expected.

        A night that is tried again stands for those of its day that failed before it.
        """
        before = takewhile(lambda known: known.status == FAILED, reversed(self.store.history()))
        nights = {night.night, *(known.night for known in before if known.date == night.date)}
        came = [entry for name in nights for entry in ledger.of_night(name)]
        bad = sorted(entry.name for entry in came if entry.status in QUARANTINE)
        if bad and not any(entry.rows and entry.status in (INGESTED, RETIRED) for entry in came):
            return f"no file could be added, first {bad[0]}: {ledger.entries[bad[0]].note}"
        missing = self.job.expected.missing(*arrived(ledger, night.date))
        return missing and f"{missing}; what came is kept, and counts for a later night of {night.date}"
