"""The store: the directory that a nightly job owns.

shards/             the data set
runs/2026-11-16/    the run of a night (a second one on the same day: 2026-11-16.2)
current             a link to the published run; it changes in one step
files.json          the ledger of input files
night.json          the night that is under way; there is none between two nights
history.jsonl       a line a night
summaries/          the same for people
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.errors import JobError
from pipeline.files import locked, one_line, replacing, sync_directory, write_json
from pipeline.nightly.ledger import Ledger, open_ledger

_DISCARDED = ".discarded-"


class Store:
    """The store's parts by name, and the few changes that must happen in one step."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shards, self.runs, self.summaries = root / "shards", root / "runs", root / "summaries"
        self.current, self.pending, self.history_file = root / "current", root / "night.json", root / "history.jsonl"

    @contextmanager
    def opened(self, wait: float) -> Iterator[None]:
        """Be the only nightly job here, waiting at most ``wait`` seconds for another to finish."""
        busy = JobError(f"{self.root}: another nightly job is at work there; wait for it (--wait SECONDS) or end it")
        with one_line(lambda reason: JobError(f"{self.root}: cannot be written ({reason}); what was published stays")):
            if self.root.exists() and not self.root.is_dir():
                raise JobError(f"{self.root}: is a file; name a directory as store")
            for folder in (self.root, self.runs, self.summaries):
                folder.mkdir(parents=True, exist_ok=True)
            with locked(self.root, busy, wait):
                self._tidy()
                yield

    def _tidy(self) -> None:
        """Remove what a killed job left half-written or half-removed."""
        for run in self.runs.glob(f"{_DISCARDED}*"):
            shutil.rmtree(run)
        for file in (*self.root.glob("*.tmp"), *self.summaries.glob("*.tmp")):
            file.unlink()

    def ledger(self) -> Ledger:
        """Read the ledger."""
        return open_ledger(self.root / "files.json")

    def published(self) -> str | None:
        """Return the name of the current run."""
        return self.current.readlink().name if self.current.is_symlink() else None

    def publish(self, name: str) -> None:
        """Let ``current`` point to a run, in one step."""
        temporary = self.root / ".current"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(Path("runs") / name)
        temporary.replace(self.current)
        sync_directory(self.root)

    def under_way(self) -> dict[str, Any] | None:
        """Return the night that was begun and not finished."""
        if not self.pending.is_file():
            return None
        try:
            item = json.loads(self.pending.read_text(encoding="utf-8"))
            date.fromisoformat(item["date"])
            return {"night": str(item["night"]), **item}
        except (ValueError, LookupError, TypeError) as error:
            raise JobError(f"{self.pending}: damaged ({error}); remove it, the night begins afresh") from error

    def note(self, night: dict[str, Any]) -> None:
        """Remember how far a night is."""
        write_json(self.pending, night)

    def end(self) -> None:
        """Forget the night that was under way."""
        self.pending.unlink(missing_ok=True)
        sync_directory(self.root)

    def history(self) -> list[dict[str, Any]]:
        """Return the lines of all nights; a torn last line counts for nothing."""
        if not self.history_file.is_file():
            return []
        lines = self.history_file.read_text(encoding="utf-8").split("\n")[:-1]
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise JobError(f"{self.history_file}: damaged ({error}); restore it or move it away") from error

    def record(self, line: dict[str, Any]) -> None:
        """Add a night's line, unless it is there."""
        lines = self.history()
        if line["night"] not in [known["night"] for known in lines]:
            with replacing(self.history_file) as stream:
                stream.write("".join(json.dumps(each, allow_nan=False) + "\n" for each in [*lines, line]).encode())

    def free_name(self, today: date) -> str:
        """Return a name for a night of this day that none has had."""
        taken = {line["night"] for line in self.history()} | {entry.name for entry in self.runs.iterdir()}
        names = (str(today) if k == 1 else f"{today}.{k}" for k in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def superfluous(self, keep: int) -> list[str]:
        """Return the runs that are neither current nor among the ``keep`` newest others."""
        order = [line["night"] for line in self.history()]
        others = [name for name in order if (self.runs / name).is_dir() and name != self.published()]
        return others[: max(0, len(others) - keep)]

    def discard(self, name: str) -> None:
        """Remove a run; half removed it is not one any more."""
        if name == self.published():
            raise JobError(f"{self.runs / name}: is the current run and stays")
        hidden = self.runs / f"{_DISCARDED}{name}"
        (self.runs / name).rename(hidden)
        shutil.rmtree(hidden)
