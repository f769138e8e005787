"""Whatever stops a run, the same command goes on after the last finished step and ends with the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import budget
from pipeline.data.ingest import IngestSpec, ingest
from pipeline.data.inputs import resolve
from pipeline.flow.fit import fit_path
from pipeline.flow.run_directory import open_run
from pipeline.flow.working_rows import WorkingRows
from tests.flow.runs import shards_of, sparse_rows

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
    "blocks": ("rows", {"grid": (0.01, 0.1, 0.2), "tol": 1e-3, "memory": 7_000, "scheduler": "inline"}),
}
PLAIN = "below C_min"


def shrink_budget() -> None:
    """Let little memory be enough, for "blocks": arrays by row in scratch files, the working set in several blocks."""
    budget.BASE = budget.BATCH = budget.LEAST_WORKING_SET = 1000


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
        self.settings = {"memory": 10**9, "scheduler": "threads"} | CASES[case][1]

    def run(self, **changed: Any) -> None:
        fit_path(self.data, out=self.out, **self.settings | changed)

    def arguments(self, **changed: Any) -> list[str]:
        words = ["path", str(self.data), "--out", str(self.out), "-q"]
        for name, value in (self.settings | changed).items():
            text = ",".join(map(repr, value)) if isinstance(value, tuple) else str(value)
            words += [f"--{name.replace('_', '-')}", text]
        return words

    def steps(self) -> int:
        """Count the finished steps, those of folds included."""
        return sum(path.read_text().count("\n") for path in self.out.rglob("steps.jsonl"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = shards_of(folder, sparse_rows(120, 20), rows_per_shard=35)
    source, spec = resolve("breast_cancer", IngestSpec())
    ingest([source], folder / "cancer", spec)
    assert len(rows.shards) == 4
    return {"rows": Path(rows.path), "cancer": folder / "cancer"}


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


@pytest.mark.parametrize("case", [case for case in CASES if case != "folds"])
def test_continued_after_every_step(job, undisturbed, case):
    expected = contents(undisturbed(case))
    for steps in range(len(expected["steps.jsonl"])):
        one = job(case, finished=True)
        cut_back(one.out, steps)
        one.run()
        assert contents(one.out) == expected, f"continued after {steps} steps"


@pytest.mark.parametrize("case", ["newton", "liblinear"])
def test_the_cases_have_what_they_are_for(undisturbed, case):
    steps = open_run(undisturbed(case)).steps
    assert [step.model.w_alpha() is not None for step in steps[2:]].count(True) >= 2


def test_the_case_blocks_has_blocks_and_scratch_files(job, monkeypatch):
    one, seen = job("blocks"), []
    blocks = WorkingRows.blocks

    def watched(rows: WorkingRows, wanted: np.ndarray) -> list[np.ndarray]:
        found = list(blocks(rows, wanted))
        seen.append((len(found), (one.out / ".scratch").is_dir()))
        return found

    monkeypatch.setattr(WorkingRows, "blocks", watched)
    one.run()
    assert max(seen) >= (3, True)
