"""Whatever stops a run, the same command goes on after the last finished step and ends with the same bits."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from pipeline import budget
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import resolve
from pipeline.errors import RunError
from pipeline.events import Event, StepProgress
from pipeline.path.fit import fit_path
from pipeline.path.path import versions
from pipeline.runs import writer as run_writer
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import open_run
from pipeline.runs.model_file import StoredModel, write_model
from pipeline.runs.writer import RunWriter, writing
from pipeline.working.rows import WorkingRows
from pipeline.working.state import RowState
from tests.disk import not_waited_for
from tests.forked import LIMIT, Server, one_line, run_command
from tests.formats import Table
from tests.trained import command, shards_of, sparse_rows

ROOT = Path(__file__).parents[2]

# What a run is, apart from what depends on the machine or on interruptions: time, memory, and rows read once more

SPENT = {"seconds", "passes", "peak_memory"}


def without_costs(text: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text).items() if name not in SPENT}


def contents(out: Path) -> dict[str, Any]:
    """All that is in a run directory: names, models as bytes, and the rest as far as it must not change."""
    found: dict[str, Any] = {}
    for path in out.rglob("*"):
        name = str(path.relative_to(out))
        if path.is_dir():
            found[name] = None
        elif path.name == "run.json":
            found[name] = without_costs(path.read_text())
        elif path.name == "steps.jsonl":
            found[name] = [without_costs(line) for line in path.read_text().splitlines()]
        else:
            found[name] = path.read_bytes()
    return found


def snapshot(out: Path) -> dict[str, tuple[int, int, bytes]]:
    """Inode, time of change and content of every file."""
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(f.relative_to(out)): (f.stat().st_ino, f.stat().st_mtime_ns, f.read_bytes()) for f in files}


# The runs: data, settings. "rows" are sparse, in 4 shards; on "cancer", one shard, newton ends with a w of its own

GRID = (0.01, 0.1, 1.0, 10.0)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "it": ("rows", {"epsilon": 0.2, "c_max": 30.0, "tol": 1e-6}),
    "bt1": ("rows", {"rule": "bt1", "epsilon": 0.3, "c_max": 10.0}),
    "bt2": ("rows", {"rule": "bt2", "grid": GRID}),
    "gap": ("rows", {"rule": "gap", "grid": GRID}),
    "none": ("rows", {"rule": "none", "grid": GRID, "class_weight": "balanced"}),
    "far above C_min": ("rows", {"grid": (5.0, 6.0, 7.0, 8.0), "tol": 1e-8}),
    "below C_min": ("rows", {"grid": (1e-7, 1e-6, 1e-5, 0.01, 0.1, 1.0), "solver": "dcd"}),
    "hold-out": ("rows", {"holdout": 0.3, "epsilon": 0.5, "c_max": 10.0, "select": "auc"}),
    "folds": ("rows", {"cv": 3, "grid": (1e-6, *GRID)}),
    "newton": ("cancer", {"solver": "newton", "grid": (0.1, 1e3, 2e3, 3e3, 4e3), "tol": 1e-8}),
    "liblinear": ("cancer", {"solver": "liblinear", "grid": (0.1, 1.0, 1e3, 2e3, 3e3), "tol": 1e-6}),
    "classes": ("classes", {"grid": (1e-6, 0.01, 0.1, 1.0), "holdout": 0.3, "class_weight": "balanced"}),
    "classes, folds": ("classes", {"grid": (0.1, 1.0), "cv": 2}),
    "blocks": ("rows", {"grid": (0.01, 0.1, 0.2), "tol": 1e-3, "memory": 7_000, "scheduler": "inline"}),
}
PLAIN = "below C_min"


def shrink_budget() -> None:
    """Let little memory be enough, for "blocks": arrays by row in scratch files, the working set in several blocks."""
    budget.BASE = budget.LEAST_WORKING_SET = 1000
    budget.BATCH = 100


@pytest.fixture(scope="module", autouse=True)
def small_budget():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BASE", "BATCH", "LEAST_WORKING_SET"):
            patch.setattr(budget, name, getattr(budget, name))
        shrink_budget()
        yield


class Job:
    """A case in a place of its own: run in this process, or as arguments of the command line."""

    def __init__(self, case: str, data: Path, out: Path) -> None:
        self.case, self.data, self.out = case, data, out
        self.settings = {"memory": 4 * 10**9, "scheduler": "threads"} | CASES[case][1]

    def run(self, **changed: Any) -> None:
        fit_path(self.data, out=self.out, **self.settings | changed)

    def arguments(self, **changed: Any) -> list[str]:
        words = ["path", str(self.data), "--out", str(self.out), "-q"]
        for name, value in (self.settings | changed).items():
            if value is None:
                continue
            text = ",".join(map(repr, value)) if isinstance(value, tuple) else str(value)
            words += [f"--{name.replace('_', '-')}", text]
        return words

    def steps(self) -> int:
        """Count the finished steps, those of folds included."""
        return sum(path.read_text().count("\n") for path in self.out.rglob("steps.jsonl") if path.exists())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = shards_of(folder, sparse_rows(120, 20), rows_per_shard=35)
    source, spec = resolve("breast_cancer", IngestSpec())
    ingest([source], folder / "cancer", spec)
    assert len(rows.shards) == 4
    several = sparse_rows(120, 20)
    classes = Table(several.x, several.y + (several.x[:, 0] > 0.1), several.costs)
    (folder / "several").mkdir()
    assert len(shards_of(folder / "several", classes, rows_per_shard=35).classes) == 3
    return {"rows": Path(rows.path), "cancer": folder / "cancer", "classes": folder / "several" / "shards"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    """Return the run of a case that nothing happened to; it is made once."""
    made: dict[str, Path] = {}

    def get(case: str) -> Path:
        if case not in made:
            made[case] = tmp_path_factory.mktemp("undisturbed") / "run"
            Job(case, data[CASES[case][0]], made[case]).run()
        return made[case]

    return get


@pytest.fixture
def job(tmp_path, data, undisturbed):
    """Make a job whose run directory is empty, or a copy of the finished run."""

    def make(case: str, finished: bool = False) -> Job:
        expected, out = undisturbed(case), tmp_path / "run"
        shutil.rmtree(out, ignore_errors=True)
        if finished:
            shutil.copytree(expected, out)
        return Job(case, data[CASES[case][0]], out)

    return make


def cut_back(out: Path, steps: int) -> None:
    """Make a finished run one that was killed after so many steps."""
    lines = (out / "steps.jsonl").read_text().splitlines(keepends=True)
    (out / "steps.jsonl").write_text("".join(lines[:steps]))
    for model in sorted((out / "models").iterdir())[steps:]:
        model.unlink()
    header = json.loads((out / "run.json").read_text())
    kept = {name: header[name] for name in header if name not in ("n_steps", "best_step", "seconds", "peak_memory")}
    (out / "run.json").write_text(json.dumps(kept | {"status": "running"}))


# Continued


@pytest.mark.parametrize("case", [case for case in CASES if "folds" not in case and "classes" not in case])
def test_continued_after_every_step(job, undisturbed, case):
    expected = contents(undisturbed(case))
    for steps in range(len(expected["steps.jsonl"])):
        one = job(case, finished=True)
        cut_back(one.out, steps)
        one.run()
        assert contents(one.out) == expected, f"continued after {steps} steps"


def test_the_case_newton_has_models_whose_w_is_not_w_alpha(undisturbed):
    steps = open_run(undisturbed("newton")).steps
    assert [step.model.w_alpha() is not None for step in steps[2:]].count(True) >= 2


def test_the_case_blocks_has_blocks_and_scratch_files(job, monkeypatch):
    one, seen = job("blocks"), []
    blocks = WorkingRows.blocks

    def watched(rows: WorkingRows, wanted: np.ndarray, *order: np.random.Generator) -> list[np.ndarray]:
        found = list(blocks(rows, wanted, *order))
        seen.append((len(found), (one.out / ".scratch").is_dir()))
        return found

    monkeypatch.setattr(WorkingRows, "blocks", watched)
    one.run()
    assert max(seen) >= (3, True)


# Killed, interrupted


def train_once(data: str, out: str) -> None:
    shrink_budget()
    fit_path(data, out=out, grid=GRID, holdout=0.1)


@pytest.fixture(scope="module")
def server(data, tmp_path_factory):
    running = Server(train_once, str(data["rows"]), str(tmp_path_factory.mktemp("warm") / "run"))
    yield running
    running.close()


@pytest.fixture
def child(server, tmp_path):
    """Start the command line in a process of its own; the second function returned waits: exit code and stderr."""
    errors = tmp_path / "errors"

    def start(arguments: list[str], largest_file: int | None = None) -> int:
        return server.start(run_command, str(errors), largest_file, arguments)

    return start, lambda: (server.left(), errors.read_text() if errors.exists() else "")


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it may just have ended
        os.kill(pid, number)


def stop_soon(one: Job, server: Server, pid: int, number: int, chance: random.Random) -> None:
    """Send a signal at a random moment after the next steps, unless the run ends before."""
    enough = one.steps() + chance.randint(0, 1)
    while one.steps() < enough and not server.ended(0.001):
        pass
    if not server.ended(chance.uniform(0, 0.02)):
        send(pid, number)


@pytest.mark.parametrize("case", CASES)
def test_killed_at_random_moments(job, undisturbed, server, child, case):
    one, (start, left) = job(case), child
    chance, codes = random.Random(case), []
    while len(codes) < 4 or (-signal.SIGKILL not in codes and len(codes) < 100):
        if codes and codes[-1] == 0:  # it was done before it was to be killed
            shutil.rmtree(one.out)
        stop_soon(one, server, start(one.arguments()), signal.SIGKILL, chance)
        codes.append(left()[0])
    start(one.arguments())
    assert left() == (0, "")
    assert contents(one.out) == contents(undisturbed(case))
    assert -signal.SIGKILL in codes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("case", ["it", "folds", "blocks"])
def test_interrupted_at_random_moments(job, undisturbed, server, child, case, number):
    one, (start, left) = job(case), child
    chance, lines = random.Random(case), []
    for _ in range(3):
        pid = start(one.arguments())
        while not one.steps() and not server.ended(0.001):
            pass
        stop_soon(one, server, pid, number, chance)
        code, said = left()
        if code and said:  # a signal before main has begun finds nobody who could say anything
            lines.append(one_line(said))
            assert not (one.out / ".scratch").exists()
    assert lines
    assert set(lines) == {"svmsieve: interrupted; finished results stay, run the same command again to go on\n"}
    one.run()
    assert contents(one.out) == contents(undisturbed(case))


@pytest.mark.slow
def test_killed_with_worker_processes(job, undisturbed, tmp_path):
    one = job(PLAIN)
    program = [sys.executable, "-c", "from pipeline.cli import main; main()", *one.arguments(scheduler="processes")]
    with subprocess.Popen(program, env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        end = time.monotonic() + LIMIT
        while one.steps() < 2 and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.001)
        process.kill()
    assert one.steps() < len(open_run(undisturbed(PLAIN)).steps)
    one.run(scheduler="processes")
    assert contents(one.out) == contents(undisturbed(PLAIN))


class StoppedAt:
    """Stops the process at lines that are so far apart at most, until whoever looks at what is there lets it go on."""

    def __init__(self, chance: random.Random, apart: int) -> None:
        self.chance, self.apart, self.next = chance, apart, chance.randint(1, apart)

    def __call__(self, line: int) -> None:
        if line >= self.next:
            self.next = line + self.chance.randint(1, self.apart)
            os.kill(os.getpid(), signal.SIGSTOP)


class InterruptedAt:
    """Interrupts at the n-th line."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, line: int) -> None:
        if line == self.number:
            raise KeyboardInterrupt


