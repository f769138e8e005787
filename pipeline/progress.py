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

SECONDS_BETWEEN_LINES = 5.0  # of progress: an hour of it is still readable


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
    share = f" of {human_bytes(event.total)} ({event.done / event.total:.0%})" if event.total else ""
    rate = f", {human_bytes(event.done / seconds)}/s" if seconds > 0 else ""
    return f"{event.stage}: {rows}{human_bytes(event.done)}{share}{rate}"


def _step_line(event: StepProgress, seconds: float) -> str:
    """Say where the path is; the time left is guessed from the share of log C that is done."""
    left = ""
    if 0.01 < event.share < 1 and seconds > 0:
        left = f", about {_duration(seconds * (1 - event.share) / event.share)} left"
    first = list((event.scores or {}).items())[:1]
    scored = "".join(f", {name} {value:.4f}" for name, value in first if value is not None)
    gap = f"gap {max(event.relative_gap, 0.0):.1e}{'' if event.done else ' (again)'}"
    rows = f"{event.screened:.0%} screened, {event.working_set:,} rows solved for"
    return f"step {event.step}: C = {event.c:.4g}, {rows}, {gap}, {event.passes:.1f} passes{scored}{left}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Lines:
    """Plain lines, at most one every few seconds and one when a stage is complete."""

    def __init__(self) -> None:
        self.started = self.last = time.monotonic()
        self.stage = ""

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Note):
            print(event.text, file=sys.stderr, flush=True)
            return
        if isinstance(event, StepProgress):
            if now - self.last >= SECONDS_BETWEEN_LINES:
                self.last = now
                print(_step_line(event, now - self.started), file=sys.stderr, flush=True)
            return
        if event.stage != self.stage:
            self.stage, self.started = event.stage, min(self.started, now)
        if now - self.last >= SECONDS_BETWEEN_LINES or (event.total and event.done >= event.total):
            self.last = now
            print(_line(event, now - self.started), file=sys.stderr, flush=True)


@contextmanager
def _bar() -> Iterator[Listener]:
    from rich.console import Console  # noqa: PLC0415 - slow to import, as is the rest of it
    from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
    started = time.monotonic()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Note):
                bar.console.print(event.text, markup=False, highlight=False)
                return
            if isinstance(event, StepProgress):
                if "path" not in tasks:
                    tasks["path"] = bar.add_task("path", total=1.0, shown="")
                shown = _step_line(event, time.monotonic() - started).split(", about")[0]
                bar.update(tasks["path"], completed=event.share, shown=shown)
                return
            if event.stage not in tasks:
                tasks[event.stage] = bar.add_task(event.stage, total=None, shown="")
            shown = _line(event, time.monotonic() - started).removeprefix(f"{event.stage}: ")
            bar.update(tasks[event.stage], completed=event.done, total=event.total or None, shown=shown)

        yield listen
