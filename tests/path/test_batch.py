"""Paths that are trained together: the bits they have alone, however a batch is cut and wherever it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pipeline
from pipeline.budget import BASE
from pipeline.engine.engine import Engine
from pipeline.errors import SolverError
from pipeline.events import Note, StepProgress
from pipeline.maths import csr
from pipeline.path import batch
from pipeline.path.agreement import has_peaked
from pipeline.path.batch import Problem, division, run_together
from pipeline.path.path import run_path
from pipeline.spec import PathSpec
from tests.worlds import check_run, plain_world, write_shards

GRID = (0.003, 0.03, 0.3, 3.0)


@pytest.fixture(scope="module")
def world():
    return plain_world(n=300, d=12, seed=3)


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("rows"), world, cuts=[40, 90, 200])


def problems(data, folder: Path, rule: str = "it", **settings) -> list[Problem]:
    spec = PathSpec(grid=GRID, rule=rule, **settings)
    return [Problem(data, replace(spec, fold=(k, 5)), folder / str(k)) for k in range(5)]


def models(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.npz"))}


@pytest.mark.parametrize("rule", ["it", "bt1", "gap"])
def test_together_as_alone(data, tmp_path, rule):
    with Engine("threads", 2) as engine:
        for each in problems(data, tmp_path / "alone", rule):
            run_path(engine, each.data, each.spec, each.out)
        runs = run_together(engine, problems(data, tmp_path / "together", rule))
    assert [len(run.steps) for run in runs] == [len(GRID)] * 5
    assert models(tmp_path / "together") == models(tmp_path / "alone")
    assert len(models(tmp_path / "alone")) == 5 * len(GRID)


@pytest.mark.parametrize("scheduler", ["inline", "processes"])
def test_the_same_bits_wherever_passes_run(data, tmp_path, scheduler):
    for name in ("threads", scheduler):
        with Engine(name) as engine:
            run_together(engine, problems(data, tmp_path / name, memory=4 * 10**9))
    assert models(tmp_path / scheduler) == models(tmp_path / "threads")


def test_models_are_those_of_the_oracle(world, data, tmp_path):
    with Engine("threads", 2) as engine:
        for k, run in enumerate(run_together(engine, problems(data, tmp_path, tol=1e-6))):
            assert run.spec.fold == (k, 5)
            left = np.concatenate([run.steps[0].alpha, [1.0]])[:-1] == 0
            assert left.any()
            assert max(step.relative_gap for step in run.steps) <= 1e-6
        whole = run_together(engine, [Problem(data, PathSpec(grid=GRID, tol=1e-6), tmp_path / "whole")])[0]
    check_run(world, whole)


def test_a_batch_that_does_not_fit_is_cut(data, tmp_path, monkeypatch):
    """With little memory fewer are trained at a time; the bits are those of any other cut."""
    asked = problems(data, tmp_path / "whole", memory=BASE + 90_000_000)
    with Engine("threads", 2) as engine:
        count, memory = division(engine, asked)
        assert 1 < count < 5
        run_together(engine, asked)
        monkeypatch.setattr(batch, "division", lambda engine, problems: (2, memory))
        run_together(engine, problems(data, tmp_path / "pairs", memory=BASE + 90_000_000))
    assert models(tmp_path / "pairs") == models(tmp_path / "whole")


def test_memory_is_divided(data):
    with Engine("threads", 2) as engine:
        count, memory = division(engine, problems(data, Path("nowhere"), memory=10**10))
    assert count == 5
    assert BASE + 5 * (memory - BASE) <= 10**10 < BASE + 5 * (memory - BASE) + 10**6


def test_interrupted_runs_go_on_to_the_same_bits(data, tmp_path):
    class StoppedError(Exception):
        pass

    with Engine("threads", 2) as engine:
        run_together(engine, problems(data, tmp_path / "whole"))
        for after in (1, 4, 9, 15, 19):
            seen = 0

            def stop(event, after=after):
                nonlocal seen
                seen += isinstance(event, StepProgress) and event.done
                if seen == after:
                    raise StoppedError

            folder = tmp_path / str(after)
            with pytest.raises(StoppedError):
                run_together(engine, problems(data, folder), stop)
            assert 0 < len(models(folder)) <= 20
            run_together(engine, problems(data, folder))
            assert models(folder) == models(tmp_path / "whole")


def test_the_first_error_ends_all(data, tmp_path):
    asked = problems(data, tmp_path)
    asked[3] = replace(asked[3], spec=replace(asked[3].spec, tol=1e-15, solver="liblinear"))
    with Engine("threads", 2) as engine, pytest.raises(SolverError, match="the relative gap stays at"):
        run_together(engine, asked)


def test_what_is_told(data, tmp_path):
    heard = []
    asked = [replace(each, name=f"fold {k}") for k, each in enumerate(problems(data, tmp_path))]
    with Engine("threads", 2) as engine:
        run_together(engine, asked, heard.append)
        steps = [event for event in heard if isinstance(event, StepProgress) and event.done]
        assert len(steps) == 20
        assert [event.share for event in steps] == sorted(event.share for event in steps)
        assert steps[-1].share == pytest.approx(1.0)
        for path in tmp_path.rglob("000003.npz"):
            path.unlink()
        run_together(engine, asked, heard.append)
    notes = {event.text.split(":")[0] for event in heard if isinstance(event, Note)}
    assert notes == {f"fold {k}" for k in range(5)}


class TestPatience:
    def test_it_begins_when_scores_move(self):
        spec = PathSpec(patience=2)
        flat = [[{"accuracy": 0.9}], [{"accuracy": 0.9}], [{"accuracy": 0.9}], [{"accuracy": 0.9}]]
        assert not has_peaked(flat, spec)
        assert has_peaked([*flat, [{"accuracy": 0.8}]], spec)
        assert not has_peaked([*flat, [{"accuracy": 0.95}], [{"accuracy": 0.95}]], spec)
        assert has_peaked([*flat, [{"accuracy": 0.95}], [{"accuracy": 0.95}], [{"accuracy": 0.9}]], spec)
        assert not has_peaked([*flat, [{"accuracy": 0.8}]], PathSpec())

    def test_a_path_ends_after_its_peak(self, data):
        whole = pipeline.fit_path(data, holdout=0.3)
        run = pipeline.fit_path(data, holdout=0.3, patience=3)
        found = [step.scored["accuracy"] for step in run.steps]
        top = found.index(max(found))
        assert len(found) - 1 - top == 3
        assert len(run.steps) < len(whole.steps)
        assert found == [step.scored["accuracy"] for step in whole.steps[: len(found)]]
        assert run.header.stopped == "patience"
        assert whole.header.stopped is None
        assert run.best_step == top

    def test_folds_decide_together(self, data, tmp_path):
        settings = {"grid": np.logspace(-4, 3, 15), "cv": 4}
        whole = pipeline.fit_path(data, **settings)
        run = pipeline.fit_path(data, **settings, patience=2, out=tmp_path / "run")
        means = [scores["accuracy"] for scores in whole.header.cv_scores]
        ends = next(
            k for k in range(15) if len(set(means[: k + 1])) > 1 and k - means[: k + 1].index(max(means[: k + 1])) >= 2
        )
        assert len(run.steps) == ends + 1 < 15
        assert run.header.cv_scores == whole.header.cv_scores[: ends + 1]
        folds = [pipeline.open_run(tmp_path / "run" / "folds" / str(k)) for k in range(4)]
        assert {len(fold.steps) for fold in folds} == {ends + 1}
        assert {fold.header.stopped for fold in folds} == {"patience"}
        again = pipeline.fit_path(data, **settings, patience=2, out=tmp_path / "run")
        assert again.header == run.header


def test_products_of_several_have_the_bits_of_each():
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, 200)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = rng.integers(0, 50, indptr[-1]).astype(np.int32)
    values = rng.standard_normal(indptr[-1]).astype(np.float32)
    beside = rng.standard_normal((50, 16))
    found = csr.products_of_pairs(indptr, indices, values, beside)
    labels = np.ones(200, np.int8)
    for k in range(0, 16, 2):
        v, w = (np.ascontiguousarray(beside[:, j]) for j in (k, k + 1))
        pair = csr.margins_two((indptr, indices, values, labels), v, w)
        assert (found[k] == pair[0]).all()
        assert (found[k + 1] == pair[1]).all()
