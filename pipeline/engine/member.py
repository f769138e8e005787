"""A process that is known again later, by its id and the moment it began: ids are given to other processes in time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from pipeline.dataclass import dataclass

SECONDS_TO_END = 10.0  # after SIGTERM, and again after SIGKILL
ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Member:
    """A process; ``began`` is in clock ticks since the boot that it names."""

    pid: int
    began: str

    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        return _began(self.pid) == self.began

    def group(self) -> list[Member]:
        """Return the processes of the group that this one leads, if it still runs."""
        found = [found for pid in psutil.pids() if _leads(self.pid, pid) and (found := member(pid))]
        return found if self.alive() else []


def member(pid: int) -> Member | None:
    """Return the process with this id, None if there is none or it has ended."""
    began = _began(pid)
    return None if began is None else Member(pid, began)


def start_process(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Member:
    """Start Python as the leader of a session of its own, with nothing of our terminal; what it says goes to a file."""
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), writing, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    command = [sys.executable, "-P", *arguments]
    pid = os.posix_spawn(sys.executable, command, environment, file_actions=streams, setsid=True)
    return member(pid) or Member(pid, "")


def end(members: Iterable[Member]) -> None:
    """End processes and the groups they lead: ask, wait, and kill those that remain. No other process is touched."""
    left = {each for leader in members for each in leader.group()}
    for number, seconds in ((signal.SIGTERM, SECONDS_TO_END), (signal.SIGKILL, SECONDS_TO_END)):
        for each in left:
            _signal(each, number)
        deadline = time.monotonic() + seconds
        while (left := {each for each in left if each.alive()}) and time.monotonic() < deadline:
            time.sleep(0.02)


def _signal(each: Member, number: int) -> None:
    if each.alive():
        try:
            os.kill(each.pid, number)
        except ProcessLookupError:  # it ended just now
            return


def _began(pid: int) -> str | None:
    """Return when a process began, None if it has ended.

    Both of psutil's times move with the system's clock, so that only their difference is the process's own. psutil
    cannot tell one boot from the next, the kernel can.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in ENDED:
            return None
        ticks = round((process.create_time() - psutil.boot_time()) * os.sysconf("SC_CLK_TCK"))
    except psutil.Error:
        return None
    return f"{BOOT_ID.read_text().strip()}:{ticks}"


def _leads(leader: int, pid: int) -> bool:
    """Tell whether a process is in the group that another leads."""
    try:
        return os.getpgid(pid) == leader
    except ProcessLookupError:
        return False
