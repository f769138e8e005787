"""Seconds by what they were spent on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Seconds by what they were spent on."""

    def __init__(self, *parts: str) -> None:
        self.begun = time.perf_counter()
        self.spent = dict.fromkeys(parts or ("screen", "gather", "solve", "certify"), 0.0)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Add the time of a block to ``what``."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent[what] += time.perf_counter() - begun

    def seconds(self) -> dict[str, float]:
        """Return all, with the total."""
        return {**self.spent, "total": time.perf_counter() - self.begun}
