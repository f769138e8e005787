"""The ledger: every input file that was ever seen, what became of it, and which shards hold its rows.

A file is added in two steps: the ledger says which (``adding``), the data set takes its rows, the ledger says which
shards these are. Killed in between, the shards that no file owns are those of the file that was being added.

In quarantine is what arrived and could not be taken in. It is not tried again until it changes, until what kept it out
has changed (the reading, its permissions, the calendar), or until an operator says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.data.shards.manifest import Manifest
from pipeline.dataclass import dataclass
from pipeline.errors import JobError
from pipeline.files import write_whole
from pipeline.nightly.shared import Shared
from pipeline.yaml_values import brief

INGESTED, RETIRED = "ingested", "retired"
DUPLICATE, EMPTY, TOO_OLD, DROPPED = "duplicate", "empty", "too old", "dropped"
CORRUPT, UNREADABLE, NOT_A_FILE, FUTURE = "corrupt", "unreadable", "not a file", "in the future"
QUARANTINE = (CORRUPT, UNREADABLE, NOT_A_FILE, FUTURE)
STATUSES = ("", INGESTED, RETIRED, DUPLICATE, EMPTY, TOO_OLD, DROPPED, *QUARANTINE)
RETRY = "to be tried again: "  # begins a stamp that no file has: the file counts as changed
Day = date
DAYS_AHEAD = timedelta(days=2)  # clocks and zones differ by a day; what is dated later is a mistake
FORMAT, VERSION = "svmsieve-ledger", 2  # version 1 knew no shards that files share


@dataclass(frozen=True)
class LedgerEntry:
    """An input file. ``stamp`` is what tells that it changed, ``day`` what its age counts from, ``night`` when seen.

    ``name`` may be shown and stored; ``address`` is what opens the file, where that is another: it may hold credentials
    and is never stored.
    """

    name: str
    size: int
    stamp: str
    day: str
    sha256: str = ""
    night: str = ""
    status: str = ""
    note: str = ""
    late: bool = False
    rows: int = 0
    shards: tuple[str, ...] = ()
    reading: str = ""
    retired: str = ""
    address: str = field(default="", repr=False)

    @property
    def opened_by(self) -> str:
        """What opens the file."""
        return self.address or self.name

    @cached_property
    def line(self) -> str:
        """What is stored, as it is written: made once, as the ledger is written anew for every file that comes."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self) if each.name != "address"})

    @property
    def date(self) -> date:
        """The day as a date."""
        return date.fromisoformat(self.day)

    @property
    def aged_from(self) -> Day:
        """The day that its rows' age counts from: a file dated far ahead is no younger than the night that took it."""
        return min(self.date, date.fromisoformat(self.night[:10]) + DAYS_AHEAD)


