"""Run directories of several classes: what a reader finds in them, finished, under way, or changed by anybody."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import RunError
from pipeline.path.fit import fit_path
from pipeline.path.train import budget_for
from pipeline.runs.chain import sealed
from pipeline.runs.classes import ClassesRun
from pipeline.runs.directory import open_path, open_run
from tests.formats import Table
from tests.trained import command, shards_of, sparse_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    made = sparse_rows()
    return shards_of(tmp_path_factory.mktemp("data"), Table(made.x, np.arange(60) % 3, made.costs))


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("made") / "run"
    return fit_path(data, out=out, grid=(0.1, 1.0), holdout=0.3, memory="1GB", scheduler="inline")


@pytest.fixture
def run(made, tmp_path) -> Path:
    return shutil.copytree(made.path, tmp_path / "run")


def header(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())


KEYS = ["format", "version", "status", "classes", "spec", "data", "versions", "c_min", "class_weights", "n_steps"]
KEYS += ["scores", "best_step", "stopped", "cv_scores", "cv_se", "cv_c", "c_best", "c_1se", "calibration"]
KEYS += ["peak_memory", "seconds"]


def test_what_run_json_says(run):
    item = header(run)
    assert set(item) == {*KEYS, "calibration", "held_out", "chain", "seal"}
    assert (item["format"], item["version"], item["status"]) == ("svmsieve-classes", 1, "finished")
    assert item["classes"] == item["data"]["classes"] == ["0", "1", "2"]
    assert item["n_steps"] == len(item["scores"]) == 2
    assert [item[name] for name in ("cv_scores", "cv_se", "cv_c", "c_best", "c_1se")] == [None] * 5
    assert item == sealed(item)
    assert sorted(path.name for path in (run / "classes").iterdir()) == ["0", "1", "2"]


def test_every_class_is_a_run_as_any_other(run):
    found = open_run(run)
    assert isinstance(found, ClassesRun)
    assert found.classes == ("0", "1", "2")
    for k, part in enumerate(found.runs):
        alone = open_run(run / "classes" / str(k))
        assert alone.header == part.header
        assert (alone.header.data.positive, alone.header.data.one_against_rest) == ((str(k),), True)
        assert [step.parts[k].c for step in found.steps] == [step.c for step in alone.steps]
    assert budget_for(run) == 10**9


def test_a_run_under_way_has_the_steps_that_all_classes_have(run):
    item = header(run) | {"status": "running", "scores": None, "n_steps": None, "best_step": None}
    (run / "run.json").write_text(json.dumps(sealed(item)))
    lines = (run / "classes" / "1" / "steps.jsonl").read_text().splitlines(keepends=True)
    (run / "classes" / "1" / "steps.jsonl").write_text(lines[0])
    assert [step.c for step in open_run(run).steps] == [0.1]
    assert not open_run(run).is_finished
    shutil.rmtree(run / "classes" / "2")
    assert open_run(run).steps == []
    with pytest.raises(RunError, match="the run has no finished step"):
        open_run(run).at(0.1)


def test_what_needs_two_classes_says_so(run):
    with pytest.raises(RunError, match="is a run of several classes, and one of two is needed; name one of them, as"):
        open_path(run)


HOSTILE: dict[str, dict[str, Any]] = {
    "another version": {"version": 2},
    "no version": {"version": None},
    "another format": {"format": "svmsieve-run"},
    "a format that is no text": {"format": ["svmsieve-classes"]},
    "no status": {"status": "done"},
    "classes that are numbers": {"classes": [0, 1, 2]},
    "other classes": {"classes": ["0", "1", "3"]},
    "a setting that is none": {"spec": {"tol": -1}},
    "settings that are none": {"spec": None},
    "scores that are none": {"scores": [{"accuracy": "good"}, {"accuracy": 1.0}]},
    "a score of another name": {"scores": [{"luck": 1.0}, {"luck": 1.0}]},
    "too few scores": {"scores": [{"accuracy": 1.0}]},
    "weights for others": {"class_weights": [1.0, 2.0]},
    "calibrations for others": {"calibration": [{"kind": "sigmoid", "c": 1.0, "slope": 1.0, "intercept": 0.0}]},
    "a weight of 0": {"class_weights": [1.0, 2.0, 0.0]},
    "no number of steps": {"n_steps": None},
    "a best step that is none": {"best_step": -1},
    "c_min that is none": {"c_min": 0.0},
}
DATA: dict[str, Any] = {
    "no classes": {"classes": None},
    "two classes": {"classes": ["0", "1"]},
    "a class twice": {"classes": ["0", "1", "1"]},
    "half a character": {"classes": ["0", "1", "\ud800"]},
    "no rows": {"rows": -1},
    "a path that is none": {"path": 7},
}


@pytest.mark.attack
@pytest.mark.parametrize("kind", [*HOSTILE, *DATA])
def test_a_header_that_cannot_be(run, data, tmp_path, capsys, kind):
    item = header(run)
    item = item | HOSTILE[kind] if kind in HOSTILE else item | {"data": item["data"] | DATA[kind]}
    (run / "run.json").write_text(json.dumps(item))
    with pytest.raises(RunError) as caught:
        open_run(run)
    assert "\n" not in str(caught.value)
    for words in (
        ["predict", run, data.path, "--c", 1, "--out", tmp_path / "p.parquet", "-q"],
        ["export", run, "--c", 1, "--out", tmp_path / "svm.npz"],
        ["verify", run, data.path, "-q"],
        ["train", data.path, "--reference", run, "--c", 1, "--out", tmp_path / "other", "-q"],
        ["path", data.path, "--out", run, "--grid", "0.1,1", "--holdout", 0.3, "--memory", "1GB", "-q"],
    ):
        code, _, error = command(capsys, *words)
        assert (code, error.count("\n")) == (1, 1), words


def missing(run: Path) -> None:
    shutil.rmtree(run / "classes" / "1")


def swapped(run: Path) -> None:
    """Class 1 is now class 2: a run that is whole, and has the same C."""
    (run / "classes" / "1").rename(run / "spare")
    (run / "classes" / "2").rename(run / "classes" / "1")
    (run / "spare").rename(run / "classes" / "2")


def other_c(run: Path) -> None:
    path = run / "classes" / "2" / "steps.jsonl"
    path.write_text(path.read_text().replace('"c": 1.0', '"c": 1.5'))


def wider(run: Path) -> None:
    path = run / "classes" / "2" / "run.json"
    item = json.loads(path.read_text())
    path.write_text(json.dumps(sealed(item | {"data": item["data"] | {"features": 13}})))


@pytest.mark.attack
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (missing, "no run.json"),
        (other_c, "step 1 has other C in one class than in another"),
        (swapped, "is not the run of class 1 of the run above it"),
        (wider, "is not the run of class 2 of the run above it"),
    ],
)
def test_classes_that_do_not_belong_together(run, change, message):
    change(run)
    with pytest.raises(RunError, match=message):
        open_run(run)


@pytest.mark.attack
def test_a_run_whose_classes_were_replaced_is_not_continued(run, data):
    settings = {"grid": (0.1, 1.0), "holdout": 0.3, "memory": "1GB", "scheduler": "inline"}
    assert fit_path(data, out=run, **settings).header == open_run(run).header
    swapped(run)
    with pytest.raises(RunError, match="was made from other data"):
        fit_path(data, out=run, **settings)
    swapped(run)
    part = run / "classes" / "1" / "run.json"
    part.write_text(json.dumps(sealed(json.loads(part.read_text()) | {"best_step": None})))
    with pytest.raises(RunError, match=r"run\.json is not that of its classes; remove"):
        fit_path(data, out=run, **settings)


def test_models_that_were_lost_are_trained_again(run, made, data):
    (run / "classes" / "1" / "models" / "000001.npz").unlink()
    again = fit_path(data, out=run, grid=(0.1, 1.0), holdout=0.3, memory="1GB", scheduler="inline")
    for one, two in zip(again.steps, made.steps, strict=True):
        assert [part.model.digest() for part in one.parts] == [part.model.digest() for part in two.parts]
    assert again.header.seal == made.header.seal
