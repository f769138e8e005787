"""What has arrived: the input files there are, their days, and what is to be done with each. Nothing is changed here.

A file's day is the date in its name (2026-11-16 or 20261116), else the day of its last change.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec

from pipeline.data.sources.files import open_binary
from pipeline.data.stores import is_url
from pipeline.errors import DataError
from pipeline.nightly.job import Job
from pipeline.nightly.ledger import CORRUPT, DUPLICATE, EMPTY, TOO_OLD, Entry, Ledger

CHUNK = 1 << 22
_DATE = re.compile(r"(?<!\d)((?:19|20)\d{2})-?(\d{2})-?(\d{2})(?!\d)")
_TIMES = ("mtime", "LastModified", "last_modified", "created")
_NOT_READY = (".", "_")
_BEING_WRITTEN = (".tmp", ".part", ".partial")


@dataclass(frozen=True)
class Plan:
    """What a night would do: files to add, files to enter without adding, files and shards to retire.

    ``touched`` files have another time of change, but the content that is known.
    """

    add: list[Entry]
    enter: list[Entry]
    touched: list[Entry]
    retire: list[Entry]
    superseded: list[str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.add or self.enter or self.retire or self.superseded)


def plan_intake(job: Job, ledger: Ledger, night: str, today: date) -> Plan:
    """Compare what is there with what is known."""
    oldest = None if job.window is None else today - timedelta(days=job.window)
    newest = max((entry.date for entry in ledger.ingested()), default=None)
    add, enter, touched = list[Entry](), list[Entry](), list[Entry]()
    for found in sorted(_changed(job, ledger), key=lambda entry: (entry.day, entry.name)):
        entry = _judged(replace(found, night=night, reading=job.reading_digest), ledger, add, oldest)
        if not entry.status:
            add.append(replace(entry, late=newest is not None and entry.date < newest))
        else:
            (enter if entry.night == night else touched).append(entry)
    retire = [e for e in ledger.entries.values() if e.shards and oldest is not None and e.date < oldest]
    return Plan(add, enter, touched, retire, list(ledger.superseded))


def _changed(job: Job, ledger: Ledger) -> Iterator[Entry]:
    """Yield files that are new, that changed, or that could not be read as they were to be read then."""
    for found in _listed(job.inputs):
        known = ledger.entries.get(found.name)
        same = known is not None and (known.size, known.stamp) == (found.size, found.stamp)
        if not same or (known is not None and known.status == CORRUPT and known.reading != job.reading_digest):
            yield found


def _judged(entry: Entry, ledger: Ledger, add: list[Entry], oldest: date | None) -> Entry:
    """Return the entry with its content's sha256, and a status unless the file is to be added."""
    if entry.size == 0:
        return replace(entry, status=EMPTY, note="the file is empty")
    if oldest is not None and entry.date < oldest:
        return replace(entry, status=TOO_OLD, note=f"its day {entry.day} is before the window, which begins {oldest}")
    entry = replace(entry, sha256=_checksum(entry.name))
    same = ledger.with_content(entry.sha256) or next((e for e in add if e.sha256 == entry.sha256), None)
    if same is None:
        return entry
    if same.name == entry.name:  # only its time of change is another
        return replace(same, size=entry.size, stamp=entry.stamp)
    return replace(entry, status=DUPLICATE, note=f"the same content as {same.name}")


def _checksum(path: str) -> str:
    digest = hashlib.sha256()
    with open_binary(path) as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _listed(inputs: tuple[str, ...]) -> list[Entry]:
    """List the files of directories and patterns, each once; what is hidden or still being written is left out."""
    found: dict[str, Entry] = {}
    for pattern in inputs:
        for name, facts in _files(pattern):
            last = name.rstrip("/").rpartition("/")[2]
            if not last.startswith(_NOT_READY) and not last.endswith(_BEING_WRITTEN):
                changed = next((facts[key] for key in _TIMES if key in facts), 0)
                stamp = str(facts.get("ETag") or facts.get("etag") or changed)
                found[name] = Entry(name, int(facts["size"] or 0), stamp, _day(last, changed).isoformat())
    return list(found.values())


def _files(pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        fs, inner = fsspec.core.url_to_fs(pattern)
        if glob.has_magic(inner) and not fs.exists(inner):
            listing = fs.glob(inner, detail=True).values()
        elif fs.isdir(inner):
            listing = fs.ls(inner, detail=True)
        else:
            raise FileNotFoundError("no such directory")
        for facts in listing:
            if facts["type"] == "file":
                yield fs.unstrip_protocol(facts["name"]) if is_url(pattern) else facts["name"], facts
    except Exception as error:  # file systems of other packages raise what they like
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"cannot be listed ({reason}); check inputs in the job", path=pattern) from error


def _day(name: str, changed: Any) -> date:
    for year, month, day in _DATE.findall(Path(name).name):
        try:
            return date(int(year), int(month), int(day))
        except ValueError:
            continue
    when = changed if isinstance(changed, datetime) else datetime.fromtimestamp(float(changed), UTC)
    return when.astimezone().date()
