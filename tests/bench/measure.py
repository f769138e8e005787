"""Timing for benchmarks: rivals take turns, so that a noisy machine is noisy for all; report medians and ratios."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median


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
