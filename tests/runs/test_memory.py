"""Runs in memory: the steps, models and bits that the same run has in files, and no file."""

from __future__ import annotations

import copy
import pickle
import sys
import tempfile

import numpy as np
import pytest

import pipeline
from pipeline.data.in_memory import in_memory
from pipeline.data.reading.labels import LabelMap
from pipeline.errors import BudgetError, MissingError, RunError
from pipeline.runs.classes import ClassesRun
from pipeline.runs.directory import open_run
from pipeline.scoring.models import any_model_of
from tests.trained import sparse_rows
from tests.worlds import World, check_run

SPENT = ("seconds", "model_digest", "chain")


@pytest.fixture
def no_folder(monkeypatch):
    """Nobody makes a temporary folder."""

    def refuse(*args, **kwargs):
        raise AssertionError("a temporary folder is made")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)


def two():
    rows = sparse_rows()
    return in_memory(rows.x, rows.y, LabelMap(("0",), ("1",)), bias=1.0)


def three():
    x, codes = sparse_rows(n=90).x, np.arange(90) % 3
    x[np.arange(90), codes] += 2.0
    return in_memory(x, codes, LabelMap((), (), classes=("a", "b", "c")), bias=1.0)


def told(step):
    """What a step says of itself, but for what it took."""
    return {name: value for name, value in step.to_json().items() if name not in (*SPENT, "model", "classes")}


def assert_same(run, files):
    parts = zip(getattr(run, "runs", (run,)), getattr(files, "runs", (files,)), strict=True)
    for ours, theirs in parts:
        for one, other in zip(ours.steps, theirs.steps, strict=True):
            assert told(one) == told(other)
            assert np.array_equal(one.model.w(), other.model.w())
            assert np.array_equal(one.alpha, other.alpha)
            assert np.array_equal(one.verdicts, other.verdicts)
            assert one.model.digest() == other.model_digest
        assert (ours.header.c_min, ours.header.best_step) == (theirs.header.c_min, theirs.header.best_step)
        assert ours.spec == theirs.spec


@pytest.mark.parametrize("data", [two, three])
@pytest.mark.parametrize(
    "settings",
    [
        {"grid": [0.01, 1.0]},
        {"epsilon": 0.5, "c_max": 1.0},
        {"grid": [0.1, 1.0], "holdout": 0.3, "class_weight": "balanced"},
        {"grid": [0.1, 1.0], "cv": 3, "stratified": True},
        {"grid": [1.0], "kernel": "rbf", "gamma": 0.5},
    ],
    ids=["grid", "path", "holdout", "folds", "kernel"],
)
def test_a_run_in_memory_is_the_run_in_files(tmp_path, data, settings, monkeypatch):
    files = pipeline.fit_path(data(), out=tmp_path / "run", **settings)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *a, **k: pytest.fail("a temporary folder is made"))
    run = pipeline.fit_path(data(), **settings)
    assert run.in_memory
    assert not files.in_memory
    assert_same(run, files)
    assert run.header.cv_scores == files.header.cv_scores


@pytest.mark.parametrize("data", [two, three])
def test_tuning_in_memory_is_tuning_in_files(tmp_path, data, no_folder):
    files = pipeline.tune(data(), out=tmp_path / "run", cv=3)
    run = pipeline.tune(data(), cv=3)
    assert_same(run, files)
    for name in ("cv_c", "cv_scores", "cv_se", "c_best", "c_1se", "calibration"):
        assert getattr(run.header, name) == getattr(files.header, name), name


def test_certificates_in_memory_are_true():
    rows = sparse_rows()
    data = in_memory(rows.x, rows.y, LabelMap(("0",), ("1",)), rows.costs)
    world = World(rows.x, 2.0 * rows.y - 1, rows.costs)
    check_run(world, pipeline.fit_path(data, grid=[0.05, 0.5, 5.0], tol=1e-8))


def test_a_run_in_memory_starts_another(no_folder):
    first = pipeline.fit_path(two(), grid=[1.0])
    run = pipeline.fit_path(two(), grid=[1.1], reference=first.steps[0])
    assert run.steps[0].c_ref == 1.0
    assert run.header.data.reference[0].model == first.steps[0].model.digest()


def test_a_run_survives_pickle_and_copies(no_folder):
    run = pipeline.fit_path(two(), grid=[0.1, 1.0])
    for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):  # noqa: S301
        assert_same_models(run, other)
        assert other.at(1.0).c == 1.0


def assert_same_models(run, other):
    for one, two_ in zip(run.steps, other.steps, strict=True):
        assert np.array_equal(one.w, two_.w)
        assert np.array_equal(one.alpha, two_.alpha)


def test_a_kernel_model_in_memory_knows_its_rows_and_one_from_a_pickle_says_what_is_missing():
    data = two()
    run = pipeline.fit_path(data, grid=[1.0], kernel="rbf", gamma=0.5)
    with pipeline.Engine("inline") as engine:
        (scores,) = (part.score for part in pipeline.predict(engine, run, data))
    assert scores.shape == (60,)
    with pytest.raises(RunError, match="needs its training data"):
        any_model_of(pickle.loads(pickle.dumps(run)))  # noqa: S301


def test_arrays_by_row_that_need_a_folder_say_so():
    x, y = np.eye(2).repeat(400_000, axis=0), np.arange(800_000) % 2
    data = in_memory(x, y, LabelMap(("0",), ("1",)))
    with pytest.raises(BudgetError, match=r"raise memory, or name a folder as out$"):
        pipeline.fit_path(data, grid=[1.0], memory="400MB")


def test_frames_have_a_row_a_step(tmp_path):
    pytest.importorskip("pandas")
    run = pipeline.fit_path(two(), grid=[0.1, 1.0], holdout=0.3)
    frame = run.to_frame()
    assert frame.index.name == "step"
    assert frame["c"].tolist() == [0.1, 1.0]
    assert frame["relative_gap"].tolist() == [step.relative_gap for step in run.steps]
    assert frame["accuracy"].tolist() == [step.scores["accuracy"] for step in run.steps]
    several = pipeline.fit_path(three(), grid=[0.1, 1.0], cv=3, stratified=True)
    assert isinstance(several, ClassesRun)
    assert several.to_frame()["accuracy"].tolist() == [each["accuracy"] for each in several.header.cv_scores]
    assert open_run(pipeline.fit_path(two(), grid=[1.0], out=tmp_path / "run").path).to_frame().shape[0] == 1


def test_a_frame_without_pandas_says_how_to_get_it(monkeypatch):
    run = pipeline.fit_path(two(), grid=[1.0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingError, match="pip install pandas"):
        run.to_frame()


def test_html_is_a_small_table_and_escaped():
    rows = sparse_rows()
    data = in_memory(rows.x, rows.y, LabelMap(("0",), ("1",)), name="<b>&")
    run = pipeline.fit_path(data, epsilon=0.1, holdout=0.3)
    html = run._repr_html_()
    assert html.count("<tr>") <= 12
    assert f"{len(run.steps):,} steps" in html
    assert f"<b>{run.best.c:.6g}</b>" in html
    assert f"<td><b>{run.best.scores['accuracy']:.4f}</b></td>" in html
    hostile = type(run)(type(run.path)("<script>&"), run.header, run.steps, True)
    assert "<script>" not in hostile._repr_html_()
    assert "&lt;script&gt;&amp;" in hostile._repr_html_()
    assert repr(run) == f"<run (in memory): {len(run.steps)} steps, C = {run._all_c()}>"
