"""Solving on a worker: the same run to the bit as solving here, whatever happens to the worker; no row comes here."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import budget
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import resolve
from pipeline.data.shards import mapping
from pipeline.engine import pinned
from pipeline.engine.pinned import Here, Pinned
from pipeline.errors import BudgetError
from pipeline.events import Event, StepProgress
from pipeline.path.fit import fit_path
from pipeline.runs.directory import open_run
from pipeline.working import held as held_rows
from pipeline.working import solve as solve_held
from pipeline.working.held import HeldRows
from pipeline.working.numbers import PackedNumbers
from pipeline.working.remote import WorkerRows
from pipeline.working.rows import WorkingRows
from tests.clusters import until
from tests.forked import one_line
from tests.runs.test_durability import contents, cut_back, shrink_budget
from tests.trained import command, shards_of, sparse_rows

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "eps-path": ("rows", {"epsilon": 1.0, "c_max": 5.0, "tol": 1e-6}),
    "dcd": ("rows", {"solver": "dcd", "rule": "gap", "grid": (0.01, 0.1, 1.0), "class_weight": "balanced"}),
    "newton": ("cancer", {"solver": "newton", "grid": (0.1, 1e3, 2e3), "tol": 1e-8, "holdout": 0.2}),
    "liblinear": ("cancer", {"solver": "liblinear", "grid": (0.1, 1e3), "tol": 1e-6}),
    "blocks": ("rows", {"grid": (0.1,), "tol": 1e-2, "predict": False, "memory": 12_000}),
}


@pytest.fixture(scope="module", autouse=True)
def small_budget():
    """Let little memory be enough, for "blocks"; in this process only: workers are told what they may use."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BASE", "BATCH", "LEAST_WORKING_SET"):
            patch.setattr(budget, name, getattr(budget, name))
        patch.setattr(budget, "BATCH_FROM_AFAR", 100)
        shrink_budget()
        yield


@pytest.fixture
def cluster(cluster, watcher):
    """The same, and the scheduler knows both."""
    cluster.show_workers(2, watcher)
    return cluster


@pytest.fixture
def address(cluster):
    return cluster.address


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = shards_of(folder, sparse_rows(120, 20), rows_per_shard=35)
    source, spec = resolve("breast_cancer", IngestSpec())
    ingest([source], folder / "cancer", spec)
    return {"rows": Path(rows.path), "cancer": folder / "cancer"}


@pytest.fixture(scope="module")
def train(data):
    def run(case: str, out: Path, **changed: Any) -> dict[str, Any]:
        source, settings = CASES[case]
        fit_path(data[source], out=out, **{"memory": 4 * 10**9} | settings | changed)
        return contents(out)

    return run


@pytest.fixture(scope="module")
def expected(train, tmp_path_factory):
    """Return the contents of a case's run on threads."""
    made: dict[str, Path] = {}

    def get(case: str) -> Path:
        if case not in made:
            made[case] = tmp_path_factory.mktemp("expected") / "run"
            train(case, made[case], scheduler="inline" if case == "blocks" else "threads")
        return made[case]

    return get


def passes(out: Path) -> list[float]:
    return [step.passes for step in open_run(out).steps]


# The same bits


@pytest.mark.parametrize("case", [case for case in CASES if case != "dcd"])  # that is for accidents
def test_the_same_run_to_the_bit(train, expected, address, tmp_path, monkeypatch, case):
    blocks = []
    cut = WorkingRows.blocks
    monkeypatch.setattr(WorkingRows, "blocks", lambda *a: [blocks.append(b) or b for b in cut(*a)])
    assert train(case, tmp_path / "run", scheduler=address, solve_on="worker") == contents(expected(case))
    assert passes(tmp_path / "run") == passes(expected(case)), "not a row was read more often"
    assert bool(blocks) == (case == "blocks")


def test_where_it_was_solved_is_no_setting(train, expected, address, tmp_path):
    """Here and there, a run goes on after any step."""
    out = tmp_path / "run"
    shutil.copytree(expected("dcd"), out)
    cut_back(out, 1)
    assert train("dcd", out, scheduler=address, solve_on="worker") == contents(expected("dcd"))
    cut_back(out, 2)
    assert train("dcd", out) == contents(expected("dcd"))


def test_on_the_command_line(data, expected, address, tmp_path, capsys):
    where = ["--scheduler", address, "--solve-on", "worker", "-q", "--memory", "4GB"]
    settings = ["--solver", "dcd", "--rule", "gap", "--grid", "0.01,0.1,1", "--class-weight", "balanced"]
    code, _, err = command(capsys, "path", data["rows"], "--out", tmp_path / "path", *settings, *where)
    assert (code, err) == (0, "")
    assert contents(tmp_path / "path") == contents(expected("dcd"))
    runs = []
    for name, options in (("there", where), ("here", where[4:])):
        run = tmp_path / name
        code, _, err = command(
            capsys, "train", data["rows"], "--c", 2, "--reference", tmp_path / "path", "--out", run, *options
        )
        assert (code, err) == (0, "")
        runs.append(contents(run))
    assert runs[0] == runs[1]


