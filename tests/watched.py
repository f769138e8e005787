"""Run a command and watch the anonymous memory of its process group from outside."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SVMSIEVE = (sys.executable, "-c", "from pipeline.cli import main; main()")


@dataclass(frozen=True)
class Watched:
    code: int
    stdout: str
    stderr: str
    seconds: float
    peak: int


def watched(*command: str, every: float = 0.01) -> Watched:
    """Return how a command ended and the highest sum of RssAnon over it and its descendants, in bytes."""
    begin, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            peak = max(peak, sum(_anonymous(pid) for pid in _family(process.pid)))
            try:
                out, err = process.communicate(timeout=every)
                break
            except subprocess.TimeoutExpired:
                continue
    return Watched(process.returncode, out, err, time.perf_counter() - begin, peak)


def _family(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    except OSError:
        pass
    return found


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)
