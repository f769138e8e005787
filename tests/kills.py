"""Kill -9 at random moments: ``python -m tests.kills [--kills 1000] [--seed S] [--only path,append,nightly]``.

A command runs in a process forked from one that has everything loaded, and is killed at a moment drawn evenly from
the time that it takes undisturbed. After every kill what must hold at any moment is looked at. After one to three of
them in a row the command runs to its end, and all that is there then is compared with what it left undisturbed: nothing
is lost, every bit is the same. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from pipeline.cli import app
from pipeline.data.dataset import open_shards
from pipeline.data.manifest import read_manifest
from pipeline.flow.run_directory import open_run
from tests.forked import Server, run_command
from tests.nightly.nights import Nightly, day, rows

MOST_IN_A_ROW = 3
TIMED = 5  # undisturbed runs
SPENT = {"seconds", "passes", "peak_memory"}


class LostError(Exception):
    """What was there is not there any more, or is another."""


class Scene(ABC):
    """A command and what it works on."""

    name: str

    @abstractmethod
    def make(self, folder: Path) -> None:
        """Make what is there before the command."""

    def arguments(self, folder: Path) -> list[str]:
        """Return the words of the command."""
        raise NotImplementedError

    def command(self, folder: Path, errors: Path) -> tuple[Any, ...]:
        """Return the function that runs the command, and what it is called with."""
        return run_command, str(errors), None, self.arguments(folder)

    @abstractmethod
    def check(self, folder: Path) -> tuple[str, bool]:
        """Raise unless all is well that must be at any moment; tell how far the command got, and whether it is done."""

    @abstractmethod
    def contents(self, folder: Path) -> dict[str, Any]:
        """Return all that the command made, but for what depends on time and place."""


class PathScene(Scene):
    """``svmsieve path``: a run of many steps, continued where it was."""

    name = "path"

    def make(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "rows.svm").write_text(rows(0, 200))
        call(["ingest", str(folder / "rows.svm"), "--out", str(folder / "data"), "--rows-per-shard", "100", "-q"])

    def arguments(self, folder: Path) -> list[str]:
        options = "--epsilon 0.5 --c-max 3 --tol 1e-5 --holdout 0.1 --memory 1GB --scheduler inline -q"
        return ["path", str(folder / "data"), "--out", str(folder / "run"), *options.split()]

    def check(self, folder: Path) -> tuple[str, bool]:
        if not (folder / "run" / "run.json").is_file():
            return "nothing yet", False
        run = open_run(folder / "run")
        for step in run.steps:
            step.model.w()
        return f"{len(run.steps)} steps, {run.header['status']}", False

    def contents(self, folder: Path) -> dict[str, Any]:
        return run_contents(folder / "run", folder)


class AppendScene(Scene):
    """``svmsieve ingest --append``: the data set is as before, or has the new rows."""

    name = "append"

    def make(self, folder: Path) -> None:
        folder.mkdir()
        for number in (0, 1):
            (folder / f"{number}.svm").write_text(rows(number, 300))
        call(["ingest", str(folder / "0.svm"), "--out", str(folder / "data"), "--rows-per-shard", "50", "-q"])

    def arguments(self, folder: Path) -> list[str]:
        options = "--append --rows-per-shard 50 -q"
        return ["ingest", str(folder / "1.svm"), "--out", str(folder / "data"), *options.split()]

    def check(self, folder: Path) -> tuple[str, bool]:
        data = open_shards(folder / "data", full_check=True)
        if data.n_rows not in (300, 600):
            raise LostError(f"{data.n_rows} rows, neither 300 nor 600")
        written = len(list((folder / "data").glob("*.arrow*")))
        return f"{data.n_rows} rows, {written} files", data.n_rows == 600

    def contents(self, folder: Path) -> dict[str, Any]:
        return shard_contents(folder / "data")


class NightScene(Scene):
    """``svmsieve nightly``: a file comes, one comes again with other rows, one is bad, one retires."""

    name = "nightly"

    def make(self, folder: Path) -> None:
        nightly = Nightly(folder)
        for number in range(2):
            nightly.arrive(number)
            nightly.run(number)
        nightly.arrive(11)
        nightly.arrive(1, rows(5))
        nightly.arrive(10, "1 1:oops\n")

    def arguments(self, folder: Path) -> list[str]:
        return ["nightly", str(folder / "job.yaml"), "--date", str(day(11)), "-q"]

    def check(self, folder: Path) -> tuple[str, bool]:
        nightly = Nightly(folder)
        open_run(nightly.store / "current").best.model.w()
        data = open_shards(nightly.store / "shards", full_check=True)
        under_way = "under way" if (nightly.store / "night.json").exists() else "not under way"
        return f"{data.n_rows} rows, {nightly.current()} published, {under_way}", False

    def contents(self, folder: Path) -> dict[str, Any]:
        nightly = Nightly(folder)
        return {name: _placeless(item, str(folder)) for name, item in nightly.contents().items()}


SCENES: dict[str, type[Scene]] = {scene.name: scene for scene in (PathScene, AppendScene, NightScene)}


def run_contents(run: Path, home: Path) -> dict[str, Any]:
    """Return the files of a run but for what depends on the machine and on interruptions."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        name = str(path.relative_to(run))
        if path.suffix in (".json", ".jsonl"):
            texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            facts = [{key: item for key, item in json.loads(text).items() if key not in SPENT} for text in texts]
            found[name] = _placeless(facts, str(home))
        else:
            found[name] = path.read_bytes()
    return found


def shard_contents(data: Path) -> dict[str, Any]:
    """Return the shards of a data set, to the bit, and its manifest but for times of change."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in sorted(data.glob("*.arrow*"))}
    item = read_manifest(data).to_json()
    shards: Any = item["shards"]
    return found | {"manifest": item | {"shards": [{k: v for k, v in s.items() if k != "modified"} for s in shards]}}


def _placeless(item: Any, home: str) -> Any:
    """Return an item without the name of the folder that it is in."""
    if isinstance(item, list | tuple):
        return [_placeless(each, home) for each in item]
    if isinstance(item, dict):
        return {key: _placeless(each, home) for key, each in item.items()}
    if isinstance(item, bytes):
        return item.replace(home.encode(), b"HOME")
    return item.replace(home, "HOME") if isinstance(item, str) else item


def call(arguments: list[str]) -> None:
    """Run svmsieve in this process, without a word."""
    with redirect_stdout(io.StringIO()):
        app.main(arguments, "svmsieve", standalone_mode=False)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="in all; the commands share them evenly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(SCENES))
    options = parser.parse_args()
    names = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="svmsieve-kills-") as name:
        scenes = [SCENES[which]() for which in names]
        each = -(-options.kills // len(scenes))
        server = Server(warm_up, name, scenes)
        try:
            kept = [kill_scene(server, scene, Path(tempfile.mkdtemp(dir=name)), each, options.seed) for scene in scenes]
        finally:
            server.close()
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