def run_line_by_line(
    at_line: InterruptedAt | StoppedAt, code: tuple[str, ...], large: int, errors: str, arguments: list[str]
) -> None:
    """Run svmsieve, with a call at each line that is executed of some code."""
    run_writer.LARGE = large
    files, lines = {str(ROOT / name) for name in code}, 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            lines += 1
            at_line(lines)
        return trace

    not_waited_for()
    threading.settrace(trace)  # folds are trained in threads
    sys.settrace(trace)
    run_command(errors, None, arguments)


NOW, LATER = run_writer.LARGE, 0  # models that are written when a step ends, and while the next one is solved for
HEADER_CODE = ("pipeline/files.py",)
STEP_CODE = ("pipeline/runs/writer.py", "pipeline/runs/model_file.py")
CLASSES_CODE = ("pipeline/runs/classes_writer.py", "pipeline/path/classes.py")  # what one thread of them all does


def interrupted(one: Job, server: Server, errors: Path, code: tuple[str, ...], apart: int, large: int) -> Iterator[int]:
    """Yield the lines at which runs were interrupted, with what they left; the last run is whole."""
    chance, left, number = random.Random("interrupted"), 1, 0
    while left:
        number += chance.randint(1, apart)
        shutil.rmtree(one.out, ignore_errors=True)
        server.start(run_line_by_line, InterruptedAt(number), code, large, str(errors), one.arguments())
        if left := server.left():
            assert left == 1, f"interrupted at line {number}"
            assert "interrupted" in one_line(errors.read_text() if errors.exists() else "")
        yield number


