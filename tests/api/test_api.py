"""The public functions: one calling convention for data of every kind, engines, and settings that are not there."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import svmsieve
from svmsieve import errors
from tests.trained import shards_of, sparse_rows

FUNCTIONS = ("fit_path", "tune", "open_dataset", "ingest", "predict", "screen", "verify", "export")


@pytest.fixture(scope="module")
def table():
    return sparse_rows(90, 8, labels=("no", "yes"))


@pytest.fixture(scope="module")
def shards(table, tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("rows"), table)


def frame_of(table):
    return pytest.importorskip("pandas").DataFrame(table.x, columns=[f"f{k}" for k in range(8)])


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.csr_matrix, np.ndarray.tolist])
def test_arrays_are_the_data_set_that_files_are(table, shards, form):
    data = svmsieve.open_dataset(form(table.x), table.y)
    assert data.fingerprint == shards.fingerprint
    assert data.labels == shards.labels


def test_data_of_every_kind_give_the_same_models(table, shards, tmp_path):
    runs = [
        svmsieve.fit_path(data, y, grid=[0.1, 1.0])
        for data, y in (
            (shards, None),
            (shards.path, None),
            (table.x, table.y),
            (sp.csr_array(table.x), table.y),
            (frame_of(table), table.y),
        )
    ]
    for run in runs:
        assert np.allclose(run.steps[1].w, runs[0].steps[1].w, atol=1e-9)
    assert runs[-1].header.data.columns == tuple(f"f{k}" for k in range(8))
    assert [run.in_memory for run in runs] == [False, False, True, True, True]


def test_labels_mean_what_they_mean_in_files():
    x = np.arange(8.0).reshape(4, 2)
    assert svmsieve.open_dataset(x, ["9", "10", "9", "10"]).labels.positive == ("10",)
    assert svmsieve.open_dataset(x, [3, 1, 2, 3]).classes == ("1", "2", "3")
    assert svmsieve.open_dataset(x, [3, 1, 2, 3], positive="2").labels.negative == ("1", "3")


def test_an_engine_that_is_given_stays_open(table):
    with svmsieve.Engine("inline") as engine:
        run = svmsieve.fit_path(table.x, table.y, grid=[1.0], engine=engine)
        other = svmsieve.tune(table.x, table.y, cv=3, engine=engine)
        svmsieve.predict(run, table.x, engine=engine)
        svmsieve.screen(table.x, run, 1.1, table.y, engine=engine)
    assert len(run.steps) == len(other.steps) == 1


def test_validation_is_a_pair_of_arrays_or_a_data_set(table):
    for validation in (svmsieve.open_dataset(table.x, table.y), (table.x, table.y)):
        run = svmsieve.fit_path(table.x, table.y, grid=[0.1, 1.0], validation=validation)
        assert run.best.scores["accuracy"] > 0.8


@pytest.mark.parametrize("bias", [None, 1.0])
def test_arrays_to_validate_on_have_the_features_that_are_trained_on(table, bias):
    """As those to predict for; scores were made of the features that both have."""
    for other in (table.x[:, :-1], sp.csr_array(table.x[:, :-1]), np.column_stack([table.x, table.x])):
        with pytest.raises(errors.SpecError, match=r"validation has .* features, the rows to train on"):
            svmsieve.fit_path(table.x, table.y, bias=bias, grid=[1.0], validation=(other, table.y))


def test_predictions_of_rows_without_labels(table, shards, tmp_path):
    run = svmsieve.tune(table.x, table.y, bias=1.0, cv=3)
    found = svmsieve.predict(run, table.x, probability=True)
    assert found.classes.tolist() == ["no", "yes"]
    assert np.array_equal(found.label == "yes", found.score > 0)
    assert np.allclose(found.score, np.column_stack([table.x, np.ones(90)]) @ run.steps[0].w)
    assert np.allclose(found.probability.sum(axis=1), 1.0)
    one = svmsieve.predict(run, table.x[:1])
    assert (one.score.shape, one.probability) == ((1,), None)
    assert np.array_equal(svmsieve.predict(run.steps[0], sp.csr_array(table.x)).score, found.score)
    with pytest.raises(errors.SpecError, match="give the run, not a step of it"):
        svmsieve.predict(run.steps[0], table.x, probability=True)


def test_predictions_by_name_and_of_several_classes():
    x, y = np.eye(3).repeat(5, axis=0) + 0.01 * np.arange(15)[:, None], np.repeat([7, 8, 9], 5)
    frame = pytest.importorskip("pandas").DataFrame(x, columns=["a", "b", "c"])
    run = svmsieve.fit_path(frame, y, grid=[10.0])
    found = svmsieve.predict(run, frame[["c", "a", "b"]], c=10.0)
    assert found.label.tolist() == y.tolist()
    assert found.score.shape == (15, 3)
    assert np.allclose(found.score, svmsieve.predict(run, frame, c=10.0).score, rtol=1e-14)
    with pytest.raises(errors.SieveError, match="no column b"):
        svmsieve.predict(run, frame[["a", "c"]], c=10.0)


def test_kernels_in_memory(table):
    run = svmsieve.fit_path(table.x, table.y, grid=[1.0], kernel="rbf")
    assert np.mean(svmsieve.predict(run, table.x).label == table.y) > 0.9


def test_what_is_in_files_is_verified_exported_and_read_again(table, shards, tmp_path):
    run = svmsieve.fit_path(shards, grid=[0.1, 1.0], out=tmp_path / "run")
    assert all(finding.holds for finding in svmsieve.verify(run, shards))
    assert all(finding.holds for finding in svmsieve.verify(tmp_path / "run", table.x, table.y, step=1))
    with pytest.raises(errors.RunError, match="train with out=DIR"):
        svmsieve.verify(svmsieve.fit_path(table.x, table.y, grid=[1.0]), shards)
    model = svmsieve.load_sklearn(svmsieve.export(run, tmp_path / "model.npz", c=1.0))
    named = pytest.importorskip("pandas").DataFrame(table.x, columns=model.feature_names_in_)
    assert model.predict(named).tolist() == svmsieve.predict(tmp_path / "run", table.x, c=1.0).label.tolist()
    memory = svmsieve.fit_path(table.x, table.y, grid=[1.0])
    svmsieve.export(memory, tmp_path / "memory.npz")
    assert np.array_equal(svmsieve.load_sklearn(tmp_path / "memory.npz").coef_[0], memory.steps[0].w)


def test_screening_from_a_run_and_a_step(table, shards):
    run = svmsieve.fit_path(table.x, table.y, grid=[0.5, 1.0])
    one = svmsieve.screen(table.x, run, 1.05, table.y)
    other = svmsieve.screen(shards, run.steps[1], 1.05)
    assert np.array_equal(one.verdicts, other.verdicts)
    assert (one.verdicts != 0).any()


def test_ingest_returns_the_data_set(table, shards, tmp_path):
    folder = shards.path.removesuffix("/shards")
    for odd in (5, {}, ["a"]):
        with pytest.raises(svmsieve.errors.SpecError, match="columns is auto, none, or the name of a file"):
            svmsieve.ingest(f"{folder}/rows.csv", tmp_path / "shards", columns=odd)
    data = svmsieve.ingest(f"{folder}/rows.csv", tmp_path / "shards", rows_per_shard=20, columns="none")
    assert data.fingerprint == shards.fingerprint
    assert len(data.shards) == 5
    with pytest.raises(errors.SieveError):
        svmsieve.ingest([f"{folder}/rows.csv"], tmp_path / "shards")
    assert svmsieve.ingest([f"{folder}/rows.csv"], tmp_path / "shards", overwrite=True, columns="none").n_rows == 90


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_setting_that_is_not_there_is_named_with_the_nearest(name):
    function = getattr(svmsieve, name)
    known = [each for each in inspect.signature(function).parameters if len(each) > 4][-1]
    typo = known[:-2] + known[-1] + known[-2]
    with pytest.raises(TypeError, match=f"^{name} has no setting '{typo}'; did you mean {known}\\?$") as caught:
        function("x", "y", **{typo: 1})
    assert isinstance(caught.value, errors.SieveError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_a_setting_like_no_other_gets_the_list():
    with pytest.raises(errors.SettingError, match="has no setting 'qqqq'; there are run, out, kind, c, training"):
        svmsieve.export("run", "out", qqqq=1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_setting_is_documented(name):
    function = getattr(svmsieve, name)
    text = inspect.getdoc(function)
    said = text.split("Parameters\n", 1)[1].split("Returns\n", 1)[0]
    for each in inspect.signature(function).parameters:
        assert any(each in line.replace(",", " ").split() for line in said.splitlines() if line[:1].strip()), each
    assert "Returns\n-------" in text
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize(
    ("data", "y", "message"),
    [
        (np.eye(3), None, "an array has no labels in it; give them as y"),
        (np.eye(3), [0, 1], "X: 3 rows, but the labels are 2"),
        (np.ones(3), [0, 1, 1], "has 1 dimensions"),
        ([["a"], ["b"]], [0, 1], "not of numbers"),
        (None, [0, 1], "NoneType is nothing that can be read"),
        (np.eye(3), [0.0, np.nan, 1.0], "X, row 1: the label is missing"),
        (np.eye(3), [1, 1, 1], "a single class was found"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), [0, 1], "X, row 0: the value of index 1 is nan"),
        ("nowhere.csv", None, "no such file"),
    ],
)
def test_bad_input_is_one_line(data, y, message):
    with pytest.raises(errors.DataError, match=message) as caught:
        svmsieve.fit_path(data, y)
    assert "\n" not in str(caught.value)


def test_labels_beside_files_are_refused(shards):
    for given in ({"y": [0, 1]}, {"sample_weight": [1.0]}):
        with pytest.raises(errors.SpecError, match="belongs to arrays"):
            svmsieve.fit_path(shards, **given)


def test_tables_with_text_are_encoded_scored_and_verified_as_they_were(tmp_path):
    """A table whose label follows from a string and a number, one row in ten the other way round."""
    rows = [(f"{'ab'[k % 2]}", k % 7, ("yes" if (k % 2) ^ (k % 10 == 9) else "no")) for k in range(140)]
    for name, some in (("train.csv", rows[:100]), ("test.csv", rows[100:])):
        lines = ["kind,size,label", *(",".join(map(str, row)) for row in some)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    run = svmsieve.fit_path(train, grid=[1.0], validation=test, out=tmp_path / "run")
    assert run.header.data.bias == 1.0
    assert run.best.scores["accuracy"] == 0.9
    found = svmsieve.predict(run, test)
    assert found.label.tolist() == [("yes" if row[0] == "b" else "no") for row in rows[100:]]
    assert all(finding.holds for finding in svmsieve.verify(run, train, validation=test))
    assert svmsieve.screen(train, run, 1.1).verdicts.shape == (100,)
    model = svmsieve.SieveSVC().fit(train)
    assert model.predict(test).tolist() == found.label.tolist()
    with pytest.raises(errors.DataError, match="column 'kind'"):
        svmsieve.open_dataset(train, columns="none")


def test_screening_by_a_run_in_memory_needs_no_folder_of_its_own():
    """Arrays by row that do not fit into the memory there is go to files without names, wherever there is room."""
    x, y = np.eye(2).repeat(400_000, axis=0), np.repeat([0, 1], 400_000)
    run = svmsieve.fit_path(x, y, grid=[1e-6])
    found = svmsieve.screen(x, run, 1.1e-6, y, memory=400_000_000)
    assert found.verdicts.shape == (800_000,)
