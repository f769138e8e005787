"""Kernel models used: predictions against a dense kernel in extended precision, wherever rows and columns stand.

What is exported predicts the same; training data that are gone or changed are one line.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from dask_ml.wrappers import ParallelPostFit
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import RunError, SpecError
from pipeline.events import Note
from pipeline.maths.kernel import Rbf
from pipeline.passes import column_memo
from pipeline.passes.gather import gather
from pipeline.runs.directory import open_run
from pipeline.runs.run import Run
from pipeline.scoring import kernel_scores
from pipeline.scoring.kernel_model import kernel_margins
from pipeline.scoring.models import model_of
from pipeline.spec import PathSpec
from pipeline.use.export import export
from pipeline.use.predict import predict, write_predictions
from tests.formats import write_npz, write_svmlight
from tests.kernel_runs import DenseKernel, stored_run
from tests.tampering import change_header
from tests.trained import command, shards_of, sparse_rows

SPEC = PathSpec(kernel="rbf", gamma=0.4, grid=(0.5, 5.0), holdout=0.3)


class Made:
    """Rows, the same as a data set, a run on them, and its dense judge."""

    def __init__(self, folder: Path, labels: tuple = (0, 1), bias: float = 0.0) -> None:
        self.table = sparse_rows(labels=labels)
        self.data: Dataset = shards_of(folder, self.table, bias=bias)
        self.run: Run = stored_run(folder / "run", self.data, SPEC)
        self.dense = DenseKernel.of(self.data, SPEC)

    def scores(self, x: np.ndarray, step: int | None = None) -> np.ndarray:
        """Scores of dense rows over the training features, by the definition."""
        return self.dense.scores((self.run.best if step is None else self.run.steps[step]).alpha, x)


@pytest.fixture(scope="module")
def inline():
    with Engine("inline") as engine:
        yield engine


@pytest.fixture(scope="module", params=[0.0, -1.5], ids=["no bias", "bias"])
def made(request, tmp_path_factory) -> Made:
    return Made(tmp_path_factory.mktemp("made"), bias=request.param)


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Made:
    """By way of CSV: the features have names."""
    return Made(tmp_path_factory.mktemp("named"), labels=("ham", "spam"), bias=0.5)


def test_screening_keeps_no_columns(made):
    before = set(column_memo._kept)
    for scheduler in ("inline", "threads"):
        pipeline.screen(made.data, made.run.best, 2.0, scheduler=scheduler)
    assert set(column_memo._kept) <= before


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def scored(parts) -> np.ndarray:
    return np.concatenate([part.score for part in parts])


def test_predictions_equal_a_dense_kernel(made, inline, tmp_path):
    other = sparse_rows(n=45, seed=3)
    data = shards_of(tmp_path, other, bias=made.data.bias)
    for step in (0, 1):
        expected = made.scores(other.x, step)
        assert np.abs(expected).max() > 0.1
        close(scored(predict(inline, made.run.steps[step], data)), expected)
    found = write_predictions(inline, model_of(made.run), data, tmp_path / "p.parquet")
    assert found.scores["accuracy"] == np.mean((made.scores(other.x) > 0) == (other.y == 1))
    assert pq.read_table(tmp_path / "p.parquet").column("truth").to_pylist() == other.y.tolist()


@settings(max_examples=8)
@given(rows=st.integers(1, 70), columns=st.integers(1, 70), rows_per_shard=st.integers(1, 70))
def test_the_bits_depend_on_no_cut(made, inline, tmp_path_factory, rows, columns, rows_per_shard):
    folder = tmp_path_factory.mktemp("cut")
    data = shards_of(folder, made.table, rows_per_shard, bias=made.data.bias)
    expected = scored(predict(inline, made.run, made.data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_scores, "ROWS", rows)
        patch.setattr(kernel_scores, "COLUMNS", columns)
        np.testing.assert_array_equal(scored(predict(inline, made.run, data)), expected)


def test_the_bits_depend_on_neither_scheduler_nor_format(made, tmp_path):
    found = set()
    npz = write_npz(tmp_path / "rows.npz", made.table)
    for scheduler in ("inline", "threads", "processes"):
        with Engine(scheduler, 2) as engine:
            for rows in (made.data, npz):
                found.add(scored(predict(engine, made.run, rows)).tobytes())
    assert len(found) == 1


class TestColumns:
    """Features are found by name or by position, and what the model does not know is not part of any distance."""

    @pytest.fixture
    def frame(self):
        return pd.DataFrame(sparse_rows(n=20, seed=5).x, columns=[f"f{j}" for j in range(12)])

    @staticmethod
    def rows_of(folder: Path, frame: pd.DataFrame, how: str, bias: float) -> Dataset | Path:
        """The rows as a CSV file that is read for the model, or as a shard directory."""
        path = folder / "other.csv"
        frame.assign(label=np.where(frame["f3"] > 0, "ham", "spam")).to_csv(path, index=False)
        if how == "file":
            return path
        pipeline.ingest([str(path)], folder / "other", pipeline.IngestSpec(bias=bias, rows_per_shard=7))
        return pipeline.open_dataset(folder / "other")

    @pytest.mark.parametrize("how", ["file", "shards"])
    def test_shuffled_and_extra_columns(self, named, inline, tmp_path, frame, how):
        expected = named.scores(frame.to_numpy())
        names = np.random.default_rng(1).permutation(frame.columns).tolist()
        assert names != frame.columns.tolist()
        other = frame.assign(unknown=7.0)[[*names[:4], "unknown", *names[4:]]]
        notes: list = []
        rows = self.rows_of(tmp_path, other, how, 0.5)
        close(scored(predict(inline, named.run, rows, notes.append)), expected)
        said = [note.text for note in notes if isinstance(note, Note)]
        assert sum("columns the model does not know are ignored: unknown" in text for text in said) == 1

    @pytest.mark.parametrize("how", ["file", "shards"])
    def test_a_missing_column_is_one_line(self, named, inline, tmp_path, frame, how):
        rows = self.rows_of(tmp_path, frame.drop(columns="f7"), how, 0.5)
        with pytest.raises((SpecError, pipeline.errors.DataError), match="f7"):
            scored(predict(inline, named.run, rows))

    @pytest.mark.parametrize("how", ["file", "shards"])
    @pytest.mark.parametrize("features", [5, 12, 15])
    def test_by_position(self, made, inline, tmp_path, features, how):
        """Fewer features: they are 0. More: they were 0 in training, and count in the distance, as LIBSVM has it."""
        table = sparse_rows(n=25, d=features, seed=8)
        rows = write_svmlight(tmp_path / "other.svm", table)
        if how == "shards":
            rows = shards_of(tmp_path, table, bias=made.data.bias)
        common = np.zeros((25, 12))
        common[:, : min(12, features)] = table.x[:, :12]
        b2 = made.data.bias**2
        alpha = made.run.best.alpha * made.dense.labels
        kernel = (made.dense.values(common) - b2).T * np.exp(-0.4 * (table.x[:, 12:] ** 2).sum(axis=1))[:, None] + b2
        notes: list = []
        close(scored(predict(inline, made.run, rows, notes.append)), (kernel @ alpha).astype(float))
        said = " ".join(note.text for note in notes if isinstance(note, Note))
        assert ("those beyond were 0 in training" in said) == (features > 12)

    def test_another_bias_is_one_line(self, made, inline, tmp_path):
        data = shards_of(tmp_path, made.table, bias=3.0)
        with pytest.raises(SpecError, match=r"the data have bias 3.0"):
            predict(inline, made.run, data)

    def test_margins_on_other_data(self, named, inline, tmp_path, frame):
        """What the path calls for validation data."""
        other = self.rows_of(tmp_path, frame[frame.columns[::-1]], "shards", 0.5)
        alpha = named.run.best.alpha
        rows = gather(inline, named.data, alpha > 0)
        f = kernel_margins(inline, named.data, rows, alpha[alpha > 0], Rbf(0.4, 0.5), other)
        labels = np.concatenate([shard.load().labels for shard in other.shards])
        close(f, labels * named.scores(frame.to_numpy()))


class TestTrainingData:
    """A kernel's model is made of rows that lie elsewhere."""

    @pytest.fixture
    def moved(self, tmp_path):
        one = Made(tmp_path)
        shutil.move(tmp_path / "shards", tmp_path / "elsewhere")
        return one

    def test_where_they_are_now(self, moved, tmp_path, inline, capsys):
        with pytest.raises(
            RunError, match=r"no such file.*needs its training data; name them, or shards of them, with"
        ):
            model_of(moved.run)
        rows = write_svmlight(tmp_path / "new.svm", moved.table)
        expected = moved.scores(moved.table.x)
        close(scored(predict(inline, moved.run, rows, training=tmp_path / "elsewhere")), expected)
        words = ["predict", moved.run.path, rows, "--out", tmp_path / "p.parquet", "--json"]
        code, _, err = command(capsys, *words)
        assert (code, len(err.splitlines())) == (1, 1)
        code, out, err = command(capsys, *words, "--training-data", tmp_path / "elsewhere", "-q")
        assert (code, err) == (0, "")
        assert json.loads(out)["rows_seen_in_training"] == 60
        close(pq.read_table(tmp_path / "p.parquet").column("score"), expected)

    def test_the_same_rows_in_a_file(self, moved, tmp_path, inline):
        """What svmsieve path was given as a file is found in it again."""
        rows = shutil.copy(tmp_path / "rows.svm", tmp_path / "same.svm")
        close(scored(predict(inline, moved.run, rows, training=rows)), moved.scores(moved.table.x))

    def test_a_file_whose_positive_class_was_named(self, tmp_path):
        """Read with the signs that it had: by itself, 1 would be the positive class."""
        table = sparse_rows()
        data = shards_of(tmp_path, table, positive="0", bias=2.0)
        run = stored_run(tmp_path / "run", data, SPEC)
        shutil.rmtree(tmp_path / "shards")
        model = model_of(run, training=tmp_path / "rows.svm")
        assert model.names == ("1", "0")
        assert model.support.coefficients.size == np.count_nonzero(run.best.alpha)

    def test_other_rows_are_refused(self, moved, tmp_path, inline):
        other = shards_of(tmp_path, sparse_rows(seed=4))
        with pytest.raises(RunError, match="has other rows than the run was trained on; a kernel's model of"):
            predict(inline, moved.run, other)  # they lie now where the training data were
        with pytest.raises(RunError, match="has other rows"):
            predict(inline, moved.run, other, training=other)

    @pytest.mark.parametrize("change", [{"rows": 59}, {"features": 11}, {"bias": 4.0}], ids=str)
    def test_a_run_that_says_other_numbers_of_them(self, tmp_path, change):
        """run.json was changed, but for the fingerprint."""
        one = Made(tmp_path)
        header = json.loads((one.run.path / "run.json").read_text())
        change_header(one.run.path, data=header["data"] | change)
        with pytest.raises(RunError, match=r"has other rows than the run was trained on|in run.json it is"):
            model_of(open_run(one.run.path))