def killed(one: Job, server: Server, errors: Path, code: tuple[str, ...], apart: int, large: int) -> Iterator[int]:
    """Yield numbers of stops of one run, with what a kill at each of them would have left; the last is its end.

    What a killed process leaves is what it had written so far. Stops between which nothing was written are one.
    """
    seen, kept = [], errors.with_name("kept")
    at_line, ended = StoppedAt(random.Random("killed"), apart), False
    pid = server.start(run_line_by_line, at_line, code, large, str(errors), one.arguments())
    while not ended:
        ended = server.ended(0.0005)
        if ended or has_stopped(pid):
            found = everything(one.out)
            if not seen or found != seen[-1]:
                if one.out.exists():
                    shutil.copytree(one.out, kept / str(len(seen)))
                seen.append(found)
            if not ended:
                os.kill(pid, signal.SIGCONT)
    assert (server.left(), errors.read_text()) == (0, "")
    for number in range(len(seen)):
        shutil.rmtree(one.out, ignore_errors=True)
        if seen[number]:
            (kept / str(number)).rename(one.out)
        yield number


def everything(out: Path) -> dict[str, bytes | None]:
    """All that lies in a folder that nobody writes to now."""
    return {str(path): None if path.is_dir() else path.read_bytes() for path in (out, *out.rglob("*")) if path.exists()}


