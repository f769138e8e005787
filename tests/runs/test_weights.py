"""The largest weights of a run, by name: of columns, of numbered features, of the bias, of classes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pipeline
from pipeline.errors import RunError, SpecError
from pipeline.path.fit import fit_path
from pipeline.runs.data_record import DataRecord
from pipeline.runs.feature_names import FeatureNames, feature_names
from pipeline.runs.weights import top_weights
from pipeline.scoring.models import any_model_of
from pipeline.use.export import export
from tests.formats import Table, write_npz
from tests.trained import Trained, command, shards_of, sparse_rows, trained

pytestmark = pytest.mark.usefixtures("tables_as_they_are")


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Trained:
    return trained(tmp_path_factory.mktemp("bare"), bias=1.0)


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Trained:
    return trained(tmp_path_factory.mktemp("named"), labels=("ham", "spam"))


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> pipeline.ClassesRun:
    folder, made = tmp_path_factory.mktemp("several"), sparse_rows(90)
    y = np.array(["a", "b", "c"])[np.argmax(made.x[:, :3], axis=1)]
    data = shards_of(folder, Table(made.x, y, made.costs), bias=1.0)
    return fit_path(data, out=folder / "run", grid=(0.1, 1.0), scheduler="inline", validation=data)


def test_names():
    assert [FeatureNames(2, ("x", "y"), None, True).of(j) for j in range(3)] == ["x", "y", "bias"]
    assert [FeatureNames(2, None, 1, True).of(j) for j in range(3)] == ["feature 1", "feature 2", "bias"]
    assert [FeatureNames(2, None, 0).of(j) for j in range(2)] == ["feature 0", "feature 1"]
    assert FeatureNames(2).of(1) == "feature 1"
    for j in (-1, 2):
        with pytest.raises(IndexError, match="from 0 on"):
            FeatureNames(2).of(j)


def test_names_of_a_run(named, bare):
    about: DataRecord = named.run.header.data
    assert feature_names(about).columns == tuple(f"f{j}" for j in range(12))
    assert feature_names(bare.run.header.data) == FeatureNames(12, None, 1, True)
    with pytest.raises(RunError, match=r"here: run\.json does not name the model's 12 features; train again"):
        feature_names(replace(about, columns=about.columns[1:]), "here")


def test_the_largest_come_first_with_their_signs(bare):
    w = bare.run.best.w
    found = bare.run.weights(top=5)
    assert [each.feature for each in found.largest] == np.argsort(-np.abs(w[:12]), kind="stable")[:5].tolist()
    assert [each.weight for each in found.largest] == [w[each.feature] for each in found.largest]
    assert [each.name for each in found.largest] == [f"feature {each.feature + 1}" for each in found.largest]
    assert (found.bias.name, found.bias.feature, found.bias.weight) == ("bias", 12, w[12])
    assert (found.positive, found.negative, found.features) == ("1", "0", 12)
    assert found.nonzero == np.count_nonzero(w[:12])
    assert (found.c, bare.run.weights(c=0.01).c) == (bare.run.best.c, 0.01)
    assert len(bare.run.weights(top=1000).largest) == found.nonzero


def test_equal_weights_stand_in_order_and_zeros_nowhere(bare):
    step = bare.run.best
    step.model.__dict__["w"] = lambda: np.array([0, 2, -2, 0, 1, -1, 1, 3, 0, 0, 0, 0, 0.5])
    assert [each.feature for each in top_weights(step, 4).largest] == [7, 1, 2, 4]
    assert [each.feature for each in top_weights(step, 50).largest] == [7, 1, 2, 4, 5, 6]
    for wrong in (0, -1, 2.5):
        with pytest.raises(SpecError, match="whole number of at least 1"):
            top_weights(step, wrong)
    del step.model.__dict__["w"]


def test_columns_by_name_and_no_bias(named, capsys):
    found = named.run.weights(top=3)
    assert found.bias is None
    assert {each.name for each in found.largest} < {f"f{j}" for j in range(12)}
    code, out, err = command(capsys, "weights", named.run.path, "--top", 3)
    assert (code, err) == (0, "")
    first, sides, header, *lines = out.splitlines()
    assert first == f"{named.run.path}: step {found.step} (C = {found.c:g}), {found.nonzero} of 12 weights are not 0"
    assert sides == "+ speaks for spam, - for ham"
    assert header.split() == ["weight", "feature"]
    assert [line.split() for line in lines] == [[f"{each.weight:+.4g}", each.name] for each in found.largest]


def test_the_command_marks_the_bias_and_prints_json(bare, capsys):
    code, out, _ = command(capsys, "weights", bare.run.path, "--c", 0.1)
    assert code == 0
    assert out.splitlines()[-1].split() == [f"{bare.run.at(0.1).w[12]:+.4g}", "(bias)"]
    assert all(len(line) <= 80 for line in out.splitlines()[1:])
    code, out, _ = command(capsys, "weights", bare.run.path, "--json", "--top", 2)
    (model,) = json.loads(out)["models"]
    assert model["largest"] == [vars(each) for each in bare.run.weights(2).largest]
    assert (model["class"], model["bias"]["name"]) == ("1", "bias")


def test_several_classes(several, capsys):
    found = several.weights(top=4)
    assert list(found) == ["a", "b", "c"]
    for name, part in zip(found, several.best.parts, strict=True):
        assert (found[name].positive, found[name].negative) == (name, "the rest")
        assert found[name].largest == top_weights(part, 4).largest
        assert found[name].largest[0].name.startswith("f")
    assert list(several.weights(only="b")) == ["b"]
    code, out, _ = command(capsys, "weights", several.path)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:] if len(line.split()) == 3] == ["a", "b", "c"]
    assert out.count("(bias)") == 3
    assert len(out.splitlines()) == 2 + 3 * 6
    code, out, _ = command(capsys, "weights", several.path, "--class", "b", "--json")
    assert [model["class"] for model in json.loads(out)["models"]] == ["b"]
    code, _, err = command(capsys, "weights", several.path, "--class", "d")
    assert (code, err) == (1, f"svmsieve: {several.path}: has no class d; there are a, b, c\n")


def test_what_has_no_weights_is_one_line(bare, tmp_path, capsys):
    data = shards_of(tmp_path, bare.table)
    run = fit_path(data, out=tmp_path / "run", grid=(1.0,), kernel="rbf", gamma=0.1, scheduler="inline")
    code, _, err = command(capsys, "weights", run.path)
    assert (code, err.count("\n")) == (1, 1)
    assert (
        "a model of kernel rbf has no weights of features, but support rows with an alpha each; svmsieve export" in err
    )
    code, _, err = command(capsys, "weights", bare.run.path, "--class", "1")
    assert (code, "is a run of two classes; leave --class out" in err) == (1, True)


def test_arrays_count_from_zero(tmp_path):
    pipeline.ingest([str(write_npz(tmp_path / "rows.npz", sparse_rows()))], tmp_path / "data", pipeline.IngestSpec())
    run = fit_path(tmp_path / "data", out=tmp_path / "run", grid=(1.0,), scheduler="inline")
    largest = run.weights(1).largest[0]
    assert largest.name == f"feature {largest.feature}"


def test_exports_have_the_same_names(named, several, tmp_path):
    for run in (named.run, several):
        assert any_model_of(run).feature_names == feature_names(run.header.data)
    for run in (named.run, several):
        names = feature_names(run.header.data).columns
        for kind, key in (("npz", "columns"), ("sklearn", "feature_names_in_")):
            export(any_model_of(run), tmp_path / "svm.npz", kind)
            with np.load(tmp_path / "svm.npz", allow_pickle=False) as stored:
                assert tuple(stored[key]) == names
