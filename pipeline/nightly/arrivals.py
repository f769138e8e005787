"""What has arrived: what is to be done with each input file. Nothing is changed here.

A file that cannot be taken in stops no other: it gets a status and a note that say why, and waits in quarantine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

from pipeline.data.reading.files import open_binary
from pipeline.dataclass import dataclass
from pipeline.errors import DataError
from pipeline.nightly import days
from pipeline.nightly.job import Job
from pipeline.nightly.ledger import (
    CORRUPT,
    DAYS_AHEAD,
    DUPLICATE,
    EMPTY,
    FUTURE,
    TOO_OLD,
    UNREADABLE,
    Ledger,
    LedgerEntry,
)
from pipeline.nightly.listing import list_inputs

CHUNK = 1 << 22  # bytes of a file that are hashed at a time


@dataclass(frozen=True)
class Plan:
    """What a night would do: files to add, files to enter without adding, files and shards to retire.

    ``touched`` files have another time of change, but the content that is known; ``gone`` were in quarantine and are
    not there any more.
    """

    add: list[LedgerEntry]
    enter: list[LedgerEntry]
    touched: list[LedgerEntry]
    retire: list[LedgerEntry]
    superseded: list[str]
    gone: list[str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.add or self.enter or self.retire or self.superseded)


@dataclass(frozen=True)
class Calendar:
    """The days that a night takes: from ``oldest`` (None: from ever) to ``latest``."""

    oldest: date | None
    latest: date

    @classmethod
    def of(cls, job: Job, today: date) -> Calendar:
        """Return the days for a night as of ``today``; run as of a day gone by, what came since is not the future."""
        oldest = None if job.window is None else today - timedelta(days=job.window)
        return cls(oldest, max(today, days.today()) + DAYS_AHEAD)


def plan_intake(job: Job, ledger: Ledger, night: str, today: date) -> Plan:
    """Compare what is there with what is known."""
    calendar = Calendar.of(job, today)
    newest = max((entry.aged_from for entry in ledger.ingested()), default=None)
    there = list_inputs(job.inputs)
    add, enter, touched = list[LedgerEntry](), list[LedgerEntry](), list[LedgerEntry]()
    for found in sorted(_changed(there, job, ledger, calendar), key=lambda entry: (entry.day, entry.name)):
        entry = _judged(replace(found, night=night, reading=job.reading_digest), ledger, add, calendar)
        if not entry.status:
            add.append(replace(entry, late=newest is not None and entry.date < newest))
        else:
            (enter if entry.night == night else touched).append(entry)
    oldest, names = calendar.oldest, {entry.name for entry in there}
    retire = [e for e in ledger.entries.values() if e.shards and oldest is not None and e.aged_from < oldest]
    gone = [entry.name for entry in ledger.quarantined() if entry.name not in names and not entry.shards]
    return Plan(add, enter, touched, retire, [*ledger.superseded, *ledger.shared.leaving], gone)


def _changed(there: list[LedgerEntry], job: Job, ledger: Ledger, calendar: Calendar) -> Iterator[LedgerEntry]:
    """Yield what is new, what changed, and what is in quarantine for a reason that is no more."""
    for found in there:
        known = ledger.entries.get(found.name)
        if (
            known is None
            or (known.size, known.stamp) != (found.size, found.stamp)
            or (known.status == CORRUPT and known.reading != job.reading_digest)
            or (known.status == FUTURE and found.date <= calendar.latest)
            or (known.status == UNREADABLE and not found.status and _content(found).sha256)
        ):
            yield found


def _judged(entry: LedgerEntry, ledger: Ledger, add: list[LedgerEntry], calendar: Calendar) -> LedgerEntry:
    """Return the entry with its content's sha256, and a status unless the file is to be added."""
    if entry.status:
        return entry
    if entry.size == 0:
        return replace(entry, status=EMPTY, note="the file is empty")
    if entry.date > calendar.latest:
        note = f"its day {entry.day} is after {calendar.latest}; check the date in its name, or the clock that wrote it"
        return replace(entry, status=FUTURE, note=note)
    if calendar.oldest is not None and entry.date < calendar.oldest:
        note = f"its day {entry.day} is before the window, which begins {calendar.oldest}"
        return replace(entry, status=TOO_OLD, note=note)
    entry = _content(entry)
    if entry.status:
        return entry
    same = ledger.with_content(entry.sha256) or next((e for e in add if e.sha256 == entry.sha256), None)
    if same is None:
        return entry
    if same.name == entry.name:  # only its time of change is another
        return replace(same, size=entry.size, stamp=entry.stamp)
    return replace(entry, status=DUPLICATE, note=f"the same content as {same.name}")


def _content(entry: LedgerEntry) -> LedgerEntry:
    """Return the entry with its content's sha256, or as one that cannot be read."""
    digest = hashlib.sha256()
    try:
        with open_binary(entry.opened_by) as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except DataError as error:
        return replace(entry, status=UNREADABLE, note=error.problem)
    return replace(entry, sha256=digest.hexdigest())