def has_stopped(pid: int) -> bool:
    """Tell whether every thread of a process has stopped."""
    with suppress(OSError):  # it has just ended
        threads = [(each / "stat").read_text() for each in Path(f"/proc/{pid}/task").iterdir()]
        return all(text.rpartition(")")[2].split()[0] == "T" for text in threads)
    return False


@pytest.mark.parametrize("ending", [killed, interrupted], ids=lambda ending: ending.__name__)
@pytest.mark.parametrize(
    ("case", "code", "apart", "large"),
    [
        (PLAIN, HEADER_CODE, 4, NOW),
        (PLAIN, STEP_CODE, 250, NOW),
        (PLAIN, HEADER_CODE + STEP_CODE, 250, LATER),
        ("folds", HEADER_CODE + STEP_CODE, 2000, NOW),
        ("folds", HEADER_CODE + STEP_CODE, 2000, LATER),
        ("classes", HEADER_CODE + CLASSES_CODE, 40, NOW),
        ("classes, folds", HEADER_CODE + CLASSES_CODE, 200, NOW),
    ],
)
def test_stopped_at_any_line_that_writes(job, undisturbed, server, tmp_path, case, code, apart, large, ending):
    expected, one, stops = contents(undisturbed(case)), job(case), []
    for number in ending(one, server, tmp_path / "errors", code, apart, large):
        one.run()
        assert contents(one.out) == expected, f"{ending.__name__} at {number}"
        stops.append(number)
    assert len(stops) > 2


# Power cut: what was not forced to disk may be lost or torn


