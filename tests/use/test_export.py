"""Exported models give our scores in LIBLINEAR and in scikit-learn, and their files are whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask_ml.wrappers import ParallelPostFit
from liblinear.liblinearutil import load_model, save_model, svm_read_problem
from liblinear.liblinearutil import predict as liblinear_predict
from sklearn.base import clone
from sklearn.svm import LinearSVC

import pipeline
from pipeline.cli.export import KINDS
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.scoring.models import model_of
from pipeline.use import export_linear as module
from pipeline.use.export import export, load_sklearn
from pipeline.use.export_kernel import KERNEL_WRITERS
from pipeline.use.export_linear import LINEAR_WRITERS
from pipeline.use.predict import predict
from tests.trained import Trained, a_model, command, trained


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Trained:
    return trained(tmp_path_factory.mktemp("made"), bias=1.0)


def our_scores(one: Trained) -> np.ndarray:
    with Engine("inline") as engine:
        return np.concatenate([part.score for part in predict(engine, one.run, one.data)])


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_the_command_offers_what_there_is():
    assert {*LINEAR_WRITERS, *KERNEL_WRITERS} == set(KINDS)


@pytest.mark.parametrize("bias", [0.0, 1.0, 0.1, -2.0])
@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (-7, -3)], ids=str)
def test_liblinear_predicts_what_we_predict(tmp_path, monkeypatch, labels, bias):
    """LIBLINEAR reads the model and the very file we trained on; its decision values are our scores."""
    monkeypatch.setattr(module, "CHUNK", 5)
    one, path = trained(tmp_path, labels, bias), tmp_path / "svm.model"
    export(model_of(one.run), path, "liblinear")
    theirs = load_model(str(path))
    y, x = svm_read_problem(str(tmp_path / "rows.svm"))
    said, (accuracy, *_), values = liblinear_predict(y, x, theirs, "-q")
    score = our_scores(one)
    close(np.ravel(values), score)
    assert said == np.array(labels)[(score > 0).astype(int)].tolist()
    assert accuracy == 100 * np.mean((score > 0) == (one.table.y == labels[1])) > 70
    save_model(str(tmp_path / "again.model"), theirs)
    assert path.read_bytes() == (tmp_path / "again.model").read_bytes()


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (("0", "1"), "label 1 0"),
        (("ham", "spam"), "label 1 -1"),
        (("0.5", "1.5"), "label 1 -1"),
        (("0", "3000000000"), "label 1 -1"),
        (("0", "1_0"), "label 1 -1"),
    ],
)
def test_liblinear_has_integer_labels(tmp_path, names, written):
    notes = []
    model = a_model(Path("run"), np.array([0.1, -2.0, 0.0]), names[:1], names[1:])
    export(model, tmp_path / "svm.model", "liblinear", notes.append)
    lines = (tmp_path / "svm.model").read_text().splitlines()
    start = ["solver_type L2R_L1LOSS_SVC_DUAL", "nr_class 2", written, "nr_feature 3", "bias -1", "w"]
    assert lines == [*start, "0.10000000000000001 ", "-2 ", "0 "]
    assert len(notes) == (written == "label 1 -1")
    assert all(f"{names[1]} is written as 1 and {names[0]} as -1" in note.text for note in notes)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # as after fitting a frame
@pytest.mark.parametrize("bias", [0.0, 1.0, -2.0])
@pytest.mark.parametrize("labels", [(0, 1), ("ham", "spam")], ids=str)
def test_scikit_learn_predicts_what_we_predict(tmp_path, labels, bias):
    one = trained(tmp_path, labels, bias)
    export(model_of(one.run, 0.1), tmp_path / "svm.npz", "sklearn")
    svm = pipeline.load_sklearn(tmp_path / "svm.npz")
    assert type(svm) is LinearSVC
    assert (svm.C, svm.n_features_in_, svm.coef_.shape, svm.intercept_.shape) == (0.1, 12, (1, 12), (1,))
    score = one.dense_scores(one.run.at(0.1).w)
    for x in (one.table.x, sp.csr_matrix(one.table.x)):
        close(svm.decision_function(x), score)
        np.testing.assert_array_equal(svm.predict(x), np.array(labels)[(score > 0).astype(int)])
    assert svm.score(one.table.x, one.table.y) > 0.7


def test_dask_ml_predicts_what_we_predict(tmp_path):
    """On a Dask array that nobody holds: block by block, by dask-ml's wrapper."""
    one = trained(tmp_path, bias=1.0)
    export(model_of(one.run, 0.1), tmp_path / "svm.npz", "sklearn")
    svm = ParallelPostFit(estimator=pipeline.load_sklearn(tmp_path / "svm.npz"))
    x = da.from_array(one.table.x, chunks=(7, -1))
    score = one.dense_scores(one.run.at(0.1).w)
    assert isinstance(svm.predict(x), da.Array)
    np.testing.assert_array_equal(svm.predict(x).compute(), (score > 0).astype(int))


@pytest.mark.parametrize("bias", [0.0, 0.5, -0.5])
def test_scikit_learn_fits_the_same_problem_again(tmp_path, bias):
    """The parameters that go with the weights are those of our problem: C, hinge loss, a regularised bias."""
    one = trained(tmp_path, bias=bias, tol=1e-9)
    export(model_of(one.run, 0.1), tmp_path / "svm.npz", "sklearn")
    svm = load_sklearn(tmp_path / "svm.npz")
    again = clone(svm).set_params(tol=1e-10, max_iter=100_000, random_state=0).fit(one.table.x, one.table.y)
    np.testing.assert_allclose(svm.coef_, again.coef_, atol=1e-4)
    np.testing.assert_allclose(svm.intercept_, again.intercept_, atol=1e-4)
    np.testing.assert_array_equal(svm.classes_, again.classes_)
    assert (abs(svm.intercept_[0]) > 1e-3) == (bias != 0)


