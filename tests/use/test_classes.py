"""Predictions and exports of several classes, against dense NumPy, scikit-learn and LIBLINEAR."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from liblinear.liblinearutil import load_model
from liblinear.liblinearutil import predict as liblinear_predict

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError, SpecError
from pipeline.events import Note
from pipeline.path.fit import fit_path
from pipeline.scoring.models import any_model_of
from pipeline.use.export import export
from pipeline.use.predict import rows_for
from pipeline.use.predict_classes import write_class_predictions
from tests.formats import WRITERS, Table, write_csv, write_npz, write_svmlight
from tests.trained import command, shards_of, sparse_rows

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

SETTINGS = {"grid": (0.1, 1.0), "scheduler": "inline"}
NAMES = {"numbers": (-1, 3, 10, 11), "text": ("eggs", "ham", "spam", "x y")}


def rows(names, n: int = 80, seed: int = 0) -> Table:
    made, rng = sparse_rows(n, seed=seed), np.random.default_rng(seed)
    found = np.argmax(made.x @ np.random.default_rng(5).standard_normal((12, len(names))) + 0.1, axis=1)
    found[: len(names)] = rng.permutation(len(names))
    return Table(made.x, np.array(names)[found], made.costs)


class Made:
    def __init__(self, folder: Path, names, bias: float) -> None:
        self.table = rows(names)
        self.data: Dataset = shards_of(folder, self.table, bias=bias)
        self.run = fit_path(self.data, out=folder / "run", validation=self.data, **SETTINGS)

    def scores(self, table: Table, step=None) -> np.ndarray:
        x = np.column_stack([table.x, np.full(len(table.y), self.data.bias)]) if self.data.bias else table.x
        return x @ (step or self.run.best).w.T


@pytest.fixture(scope="module")
def inline():
    with Engine("inline") as engine:
        yield engine


@pytest.fixture(scope="module", params=[("numbers", 0.0), ("text", 1.0), ("numbers", -0.5)], ids=str)
def made(request, tmp_path_factory) -> Made:
    kind, bias = request.param
    return Made(tmp_path_factory.mktemp("made"), NAMES[kind], bias)


def written(path: Path) -> dict[str, list]:
    return pq.read_table(path).to_pydict()


def same_predictions(found: dict[str, list], made: Made, table: Table) -> None:
    names, s = made.run.classes, made.scores(table)
    assert list(found) == [*(f"score_{name}" for name in names), "label", "truth"]
    np.testing.assert_allclose(np.array([found[f"score_{name}"] for name in names]).T, s, rtol=1e-12, atol=1e-13)
    own = [int(name) for name in names] if made.table.y.dtype.kind != "U" else names
    assert found["label"] == [own[k] for k in np.argmax(s, axis=1)], "numbers stay numbers"


def test_predictions_equal_dense_numpy(tmp_path, inline, made):
    judged = write_class_predictions(inline, any_model_of(made.run), made.data, tmp_path / "p.parquet")
    found, truth = written(tmp_path / "p.parquet"), made.table.y.tolist()
    same_predictions(found, made, made.table)
    assert found["truth"] == truth
    assert (judged.rows, judged.labelled) == (80, 80)
    assert judged.scores["accuracy"] == np.mean(np.array(found["label"]) == truth) == made.run.best.scores["accuracy"]
    parts = list(pipeline.predict(inline, made.run, made.data))
    assert np.concatenate([part.label for part in parts]).tolist() == [str(label) for label in found["label"]]
    assert np.concatenate([part.truth for part in parts]).tolist() == [str(label) for label in truth]
    assert judged.scores == pytest.approx(made.run.best.scores, abs=1e-12), "AUC, too"
    assert [part.first_row for part in parts] == np.cumsum([0, *(part.codes.size for part in parts[:-1])]).tolist()


@pytest.mark.parametrize("kind", WRITERS)
def test_files_and_shards_have_the_same_bytes(tmp_path, inline, made, kind):
    write, name = WRITERS[kind]
    text = made.table.y.dtype.kind == "U"
    if kind == "svmlight" and text:
        pytest.skip("labels of svmlight text are numbers")
    if kind in ("parquet columns", "csv") and not text:
        pytest.skip("a model of svmlight text has no names of columns")
    path, model = write(tmp_path / name, made.table), any_model_of(made.run)
    source = rows_for(model, str(path), IngestSpec(bias=model.bias))
    write_class_predictions(inline, model, source, tmp_path / "file.parquet")
    write_class_predictions(inline, model, made.data, tmp_path / "shards.parquet")
    assert (tmp_path / "file.parquet").read_bytes() == (tmp_path / "shards.parquet").read_bytes()


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_same_bytes_for_any_cut_and_scheduler(tmp_path, inline, monkeypatch, scheduler):
    made = Made(tmp_path, NAMES["text"], 1.0)
    write_class_predictions(inline, any_model_of(made.run), made.data, tmp_path / "one.parquet")
    (tmp_path / "cut").mkdir()
    cut = shards_of(tmp_path / "cut", made.table, rows_per_shard=5, bias=1.0)
    monkeypatch.setattr("pipeline.scoring.classes_model.PIECE_SCORES", 12)
    with Engine(scheduler, 2) as engine:
        write_class_predictions(engine, any_model_of(made.run), cut, tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_row_groups_depend_on_the_rows_alone(tmp_path, inline, monkeypatch):
    made = Made(tmp_path, NAMES["text"], 1.0)
    monkeypatch.setattr("pipeline.use.predict_classes.CELLS", 4 * 13)
    write_class_predictions(inline, any_model_of(made.run), made.data, tmp_path / "p.parquet")
    found = pq.ParquetFile(tmp_path / "p.parquet").metadata
    assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [13] * 6 + [2]
    same_predictions(written(tmp_path / "p.parquet"), made, made.table)


def test_ties_go_to_the_first_class(tmp_path, inline):
    made = Made(tmp_path, NAMES["numbers"], 0.0)
    (tmp_path / "zero.svm").write_text("11 1:0\n10\n")
    found = list(pipeline.predict(inline, made.run, tmp_path / "zero.svm"))
    assert found[0].scores.tolist() == [[0.0] * 4] * 2
    assert found[0].label.tolist() == ["-1", "-1"]
    assert found[0].truth.tolist() == ["11", "10"]


def test_labels_that_are_missing_or_new(tmp_path, capsys):
    made = Made(tmp_path, NAMES["text"], 0.0)
    table = rows(NAMES["text"], 6)
    y = np.array(["ham", "?", "new", "", "spam", "x y"])
    path = write_csv(tmp_path / "new.csv", Table(table.x, y, table.costs))
    out = tmp_path / "p.parquet"
    code, said, errors = command(capsys, "predict", made.run.path, path, "--out", out)
    assert code == 0
    assert written(out)["truth"] == ["ham", None, None, None, "spam", "x y"]
    assert "labels the run does not know: new; 1 rows are not judged" in errors
    assert "(on the 3 rows with a label that the run knows)" in said
    code, said, _ = command(capsys, "predict", made.run.path, path, "--out", out, "--positive", "ham")
    assert code == 1


def test_shards_with_other_classes(tmp_path, capsys):
    made = Made(tmp_path, NAMES["text"], 0.0)
    for folder, names in (("three", ("spam", "new", "ham")), ("two", ("x y", "eggs"))):
        (tmp_path / folder).mkdir()
        table = rows(names, 20, seed=2)
        data = shards_of(tmp_path / folder, table)
        code, _, errors = command(capsys, "predict", made.run.path, data.path, "--out", tmp_path / "p.parquet")
        assert code == 0
        assert written(tmp_path / "p.parquet")["truth"] == [None if y == "new" else y for y in table.y.tolist()]
        assert ("labels the run does not know: new; their rows are not judged" in errors) == (folder == "three")


def test_the_command_says_what_it_did(tmp_path, capsys):
    made = Made(tmp_path, NAMES["numbers"], 0.0)
    out = tmp_path / "p.parquet"
    code, said, _ = command(capsys, "predict", made.run.path, made.data.path, "--out", out, "-q")
    assert code == 0
    assert "80 rows by step" in said
    assert f"accuracy {made.run.best.scores['accuracy']:.4f}" in said
    assert "the run was trained on these rows" in said
    code, said, _ = command(capsys, "predict", made.run.path, tmp_path / "rows.svm", "--out", out, "-q", "--json")
    facts = json.loads(said)
    assert (facts["rows"], facts["rows_seen_in_training"]) == (80, 80)
    assert facts["scores"]["accuracy"] == made.run.best.scores["accuracy"]


def test_what_does_not_fit_is_refused(tmp_path, inline):
    made = Made(tmp_path, NAMES["numbers"], 1.0)
    two = fit_path(shards_of(tmp_path, sparse_rows(), bias=1.0), **SETTINGS)
    several = shards_of(tmp_path, rows(NAMES["numbers"]), bias=1.0)
    with pytest.raises(DataError, match="has 4 classes, and a model of two needs two; ingest the files again"):
        list(pipeline.predict(inline, two.steps[0], several))
    with pytest.raises(SpecError, match="the data have bias"):
        list(pipeline.predict(inline, made.run, shards_of(tmp_path, rows(NAMES["numbers"]))))


def test_a_score_beyond_float64(tmp_path, inline):
    made = Made(tmp_path, NAMES["numbers"], 0.0)
    (tmp_path / "far.svm").write_text("11 1:1\n10 1:1e149 2:1e149 3:-1e149\n")
    step = made.run.best
    for part in step.parts:
        part.model.__dict__["w"] = lambda w=part.w: w * 1e160
    with pytest.raises(DataError, match=r"far\.svm, row 2: a score of it by .* is beyond float64's range"):
        list(pipeline.predict(inline, any_model_of(step), tmp_path / "far.svm"))


# --- export ---


def test_liblinear_reads_it_and_says_the_same(tmp_path, made):
    notes = []
    export(any_model_of(made.run), tmp_path / "svm.model", "liblinear", notes.append)
    model = load_model(str(tmp_path / "svm.model"))
    assert (model.get_nr_class(), model.get_nr_feature()) == (4, 12)
    table, names = rows(made.run.classes, 50, seed=7), made.run.classes
    x = [{j + 1: float(v) for j, v in enumerate(row) if v} for row in table.x]
    labels, _, values = liblinear_predict([], x, model, "-q")
    text = made.table.y.dtype.kind == "U"
    meant = [names[int(label)] if text else str(int(label)) for label in labels]
    s = made.scores(table)
    assert meant == [names[k] for k in np.argmax(s, axis=1)]
    np.testing.assert_allclose(values, s, rtol=1e-9, atol=1e-12)
    said = [note.text for note in notes if isinstance(note, Note)]
    assert said == (["LIBLINEAR's labels are integers: eggs is written as 0, ham as 1, and so on"] if text else [])


def test_scikit_learn_reads_it_and_says_the_same(tmp_path, made):
    export(any_model_of(made.run), tmp_path / "svm.npz", "sklearn")
    svm = pipeline.load_sklearn(tmp_path / "svm.npz")
    assert svm.coef_.shape == (4, 12)
    assert [str(name) for name in svm.classes_] == list(made.run.classes)
    table = rows(made.run.classes, 50, seed=7)
    x, s = table.x, made.scores(table)
    if made.run.header.data.columns is not None:
        assert svm.feature_names_in_.tolist() == [f"f{j}" for j in range(12)]
        del svm.feature_names_in_
    np.testing.assert_allclose(svm.decision_function(x), s, rtol=1e-12, atol=1e-13)
    assert [str(label) for label in svm.predict(x)] == [made.run.classes[k] for k in np.argmax(s, axis=1)]


def test_plain_arrays(tmp_path, made):
    export(any_model_of(made.run, 0.1), tmp_path / "svm.npz", "npz")
    with np.load(tmp_path / "svm.npz", allow_pickle=False) as stored:
        assert stored["c"] == 0.1
        assert stored["w"].tolist() == made.run.steps[0].w.tolist()
        assert stored["labels"].tolist() == list(made.run.classes)
        assert stored["bias"] == made.data.bias


def test_the_command_exports(tmp_path, capsys):
    made = Made(tmp_path, NAMES["numbers"], 0.0)
    code, said, _ = command(capsys, "export", made.run.path, "--out", tmp_path / "svm.model")
    assert (code, "liblinear, step" in said) == (0, True)
    code, _, error = command(capsys, "export", made.run.path, "--out", tmp_path / "svm.model", "--as", "libsvm")
    assert (code, error.count("\n")) == (1, 1)
    assert "cannot be written as libsvm" in error


# --- kernels ---


def test_a_kernels_model_of_several_classes(tmp_path, inline, capsys):
    table = rows(NAMES["numbers"], 60)
    data = shards_of(tmp_path, table, bias=1.0)
    run = fit_path(
        data, out=tmp_path / "run", kernel="rbf", gamma=0.2, class_weight="balanced", **SETTINGS | {"grid": (1.0,)}
    )
    other = rows(NAMES["numbers"], 25, seed=9)
    gram = np.exp(-0.2 * ((other.x[:, None] - table.x[None]) ** 2).sum(axis=2)) + 1.0
    signs = np.array([[1.0 if str(y) == name else -1.0 for y in table.y] for name in run.classes])
    s = gram @ (signs * np.stack([part.alpha for part in run.best.parts])).T
    path = write_svmlight(tmp_path / "other.svm", other)
    found = list(pipeline.predict(inline, run, path))
    np.testing.assert_allclose(np.concatenate([part.scores for part in found]), s, rtol=1e-9, atol=1e-12)
    ingest([str(path)], tmp_path / "other", IngestSpec(bias=1.0, rows_per_shard=7))
    again = list(pipeline.predict(inline, run, pipeline.open_dataset(tmp_path / "other")))
    assert (
        np.concatenate([part.scores for part in again]).tolist() == np.concatenate([p.scores for p in found]).tolist()
    )
    with pytest.raises(
        RunError, match=r"a kernel's model of several classes cannot be .* libsvm; there are sklearn, npz"
    ):
        export(any_model_of(run), tmp_path / "svm.model", "libsvm")
    export(any_model_of(run), tmp_path / "svm.npz", "sklearn")
    svm = pipeline.load_sklearn(tmp_path / "svm.npz")
    np.testing.assert_allclose(svm.decision_function(other.x), s, rtol=1e-9, atol=1e-12)
    assert svm.predict(other.x).tolist() == [int(run.classes[k]) for k in np.argmax(s, axis=1)]
    used = table.x[np.any([part.alpha for part in run.best.parts], axis=0)]
    assert svm.support_vectors_.shape == (len({tuple(row) for row in used}), 12), "a row of several classes, once"
    export(any_model_of(run), tmp_path / "arrays.npz", "npz")
    with np.load(tmp_path / "arrays.npz", allow_pickle=False) as stored:
        assert stored["coefficients"].tolist() == svm.dual_coef_.tolist()
        assert (stored["bias"], stored["gamma"], stored["labels"].tolist()) == (1.0, 0.2, list(run.classes))
    code, said, _ = command(capsys, "export", tmp_path / "run" / "classes" / "1", "--out", tmp_path / "one.model")
    assert (code, "libsvm" in said) == (0, True)


def test_npz_files_are_read_too(tmp_path, inline):
    made = Made(tmp_path, NAMES["numbers"], 0.0)
    table = rows(NAMES["numbers"], 30, seed=4)
    found = list(pipeline.predict(inline, made.run, write_npz(tmp_path / "a.npz", table)))
    assert np.concatenate([part.truth for part in found]).tolist() == [str(label) for label in table.y]