class Disk:
    """Remembers what was forced to disk, and forgets the rest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.forced: dict[int, int] = {}
        fsync = os.fsync

        def remember(descriptor: int) -> None:
            state = os.fstat(descriptor)
            self.forced[state.st_ino] = state.st_size
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", remember)

    def cut_power(self, out: Path, chance: random.Random) -> None:
        for path in [path for path in out.rglob("*") if path.is_file() and path.name != "run.json"]:
            content, safe = path.read_bytes(), self.forced.get(path.stat().st_ino, 0)
            length = chance.randint(safe, len(content))
            kind = chance.choice(["whole", "whole", "torn", "torn end", "zeros", "missing"])
            if kind == "missing" and safe == 0:
                path.unlink()
            elif kind in ("torn", "missing"):
                path.write_bytes(content[:length])
            elif kind == "torn end":
                path.write_bytes(content[:length] + bytes(len(content) - length))
            elif kind == "zeros":
                last = chance.randint(length, len(content))
                path.write_bytes(content[:length] + bytes(last - length) + content[last:])


class PowerCutError(BaseException):
    """The power is cut."""


@pytest.mark.parametrize("case", ["it", "folds", "classes"])
def test_a_power_cut_costs_steps_and_nothing_else(job, undisturbed, monkeypatch, case):
    expected = contents(undisturbed(case))
    append = RunWriter.append
    for seed in range(8 if case == "it" else 4):
        one, chance, last = job(case), random.Random(seed), random.Random(seed).randint(3, 15)
        count = 0

        def append_and_stop(writer: RunWriter, *step: Any, last: int = last) -> dict[str, Any]:
            nonlocal count
            count += 1
            line = append(writer, *step)
            if count == last:
                raise PowerCutError
            return line

        with monkeypatch.context() as patch:
            patch.setattr(run_writer, "SECONDS_BETWEEN_SYNCS", chance.choice([0.0, 0.05, 9.9]))
            patch.setattr(run_writer, "LARGE", chance.choice([NOW, LATER]))
            patch.setattr(RunWriter, "append", append_and_stop)
            disk = Disk(patch)
            with suppress(PowerCutError):
                one.run()
            disk.cut_power(one.out, chance)
        one.run()
        assert contents(one.out) == expected, f"seed {seed}"


@pytest.mark.parametrize(("large", "quick", "later"), [(0, 1e9, True), (0, 0.0, False), (NOW, 1e9, False)])
def test_who_listens_hears_of_a_step_when_it_is_on_disk(job, undisturbed, monkeypatch, large, quick, later):
    """Large models of quick steps are written by another thread."""
    one, heard, threads = job("it"), [], set()

    def write(*model: Any) -> str:
        threads.add(threading.current_thread() is threading.main_thread())
        time.sleep(0.002)
        return write_model(*model)

    def listen(event: Event) -> None:
        if isinstance(event, StepProgress):
            heard.append((event.step, not event.done))
            assert one.steps() == event.step + event.done

    monkeypatch.setattr(run_writer, "LARGE", large)
    monkeypatch.setattr(run_writer, "QUICK", quick)
    monkeypatch.setattr(run_writer, "write_model", write)
    one.run(listen=listen)
    assert contents(one.out) == contents(undisturbed("it"))
    assert threads == {not later}
    assert heard == sorted(heard, key=lambda each: (each[0], not each[1]))
    assert sum(not rounds for _, rounds in heard) == one.steps()


# Damaged files


def garble(path: Path, first: int, content: bytes) -> None:
    """Overwrite some bytes; a negative ``first`` counts from the end."""
    old = path.read_bytes()
    first %= len(old)
    path.write_bytes(old[:first] + content + old[first + len(content) :])


def shorten(path: Path, length: float) -> None:
    """Cut a file to a share of its length."""
    path.write_bytes(path.read_bytes()[: int(length * path.stat().st_size)])


def line(out: Path, number: int, text: bytes) -> None:
    """Replace a line of steps.jsonl."""
    lines = (out / "steps.jsonl").read_bytes().splitlines(keepends=True)
    lines[number] = text
    (out / "steps.jsonl").write_bytes(b"".join(lines))


def leftovers(out: Path) -> None:
    for name in ("run.json.tmp", "steps.jsonl.tmp", "models/000002.npz.tmp", "models/000005.npz.tmp"):
        (out / name).write_bytes(b"half")
    (out / ".scratch" / "rows-abc").mkdir(parents=True)
    (out / ".scratch" / "rows-abc" / "1.bin").write_bytes(bytes(960))


LAST, EARLIER = Path("models", "000005.npz"), Path("models", "000002.npz")
DAMAGE = {
    "nothing": lambda out: None,
    "leftovers": leftovers,
    "last model missing": lambda out: (out / LAST).unlink(),
    "last model empty": lambda out: shorten(out / LAST, 0),
    "last model short": lambda out: shorten(out / LAST, 0.3),
    "last model without its end": lambda out: shorten(out / LAST, 0.99),
    "last model of zeros": lambda out: (out / LAST).write_bytes(bytes((out / LAST).stat().st_size)),
    "last model with zeros in it": lambda out: garble(out / LAST, 700, bytes(100)),
    "earlier model missing": lambda out: (out / EARLIER).unlink(),
    "earlier model without its end": lambda out: shorten(out / EARLIER, 0.9),
    "earlier model with zeros in it": lambda out: garble(out / EARLIER, 700, bytes(100)),
    "all models missing": lambda out: shutil.rmtree(out / "models"),
    "no steps": lambda out: (out / "steps.jsonl").unlink(),
    "empty steps": lambda out: shorten(out / "steps.jsonl", 0),
    "half of the steps": lambda out: shorten(out / "steps.jsonl", 0.5),
    "steps end in zeros": lambda out: garble(out / "steps.jsonl", -100, bytes(100)),
    "steps end in garbage": lambda out: garble(out / "steps.jsonl", -100, bytes(range(156, 256))),
    "a line of zeros": lambda out: line(out, 2, bytes(80) + b"\n"),
    "a line of garbage": lambda out: line(out, 2, bytes(range(156, 256)) + b"\n"),
    "a line missing": lambda out: line(out, 2, b""),
    "an empty line": lambda out: line(out, 2, b"\n"),
    "a line of other JSON": lambda out: line(out, 2, b"[1, 2]\n"),
}


@pytest.mark.parametrize("status", ["finished", "running"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_steps_are_trained_again(job, undisturbed, capsys, damage, status):
    one = job(PLAIN, finished=True)
    if status == "running":
        header = json.loads((one.out / "run.json").read_text())
        (one.out / "run.json").write_text(json.dumps(header | {"status": status}))
    DAMAGE[damage](one.out)
    assert command(capsys, *one.arguments(memory=None))[0] == 0
    assert contents(one.out) == contents(undisturbed(PLAIN))


def test_steps_cut_at_every_byte(job):
    one = job(PLAIN, finished=True)
    cut_back(one.out, 3)
    run, text = open_run(one.out), (one.out / "steps.jsonl").read_bytes()
    data, made_with = DataRecord.of(open_shards(one.data)), versions()
    for length in range(text.rindex(b"\n", 0, text.rindex(b"\n", 0, -1)), len(text) + 1):
        (one.out / "steps.jsonl").write_bytes(text[:length])
        whole = text[:length].count(b"\n")
        with writing(one.out, run.spec, data, made_with) as writer:
            assert len(writer.steps) == whole
        assert (one.out / "steps.jsonl").read_bytes() == b"".join(text.splitlines(keepends=True)[:whole])


def test_a_model_with_any_byte_changed_is_whole_or_not(job):
    """It never gets another value unnoticed, and whatever is wrong with it has one name."""
    one = job(PLAIN, finished=True)
    path = one.out / LAST
    content = path.read_bytes()
    model = StoredModel(path)
    w, alpha, damaged = model.w(), model.alpha(), 0
    for position in range(0, len(content), 3):
        path.write_bytes(content)
        garble(path, position, bytes([content[position] ^ (1 << position % 8)]))
        whole = model.is_whole()
        damaged += not whole
        try:
            same = bool((model.w() == w).all() and (model.alpha() == alpha).all() and model.w_alpha() is None)
            assert same or not whole
        except RunError:
            assert not whole
    assert damaged > 0.2 * len(content)


def header_without(out: Path, name: str) -> None:
    header = json.loads((out / "run.json").read_text())
    del header[name]
    (out / "run.json").write_text(json.dumps(header))


def header_with(out: Path, **items: Any) -> None:
    header = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(header | items))


BROKEN_HEADERS = {
    "missing": lambda out: (out / "run.json").unlink(),
    "empty": lambda out: shorten(out / "run.json", 0),
    "torn": lambda out: shorten(out / "run.json", 0.6),
    "zeros": lambda out: (out / "run.json").write_bytes(bytes(500)),
    "garbage": lambda out: (out / "run.json").write_bytes(bytes(range(128, 256))),
    "null": lambda out: (out / "run.json").write_text("null"),
    "a list": lambda out: (out / "run.json").write_text("[]"),
    "an object": lambda out: (out / "run.json").write_text("{}"),
    "another format": lambda out: header_with(out, format="other"),
    "another version": lambda out: header_with(out, version=99),
    "no status": lambda out: header_without(out, "status"),
    "no spec": lambda out: header_without(out, "spec"),
    "no data": lambda out: header_without(out, "data"),
    "no path of the data": lambda out: header_with(out, data={"fingerprint": "x"}),
    "no number of steps": lambda out: header_without(out, "n_steps"),
    "a spec of another kind": lambda out: header_with(out, spec={"class_weight": 3}),
    "a spec from the future": lambda out: header_with(out, spec={"colour": "blue"}),
}


@pytest.mark.parametrize("memory", [10**9, None])
@pytest.mark.parametrize("kind", BROKEN_HEADERS)
def test_a_broken_run_json_is_one_line_that_says_how_to_start_afresh(job, capsys, kind, memory):
    one = job(PLAIN, finished=True)
    BROKEN_HEADERS[kind](one.out)
    before = snapshot(one.out)
    code, _, said = command(capsys, *one.arguments(memory=memory))
    assert code == 1
    assert f"remove {one.out}" in one_line(said)
    assert snapshot(one.out) == before


# A disk that is full, a place that cannot be written


@pytest.mark.parametrize("case", [PLAIN, "folds", "blocks"])
def test_a_full_disk_is_one_line_and_finished_steps_stay(job, undisturbed, child, case):
    expected, (start, left) = contents(undisturbed(case)), child
    largest = max(path.stat().st_size for path in undisturbed(case).rglob("*") if path.is_file())
    stops = 0
    for size in range(300, largest, 900):
        one = job(case)
        start(one.arguments(), size)
        code, said = left()
        if code:
            stops += 1
            assert code == 1
            assert "cannot be written (File too large)" in one_line(said)
            assert not (one.out / ".scratch").exists()
        one.run()
        assert contents(one.out) == expected, f"no file above {size} bytes"
    assert stops > 1


def test_the_space_of_scratch_files_is_taken_when_they_are_made(tmp_path):
    """Writing to a mapped file on a full disk is a bus error, which kills without a word."""
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            os, "posix_fallocate", lambda number, start, size: taken.append(size) or os.ftruncate(number, size)
        )
        state = RowState(100_000, tmp_path)
        assert not state.empty().any()
    assert taken[-1] == 800_000
    assert sum(taken) == 100_000 * (8 + 8 + 4 + 1 + 1 + 1 + 8)
    assert list(tmp_path.iterdir()) == [], "they have no name, and go with their arrays"


@pytest.mark.parametrize("case", [PLAIN, "folds"])
@pytest.mark.parametrize("function", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("large", [NOW, LATER])
def test_a_disk_that_fails_is_one_line_and_finished_steps_stay(
    job, undisturbed, monkeypatch, capsys, case, function, large
):
    expected, failing = contents(undisturbed(case)), 0
    code = 1
    while code:
        one, count = job(case), 0
        failing += 2 if case == PLAIN else 7
        with monkeypatch.context() as patch:
            module, name = (os, "fsync") if function == "os.fsync" else (Path, "replace")
            original = getattr(module, name)

            def fail(*arguments: Any, original: Any = original, first: int = failing) -> Any:
                nonlocal count
                count += 1
                if count >= first:
                    raise OSError(28, "No space left on device")
                return original(*arguments)

            patch.setattr(module, name, fail)
            patch.setattr(run_writer, "SECONDS_BETWEEN_SYNCS", 0.0)
            patch.setattr(run_writer, "LARGE", large)
            code, _, said = command(capsys, *one.arguments())
        if code:
            assert "cannot be written (No space left on device)" in one_line(said)
        one.run()
        assert contents(one.out) == expected
    assert failing > 5


def foreign(out: Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")


def foreign_models(out: Path) -> None:
    (out / "models").mkdir(parents=True)
    (out / "models" / "000000.npz").write_text("somebody else's")


PLACES = {
    "a file": (lambda out: out.write_text("x"), "is a file; choose another --out"),
    "a foreign directory": (foreign, "exists and is not a run; choose another --out"),
    "foreign models": (foreign_models, "choose another --out"),
    "below a file": (lambda out: out.parent.write_text("x"), "cannot be written (Not a directory)"),
    "a name too long": (lambda out: None, "cannot be written (File name too long)"),
}


@pytest.mark.parametrize("memory", [10**9, None])
@pytest.mark.parametrize("kind", PLACES)
def test_a_place_that_cannot_be_used_is_one_line_and_stays_as_it_is(job, tmp_path, capsys, kind, memory):
    one = job(PLAIN)
    one.out = (
        tmp_path / "place" / "run" if kind == "below a file" else tmp_path / ("run" * (99 if "long" in kind else 1))
    )
    PLACES[kind][0](one.out)
    before = snapshot(tmp_path)
    code, _, said = command(capsys, *one.arguments(memory=memory))
    assert code == 1
    assert PLACES[kind][1] in one_line(said)
    assert str(one.out) in said
    assert snapshot(tmp_path) == before


def test_an_unwritable_directory_is_one_line(job, tmp_path, capsys):
    one = job(PLAIN)
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        code, _, said = command(capsys, *one.arguments())
    finally:
        tmp_path.chmod(0o700)
    assert code == 1
    assert "cannot be written (Permission denied)" in one_line(said)


def test_an_empty_directory_and_missing_parents_are_fine(job, tmp_path, undisturbed):
    one = job(PLAIN)
    (tmp_path / "empty").mkdir()
    for one.out in (tmp_path / "empty", tmp_path / "a" / "b"):
        one.run()
        assert contents(one.out) == contents(undisturbed(PLAIN))


# A second process


@pytest.mark.parametrize("case", [PLAIN, "folds"])
def test_a_second_process_is_told_to_wait(job, undisturbed, server, child, capsys, case):
    one, (start, left) = job(case), child
    pid = start(one.arguments())
    first = one.out if case == PLAIN else one.out / "folds" / "1"
    while not (first / "run.json").exists():
        assert not server.ended(0.001)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.05)
    before = snapshot(one.out)
    code, _, said = command(capsys, *one.arguments())
    after = snapshot(one.out)
    os.kill(pid, signal.SIGCONT)
    assert left() == (0, "")
    assert code == 1
    assert f"{one.out}: another svmsieve is running there" in one_line(said)
    assert after == before
    assert contents(one.out) == contents(undisturbed(case))


# Changed data or settings, and nothing changed

CHANGED = {
    "tol": ({"tol": 1e-3}, "tol was 0.0001 and is now 0.001"),
    "rule": ({"rule": "bt1"}, "rule was 'it' and is now 'bt1'"),
    "solver": ({"solver": "newton"}, "solver was 'dcd' and is now 'newton'"),
    "class weight": ({"class_weight": (1.0, 2.0)}, "class_weight was None and is now (1.0, 2.0)"),
    "hold-out": ({"holdout": 0.25}, "holdout was 0.0 and is now 0.25"),
    "memory": ({"memory": 2 * 10**9}, "memory was 4000000000 and is now 2000000000"),
    "grid": ({"grid": (1e-7, 1e-6)}, "grid was (1e-07, 1e-06, 1e-05, 0.01, 0.1, 1.0) and is now (1e-07, 1e-06)"),
    "folds": ({"cv": 2}, "cv was 0 and is now 2"),
    "validation": ({"validation": "rows"}, "was made with other validation data"),
}


@pytest.mark.parametrize("steps", [0, 2, 6])
@pytest.mark.parametrize("setting", CHANGED)
def test_changed_settings_are_refused(job, capsys, data, setting, steps):
    changed, message = CHANGED[setting]
    one = job(PLAIN, finished=True)
    if steps < 6:
        cut_back(one.out, steps)
    before = snapshot(one.out)
    changed = {name: str(data["rows"]) if name == "validation" else value for name, value in changed.items()}
    code, _, said = command(capsys, *one.arguments(**changed))
    assert code == 1
    assert message in one_line(said)
    assert f"remove {one.out} to start afresh, or choose another --out" in said
    assert snapshot(one.out) == before


def test_another_score_that_names_the_best_is_refused(job, capsys):
    one = job("hold-out", finished=True)
    code, _, said = command(capsys, *one.arguments(select="f1"))
    assert code == 1
    assert "select was 'auc' and is now 'f1'" in one_line(said)


@pytest.mark.parametrize("steps", [0, 2, 6])
def test_changed_data_are_refused(job, tmp_path, capsys, steps):
    table = sparse_rows(120, 20)
    row, column = np.argwhere(table.x)[17]
    table.x[row, column] *= 1 + 1e-15
    one = job(PLAIN, finished=True)
    if steps < 6:
        cut_back(one.out, steps)
    before = snapshot(one.out)
    one.data = Path(shards_of(tmp_path, table, rows_per_shard=35).path)
    code, _, said = command(capsys, *one.arguments())
    assert code == 1
    assert "was made from other data" in one_line(said)
    assert f"remove {one.out} to start afresh" in said
    assert snapshot(one.out) == before


def test_the_same_data_elsewhere_are_continued_with_the_same_bits(job, tmp_path, undisturbed):
    one = job(PLAIN, finished=True)
    cut_back(one.out, 3)
    one.data = Path(shutil.copytree(one.data, tmp_path / "elsewhere"))
    one.run()
    assert contents(one.out) == contents(undisturbed(PLAIN))


def test_the_same_data_in_other_shards_are_continued_within_tol(job, tmp_path, undisturbed):
    """The same fingerprint; sums over other shards have other last bits, and certificates that hold."""
    one = job(PLAIN, finished=True)
    cut_back(one.out, 3)
    one.data = Path(shards_of(tmp_path, sparse_rows(120, 20), rows_per_shard=50).path)
    one.run()
    run, expected = open_run(one.out), open_run(undisturbed(PLAIN))
    assert [step.c for step in run.steps[:3]] == [step.c for step in expected.steps[:3]]
    for step, other in zip(run.steps, expected.steps, strict=True):
        assert step.relative_gap <= run.spec.tol
        assert step.primal == pytest.approx(other.primal, rel=2 * run.spec.tol)


def test_a_changed_reference_is_refused(job, undisturbed, tmp_path):
    one = job(PLAIN)
    one.settings["grid"] = (1.0, 2.0)
    first, second = (open_run(undisturbed(case)).at(0.1) for case in (PLAIN, "none"))
    assert (first.c, first.fingerprint) == (second.c, second.fingerprint)
    one.run(reference=first)
    before = snapshot(one.out)
    for other in (second, open_run(undisturbed(PLAIN)).at(0.01), None):
        with pytest.raises(RunError, match="was made with other reference data; remove"):
            one.run(reference=other)
    one.run(reference=first)
    assert snapshot(one.out) == before


@pytest.mark.parametrize("steps", [0, 3])
def test_without_memory_a_run_continues_with_what_it_had(job, undisturbed, capsys, steps):
    one = job(PLAIN, finished=True)
    cut_back(one.out, steps)
    assert command(capsys, *one.arguments(memory=None))[0] == 0
    assert contents(one.out) == contents(undisturbed(PLAIN))


@pytest.mark.parametrize("case", CASES)
def test_a_finished_run_is_left_alone(job, monkeypatch, capsys, case):
    one = job(case, finished=True)
    before = snapshot(one.out)
    monkeypatch.setattr("pipeline.path.path.collect", None)
    code, said, _ = command(capsys, *one.arguments())
    assert code == 0
    assert "certified models" in said
    assert snapshot(one.out) == before
