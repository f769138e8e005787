"""Numbers that were measured, kept as they come, so that a command that was interrupted goes on where it was.

A line each in a file, the first what they are measured with: where that is another, all is measured again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Kept:
    """What was measured with some settings, by name; ``folder`` has room for what else there is to keep."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.file = folder, folder / "measured.jsonl"
        self._known: dict[str, Any] = {}
        first, *lines = self._lines() or [None]
        if first == _plain(settings):
            self._known = dict(lines)
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._put(settings)

    def __len__(self) -> int:
        """How much was measured."""
        return len(self._known)

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        """Return what was measured under a name, as JSON has it, or measure it now."""
        if name not in self._known:
            found = _plain(measure())
            self._put((name, found))
            self._known[name] = found
        return self._known[name]

    def _put(self, item: Any) -> None:
        with self.file.open("a") as stream:
            stream.write(json.dumps(item) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _lines(self) -> list[Any]:
        """Return the whole lines; what a kill left of one is cut off."""
        if not self.file.is_file():
            return []
        whole = self.file.read_bytes().rpartition(b"\n")[0]
        with self.file.open("r+b") as stream:
            stream.truncate(len(whole) + 1 if whole else 0)
        return [json.loads(line) for line in whole.splitlines()]


def _plain(item: Any) -> Any:
    """Return it as it comes back from a file, so that nobody can tell whether it does."""
    return json.loads(json.dumps(item))
