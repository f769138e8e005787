"""The commands that are killed: what they work on, what must hold at any moment, and what they leave behind."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pipeline.cli import app
from pipeline.data.dataset import open_shards
from pipeline.data.shards.directory import existing_directory
from pipeline.data.shards.manifest import read_manifest
from pipeline.data.shards.merging import FANOUT
from pipeline.runs.directory import open_run
from tests.forked import run_command
from tests.nightly.nights import Nightly, day, rows

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
        (folder / "rows.svm").write_text(self.rows())
        call(["ingest", str(folder / "rows.svm"), "--out", str(folder / "data"), "--rows-per-shard", "100", "-q"])

    def rows(self) -> str:
        """Return the rows, as svmlight text."""
        return rows(0, 200)

    def arguments(self, folder: Path) -> list[str]:
        options = "--epsilon 0.5 --c-max 3 --tol 1e-5 --holdout 0.1 --memory 1GB --scheduler inline -q"
        return ["path", str(folder / "data"), "--out", str(folder / "run"), *options.split()]

    def check(self, folder: Path) -> tuple[str, bool]:
        if not (folder / "run" / "run.json").is_file():
            return "nothing yet", False
        run = open_run(folder / "run")
        for step in run.steps:
            step.model.w()
        return f"{len(run.steps)} steps, {run.header.status}", False

    def contents(self, folder: Path) -> dict[str, Any]:
        return run_contents(folder / "run", folder)


class ClassesScene(PathScene):
    """``svmsieve path`` of several classes, which are trained together, and scored together in the end."""

    name = "classes"

    def rows(self) -> str:
        lines = super().rows().splitlines(keepends=True)
        return "".join(f"2 {line.partition(' ')[2]}" if k % 3 == 0 else line for k, line in enumerate(lines))

    def arguments(self, folder: Path) -> list[str]:
        options = "--grid 2x:200x:5 --tol 1e-5 --holdout 0.1 --class-weight balanced --memory 1GB --scheduler inline -q"
        return ["path", str(folder / "data"), "--out", str(folder / "run"), *options.split()]

    def check(self, folder: Path) -> tuple[str, bool]:
        if not (folder / "run" / "run.json").is_file():
            return "nothing yet", False
        run = open_run(folder / "run")
        for step in run.steps:
            for part in step.parts:
                part.model.w()

        return f"{len(run.steps)} steps of all classes, {run.header.status}", False


class AppendScene(Scene):
    """``svmsieve ingest --append``: the data set is as before, or has the new rows and what was small is merged."""

    name = "append"

    def make(self, folder: Path) -> None:
        folder.mkdir()
        for number in (0, 1):
            (folder / f"{number}.svm").write_text(rows(number, 300))
        call(["ingest", str(folder / "0.svm"), "--out", str(folder / "data"), "--rows-per-shard", "50", "-q"])
        for number in range(FANOUT):  # as many small shards as the next append merges
            (folder / "one.svm").write_text(rows(number, 1))
            call(["ingest", str(folder / "one.svm"), "--append", "--out", str(folder / "data"), "-q"])

    def arguments(self, folder: Path) -> list[str]:
        options = "--append --rows-per-shard 50 -q"
        return ["ingest", str(folder / "1.svm"), "--out", str(folder / "data"), *options.split()]

    def check(self, folder: Path) -> tuple[str, bool]:
        data = open_shards(folder / "data", full_check=True)
        if (data.n_rows, len(data.shards)) not in ((300 + FANOUT, 6 + FANOUT), (600 + FANOUT, 6 + 1 + 6)):
            raise LostError(
                f"{data.n_rows} rows in {len(data.shards)} shards, neither as before nor appended and merged"
            )
        written = len(list((folder / "data").glob("*.arrow*")))
        return f"{data.n_rows} rows, {written} files", data.n_rows > 600

    def contents(self, folder: Path) -> dict[str, Any]:
        with existing_directory(folder / "data"):
            pass  # killed when all was visible, shards that were merged are still there: the next writer removes them
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


SCENES: dict[str, type[Scene]] = {scene.name: scene for scene in (PathScene, ClassesScene, AppendScene, NightScene)}


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
