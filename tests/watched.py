"""Run a command and watch it from outside: the anonymous memory of its process group, or what a terminal is shown."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
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


def on_a_terminal(*command: str, columns: int = 80, **settings) -> bytes:
    """Return what a command shows on a terminal of so many columns: stdout and stderr, unless stdout is another."""
    parent, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    where = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    live = subprocess.Popen(command, stderr=terminal, env=where, **{"stdout": terminal, **settings})
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(parent, 4096):
            shown += piece
    except OSError:  # Linux reports the end of a terminal as an error
        pass
    os.close(parent)
    assert live.wait() == 0
    return shown


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
