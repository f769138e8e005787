"""The anonymous memory of this process and its children, watched while a run goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS_BETWEEN_LOOKS = 0.05


class MemoryMeter:
    """Remembers the highest RssAnon, summed over the processes; 0 where /proc does not tell."""

    def __init__(self) -> None:
        self.peak = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True, name="svmsieve-memory")

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        self.thread.join()

    def look(self) -> int:
        """Measure now, and return the peak so far."""
        self.peak = max(self.peak, sum(map(_anonymous, _family(Path("/proc/self")))))
        return self.peak

    def _watch(self) -> None:
        while not self.stop.wait(SECONDS_BETWEEN_LOOKS):
            self.look()


def _family(process: Path) -> list[Path]:
    """Return a process and its descendants."""
    found = [process]
    try:
        for children in process.glob("task/*/children"):
            for child in children.read_text().split():
                found += _family(Path("/proc") / child)
    except OSError:
        pass  # a process that ended while we looked
    return found


def _anonymous(process: Path) -> int:
    try:
        for line in (process / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0
