"""The anonymous memory of this process and its children, watched while a run goes on.

What the system cannot take back is what counts: pages of mapped shards are in rss, too, but not in rss - shared, which
is RssAnon to the byte (the kernel's statm). That costs 18 microseconds a process; uss costs 180 and leaves out what
children have from us. Finding children means asking every process on the machine for its parent (20 microseconds each),
so it has a share of the time, and those found are looked at often.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import psutil

SECONDS_BETWEEN_LOOKS = 0.05  # at the memory in use: a peak of less is missed
SHARE_FOR_CHILDREN = 0.005  # of one core: with 90 processes on the machine they are looked for every 0.4 s


class MemoryMeter:
    """Remembers the highest anonymous memory in use, summed over the processes."""

    def __init__(self) -> None:
        self.peak = 0
        self.family: list[psutil.Process] = []
        self.search_again = 0.0
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
        begin = time.monotonic()
        if begin >= self.search_again:
            self.family = _family()
            now = time.monotonic()
            self.search_again = now + (now - begin) / SHARE_FOR_CHILDREN
        self.peak = max(self.peak, sum(map(anonymous, self.family)))
        return self.peak

    def _watch(self) -> None:
        while not self.stop.wait(SECONDS_BETWEEN_LOOKS):
            self.look()


def anonymous(process: psutil.Process) -> int:
    """Return the bytes of memory that a process has for itself and that no file stands behind; 0 if it has ended."""
    try:
        memory = process.memory_info()
    except psutil.NoSuchProcess:
        return 0
    return int(memory.rss - memory.shared)


def _family() -> list[psutil.Process]:
    """Return this process and its descendants."""
    this = psutil.Process()
    return [this, *this.children(recursive=True)]