class TestExport:
    """Every form, read without our code, gives our scores."""

    def test_libsvm(self, made, tmp_path):
        export(model_of(made.run), tmp_path / "svm.model", "libsvm")
        other = sparse_rows(n=40, seed=6)
        labels, values = libsvm_predict(tmp_path / "svm.model", other.x)
        expected = made.scores(other.x)
        close(values, expected)
        assert labels == np.where(expected > 0, 1, 0).tolist()

    def test_libsvm_has_the_header_that_it_reads(self, made, tmp_path):
        export(model_of(made.run), tmp_path / "svm.model", "libsvm")
        head = (tmp_path / "svm.model").read_text().split("SV\n")[0].splitlines()
        words = dict(line.split(" ", 1) for line in head)
        assert list(words) == ["svm_type", "kernel_type", "gamma", "nr_class", "total_sv", "rho", "label", "nr_sv"]
        alpha, y = made.run.best.alpha, made.dense.labels
        assert words["nr_sv"] == f"{np.count_nonzero(alpha[y > 0])} {np.count_nonzero(alpha[y < 0])}"
        assert (words["svm_type"], words["kernel_type"], words["label"]) == ("c_svc", "rbf", "1 0")
        assert float(words["gamma"]) == 0.4
        assert float(words["rho"]) == pytest.approx(-(made.data.bias**2) * (alpha @ y), abs=1e-13)
        assert (float(words["rho"]) == 0.0) == (made.data.bias == 0.0)

    def test_libsvm_wants_integers(self, named, tmp_path, capsys):
        code, out, err = command(capsys, "export", named.run.path, "--out", tmp_path / "svm.model", "--c", "5")
        assert (code, err) == (0, "LIBSVM's labels are integers: spam is written as 1 and ham as -1\n")
        assert out == f"{tmp_path}/svm.model: libsvm, step 1 (C = 5), 12 features and a bias of 0.5\n"
        assert "\nlabel 1 -1\n" in (tmp_path / "svm.model").read_text()

    @pytest.mark.filterwarnings("ignore:X does not have valid feature names")
    def test_scikit_learn(self, named, tmp_path):
        export(model_of(named.run), tmp_path / "svm.npz", "sklearn")
        svm = pipeline.load_sklearn(tmp_path / "svm.npz")
        other = sparse_rows(n=40, seed=6)
        expected = named.scores(other.x)
        names = np.array(["ham", "spam"])[(expected > 0).astype(int)]
        for x in (other.x, sp.csr_matrix(other.x)):
            close(svm.decision_function(x), expected)
            assert svm.predict(x).tolist() == names.tolist()
        assert svm.score(other.x, names) == 1.0
        assert (svm.gamma, svm.C, svm.n_features_in_) == (0.4, named.run.best.c, 12)
        frame = pd.DataFrame(other.x, columns=[f"f{j}" for j in range(12)])
        close(svm.decision_function(frame), expected)
        with pytest.raises(ValueError, match="must be in the same order"):
            svm.predict(frame[frame.columns[::-1]])
        with pytest.raises(ValueError, match="11 features"):
            svm.predict(other.x[:, :11])
        with pytest.raises(NotImplementedError, match="svmsieve path --kernel rbf"):
            svm.fit(other.x, names)

    def test_dask_ml_predicts_block_by_block(self, made, tmp_path):
        export(model_of(made.run), tmp_path / "svm.npz", "sklearn")
        svm = ParallelPostFit(estimator=pipeline.load_sklearn(tmp_path / "svm.npz"))
        x = da.from_array(made.table.x, chunks=(7, -1))
        found = svm.predict(x).compute()
        np.testing.assert_array_equal(found, (made.scores(made.table.x) > 0).astype(int))

    def test_arrays(self, made, tmp_path):
        export(model_of(made.run), tmp_path / "svm.npz", "npz")
        with np.load(tmp_path / "svm.npz", allow_pickle=False) as stored:
            parts = tuple(stored[f"support_{name}"] for name in ("values", "indices", "indptr"))
            support = sp.csr_matrix(parts, shape=(stored["coefficients"].size, int(stored["n_features"])))
            k = rbf_kernel(made.table.x, support, float(stored["gamma"])) + float(stored["bias"]) ** 2
            close(k @ stored["coefficients"], made.scores(made.table.x))
            assert (float(stored["c"]), stored["labels"].tolist()) == (made.run.best.c, ["0", "1"])

    @pytest.mark.parametrize("content", [b"", b"no archive", "npz"])
    def test_other_files_are_no_estimators(self, made, tmp_path, content):
        path = tmp_path / "svm.npz"
        export(model_of(made.run), path, "npz") if content == "npz" else path.write_bytes(content)
        with pytest.raises(RunError, match=r"npz: no file of svmsieve export --as sklearn"):
            pipeline.load_sklearn(path)

    def test_the_other_program_is_one_line(self, made, tmp_path, capsys):
        words = ["export", made.run.path, "--out", tmp_path / "svm", "--as", "liblinear"]
        code, _, err = command(capsys, *words)
        assert code == 1
        assert "a kernel's model cannot be written as liblinear; there are libsvm, sklearn, npz" in err
        assert len(err.splitlines()) == 1
        assert list(tmp_path.iterdir()) == []


def libsvm_predict(path: Path, x: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Predict as svm-predict does (svm.cpp, svm_predict_values): sum coef K - rho, above 0 the first label."""
    head, body = path.read_text().split("SV\n")
    words = dict(line.split(" ", 1) for line in head.splitlines())
    labels, counts = ([int(word) for word in words[name].split()] for name in ("label", "nr_sv"))
    lines = body.splitlines()
    assert len(lines) == int(words["total_sv"]) == sum(counts)
    values = np.full(len(x), -float(words["rho"]))
    for number, line in enumerate(lines):
        coefficient, *pairs = line.split()
        row = np.zeros(x.shape[1])
        places = [int(pair.split(":")[0]) for pair in pairs]
        assert places == sorted(set(places))
        row[np.array(places, int) - 1] = [float(pair.split(":")[1]) for pair in pairs]
        assert (float(coefficient) > 0) == (number < counts[0])
        values += float(coefficient) * np.exp(-float(words["gamma"]) * ((x - row) ** 2).sum(axis=1))
    return np.where(values > 0, *labels).tolist(), values
