"""Runs of several classes: what was made verifies, and nothing that says otherwise does."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError
from pipeline.maths.class_scores import class_scores as scores_of
from pipeline.path.fit import fit_path
from pipeline.runs.chain import sealed
from pipeline.runs.classes import chain_of
from pipeline.runs.directory import open_run
from pipeline.verify import class_scores
from pipeline.verify.classes import verify_any
from tests.formats import Table
from tests.tampering import at, change_model, change_step, reseal
from tests.trained import command, shards_of, sparse_rows

pytestmark = pytest.mark.attack
SETTINGS = {"grid": (0.1, 1.0), "scheduler": "inline", "memory": 10**9}


def rows(n: int = 90, seed: int = 0) -> Table:
    made = sparse_rows(n, seed=seed)
    y = np.argmax(made.x[:, :4] + 0.2 * np.random.default_rng(seed).standard_normal((n, 4)), axis=1)
    return Table(made.x, y, made.costs)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("data"), rows(), bias=1.0)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("other"), rows(40, seed=5), bias=1.0)


CASES = {
    "hold-out": {"holdout": 0.3, "class_weight": "balanced"},
    "stratified": {"holdout": 0.3, "stratified": True, "seed": 3},
    "weights": {"class_weight": {"1": 3.0}},
    "multiples": {"grid": (2.0, 20.0), "grid_in_c_min": True, "class_weight": {"1": 3.0}, "holdout": 0.2},
    "folds": {"cv": 3, "class_weight": "balanced"},
    "kernel": {"kernel": "rbf", "gamma": 0.3, "holdout": 0.3, "grid": (1.0,)},
    "log-loss": {"holdout": 0.3, "select": "log_loss"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    known = {}

    def make(case):
        if case not in known:
            known[case] = tmp_path_factory.mktemp("made") / "run"
            fit_path(data, out=known[case], **SETTINGS | CASES[case])
        return known[case]

    return make


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made("hold-out"), tmp_path / "run")


def found(run, data, **options):
    with Engine("inline") as engine:
        return verify_any(engine, run, data, **options)


def header(run):
    return json.loads((run / "run.json").read_text())


def change(run, seal=True, **changes):
    """Change run.json, and make chain and seal those of what is there, as one would who knows how."""
    item = header(run) | changes
    if seal:
        parts = sorted((run / "classes").iterdir(), key=lambda path: int(path.name))
        item["chain"] = chain_of(item, [header(part)["seal"] for part in parts])
        item = sealed(item)
    (run / "run.json").write_text(json.dumps(item))


@pytest.mark.parametrize("case", CASES)
def test_what_was_made_holds(made, data, case):
    out = found(made(case), data)
    assert all(finding.holds for finding in out)
    folds = 1 + CASES[case].get("cv", 0)
    assert len(out) == 4 * len(open_run(made(case)).steps) * folds


def test_validation_data(tmp_path, data, other):
    fit_path(data, out=tmp_path / "run", validation=other, **SETTINGS)
    notes = []
    assert all(finding.holds for finding in found(tmp_path / "run", data, listen=notes.append))
    assert any("not checked" in getattr(note, "text", "") for note in notes)
    assert all(finding.holds for finding in found(tmp_path / "run", data, validation=other))
    with pytest.raises(RunError, match="was not scored on"):
        found(tmp_path / "run", data, validation=data)
    scores = header(tmp_path / "run")["scores"]
    scores[1]["accuracy"] += 1 / 40
    change(tmp_path / "run", scores=scores, best_step=1)
    with pytest.raises(RunError, match="step 1: the stored accuracy"):
        found(tmp_path / "run", data, validation=other)


def test_the_command(run, data, capsys):
    code, said, _ = command(capsys, "verify", run, data.path, "-q")
    assert code == 0
    assert said.count("2 certificates hold") == 4
    code, said, _ = command(capsys, "verify", run, data.path, "-q", "--step", "1", "--json")
    assert (code, json.loads(said)["holds"], len(json.loads(said)["findings"])) == (0, True, 4)
    change_model(run / "classes" / "2", 1, alpha_value=at(0, lambda value: value * 2))
    code, _, error = command(capsys, "verify", run, data.path, "-q")
    assert (code, error.count("\n")) == (1, 1)
    assert "classes/2: step 1" in error


def test_a_run_under_way_holds_as_far_as_it_is(run, data):
    change(run, seal=False, status="running", n_steps=None, scores=None, best_step=None)
    (run / "run.json").write_text(json.dumps(sealed(header(run))))
    assert all(finding.holds for finding in found(run, data))


def swap(run):
    (run / "classes" / "1").rename(run / "spare")
    (run / "classes" / "2").rename(run / "classes" / "1")
    (run / "spare").rename(run / "classes" / "2")
    change(run)


def spec(**changes):
    return lambda run: change(run, spec=header(run)["spec"] | changes)


def scores(name, difference):
    def changed(run):
        found = header(run)["scores"]
        found[0][name] += difference
        change(run, scores=found)

    return changed


LIES = {
    "two classes changed places": (swap, "was made from other data"),
    "another weight": (lambda run: change(run, class_weights=[1.0, 1.0, 1.0, 1.0]), "class_weights in run.json are"),
    "no weights": (lambda run: change(run, class_weights=None), "class_weights in run.json are"),
    "settings of other weights": (spec(class_weight=None), "class_weights in run.json are"),
    "a larger tol": (spec(tol=1e-2), "the class has other settings than its run"),
    "another grid": (spec(grid=[0.1, 2.0]), "has not the C that all classes were to be trained at"),
    "a longer grid": (spec(grid=[0.1, 1.0, 2.0]), "has not the C that all classes were to be trained at"),
    "no grid": (spec(grid=None), "the class has other settings than its run"),
    "a better accuracy": (scores("accuracy", 0.04), "the stored accuracy"),
    "a better balanced accuracy": (scores("balanced_accuracy", 0.01), "the stored balanced_accuracy"),
    "a better AUC": (scores("auc", 0.005), "the stored auc"),
    "a better F1": (scores("f1", 0.01), "the stored f1"),
    "another best step": (
        lambda run: change(run, best_step=1 - header(run)["best_step"]),
        "the best, but by the scores it is",
    ),
    "no scores": (lambda run: change(run, scores=None, best_step=None), "rows were scored, but there are no scores"),
    "a broken seal": (lambda run: change(run, seal=False, peak=1), "run.json is not as it was written"),
    "a broken chain": (
        lambda run: (run / "run.json").write_text(json.dumps(sealed(header(run) | {"chain": "0" * 64}))),
        "run.json is not that of its classes",
    ),
    "other names": (
        lambda run: change(
            run, classes=["0", "1", "2", "9"], data=header(run)["data"] | {"classes": ["0", "1", "2", "9"]}
        ),
        "run.json has the classes 0, 1, 2, 9, but the data 0, 1, 2, 3",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_though_all_hashes_are_made_anew(run, data, lie):
    tell, message = LIES[lie]
    tell(run)
    with pytest.raises(RunError) as caught:
        found(run, data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_class_whose_model_was_changed(run, data):
    change_model(run / "classes" / "3", 0, w_value=at(0, lambda value: value + 0.1))
    reseal(run / "classes" / "3")
    change(run)
    problems = {(finding.run[-1], finding.step): finding.problem for finding in found(run, data) if not finding.holds}
    assert list(problems) == [("3", 0)]
    change_step(run / "classes" / "1", 1, relative_gap=0.0)
    problems = {(finding.run[-1], finding.step) for finding in found(run, data) if not finding.holds}
    assert problems == {("3", 0), ("1", 1)}


@pytest.mark.parametrize("difference", [-0.01, 0.01])
def test_another_log_loss(made, tmp_path, data, difference):
    run = shutil.copytree(made("log-loss"), tmp_path / "run")
    scores("log_loss", difference)(run)
    with pytest.raises(RunError, match="step 0: the stored log_loss"):
        found(run, data)


def test_a_log_loss_of_scores_that_rounding_puts_in_another_order(tmp_path):
    """A class whose model is all but constant: its rows are dealt out to halves in an order that rounding makes."""
    rng = np.random.default_rng(3)
    x = np.tile(rng.standard_normal((41, 2)), (2, 1))
    y = np.r_[np.arange(41) % 2, rng.integers(0, 3, 41)]
    data = shards_of(tmp_path, Table(x, y, np.ones(82)), bias=10.0)
    settings = SETTINGS | {"grid": (1.0, 10.0, 100.0, 1000.0), "grid_in_c_min": True, "select": "log_loss", "tol": 1e-7}
    run = fit_path(data, out=tmp_path / "run", validation=data, **settings)
    assert all(finding.holds for finding in found(run.path, data, validation=data))


def test_what_rounding_may_do_to_a_log_loss_is_within_its_range():
    """Scores of all classes moved by their doubt, many of them equal before."""
    random = np.random.default_rng(0)
    for _ in range(200):
        codes = random.integers(0, 3, 25)
        s = np.round(random.standard_normal((25, 3)), 1) * random.choice([0.0, 1e-3, 1.0], 3)
        doubt = np.full(s.shape, 1e-13)
        low, high = class_scores._range_of_loss(s, doubt, codes)
        moved = s + random.uniform(-1e-13, 1e-13, s.shape)
        assert low <= scores_of(moved.T, codes, "log_loss")["log_loss"] <= high


@pytest.mark.parametrize("change_it", [{"c_min": 0.5}, {"c_min": None}], ids=str)
def test_another_unit_of_the_grid(made, tmp_path, data, change_it):
    run = shutil.copytree(made("multiples"), tmp_path / "run")
    change(run, **change_it)
    with pytest.raises(RunError, match="C_min"):
        found(run, data)


def test_folds_are_verified_too(made, tmp_path, data):
    run = shutil.copytree(made("folds"), tmp_path / "run")
    means = header(run)["cv_scores"]
    means[0]["accuracy"] += 0.1
    change(run, cv_scores=means, best_step=0)
    with pytest.raises(RunError, match=r"cv_scores in run\.json are not the means of the folds'"):
        found(run, data)
    shutil.rmtree(run)
    shutil.copytree(made("folds"), run)
    change_model(run / "folds" / "1" / "classes" / "2", 0, alpha_value=at(0, lambda value: value / 2))
    assert [f.run.split("run/")[-1] for f in found(run, data) if not f.holds] == ["folds/1/classes/2"]


def test_other_data_and_other_kinds_of_runs(run, data, tmp_path):
    (tmp_path / "more").mkdir()
    with pytest.raises(RunError, match="was made from other data"):
        found(run, shards_of(tmp_path / "more", rows(80, seed=2), bias=1.0))
    (tmp_path / "two").mkdir()
    two = shards_of(tmp_path / "two", sparse_rows())
    single = fit_path(two, out=tmp_path / "single", **SETTINGS)
    with pytest.raises(DataError, match=r"has 4 classes, and the run .*single needs two"):
        found(single.path, data)
    with pytest.raises(RunError, match="was made from other data"):
        found(run, two)


def test_scores_near_each_other_may_be_either_way():
    """Three rows of two classes in three: one sure, one in doubt, one sure to be wrong."""
    s = np.array([[2.0, 1.0, 0.0], [1.0, 1.0 + 1e-12, 0.0], [0.0, 0.0, 5.0]])
    ranges = class_scores._ranges(s, np.full(s.shape, 1e-9), np.array([0, 0, 1]))
    assert ranges["accuracy"] == (1 / 3, 2 / 3)
    assert ranges["balanced_accuracy"] == (0.25, 0.5)
    low, high = class_scores._ranges(s, np.zeros(s.shape), np.array([0, 0, 1]))["accuracy"]
    assert low == high == 1 / 3
