"""What version 0.1.0 wrote is read, verified, predicted by, appended to and gone on with by this one.

``written_by_0.1.0.tar.xz`` was made by the commands of commit e75b223, from 24 made rows: shard directories of manifest
versions 1 (``two``), 2 (``three`` classes) and 3 (``groups``); a path (``run``), a tuned run, a run of three classes;
the store of a nightly job after one night.
"""

from __future__ import annotations

import json
import tarfile
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import svmsieve
from pipeline.nightly.job import read_job
from pipeline.nightly.night import run_nightly
from tests.formats import contents
from tests.test_cli import run as command

WRITTEN = Path(__file__).with_name("written_by_0.1.0.tar.xz")
SHARDS = {"two": (1, 4, 72), "three": (2, 2, 48), "groups": (3, 2, 48)}
RUNS = {"run": ("two", 3), "tuned": ("two", 5), "classes": ("three", 3)}
MORE = {
    "two": ("more.svm", "1 1:0.5 4:1\n-1 1:-0.5 4:1\n"),
    "three": ("more.svm", "red 1:0.5\nblue 1:-0.5\n"),
    "groups": ("more.csv", "clicked,a,b,user\n1,0.5,0.5,u9\n-1,-0.5,-0.5,u9\n"),
}


@pytest.fixture
def old(tmp_path, monkeypatch):
    with tarfile.open(WRITTEN) as files:
        files.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SHARDS)
def test_shards_are_read_and_appended_to(capsys, old, name):
    version, features, nonzeros = SHARDS[name]
    assert json.loads((old / name / "manifest.json").read_text())["version"] == version
    data = svmsieve.open_dataset(name)
    assert (data.n_rows, data.n_features, data.nnz) == (24, features, nonzeros)
    assert (len(data.classes), "group" in (old / name / "manifest.json").read_text()) == (
        3 if name == "three" else 0,
        name == "groups",
    )
    file, text = MORE[name]
    (old / file).write_text(text)
    named = ["--label-column", "clicked"] if name == "groups" else []
    code, _, err = command(capsys, "ingest", file, "--append", "--out", name, "-q", *named)
    assert (code, err) == (0, "")
    assert svmsieve.open_dataset(name).n_rows == 26


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_read_and_verified(old, name):
    data, models = RUNS[name]
    found = svmsieve.verify(name, data)
    assert len(found) == models
    assert [finding for finding in found if not finding.holds] == []
    run = svmsieve.open_run(name)
    assert run.header.versions["svmsieve"] == "0.1.0"
    predictions = svmsieve.predict(run, data, c=run.steps[-1].c)
    assert predictions.label.shape == (24,)


def test_a_model_predicts_what_its_alpha_says(old):
    step = svmsieve.open_run("run").steps[-1]
    rows = contents(svmsieve.open_dataset("two"))
    assert step.relative_gap < 1e-13  # so that w is the alpha's, but for rounding
    assert np.allclose(rows.x.T @ (rows.labels * step.alpha), step.w, atol=1e-6)
    assert np.allclose(svmsieve.predict(step, "two").score, rows.x @ step.w, rtol=1e-12)


def test_a_run_is_a_reference(capsys, old):
    code, out, _ = command(capsys, "train", "two", "--c", "2", "--reference", "run", "--out", "new", "-q")
    assert (code, "1 certified model" in out) == (0, True)
    assert svmsieve.open_run("new").steps[0].c_ref == 1.0


def test_a_store_has_its_next_night(old):
    (old / "in" / "clicks-2026-01-06.svm").write_text(MORE["two"][1] * 4)
    (night,) = run_nightly(read_job(old / "job.yaml"), date(2026, 11, 18))
    assert (night.status, night.reference, night.files.rows_added) == ("published", "2026-11-17", 8)
    assert night.verified
