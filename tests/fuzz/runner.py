"""Cases in a process of their own, which is watched from outside: one that dies or hangs is a failure and is replaced.

The process is forked from one that has everything loaded. It says which case it is at by a number in shared memory, so
that a case is known however it ends.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.judge import Failure, Target, judged

LONGEST_CASE = 10.0
MORE_MEMORY = 4 << 30  # address space of a worker beyond what it has at its start
POLL = 0.1
_FORK = multiprocessing.get_context("fork")


@dataclass
class Tally:
    """What came of a target's cases."""

    target: str
    cases: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def fuzz(target: Target, seed: int, home: Path, cases: int | None, seconds: float | None) -> Tally:
    """Run cases 0, 1, 2, ... of a target until there are so many or that much time is over."""
    target.prepare(home)
    tally, begun = Tally(target.name), time.monotonic()
    while (cases is None or tally.cases < cases) and (seconds is None or time.monotonic() - begun < seconds):
        left = None if seconds is None else seconds - (time.monotonic() - begun)
        tally.failures += _one_worker(target, seed, home, tally, cases, left)
    tally.seconds = time.monotonic() - begun
    return tally


def _one_worker(
    target: Target, seed: int, home: Path, tally: Tally, cases: int | None, seconds: float | None
) -> Iterator[Failure]:
    """Run cases in one process until it ends; yield the failures. Counts in ``tally``."""
    ours, theirs = _FORK.Pipe(duplex=False)
    at: Any = _FORK.Value("q", tally.cases, lock=False)
    process = _FORK.Process(target=_work, args=(target, seed, home, at, theirs, cases, seconds), daemon=True)
    process.start()
    theirs.close()
    case, since, hung = -1, time.monotonic(), False
    while True:
        try:
            if ours.poll(POLL):
                yield ours.recv()
                continue
        except EOFError:  # it has ended
            break
        if at.value != case:
            case, since = at.value, time.monotonic()
        elif time.monotonic() - since > LONGEST_CASE:
            process.kill()
            hung = True
    process.join()
    tally.cases = at.value
    if hung or process.exitcode:
        tally.cases += 1
        code = process.exitcode or 0
        died = f"died of {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"
        yield Failure(at.value, f"longer than {LONGEST_CASE:g} s" if hung else died, "")
    process.close()


def _work(
    target: Target, seed: int, home: Path, at: Any, said: Connection, cases: int | None, seconds: float | None
) -> None:
    """Run cases until enough are done, or nobody watches any more."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit_memory()
    deadline, watcher = math.inf if seconds is None else time.monotonic() + seconds, os.getppid()
    while (cases is None or at.value < cases) and time.monotonic() < deadline and os.getppid() == watcher:
        failure = judged(target, seed, at.value, home)
        if failure:
            said.send(failure)
        at.value += 1


def limit_memory() -> None:
    """Let what asks for much more memory than this process has now fail, instead of the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