def test_arrays(made, tmp_path):
    export(model_of(made.run), tmp_path / "svm.npz", "npz")
    with np.load(tmp_path / "svm.npz", allow_pickle=False) as stored:
        assert sorted(stored.files) == ["bias", "c", "labels", "w"]
        assert (stored["c"], stored["bias"], stored["labels"].tolist()) == (1.0, 1.0, ["0", "1"])
        np.testing.assert_array_equal(stored["w"], made.run.best.w)


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_load_sklearn_refuses_other_files(made, tmp_path, content):
    path = tmp_path / "svm.npz"
    if content is None:
        export(model_of(made.run), path, "npz")
    else:
        path.write_bytes(content)
    for name in (path, tmp_path / "nowhere.npz"):
        with pytest.raises(RunError, match=r"npz: no file of svmsieve export --as sklearn \(.*; export it again"):
            load_sklearn(name)


@pytest.mark.attack
def test_scikit_learn_knows_the_columns_by_name(tmp_path):
    """By position, a frame with its columns in another order would be predicted as something else."""
    one = trained(tmp_path, labels=("ham", "spam"))  # by way of CSV: the features have names
    export(model_of(one.run), tmp_path / "svm.npz", "sklearn")
    export(model_of(one.run), tmp_path / "plain.npz", "npz")
    names = [f"f{j}" for j in range(12)]
    assert np.load(tmp_path / "plain.npz")["columns"].tolist() == names
    svm, frame = load_sklearn(tmp_path / "svm.npz"), pd.DataFrame(one.table.x, columns=names)
    close(svm.decision_function(frame), our_scores(one))
    with pytest.raises(ValueError, match="must be in the same order"):
        svm.predict(frame[names[::-1]])


@pytest.mark.attack
@pytest.mark.parametrize("labels", [(10**30, 10**30 + 1), (-1, 2**63)], ids=str)
def test_labels_beyond_64_bits_are_text_to_scikit_learn(tmp_path, labels):
    model = a_model(tmp_path, np.ones(2), *((str(label),) for label in labels))
    export(model, tmp_path / "svm.npz", "sklearn")
    assert load_sklearn(tmp_path / "svm.npz").classes_.tolist() == [str(label) for label in labels]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["svm.model"], "liblinear"),
        (["svm.TXT"], "liblinear"),
        (["svm.npz"], "npz"),
        (["svm.npz", "--as", "sklearn"], "sklearn"),
        (["svm", "--as", "liblinear"], "liblinear"),
    ],
)
def test_the_command(capsys, made, tmp_path, monkeypatch, words, kind):
    monkeypatch.chdir(tmp_path)
    Path(words[0]).write_text("old")
    code, out, err = command(capsys, "export", made.run.path, "--c", "0.1", "--out", *words)
    assert (code, err) == (0, "")
    assert out == f"{words[0]}: {kind}, step 1 (C = 0.1), 12 features and a bias of 1\n"
    export(model_of(made.run.steps[1]), tmp_path / "expected", kind)
    assert Path(words[0]).read_bytes() == (tmp_path / "expected").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_the_command_says_which_labels_it_wrote(capsys, tmp_path):
    one = trained(tmp_path, ("ham", "spam"))
    code, _, err = command(capsys, "export", one.run.path, "--out", tmp_path / "svm.model")
    assert (code, err) == (0, "LIBLINEAR's labels are integers: spam is written as 1 and ham as -1\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{run}"], 2, "Missing option '--out'"),
        (["{run}", "--out", "svm.bin"], 2, "pass --as liblinear, libsvm, sklearn or npz"),
        (["{run}", "--out", "svm.npz", "--as", "pickle"], 2, "'pickle' is not one of"),
        (["nowhere", "--out", "svm.npz"], 1, "not a run directory"),
        (["{run}", "--out", "svm.npz", "--c", "1e-9"], 1, "the smallest C is 0.01"),
        (["{run}", "--out", "nowhere/svm.npz"], 1, "No such file or directory"),
        (["{run}", "--out", ".", "--as", "npz"], 1, "is a directory; name a file"),
    ],
)
def test_errors_are_one_line(capsys, made, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    found, out, err = command(capsys, "export", *(word.format(run=made.run.path) for word in arguments))
    assert (found, out) == (code, "")
    (line,) = err.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


FULL = """
import resource, sys
import pipeline.cli, pipeline.use.export
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # after the imports: they may write to a cache
pipeline.cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("kind", LINEAR_WRITERS)
def test_a_full_disk_leaves_the_old_file(made, tmp_path, kind):
    """A limit on the size of files stands for the disk: writing fails in the middle."""
    (tmp_path / "svm").write_text("old")
    words = ["export", str(made.run.path), "--out", "svm", "--as", kind]
    environment = os.environ | {"PYTHONPATH": str(Path(pipeline.__file__).parents[1])}
    program = [sys.executable, "-B", "-c", FULL, *words]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "svmsieve: svm: cannot be written (File too large); choose another --out or make room\n"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
