"""Progress for people: a live bar on a terminal or in a notebook, else a plain line now and then; quiet, nothing.

In a notebook the bar needs ipywidgets; without them there are lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from pipeline.events import Event, Listener, Note, Progress, StepProgress, listening, silent
from pipeline.steady import Steady
from pipeline.time_left import SLOWER, TimeLeft

SECONDS_BETWEEN_LINES = 5.0  # of progress: an hour of it is still readable
BAR = 20  # characters: of the 80 of a terminal C, a score and the time left need 52


def human_bytes(count: float) -> str:
    """Return 1536 as 1.5 kB: decimal units, as disks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def counted(count: int, what: str) -> str:
    """Return ``1 shard`` or ``2 shards``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def score(value: float | None) -> str:
    """Return a score; one that no rows give (a class is missing) is not defined."""
    return "not defined" if value is None else f"{value:.4f}"


@contextmanager
def progress(quiet: bool = False) -> Iterator[Listener]:
    """Yield a listener that shows events on stderr."""
    if quiet:
        yield silent
    elif sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None):
        with _bar() as listener, listening(listener):
            yield listener
    else:
        lines = _Lines()
        with listening(lines):
            yield lines


def _line(event: Progress, seconds: float) -> str:
    rows = f"{event.rows:,} rows, " if event.rows else ""
    rate = f", {human_bytes(event.done / seconds)}/s" if seconds > 0 else ""
    return f"{event.stage}: {rows}{_share(event)}{rate}"


def _share(event: Progress) -> str:
    share = f" of {human_bytes(event.total)} ({event.done / event.total:.0%})" if event.total else ""
    return f"{human_bytes(event.done)}{share}"


def _step_line(event: StepProgress, left: float | None) -> str:
    """Say where the path is."""
    (c, *scored), more = _step_pieces(event)
    remaining = [] if left is None else [f"about {_duration(left)} left"]
    return f"step {event.step}: " + ", ".join([c, *more, *scored, *remaining])


def _step_pieces(event: StepProgress) -> tuple[list[str], list[str]]:
    """Return what everybody wants to see of a step, C and its score, and the rest."""
    first = [(name, value) for name, value in list((event.scores or {}).items())[:1] if value is not None]
    scored = [f"{name} {value:.4f}" if event.done else f"{value:.4f} before" for name, value in first]
    rows = [f"{event.screened:.0%} screened", f"{event.working_set:,} rows solved for"]
    gap = f"gap {max(event.relative_gap, 0.0):.1e}{'' if event.done else ' (again)'}"
    return [f"C = {event.c:.4g}", *scored], [*rows, gap, f"{event.passes:.1f} passes"]


def _fitted(pieces: list[str], width: int) -> str:
    """Return as many of the pieces, the first ones, as a line of this width has room for."""
    said = pieces[0]
    for piece in pieces[1:]:
        if len(said) + len(piece) + 2 > width:
            break
        said += f", {piece}"
    return said


def _duration(seconds: float) -> str:
    if seconds <= 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds <= 5400 else f"{seconds / 3600:.0f} h"


class _Lines:
    """Plain lines, at most one every few seconds and one when a stage is complete."""

    def __init__(self) -> None:
        self.started = self.last = time.monotonic()
        self.stage, self.left = "", Steady(TimeLeft(SLOWER))

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Note):
            print(event.text, file=sys.stderr, flush=True)
            return
        if isinstance(event, StepProgress):
            left = self.left.told(event.share, now, *_ways(event))
            if now - self.last >= SECONDS_BETWEEN_LINES:
                self.last = now
                print(_step_line(event, left), file=sys.stderr, flush=True)
            return
        if event.stage != self.stage:
            self.stage, self.started = event.stage, min(self.started, now)
        if now - self.last >= SECONDS_BETWEEN_LINES or (event.total and event.done >= event.total):
            self.last = now
            print(_line(event, now - self.started), file=sys.stderr, flush=True)


@contextmanager
def _bar() -> Iterator[Listener]:
    from rich.console import Console  # noqa: PLC0415 - slow to import, as is the rest of it
    from rich.progress import BarColumn, TaskID, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    whole = Column(no_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(BAR), TextColumn("{task.fields[shown]}", table_column=whole))
    started = time.monotonic()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}
        lefts: dict[str, Steady] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Note):
                bar.console.print(event.text, markup=False, highlight=False)
                return
            now = time.monotonic()
            stage, share = _where(event)
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=None, shown="")
                lefts[stage] = Steady(TimeLeft(SLOWER if isinstance(event, StepProgress) else 1.0))
            ways = _ways(event) if isinstance(event, StepProgress) else ()
            left = None if share is None else lefts[stage].told(share, now, *ways)
            pieces = _pieces(event, left, now - started)
            room = bar.console.width - max(map(len, tasks)) - BAR - 3  # a space after each column, and one at the end
            bar.update(tasks[stage], completed=share, total=None if share is None else 1.0, shown=_fitted(pieces, room))

        yield listen


def _ways(event: StepProgress) -> tuple[float | None, ...]:
    """Return what is known of the way to the end but the share."""
    return event.at_bound, event.steps_left, event.usual_left, event.follow


def _where(event: Progress | StepProgress) -> tuple[str, float | None]:
    """Return the stage, and which share of it is done, if that is known."""
    if isinstance(event, StepProgress):
        return "path", event.share
    return event.stage, event.done / event.total if event.total else None


def _pieces(event: Progress | StepProgress, left: float | None, seconds: float) -> list[str]:
    """Return what a bar says beside itself, what matters most first."""
    remaining = [] if left is None else [f"~{_duration(left)} left"]
    if isinstance(event, StepProgress):
        main, more = _step_pieces(event)
        return [*main, *remaining, *more]
    rows = [f"{event.rows:,} rows"] if event.rows else []
    return [*rows, *remaining, _share(event), f"{human_bytes(event.done / max(seconds, 1e-3))}/s"]
