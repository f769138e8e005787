"""Killing the command of a scene, again and again, and counting what came of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.forked import Server
from tests.kills.scenes import LostError, Scene, call

MOST_IN_A_ROW = 3
TIMED = 5  # undisturbed runs


def warm_up(folder: str, scenes: list[Scene]) -> None:
    """Have everything loaded and compiled."""
    for scene in scenes:
        scene.make(Path(folder) / scene.name)
        call(scene.arguments(Path(folder) / scene.name))


class Killer:
    """Kills the command of a scene and counts what came of it."""

    def __init__(self, server: Server, scene: Scene, folder: Path, chance: random.Random) -> None:
        self.server, self.scene, self.folder, self.chance = server, scene, folder, chance
        self.kills, self.trials, self.seen = 0, 0, Counter[str]()
        self.before, self.errors = folder / "before", folder / "errors"
        scene.make(self.before)
        self.wanted, _ = self._undisturbed()
        times = []
        for _ in range(TIMED):
            found, spent = self._undisturbed()
            self._compare(found, "two undisturbed runs differ")
            times.append(spent)
        self.seconds = sorted(times)[TIMED // 2]

    def _undisturbed(self) -> tuple[dict[str, Any], float]:
        home, begun = self._fresh(), time.monotonic()
        self._run(home)
        spent = time.monotonic() - begun
        found = self.scene.contents(home)
        shutil.rmtree(home)
        return found, spent

    def _fresh(self) -> Path:
        """Return a new copy of what is there before the command, always at the same place."""
        home = self.folder / "home"
        shutil.copytree(self.before, home, symlinks=True)
        return home

    def trial(self, most: int) -> None:
        """Kill the command one to three times in a row, but at most ``most`` times, then let it end, and compare."""
        home, done = self._fresh(), False
        for _ in range(min(most, self.chance.randint(1, MOST_IN_A_ROW))):
            if not self._killed(home):
                done = True
                break
            self.kills += 1
            how_far, done = self.scene.check(home)
            self.seen[how_far] += 1
            if done:
                break
        if not done:
            self._run(home)
        self._compare(self.scene.contents(home), "after a kill")
        self.trials += 1
        shutil.rmtree(home)

    def _killed(self, home: Path) -> bool:
        """Start the command and kill it at a random moment; False if it was over before."""
        pid = self.server.start(*self.scene.command(home, self.errors))
        if not self.server.ended(self.chance.uniform(0.0, self.seconds)):
            with suppress(ProcessLookupError):  # over at this very moment
                os.kill(pid, signal.SIGKILL)
        return self._ended(0, -signal.SIGKILL) != 0

    def _run(self, home: Path) -> None:
        self.server.start(*self.scene.command(home, self.errors))
        self._ended(0)

    def _ended(self, *allowed: int) -> int:
        """Wait for the command and return its exit code."""
        code = self.server.left()
        if code not in allowed:
            said = self.errors.read_text().strip() if self.errors.is_file() else ""
            raise LostError(f"the command ended with {code}: {said}")
        return code

    def _compare(self, found: dict[str, Any], when: str) -> None:
        for name in sorted({*found, *self.wanted}):
            if found.get(name) != self.wanted.get(name):
                raise LostError(f"{when}: {name} is {found.get(name)!r:.300}, not {self.wanted.get(name)!r:.300}")


def kill_scene(server: Server, scene: Scene, folder: Path, kills: int, seed: int) -> bool:
    """Kill so many times, print what came of it, and tell whether nothing was lost."""
    killer = Killer(server, scene, folder, random.Random(f"{scene.name} {seed}"))
    lost = ""
    try:
        while killer.kills < kills:
            killer.trial(kills - killer.kills)
    except Exception as error:
        lost = f"{type(error).__name__}: {error}"
    print(
        f"{scene.name:8} {killer.kills:5,} kills within {killer.seconds:.2f} s, {killer.trials:,} times to the end: "
        f"{lost or 'nothing lost, same bits'}; found after a kill: {len(killer.seen)} different states, most often "
        + "; ".join(f"{state} ({count})" for state, count in killer.seen.most_common(3)),
        flush=True,
    )
    return not lost
