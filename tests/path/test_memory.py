"""Memory is a promise: projected before a run, kept while it runs, measured from outside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pipeline.budget import (
    BASE,
    GRAM_COPIES,
    MOST_FREE_ROWS,
    MOST_WORKING_ROWS,
    default_budget,
    project,
    project_kernel,
)
from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine.engine import Engine
from pipeline.errors import BudgetError
from pipeline.path.batch import Problem, division
from pipeline.spec import PathSpec
from tests.watched import SVMSIEVE, watched
from tests.worlds import World, write_shards

BUDGET = 330_000_000

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "url"
    make("url-like", folder, scale=0.1, rows=160_000)  # 150 MB of shards, 323,196 features
    return folder


@pytest.mark.slow
def test_a_run_stays_within_its_budget_when_the_rows_do_not_fit(shards, tmp_path):
    run = tmp_path / "run"
    settings = ("--grid", "10x,20x", "--tol", "1e-3", "--memory", f"{BUDGET}", "-q")
    found = watched(*SVMSIEVE, "path", str(shards), "--out", str(run), *settings)
    assert found.code == 0, found.stderr
    header = json.loads((run / "run.json").read_text())
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert found.peak <= BUDGET
    assert header["peak_memory"] <= BUDGET
    assert abs(header["peak_memory"] - found.peak) < 0.15 * BUDGET
    held = project(160_000, 323_196, BUDGET).working_set
    assert steps[0]["working_set"] * 115 * 8 > 2 * held, "the working set has to be larger than what fits"
    assert all(step["relative_gap"] <= 1e-3 for step in steps)
    checked = watched(*SVMSIEVE, "verify", str(run), str(shards), "-q")
    assert checked.code == 0, checked.stderr


@pytest.mark.slow
def test_folds_that_are_trained_together_stay_within_the_budget(shards, tmp_path):
    budget, run = 900_000_000, tmp_path / "run"
    settings = ("--grid", "10x,30x", "--tol", "1e-3", "--cv", "4", "--memory", f"{budget}", "-q")
    found = watched(*SVMSIEVE, "path", str(shards), "--out", str(run), *settings)
    assert found.code == 0, found.stderr
    assert found.peak <= budget
    data = open_shards(shards)
    problems = [Problem(data, PathSpec(grid=(1.0,), memory=budget), run)] * 5
    with Engine("threads", 2) as engine:
        assert division(engine, problems)[0] > 1


def test_a_budget_that_is_too_small_is_refused_with_both_numbers(shards, tmp_path, capsys):
    found = watched(*SVMSIEVE, "path", str(shards), "--out", str(tmp_path / "run"), "--memory", "100MB")
    assert found.code == 1
    (line,) = found.stderr.splitlines()
    assert "need at least" in line
    assert "the budget is 100 MB" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_kernel_stays_within_its_budget(tmp_path):
    budget, n = 440_000_000, 30_000
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 6))
    y = np.where((x**2).sum(axis=1) + rng.standard_normal(n) > 6, 1.0, -1.0)
    data = write_shards(tmp_path / "shards", World(x, y, np.ones(n)), range(7000, n, 7000))
    run = tmp_path / "run"
    settings = ("--kernel", "rbf", "--gamma", "1/d", "--grid", "0.1,0.3", "--tol", "1e-2", "--memory", str(budget))
    found = watched(*SVMSIEVE, "path", data.path, "--out", str(run), "-q", *settings)
    assert found.code == 0, found.stderr
    assert found.peak <= budget
    kept = project_kernel(n, 6, 9000, budget, 2, True).columns
    assert 8 * n * n > 10 * kept > 80 * n, "some columns are kept, and not nearly all"
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert all(step["relative_gap"] <= 1e-2 for step in steps)


@pytest.mark.slow
def test_room_for_free_rows_is_within_the_budget(tmp_path):
    """More rows are free than a round usually has: their Gram matrix is most of what is used, and counted."""
    budget, n = 1_300_000_000, 7500
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 6))
    data = write_shards(tmp_path / "shards", World(x, rng.choice([-1.0, 1.0], n), np.ones(n)), [4000])
    found = project_kernel(n, 6, 4000, budget, 2, True)
    assert found.free_rows > found.working_rows == MOST_WORKING_ROWS
    run = tmp_path / "run"
    settings = ("--kernel", "rbf", "--gamma", "10/d", "--grid", "1,4", "--tol", "1e-2", "--memory", str(budget))
    done = watched(*SVMSIEVE, "path", data.path, "--out", str(run), "-q", *settings)
    assert done.code == 0, done.stderr
    assert done.peak <= budget
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert max(step["working_set"] for step in steps) == found.free_rows


@pytest.mark.parametrize("n", [4000, 9000, 32_561, 43_500])
def test_columns_never_take_the_room_of_free_rows(n):
    """Half of the room may be the Gram matrix's, up to that of all rows, or of as many as are ever asked for."""
    for budget in (10**9, 5 * 10**9, 12 * 10**9, 40 * 10**9):
        found = project_kernel(n, 123, n, budget, 1, True)
        gram = GRAM_COPIES * 8 * found.free_rows**2
        assert found.free_rows in (n, MOST_FREE_ROWS) or gram > 0.99 * found.columns
        assert gram + found.columns < budget - BASE
        assert found.working_rows <= found.free_rows <= n


def test_a_kernel_s_working_set_does_not_depend_on_the_workers():
    small = project_kernel(10_000, 10, 5000, 10**9, 1, True)
    assert project_kernel(10_000, 10, 5000, 10**9, 3, True) == small
    assert project_kernel(10_000, 10, 1000, 10**9, 9, False) == small


def test_the_projection_adds_up():
    small = project(1000, 10, 10**9)
    assert not small.scratch
    assert small.base == BASE
    assert small.room < 10**9 - BASE
    large = project(10**7, 10**6, 10**9)
    assert large.scratch, "800 MB of arrays by row do not belong into 1 GB"
    assert large.room > 0.5 * small.room
    assert project(1000, 10, 10**9, workers=8).room == small.room, "the working set must not depend on the workers"
    with pytest.raises(BudgetError, match=r"with 4 worker processes.*raise --memory or use threads"):
        project(1000, 10, 10**9, workers=4, processes=4, in_process=False)


def test_the_default_is_at_most_half_of_the_machine():
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < default_budget() <= total // 2
