"""Predictions against dense NumPy and scikit-learn's metrics, from any cut of the rows, and errors of one line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.datasets import load_breast_cancer

import pipeline
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, DatasetError, OutputError, RunError, SpecError
from pipeline.files import write_json
from pipeline.maths.area import Area
from pipeline.maths.calibration import fit_calibration
from pipeline.path.fit import fit_path
from pipeline.runs.directory import open_run
from pipeline.runs.run import Run
from pipeline.scoring.models import model_of
from pipeline.spec import SCORES
from pipeline.use import predict as module
from pipeline.use.predict import predict, write_predictions
from tests.formats import Table, write_parquet_lists
from tests.trained import Trained, a_model, command, shards_of, sparse_rows, trained


@pytest.fixture(scope="module")
def inline():
    with Engine("inline") as engine:
        yield engine


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Trained:
    return trained(tmp_path_factory.mktemp("made"), bias=1.0)


def read(path: Path) -> dict[str, list]:
    return pq.read_table(path).to_pydict()


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("bias", [0.0, 1.0, -0.5])
@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("ham", "spam")], ids=str)
def test_predictions_equal_dense_numpy(tmp_path, inline, labels, bias):
    one = trained(tmp_path, labels, bias)
    assert len(one.data.shards) == 4
    found = write_predictions(inline, model_of(one.run), one.data, tmp_path / "p.parquet").scores
    columns = read(tmp_path / "p.parquet")
    score = one.dense_scores(one.run.best.w)
    assert np.abs(score).max() > 0.3
    close(columns["score"], score)
    assert columns["label"] == [labels[k] for k in (score > 0).astype(int)], "numbers stay numbers"
    assert columns["truth"] == one.table.y.tolist()
    y = np.array(columns["truth"]) == labels[1]
    assert found["accuracy"] == metrics.accuracy_score(y, score > 0)
    close(found["balanced_accuracy"], metrics.balanced_accuracy_score(y, score > 0))
    close(found["auc"], metrics.roc_auc_score(y, score))
    close(found["f1"], metrics.f1_score(y, score > 0))
    assert 0.7 < found["accuracy"] < 1


@pytest.mark.attack
@pytest.mark.parametrize("files", [True, False])
def test_a_score_beyond_the_range_is_one_line(tmp_path, inline, files):
    """Found by fuzzing (runs, seed 2026, case 57106): infinity was written as a score."""
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 1:-1\n1 1:1e10\n")
    model = a_model(tmp_path / "run", np.array([1e300]), ("-1",), ("1",))
    data = path if files else pipeline.open_dataset(path)
    with pytest.raises(DataError, match=r"row 3: its score by .*run is beyond float64's range; scale the features"):
        list(predict(inline, model, data))


def test_a_score_of_zero_is_negative(made, tmp_path, inline):
    one = model_of(made.run)
    write_predictions(inline, replace(one, w=np.zeros_like(one.w)), made.data, tmp_path / "p.parquet")
    columns = read(tmp_path / "p.parquet")
    assert set(columns["score"]) == {0.0}
    assert set(columns["label"]) == {0}


@settings(max_examples=12)
@given(rows_per_shard=st.integers(1, 70), group=st.integers(1, 70))
def test_any_cut_of_the_rows_gives_the_same_columns(made, inline, tmp_path_factory, rows_per_shard, group):
    folder = tmp_path_factory.mktemp("cut")
    data = shards_of(folder, made.table, rows_per_shard, bias=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GROUP", group)
        write_predictions(inline, model_of(made.run), data, folder / "cut.parquet")
    write_predictions(inline, model_of(made.run), made.data, folder / "whole.parquet")
    assert pq.read_table(folder / "cut.parquet") == pq.read_table(folder / "whole.parquet")
    groups = pq.ParquetFile(folder / "cut.parquet").metadata
    assert groups.num_row_groups == math.ceil(60 / group)
    assert [groups.row_group(k).num_rows for k in range(60 // group)] == [group] * (60 // group)


def test_the_bytes_of_the_file_depend_on_neither_scheduler_nor_shards(made, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GROUP", 25)
    whole = shards_of(tmp_path, made.table, rows_per_shard=100, bias=1.0)
    rows = write_parquet_lists(tmp_path / "rows.parquet", made.table, row_group_size=7)
    in_place = pipeline.open_dataset(rows, pipeline.IngestSpec(bias=1.0))
    found = set()
    cases = [(scheduler, made.data) for scheduler in ("inline", "threads", "processes")]
    for scheduler, data in [*cases, ("threads", whole), ("threads", in_place)]:
        with Engine(scheduler, 2) as engine:
            write_predictions(engine, model_of(made.run), data, tmp_path / "p.parquet")
        found.add((tmp_path / "p.parquet").read_bytes())
    assert len(found) == 1


def test_from_python_by_run_and_by_step(made, inline):
    for source, step in ((made.run, made.run.best), (made.run.steps[0], made.run.steps[0])):
        parts = list(pipeline.predict(inline, source, made.data))
        assert [part.first_row for part in parts] == [0, 17, 34, 51]
        score = np.concatenate([part.score for part in parts])
        close(score, made.dense_scores(step.w))
        assert np.concatenate([part.label for part in parts]).tolist() == np.where(score > 0, "1", "0").tolist()
        assert np.concatenate([part.truth for part in parts]).tolist() == made.table.y.astype(str).tolist()


def test_the_best_step_counts_unless_c_is_given(made):
    means = [dict.fromkeys(SCORES, score) for score in (0.5, 0.9, 0.7)]
    run = Run(made.run.path, made.run.header.changed(cv_scores=means), made.run.steps)
    assert (model_of(run).step, model_of(run).c) == (1, 0.1)
    np.testing.assert_array_equal(model_of(run).w, made.run.steps[1].w)
    assert model_of(run, 0.01).step == 0
    assert model_of(run, 0.9).c == 0.1, "between two steps: the one before"
    with pytest.raises(RunError, match=r"no model for C = 0\.001; the smallest C is 0\.01"):
        model_of(run, 0.001)
    with pytest.raises(RunError, match="no finished step"):
        model_of(Run(run.path, run.header, []), 0.1)


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_fewer_and_more_features(tmp_path, inline, bias):
    """The bias column is the last one on both sides, however many features stand before it."""
    one = trained(tmp_path, bias=bias)
    w, notes = one.run.best.w, []
    intercept = bias * w[-1]
    few = shards_of(tmp_path, Table(one.table.x[:, :7], one.table.y, one.table.costs), bias=bias)
    score = np.concatenate([part.score for part in predict(inline, one.run, few, notes.append)])
    close(score, one.table.x[:, :7] @ w[:7] + intercept)
    assert notes == []
    wide = np.column_stack([one.table.x, np.ones((60, 3))])
    many = shards_of(tmp_path, Table(wide, one.table.y, one.table.costs), bias=bias)
    score = np.concatenate([part.score for part in predict(inline, one.run, many, notes.append)])
    close(score, one.table.x @ w[:12] + intercept)
    (note,) = notes
    assert "has 15 features, the model 12" in note.text


@pytest.mark.parametrize(("ours", "theirs"), [(0.0, 1.0), (1.0, 0.0), (1.0, 2.0)])
def test_another_bias_is_an_error_at_once(tmp_path, inline, ours, theirs):
    one = trained(tmp_path, bias=ours)
    data = shards_of(tmp_path, one.table, bias=theirs)
    with pytest.raises(SpecError, match=rf"the data have bias {theirs}, .* with {ours}; pass --bias {ours}"):
        predict(inline, one.run, data)


def test_labels_of_the_opposite_meaning_are_an_error(tmp_path, inline):
    one = trained(tmp_path, labels=(1, 2))
    data = shards_of(tmp_path, sparse_rows(labels=(2, 3)))
    with pytest.raises(SpecError, match=r"label 2 is -1 in the data and \+1 in the run .*; pass --positive 2"):
        predict(inline, one.run, data)
    predict(inline, one.run, shards_of(tmp_path, sparse_rows(labels=(2, 3)), positive="2"))


def test_labels_the_run_does_not_know_are_mentioned(made, tmp_path, inline):
    notes = []
    data = shards_of(tmp_path, sparse_rows(labels=(-1, 1)), bias=1.0)
    (part, *_) = predict(inline, made.run, data, notes.append)
    assert set(part.truth) == {"0", "1"}
    assert [note.text.split(": ")[1] for note in notes] == ["label -1 is new to the run, taken for 0"]


@pytest.mark.parametrize(
    ("negative", "positive", "names"),
    [
        (("ham",), ("spam",), ("ham", "spam")),
        (("1", "3"), ("2",), ("-1", "2")),
        (("1", "3"), ("-1",), ("-1", "+1")),
    ],
)
def test_a_side_with_several_labels_is_called_by_its_sign(negative, positive, names):
    assert a_model(Path("run"), np.ones(2), negative, positive).names == names


def test_one_against_the_rest(tmp_path, inline):
    table = sparse_rows()
    y = np.where(table.y == 1, 2, np.arange(60) % 2 * 2 + 1)
    data = shards_of(tmp_path, Table(table.x, y, table.costs), positive="2")
    run = fit_path(data, out=tmp_path / "run", grid=(0.1,), scheduler="inline")
    truth = np.concatenate([part.truth for part in predict(inline, run, data)])
    assert truth.tolist() == np.where(y == 2, "2", "-1").tolist()


def test_an_old_file_is_replaced_whole_or_not_at_all(made, tmp_path, inline):
    out = tmp_path / "p.parquet"
    out.write_text("old")
    data = shards_of(tmp_path, made.table, bias=1.0)
    Path(data.shards[-1].path).unlink()
    with pytest.raises(DatasetError, match=r"shard-00003.*is gone.*run again"):
        write_predictions(inline, model_of(made.run), data, out)
    assert out.read_text() == "old"
    write_predictions(inline, model_of(made.run), made.data, out)
    assert len(read(out)["score"]) == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.parquet", "rows.svm", "shards"]


@pytest.mark.parametrize("out", ["nowhere/p.parquet", "file/p.parquet", "folder", ".", "/proc/p.parquet"])
def test_a_place_that_cannot_be_written(made, tmp_path, monkeypatch, inline, out):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    with pytest.raises(OutputError) as caught:
        write_predictions(inline, model_of(made.run), made.data, Path(out))
    assert str(caught.value).startswith(f"{out}: ")
    assert "--out" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_the_command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(capsys, "path", "breast_cancer", "--bias", 1, "--out", "run", "--grid", "0.001,1", "-q")[0] == 0
    predicting = ["predict", "run", "breast_cancer", "--bias", 1, "--out", "p.parquet", "--c", 1]
    code, out, err = command(capsys, *predicting, "--scheduler", "inline", "--json", "-q")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["out"], found["run"], found["step"], found["c"], found["rows"]) == ("p.parquet", "run", 1, 1.0, 569)
    columns = read(tmp_path / "p.parquet")
    assert found["scores"]["accuracy"] == np.mean(np.array(columns["label"]) == columns["truth"]) > 0.98
    code, out, err = command(capsys, *predicting, "--c", 0.001)
    close(read(tmp_path / "p.parquet")["score"], _standardised() @ open_run("run").steps[0].w)
    assert out.startswith("p.parquet: 569 rows by step 0 (C = 0.001): accuracy 0.9")
    assert [word.split()[0] for word in out.split(", ")[1:]] == ["balanced", "AUC", "F1"]
    assert err.startswith("predict: 569 rows")


def test_the_auc_of_more_rows_than_are_kept_has_a_bound(made, tmp_path, capsys, monkeypatch):
    words = ["predict", made.run.path, made.data.path, "--out", tmp_path / "p.csv", "-q"]
    exact = json.loads(command(capsys, *words, "--json")[1])
    assert exact["auc_error"] == 0.0
    assert "within" not in command(capsys, *words)[1]
    monkeypatch.setattr("pipeline.maths.running_scores.Area", partial(Area, 20))
    found = json.loads(command(capsys, *words, "--json")[1])
    assert 0 < found["auc_error"] < 0.1
    assert abs(found["scores"]["auc"] - exact["scores"]["auc"]) <= found["auc_error"]
    assert {**found["scores"], "auc": 0} == {**exact["scores"], "auc": 0}
    assert f"AUC {found['scores']['auc']:.4f} (within {found['auc_error']:.1g}), F1" in command(capsys, *words)[1]


def _standardised() -> np.ndarray:
    x = load_breast_cancer().data
    return np.column_stack([(x - x.mean(0)) / x.std(0), np.ones(len(x))])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{run}", "{data}"], 2, "Missing option '--out'"),
        (["{run}"], 2, "Missing argument 'DATA'"),
        (["{run}", "{data}", "--out", "{data}/p.parquet"], 2, "choose another"),
        (["{run}", "{data}", "--out", "p.parquet", "--c", "small"], 2, "not a valid float"),
        (["{data}", "{data}", "--out", "p.parquet"], 1, "not a run directory"),
        (["{run}", "nowhere.svm", "--out", "p.parquet"], 1, "no such file"),
        (["{run}", "{data}", "--out", "p.parquet", "--c", "1e-9"], 1, "the smallest C is 0.01"),
        (["{run}", "{data}", "--out", "p.parquet", "--scheduler", "pigeon"], 1, "unknown scheduler"),
        (["{run}", "{data}", "--out", "p.txt"], 2, "neither .parquet nor .csv nor .csv.gz"),
        (["{run}", "{data}", "--out", "s3://bucket/p.csv"], 2, "results are written to this machine"),
        (["{run}", "{data}", "--out", "nowhere/p.parquet"], 1, "No such file or directory"),
        (["{run}", "breast_cancer", "-q", "--out", "p.parquet"], 1, "pass --bias 1.0"),
    ],
)
def test_errors_are_one_line(capsys, made, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    words = [word.format(run=made.run.path, data=made.data.path) for word in arguments]
    found, out, err = command(capsys, "predict", *words)
    assert (found, out) == (code, "")
    (line,) = err.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_predictions_never_replace_their_data(capsys, made, tmp_path):
    rows = write_parquet_lists(tmp_path / "rows.parquet", made.table)
    before = rows.read_bytes()
    code, _, err = command(capsys, "predict", made.run.path, rows, "--bias", 1, "--out", rows)
    assert (code, rows.read_bytes()) == (2, before)
    assert "is in DATA itself" in err


class TestProbability:
    @pytest.fixture
    def calibrated(self, tmp_path):
        """A run that is calibrated, at its best C, on its own training data."""
        made = trained(tmp_path, bias=1.0)
        step = made.run.best
        score = made.dense_scores(step.w)
        calibration = fit_calibration(score, np.where(made.table.y == 1, 1, -1), c=step.c)
        header = made.run.header.changed(calibration=calibration.to_json())
        write_json(made.run.path / "run.json", header.to_json())
        return made, calibration.probabilities(score)

    def test_the_probability_of_the_positive_class(self, calibrated, tmp_path, capsys):
        made, expected = calibrated
        out = tmp_path / "p.parquet"
        arguments = ("predict", made.run.path, made.data.path, "--out", out, "--quiet")
        assert command(capsys, *arguments, "--probability")[0] == 0
        columns = read(out)
        assert list(columns) == ["score", "label", "truth", "probability"]
        close(columns["probability"], expected)
        assert 0 < expected.min() < 0.1 < 0.9 < expected.max() < 1
        assert command(capsys, *arguments)[0] == 0
        assert list(read(out)) == ["score", "label", "truth"]
        assert command(capsys, "verify", made.run.path, made.data.path, "--validation", made.data.path)[0] == 0

    def test_a_calibration_is_of_one_model(self, calibrated, tmp_path, capsys):
        made, _ = calibrated
        other = next(step.c for step in made.run.steps if step.c != made.run.best.c)
        arguments = ("predict", made.run.path, made.data.path, "--out", tmp_path / "p.parquet", "--probability")
        code, _, said = command(capsys, *arguments, "--c", other)
        assert code == 1
        assert f"its calibration is of the model at C = {made.run.best.c:g}, not of that at C = {other:g}" in said
        assert not (tmp_path / "p.parquet").exists()

    def test_a_run_without_one(self, made, tmp_path, capsys):
        arguments = ("predict", made.run.path, made.data.path, "--out", tmp_path / "p.parquet", "--probability")
        code, _, said = command(capsys, *arguments)
        assert code == 1
        (line,) = said.splitlines()
        assert line.endswith("has no calibration, and so no probabilities; svmsieve tune makes one")

    def test_a_calibration_is_sealed(self, calibrated, capsys):
        made, _ = calibrated
        path = made.run.path / "run.json"
        header = json.loads(path.read_text())
        header["calibration"]["slope"] *= 2
        path.write_text(json.dumps(header))
        arguments = ("verify", made.run.path, made.data.path, "--validation", made.data.path)
        code, _, said = command(capsys, *arguments)
        assert code == 1
        assert "run.json is not as it was written" in said
