"""What the core reports while it works. It never prints: it calls a listener with one of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pipeline.dataclass import dataclass
from pipeline.redact import redacted


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
    """Something worth a line: a choice that was made, a thing that was left out; without credentials.

    It is one printable line, whatever the names in it: those of columns may be anything.
    """

    text: str

    def __post_init__(self) -> None:
        printable = "".join(c if c.isprintable() else "?" for c in redacted(self.text))
        object.__setattr__(self, "text", printable)


@dataclass(frozen=True)
class StepProgress:
    """A step of the path that has just been certified, or (``done`` False) a round of it that was not enough.

    ``scores`` are those of the step, of a round those of the step before, first the one that C is chosen by.
    ``share`` is how far along the path this C is, from 0 to 1, counted in log C. ``at_bound`` is how many rows are at
    their bound, from 1 to 0, counted in logs; None where the path does not end for lack of them. ``steps_left``
    is how many steps are still to come, where somebody counts them; ``usual_left`` how many usually are; ``follow`` how
    many more times all steps of this path will be made, for the folds, after it.
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
    at_bound: float | None = None
    steps_left: float | None = None
    usual_left: float | None = None
    follow: float | None = None


Event = Progress | Note | StepProgress
Listener = Callable[[Event], None]


_to_all: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a listener told, too, what concerns this process as a whole, whatever caused it: that it has to compile."""
    _to_all.append(listener)
    try:
        yield
    finally:
        _to_all.remove(listener)


def announce(event: Event) -> bool:
    """Tell everybody who listens to this process; return whether anybody does."""
    heard = tuple(_to_all)
    for listener in heard:
        listener(event)
    return bool(heard)


def silent(event: Event) -> None:
    """Listen to nothing."""
