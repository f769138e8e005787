"""What the core reports while it works. It never prints: it calls a listener with one of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True)
class StepProgress:
    """A step of the path that has just been certified, or (``done`` False) a round of it that was not enough.

    ``share`` is how far along the path this C is, from 0 to 1, counted in log C.
    """

    step: int
    c: float
    share: float
    screened: float
    working_set: int
    relative_gap: float
    passes: float
    done: bool
    scores: Mapping[str, float | None] | None = None


Event = Progress | Note | StepProgress
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Listen to nothing."""