@dataclass
class Ledger:
    """The entries by name. ``superseded`` are shards of files that came again with other content."""

    path: Path
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    adding: LedgerEntry | None = None
    superseded: dict[str, str] = field(default_factory=dict)
    shared: Shared = field(default_factory=Shared)

    def save(self) -> None:
        """Write all of it, atomically; a line a file."""
        head = {"format": FORMAT, "version": VERSION, "superseded": self.superseded, "shared": self.shared.to_json()}
        adding = "null" if self.adding is None else self.adding.line
        lines = ",\n".join(entry.line for entry in self.entries.values())
        text = f'{json.dumps(head)[:-1]},\n"adding": {adding},\n"files": [\n{lines}\n]}}\n'
        write_whole(self.path, text.encode())

    def put(self, entry: LedgerEntry) -> None:
        """Enter a file, in place of what was known of it: new shards supersede those of an earlier version."""
        before = self.entries.get(entry.name)
        if before and not entry.shards:
            entry = replace(entry, shards=before.shards, rows=before.rows, day=before.day)  # those of the rows
        elif before:
            for shard in before.shards:
                if shard not in entry.shards and (
                    shard not in self.shared.pieces or self.shared.leave(shard, entry.name)
                ):
                    self.superseded[shard] = entry.night
        self.entries[entry.name] = entry
        self.save()

    def settle(self, manifest: Manifest | None, night: str) -> None:
        """Finish what was under way: shards that are gone are nobody's, and those that nobody owns have just come.

        The first comes first: the number of a shard that is gone may be that of a new one. Shards that came are those
        of the file that was being added; without any, it was not added.
        """
        if manifest is not None:
            there = {shard.name for shard in manifest.shards}
            self._rename(self.shared.renamed(there))
            self._let_go(there, night)
        if self.adding is None:
            return
        owned = set(self.superseded).union(*(entry.shards for entry in self.entries.values()))
        new = [shard for shard in manifest.shards if shard.name not in owned] if manifest else []
        added, self.adding = self.adding, None
        if new:
            names, rows = tuple(shard.name for shard in new), sum(shard.rows for shard in new)
            self.put(replace(added, status=INGESTED, shards=names, rows=rows))
        else:
            self.save()

    def _rename(self, names: Mapping[str, str]) -> None:
        """Note which shards were replaced by which."""
        for entry in [e for e in self.entries.values() if not names.keys().isdisjoint(e.shards)]:
            shards = dict.fromkeys(names.get(shard, shard) for shard in entry.shards)
            self.entries[entry.name] = replace(entry, shards=tuple(shards))
        if names:
            self.save()

    def _let_go(self, there: set[str], night: str) -> None:
        """Note which shards have left the data set; a file without any has retired."""
        gone = {*self.superseded, *self.shared.pieces} - there
        left = [e for e in self.entries.values() if not there.issuperset(e.shards)]
        for entry in left:
            shards = tuple(name for name in entry.shards if name in there)
            kept = replace(entry, shards=shards)
            self.entries[entry.name] = kept if shards else replace(kept, status=RETIRED, retired=night)
        self.shared.forget(gone)
        for name in gone:
            self.superseded.pop(name, None)
        if gone or left:
            self.save()

    def owners(self, manifest: Manifest) -> dict[str, tuple[str, int]]:
        """Return the file and the rows of every shard that is one file's."""
        rows = {shard.name: shard.rows for shard in manifest.shards}
        mine = ((shard, entry.name) for entry in self.entries.values() for shard in entry.shards)
        return {shard: (name, rows[shard]) for shard, name in mine if shard not in self.shared.pieces}

    def days(self) -> list[list[str]]:
        """Return the shards of each day: those leave the data set together. What is leaving already is in none."""
        of_day: dict[str, set[str]] = {}
        for entry in self.entries.values():
            of_day.setdefault(entry.day, set()).update(entry.shards)
        counts = Counter(shard for shards in of_day.values() for shard in shards)
        busy = {shard for shard, count in counts.items() if count > 1} | {*self.superseded, *self.shared.leaving}
        return [sorted(shards - busy) for _, shards in sorted(of_day.items())]

    def with_content(self, sha256: str) -> LedgerEntry | None:
        """Return the file whose rows are, or were, in the data set and that had this content."""
        return next((e for e in self.ingested() if e.sha256 == sha256), None)

    def ingested(self) -> Iterator[LedgerEntry]:
        """Yield the files whose rows are, or were, in the data set."""
        return (entry for entry in self.entries.values() if entry.status in (INGESTED, RETIRED))

    def quarantined(self) -> list[LedgerEntry]:
        """Return what arrived and could not be taken in."""
        return [entry for entry in self.entries.values() if entry.status in QUARANTINE]

    def forget(self, names: Iterable[str]) -> None:
        """Take files out of the ledger that are gone and that no rows are of."""
        for name in list(names):
            del self.entries[name]
        self.save()

    def of_night(self, night: str) -> list[LedgerEntry]:
        """Return the files that were entered in a night."""
        return [entry for entry in self.entries.values() if entry.night == night]


def open_ledger(path: Path) -> Ledger:
    """Read the ledger; there is an empty one where there is none yet."""
    if not path.is_file():
        return Ledger(path)
    try:
        item = json.loads(path.read_text(encoding="utf-8"))
        if item["format"] != FORMAT or item["version"] not in (1, VERSION):
            raise JobError(f"{path}: version {brief(item['version'])}, but this svmsieve reads up to {VERSION}")
        entries = [_entry(each) for each in item["files"]]
        adding = None if item["adding"] is None else _entry(item["adding"])
        shared = Shared.from_json(item["shared"]) if item["version"] > 1 else Shared()
        return Ledger(path, {entry.name: entry for entry in entries}, adding, _superseded(item["superseded"]), shared)
    except OSError as error:
        raise JobError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, JobError):
            raise
        reason = f"{type(error).__name__} {brief(str(error))}"
        raise JobError(f"{path}: damaged ({reason}); restore it from a backup") from error


def _entry(item: dict[str, Any]) -> LedgerEntry:
    """Read an entry; fields of the wrong type would go on to the data set."""
    entry = LedgerEntry(**item | {"shards": tuple(item["shards"])})
    texts = (value for key, value in vars(entry).items() if key not in ("size", "rows", "late", "shards"))
    if not all(isinstance(value, str) for value in (*texts, *entry.shards)):
        raise TypeError("a text is none")
    if type(entry.size) is not int or type(entry.rows) is not int or type(entry.late) is not bool:
        raise TypeError("a number is none")
    if entry.status not in STATUSES:
        raise ValueError(f"there is no status {entry.status!r}")
    date.fromisoformat(entry.day)
    date.fromisoformat(entry.night[:10])
    return entry


def _superseded(item: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in item.values()):
        raise TypeError("superseded holds something else than names")
    return dict(item)
