"""Is a calibration that of the scores of rows left out? Judged with another sigmoid, and another regression."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.maths.calibration import KINDS, fit_calibration
from pipeline.maths.sigmoid import fit_sigmoid
from pipeline.path.tune import tune_run
from pipeline.runs.directory import open_run
from pipeline.spec import PathSpec
from pipeline.verify.calibration import wrong_calibration
from pipeline.verify.classes import verify_any
from pipeline.verify.sigmoid import sigmoid_of
from tests.formats import Table
from tests.tampering import change_header, found
from tests.trained import shards_of, sparse_rows
from tests.worlds import plain_world, write_shards


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1, -1)
    return rng.standard_normal(n) + y, y


@given(st.integers(0, 2**32), st.integers(1, 300), st.sampled_from([1e-6, 1.0, 1e8]), st.sampled_from([0.0, 1.0, 30.0]))
def test_both_sigmoids_are_the_same(seed, n, size, apart):
    rng = np.random.default_rng(seed)
    true = rng.random(n) < 0.5
    score = size * (rng.standard_normal(n) + apart * true)
    ours = fit_sigmoid(score[true], score[~true])
    slope, intercept = sigmoid_of(score, true)
    assert (ours.slope * size, ours.intercept) == pytest.approx((slope * size, intercept), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_fitted_is_right(kind):
    """Also for who knows the scores but for their last digits, or the rows in another order."""
    score, y = rows()
    doubt, order = np.full(400, 1e-9), np.random.default_rng(1).permutation(400)
    said = fit_calibration(score, y, kind).to_json()
    nearly = score + np.random.default_rng(2).uniform(-1e-9, 1e-9, 400)
    assert wrong_calibration(said, score, np.zeros(400), y) == ""
    assert wrong_calibration(said, nearly[order], doubt, y[order]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_that_of_other_rows_is_found(kind):
    score, y = rows()
    said = fit_calibration(*rows(seed=1), kind).to_json()
    assert "not that of the folds' scores" in wrong_calibration(said, score, np.zeros(400), y)


def test_a_change_is_found():
    score, y = rows()
    sigmoid = fit_calibration(score, y).to_json()
    for change in ({"slope": sigmoid["slope"] * 1.001}, {"intercept": sigmoid["intercept"] + 1e-3}):
        assert wrong_calibration(sigmoid | change, score, np.zeros(400), y)
    steps = fit_calibration(score, y, "isotonic").to_json()
    p = [min(1.0, value + 1e-3) for value in steps["probabilities"]]
    assert wrong_calibration(steps | {"probabilities": p}, score, np.zeros(400), y)
    inner = {key: steps[key][1:-1] for key in ("scores", "probabilities")}
    assert wrong_calibration(steps | inner, score, np.zeros(400), y)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    data = write_shards(folder / "shards", plain_world(300), [120])
    runs = {}
    with Engine("inline") as engine:
        for kind in KINDS:
            spec = PathSpec(cv=3, patience=2, select="log_loss", stratified=True, seed=2)
            runs[kind] = tune_run(engine, data, [spec], folder / kind, calibration=kind).path
    return data, runs


@pytest.mark.parametrize("kind", KINDS)
def test_the_calibration_of_a_tuned_run(tuned, tmp_path, kind):
    data, run = tuned[0], shutil.copytree(tuned[1][kind], tmp_path / "run")
    said = open_run(run).header.calibration.to_json()
    assert said["kind"] == kind
    assert all(finding.holds for finding in found(run, data))
    score, y = rows()
    for wrong in (fit_calibration(score, y, kind, said["c"]).to_json(), said | {"c": said["c"] * 2}):
        change_header(run, calibration=wrong)
        with pytest.raises(RunError, match=r"the calibration is .*; tune again"):
            found(run, data)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    made = sparse_rows(150)
    y = np.argmax(made.x[:, :3] + 0.3 * np.random.default_rng(1).standard_normal((150, 3)), axis=1)
    data, runs = shards_of(folder, Table(made.x, y, made.costs), bias=1.0), {}
    with Engine("inline") as engine:
        for kind in KINDS:
            spec = PathSpec(cv=3, patience=1, tol=1e-3, stratified=True, seed=2)
            runs[kind] = tune_run(engine, data, [spec], folder / kind, calibration=kind, c_max=1.0).path
    return data, runs


@pytest.mark.parametrize("kind", KINDS)
def test_the_calibrations_of_several_classes(several, tmp_path, kind):
    """Each class's is held to the scores of the rows that the folds' models of that class left out."""
    data, run = several[0], shutil.copytree(several[1][kind], tmp_path / "run")
    said = [each.to_json() for each in open_run(run).header.calibration]
    assert [each["kind"] for each in said] == [kind] * 3
    with Engine("inline") as engine:
        assert all(finding.holds for finding in verify_any(engine, run, data))
        other = fit_calibration(*rows(), kind, said[1]["c"]).to_json()
        for wrong in ([said[0], other, said[2]], [said[0], said[2], said[1]], [*said[:2], said[2] | {"c": 1.25}]):
            change_header(run, calibration=wrong)
            name = next(k for k in range(3) if wrong[k] != said[k])
            with pytest.raises(RunError, match=rf"run: class {name}: the calibration .*; tune again"):
                verify_any(engine, run, data)
        change_header(run, calibration=said)
        assert all(finding.holds for finding in verify_any(engine, run, data))
