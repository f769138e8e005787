"""Timing for benchmarks: rivals take turns, so that a noisy machine is noisy for all; report medians and ratios."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pipeline
from pipeline.events import Event, StepProgress
from pipeline.runs.run import Run


@dataclass
class Seconds:
    """Wall-clock seconds and CPU seconds of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Add what is done inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu


class _OutOfTimeError(Exception):
    """A path has had its seconds."""


def stopped_path(data: Any, out: Path, seconds: float, **settings: Any) -> tuple[Run, bool]:
    """Go along a path as far as CPU seconds of this process allow; return what there is, and whether it was stopped."""
    end, stopped = time.process_time() + seconds, False

    def stop(event: Event) -> None:
        if isinstance(event, StepProgress) and time.process_time() > end:
            raise _OutOfTimeError

    try:
        pipeline.fit_path(data, out=out, listen=stop, **settings)
    except _OutOfTimeError:
        stopped = True
    return pipeline.open_run(out), stopped


def take_turns(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each rival over rounds in which each runs once; a first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds + 1):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(found) for name, found in seconds.items()}


def child(code: str, *arguments: str) -> tuple[float, float]:
    """Run Python code in a process of its own; return its seconds (as it prints them) and its peak memory in MB."""
    watch = f"import resource, sys\n{code}\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)"
    done = subprocess.run([sys.executable, "-c", watch, *arguments], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def verdict(what: str, value: float, target: float, at_least: bool = True) -> str:
    """Return one line: the figure, the target, and whether it is met."""
    met = value >= target if at_least else value <= target
    return f"{what}: {value:.2f} (target {'>=' if at_least else '<='} {target:g}) {'met' if met else 'MISSED'}"