# Where it cannot be


@pytest.mark.parametrize("scheduler", ["threads", "processes", "inline"])
def test_refused_where_there_is_no_cluster(data, tmp_path, capsys, scheduler):
    arguments = ["path", data["rows"], "--out", tmp_path / "run", "--scheduler", scheduler, "--solve-on", "worker"]
    code, _, err = command(capsys, *arguments)
    assert code == 1
    assert f"{scheduler} has no worker to solve on; give --scheduler an address, or --solve-on client" in one_line(err)
    assert not (tmp_path / "run").exists()


def test_workers_that_are_too_small_are_refused_before_the_run(train, address, tmp_path, monkeypatch):
    monkeypatch.setattr(pinned, "SHARE_OF_WORKER", 1e-9)
    with pytest.raises(
        BudgetError, match=r"may take \d+ MB, but the largest can give 0 MB .* or use --solve-on client"
    ):
        train("dcd", tmp_path / "run", scheduler=address, solve_on="worker")
    assert not (tmp_path / "run").exists()


# No row comes here


def forbidden(*_: Any) -> None:
    raise AssertionError("rows are held in the client")


def test_rows_stay_on_the_worker(address, tmp_path, monkeypatch):
    """Rows are long here: what is sent and received in all is less than the rows of one step."""
    data = shards_of(tmp_path, sparse_rows(60, 4000), rows_per_shard=20)
    monkeypatch.setattr(HeldRows, "hold", forbidden)
    sizes = []
    call: Callable[..., Any] = Pinned.call

    def weighed(self: Pinned, *arguments: Any) -> Any:
        found = call(self, *arguments)
        sizes.append(len(pickle.dumps(arguments)) + len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Pinned, "call", weighed)
    run = fit_path(data, out=tmp_path / "run", grid=(0.1,), scheduler=address, solve_on="worker", memory="4GB")
    assert run.steps[0].working_set > 30
    rows = 12 * data.nnz * run.steps[0].working_set / data.n_rows
    assert len(sizes) >= 4
    assert max(sizes) < rows / 4


def test_spilled_to_disk_it_forgets_its_rows(data):
    rows = fit_path(data["rows"], grid=(0.1,), scheduler="inline").steps[0]
    wanted = PackedNumbers.of(np.flatnonzero(rows.alpha > 0))
    there = WorkerRows(open_shards(data["rows"]), True, Here(1, 1))
    counted = partial(there.answer, work=lambda host: host.matrix().data.sum())
    read, total = counted(wanted)
    assert read > 0
    assert counted(wanted) == (0, total)
    assert mapping._kept_map.cache_info().currsize <= 1, "with hardly any memory, no shard stays mapped"
    again = pickle.loads(pickle.dumps(there))  # noqa: S301
    assert again.host.rows.size == 0
    assert again.answer(wanted, work=lambda host: host.matrix().data.sum()) == (read, total)


# A worker that dies


def arm(module: str, name: str, call: int, marker: str) -> None:
    """Let a worker die at the end of its n-th call of a function, unless one has already: the work is lost."""
    place = {"solve_held": solve_held, "held_rows": held_rows}[module]
    real, calls = getattr(place, name), []

    def deadly(*arguments: Any) -> Any:
        found = real(*arguments)
        calls.append(name)
        if len(calls) == call and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(place, name, deadly)


@pytest.mark.parametrize(
    ("module", "function", "calls"),
    [("solve_held", "_solve", 2), ("held_rows", "gather_rows", 1)],
    ids=["while it solves", "while it reads rows"],
)
def test_killed_at_work(cluster, watcher, train, expected, tmp_path, module, function, calls):
    watcher.run(arm, module, function, calls, str(tmp_path / "killed"))
    assert train("dcd", tmp_path / "run", scheduler=cluster.address, solve_on="worker") == contents(expected("dcd"))
    assert (tmp_path / "killed").exists()
    if function == "_solve":  # the first rows were held, and had to be read again
        assert sum(passes(tmp_path / "run")) > sum(passes(expected("dcd")))


def test_killed_between_two_steps(cluster, watcher, train, expected, tmp_path, monkeypatch):
    homes, killed = [], []
    call = Pinned.call

    def noted(self: Pinned, *arguments: Any) -> Any:
        found = call(self, *arguments)
        homes.append(self.address)
        return found

    def kill(event: Event) -> None:
        if isinstance(event, StepProgress) and event.done and event.step == 1:
            killed.append(homes[-1])
            os.kill(watcher.run(os.getpid)[killed[0]], signal.SIGKILL)
            until(lambda: killed[0] not in watcher.scheduler_info(n_workers=-1)["workers"])

    monkeypatch.setattr(Pinned, "call", noted)
    found = train("dcd", tmp_path / "run", scheduler=cluster.address, solve_on="worker", listen=kill)
    assert found == contents(expected("dcd"))
    assert homes[-1] not in killed
