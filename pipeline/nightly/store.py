"""The store: the directory that a nightly job owns.

shards/             the data set
runs/2026-11-16/    the run of a night (a second one on the same day: 2026-11-16.2)
current             a link to the published run; it changes in one step
files.json          the ledger of input files
night.json          the night that is under way; there is none between two nights
history.jsonl       a line a night
summaries/          the same for people
metrics.prom        how the job stands, for Prometheus
hold.json           while it is there, no night publishes (svmsieve store rollback, release)
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

from pipeline.errors import JobError
from pipeline.files import link_whole, locked, one_line, remove_folder, replacing, sync_directory, write_json
from pipeline.nightly.days import now
from pipeline.nightly.history import History, read_history, written
from pipeline.nightly.ledger import Ledger, open_ledger
from pipeline.nightly.records import NightRecord, is_night
from pipeline.nightly.under_way import UnderWay
from pipeline.yaml_values import brief

_DISCARDED = ".discarded-"


class Store:
    """The store's parts by name, and the few changes that must happen in one step."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shards, self.runs, self.summaries = root / "shards", root / "runs", root / "summaries"
        self.current, self.pending, self.history_file = root / "current", root / "night.json", root / "history.jsonl"
        self.hold_file, self.metrics = root / "hold.json", root / "metrics.prom"

    @classmethod
    def existing(cls, root: Path) -> Store:
        """Return the store that is there."""
        store = cls(root)
        with one_line(lambda reason: JobError(f"{root}: cannot be read ({reason}); check its permissions")):
            if not store.runs.is_dir() or not store.summaries.is_dir():
                raise JobError(f"{root}: not the store of a nightly job; name the directory that job.yaml has as store")
        return store

    @contextmanager
    def opened(self, wait: float) -> Iterator[None]:
        """Be the only nightly job here, waiting at most ``wait`` seconds for another to finish."""
        busy = JobError(f"{self.root}: another nightly job is at work there; wait for it (--wait SECONDS) or end it")
        with one_line(lambda reason: JobError(f"{self.root}: cannot be written ({reason}); what was published stays")):
            if self.root.exists() and not self.root.is_dir():
                raise JobError(f"{self.root}: is a file; name a directory as store")
            if self.current.exists() and not self.current.is_symlink():
                raise JobError(f"{self.current}: is not a link, so nothing can be published; move it away")
            for folder in (self.root, self.runs, self.summaries):
                folder.mkdir(parents=True, exist_ok=True)
            with locked(self.root, busy, wait):
                self._tidy()
                yield

    def _tidy(self) -> None:
        """Remove what a killed job left half-written or half-removed; what cannot be is in nobody's way."""
        for run in self.runs.glob(f"{_DISCARDED}*"):
            remove_folder(run)
        for file in (*self.root.glob("*.tmp"), *self.summaries.glob("*.tmp")):
            with suppress(OSError):
                file.unlink()

    def ledger(self) -> Ledger:
        """Read the ledger."""
        return open_ledger(self.root / "files.json")

    def published(self) -> str | None:
        """Return the name of the current run."""
        name = self.current.readlink().name if self.current.is_symlink() else None
        return name if is_night(name) else None

    def publish(self, name: str) -> None:
        """Let ``current`` point to a run, in one step."""
        link_whole(self.current, Path("runs") / name)

    def under_way(self) -> UnderWay | None:
        """Return the night that was begun and not finished."""
        if not self.pending.is_file():
            return None
        try:
            return UnderWay.from_json(json.loads(self.pending.read_bytes().decode("utf-8")))
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            reason = brief(getattr(error, "strerror", None) or str(error) or type(error).__name__)
            raise JobError(f"{self.pending}: damaged ({reason}); it is set aside, the night begins afresh") from error

    def set_aside(self) -> None:
        """Keep a damaged night.json under another name, where it blocks nothing."""
        self.pending.replace(self.pending.with_suffix(".damaged"))
        sync_directory(self.root)

    def note(self, night: UnderWay) -> None:
        """Remember how far a night is."""
        write_json(self.pending, night.to_json())

    def end(self) -> None:
        """Forget the night that was under way."""
        self.pending.unlink(missing_ok=True)
        sync_directory(self.root)

    def hold(self) -> bool:
        """Whether no night may publish: what the file says is for people."""
        return self.hold_file.exists()

    def set_hold(self, name: str) -> None:
        """Let no night publish any more."""
        write_json(self.hold_file, {"format": "svmsieve-hold", "version": 1, "night": name, "since": now()})

    def release(self) -> bool:
        """Let nights publish again; return whether they could not."""
        held = self.hold()
        self.hold_file.unlink(missing_ok=True)
        sync_directory(self.root)
        return held

    def read_history(self) -> History:
        """Return the records of all nights, and what is wrong with the lines that cannot be read."""
        unreadable = f"{self.history_file}: cannot be read"
        with one_line(lambda reason: JobError(f"{unreadable} ({reason}); check its permissions")):
            return read_history(self.history_file)

    def history(self) -> list[NightRecord]:
        """Return the records of all nights that can be read."""
        return self.read_history().nights

    def record(self, night: NightRecord) -> None:
        """Add a night's line, unless it is there; what was there stays as it was, damaged or not."""
        if night.night in [known.night for known in self.history()]:
            return
        before = self.history_file.read_bytes() if self.history_file.is_file() else b""
        with replacing(self.history_file) as stream:
            stream.write(before + (b"\n" if before and not before.endswith(b"\n") else b"") + written(night).encode())

    def free_name(self, today: date) -> str:
        """Return a name for a night of this day that none has had."""
        taken = {night.night for night in self.history()} | {entry.name for entry in self.runs.iterdir()}
        names = (str(today) if k == 1 else f"{today}.{k}" for k in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def superfluous(self, keep: int) -> list[str]:
        """Return the runs that are neither current nor among the ``keep`` newest others."""
        order = [night.night for night in self.history()]
        others = [name for name in order if (self.runs / name).is_dir() and name != self.published()]
        return others[: max(0, len(others) - keep)]

    def discard(self, name: str) -> None:
        """Remove a run; half removed it is not one any more."""
        if name == self.published():
            raise JobError(f"{self.runs / name}: is the current run and stays")
        hidden = self.runs / f"{_DISCARDED}{name}"
        with one_line(lambda reason: JobError(f"{self.runs / name}: cannot be removed ({reason}); remove it yourself")):
            (self.runs / name).rename(hidden)
            shutil.rmtree(hidden)
