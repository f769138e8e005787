"""What the core reports while it works. It never prints: it calls a listener with one of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """So far: ``rows`` rows and ``done`` of ``total`` bytes (or rows, see ``unit``); total 0 = unknown."""

    stage: str
    rows: int
    done: int
    total: int
    unit: str = "bytes"


@dataclass(frozen=True)
class Note:
    """Something worth a line: a choice that was made, a thing that was left out."""

    text: str


Event = Progress | Note
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Listen to nothing."""
