"""Intake: new files become shards of the data set, files older than the window leave it.

Every file is an append of its own, so that one that cannot be read spoils nothing but itself; the small shards of a day
are merged meanwhile and at the end, so that the next append and a pass over them stay cheap. Doing it twice, or going
on after being killed anywhere, gives the same data set: what is done is read off the ledger and the manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.ingest.tables import learnt
from pipeline.data.shards.compact import compact
from pipeline.data.shards.cut import cut
from pipeline.data.shards.manifest import MANIFEST, Manifest, read_manifest
from pipeline.data.shards.merging import MANY, Full, groups_of, mergeable
from pipeline.data.shards.retire import retire
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, JobError, NoRowsError
from pipeline.events import Listener, Note
from pipeline.nightly.arrivals import Plan
from pipeline.nightly.job import Job
from pipeline.nightly.ledger import CORRUPT, EMPTY, INGESTED, RETIRED, UNREADABLE, Ledger, LedgerEntry
from pipeline.nightly.records import LeftOut, NightFiles
from pipeline.nightly.store import Store


@dataclass(frozen=True)
class Intake:
    """Takes in what a plan says, for one night."""

    job: Job
    store: Store
    ledger: Ledger
    listen: Listener
    night: str

    def settle(self) -> None:
        """Finish what was under way here, or in an intake that was killed."""
        self.ledger.settle(self._manifest(), self.night)

    def run(self, plan: Plan) -> None:
        """Add the new files, then let the old ones go."""
        for entry in (*plan.touched, *plan.enter):
            self.ledger.put(entry)
        if plan.gone:
            self.ledger.forget(plan.gone)
        old = {shard for entry in plan.retire for shard in entry.shards}
        spec = self._columns(plan)
        for entry in plan.add:
            self._make_room(old)
            self._add(entry, spec)
        gone = old.union(self.ledger.superseded)
        if gone:
            retire(self.store.shards, gone)
            self.settle()
        shared = self.ledger.shared
        if shared.leaving:
            cut(self.store.shards, {shard: shared.ranges(shard) for shard in shared.leaving}, self._replacing)
            self.settle()
        self._compact()

    def _columns(self, plan: Plan) -> IngestSpec:
        """Return how files are read: the first night learns what is in the columns of its tables from all of them."""
        spec, there = self.job.reading, self._manifest()
        if there is not None and there.labels.classes != spec.classes:
            has = f"has the classes {', '.join(there.labels.classes)}" if there.labels.classes else "has two classes"
            cure = "put back what it said, or name another store, which begins with a first night"
            raise JobError(f"{self.job.source}: classes: are not those of the store, which {has}; {cure}")
        if there is None:
            return learnt([entry.opened_by for entry in plan.add], spec, self.listen)
        asked = None if spec.reading.table is None else spec.reading.table.digest
        if "columns" in self.job.stated and asked != (None if there.encoding is None else there.encoding.asked):
            problem = "columns: is not what the store's features were made by"
            raise JobError(f"{self.job.source}: {problem}; put back what it said, or name another store")
        return spec

    def _add(self, entry: LedgerEntry, spec: IngestSpec) -> None:
        """Append a file; one that cannot be read is entered as such and leaves the data set as it was."""
        self.ledger.adding = entry
        self.ledger.save()
        self.listen(Note(f"adding {entry.name}"))
        spec, stated = replace(spec, append=self._manifest() is not None), self.job.stated & {"bias"}
        try:
            shards, listen = self.store.shards, self.listen
            ingest([entry.opened_by], shards, spec, listen, given=stated, merging=False, only_two=True)
        except (DataError, MemoryError) as error:
            self.ledger.adding = None
            self.ledger.put(replace(entry, status=_status(error), note=_note(error)))
            return
        self.settle()

    def give_up(self, note: str) -> None:
        """Put the file that was being added into quarantine, unless its rows did arrive."""
        entry = self.ledger.adding
        self.settle()
        if entry is not None:
            known = self.ledger.entries.get(entry.name)
            if known is None or (known.status, known.sha256) != (INGESTED, entry.sha256):
                self.ledger.put(replace(entry, status=CORRUPT, note=note))

    def _make_room(self, old: Collection[str]) -> None:
        """Merge between two files, where there are many shards and it pays; what is about to retire keeps its names.

        What is done depends on the data set alone, not on who was killed before.
        """
        manifest = self._manifest()
        if manifest is None or self.job.reading.rows_per_shard is not None or len(manifest.shards) <= MANY:
            return
        days, full = [set(day).difference(old) for day in self.ledger.days()], Full(self.job.reading.shard_bytes)
        if mergeable(manifest.shards, groups_of(days), full, sparing=True):
            compact(self.store.shards, days, full.bytes, self._replacing, self.listen, sparing=True)
            self.settle()

    def _compact(self) -> None:
        """Make few shards of the many that a day of small files brings; who says how many rows one has gets that."""
        if self.job.reading.rows_per_shard is None and self._manifest() is not None:
            size = self.job.reading.shard_bytes
            compact(self.store.shards, self.ledger.days(), size, self._replacing, self.listen)
            self.settle()

    def _replacing(self, merged: Mapping[str, tuple[str, ...]]) -> None:
        """Write down which shards replace which, before they do."""
        manifest = self._manifest()
        assert manifest is not None
        self.ledger.shared.plan(merged, self.ledger.owners(manifest))
        self.ledger.save()

    def _manifest(self) -> Manifest | None:
        return read_manifest(self.store.shards) if (self.store.shards / MANIFEST).is_file() else None


def _note(error: DataError | MemoryError) -> str:
    """Say what is wrong with a file, without its name."""
    if not isinstance(error, DataError):
        return "it takes more memory to read than there is"
    where = "" if error.row is None else f"{error.unit} {error.row}: "
    return " ".join(f"{where}{error.problem}".split())


def _status(error: Exception) -> str:
    """Tell what kept a file out: an error of the system may pass, one of the content does not."""
    if isinstance(error, NoRowsError):
        return EMPTY
    cause = error.__cause__
    return UNREADABLE if isinstance(cause, OSError) and cause.errno is not None else CORRUPT


def arrived(ledger: Ledger, day: str) -> tuple[int, int]:
    """Return how many files all nights of a day added, and how many rows."""
    mine = [e for e in ledger.ingested() if e.rows and e.night.partition(".")[0] == day]
    return len(mine), sum(entry.rows for entry in mine)


def report(ledger: Ledger, night: str) -> NightFiles:
    """Return what a night took in: files by what became of them, with the reasons, and rows added and retired."""
    mine = ledger.of_night(night)
    added = [entry for entry in mine if entry.status in (INGESTED, RETIRED) and entry.rows]
    gone = [entry for entry in ledger.entries.values() if entry.retired == night]
    refused = [entry for entry in mine if entry.status not in (INGESTED, RETIRED)]
    return NightFiles(
        added=tuple(entry.name for entry in added),
        late=tuple(entry.name for entry in added if entry.late),
        retired=tuple(entry.name for entry in gone),
        left_out=tuple(LeftOut(entry.name, entry.status, entry.note) for entry in refused),
        rows_added=sum(entry.rows for entry in added),
        rows_retired=sum(entry.rows for entry in gone),
    )
