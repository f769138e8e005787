"""The score where none is named: rows left out count as rows do in training; a named one is what its name says."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold

import pipeline
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.estimators import SieveSVC, SieveSVCCV
from pipeline.maths.class_scores import class_scores
from pipeline.maths.score import scores
from pipeline.verify.classes import verify_any
from pipeline.working.facts import collect
from tests.tampering import change_step, reseal
from tests.trained import command
from tests.worlds import plain_world, write_shards

WEIGHTS = (0.2, 7.0)


@pytest.fixture(scope="module")
def world():
    return replace(plain_world(n=200, d=5, seed=4, noise=2.0), costs=np.ones(200))


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("rows"), world, cuts=[70, 150])


@pytest.fixture(scope="module")
def weighted(world, tmp_path_factory):
    costs = np.random.default_rng(1).uniform(0.1, 9.0, 200)
    return write_shards(tmp_path_factory.mktemp("weighted"), replace(world, costs=costs), cuts=[90])


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    rng = np.random.default_rng(3)
    x = np.round(rng.standard_normal((150, 3)), 3)
    label = np.clip(np.round(x[:, 0] + rng.standard_normal(150)), -1, 1).astype(int)
    weight = rng.integers(1, 6, 150)
    lines = (",".join(map(str, (y, w, *row))) for y, w, row in zip(label, weight, x.tolist(), strict=True))
    (folder / "rows.csv").write_text("\n".join(["label,weight,a,b,c", *lines]))
    ingest([str(folder / "rows.csv")], folder / "shards", reading_spec(columns="none", bias=1.0, rows_per_shard=60))
    return pipeline.open_dataset(folder / "shards")


def rows_of(data):
    parts = [shard.load() for shard in data.shards]
    dense = np.concatenate([part.csr().toarray() for part in parts])
    return dense, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "costs"))


def holds(run, data, **more):
    with Engine("threads", 2) as engine:
        return all(finding.holds for finding in verify_any(engine, run.path, data, **more))


def test_by_hand():
    f, labels, costs = np.array([2.0, -1.0, 0.5, -3.0]), np.array([1, 1, -1, -1]), np.array([1.0, 2.0, 4.0, 8.0])
    assert scores(f, labels, "weighted_accuracy", costs)["weighted_accuracy"] == 5 / 15
    assert scores(f, labels, "weighted_accuracy")["weighted_accuracy"] == 0.5
    assert scores(f, labels, "weighted_accuracy", costs * 1e300)["weighted_accuracy"] == 5 / 15
    assert "weighted_accuracy" not in scores(f, labels)
    columns = [np.array([3.0, 0.0, 1.0]), np.array([1.0, 2.0, 0.0]), np.array([0.0, 1.0, 2.0])]
    found = class_scores(iter(columns), np.array([0, 2, 2]), "weighted_accuracy", np.array([1.0, 5.0, 2.0]))
    assert found["weighted_accuracy"] == pytest.approx(3 / 8, rel=1e-15)
    assert scores(np.empty(0), np.empty(0), "weighted_accuracy")["weighted_accuracy"] is None


@pytest.mark.parametrize("class_weight", [None, WEIGHTS, "balanced"])
@pytest.mark.parametrize("which", ["data", "weighted"])
def test_a_hold_out_counts_as_training_does(request, tmp_path, which, class_weight):
    data = request.getfixturevalue(which)
    run = pipeline.fit_path(data, out=tmp_path / "run", grid=(0.01, 1.0), holdout=0.3, class_weight=class_weight)
    plain = which == "data" and class_weight is None
    assert run.spec.select == ("accuracy" if plain else "weighted_accuracy")
    x, labels, costs = rows_of(data)
    with Engine("inline") as engine:
        state = collect(engine, data, run.spec, None)
    left = state.costs == 0
    weights = costs[left] * np.where(labels[left] > 0, state.class_weights[1], state.class_weights[0])
    for step in run.steps:
        said = np.where(x[left] @ step.w > 0, 1, -1)
        expected = accuracy_score(labels[left], said, sample_weight=None if plain else weights)
        assert step.scores[run.spec.select] == pytest.approx(expected, abs=1e-12)
    assert holds(run, data)


def test_balanced_classes_are_nearly_the_balanced_accuracy(data, tmp_path):
    run = pipeline.tune(data, out=tmp_path / "run", class_weight="balanced", cv=4, grid=(0.1, 1.0))
    for found in run.header.cv_scores:
        assert found["weighted_accuracy"] == pytest.approx(found["balanced_accuracy"], abs=0.02)
        assert found["weighted_accuracy"] != found["accuracy"]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_tune_validation_and_verify(data, weighted, tmp_path, kernel):
    tuned = pipeline.tune(weighted, out=tmp_path / "tuned", cv=3, class_weight=WEIGHTS, kernel=kernel, c_max=10.0)
    assert tuned.spec.select == "weighted_accuracy"
    assert holds(tuned, weighted)
    more = {"grid": (0.1, 1.0), "validation": weighted, "kernel": kernel, "class_weight": WEIGHTS}
    run = pipeline.fit_path(data, out=tmp_path / "run", **more)
    assert run.scores[0]["weighted_accuracy"] != run.scores[0]["accuracy"]
    assert holds(run, data, validation=weighted)
    line = (run.path / "steps.jsonl").read_text().splitlines()[0]
    said = json.loads(line)["scores"]["weighted_accuracy"]
    change_step(run.path, 0, scores=run.scores[0] | {"weighted_accuracy": said * 0.99})
    reseal(run.path)
    assert not holds(run, data, validation=weighted)


def test_several_classes(several, tmp_path):
    run = pipeline.tune(several, out=tmp_path / "run", cv=3, class_weight={"-1": 3.0}, grid=(0.01, 0.1))
    assert run.spec.select == "weighted_accuracy"
    assert holds(run, several)
    path = pipeline.fit_path(several, out=tmp_path / "path", holdout=0.3, grid=(0.01, 1.0), class_weight={"-1": 3.0})
    x, codes, costs = rows_of(several)
    with Engine("inline") as engine:
        left = collect(engine, several.against_rest(0), path.steps[0].parts[0].spec, None).costs == 0
    weights = costs[left] * np.where(codes[left] == 0, 3.0, 1.0)
    for step in path.steps:
        said = np.argmax(np.stack([x[left] @ part.w for part in step.parts]), axis=0)
        expected = accuracy_score(codes[left], said, sample_weight=weights)
        assert step.scores["weighted_accuracy"] == pytest.approx(expected, abs=1e-12)
    assert holds(path, several)
    judged = pipeline.fit_path(several, out=tmp_path / "judged", grid=(0.1,), validation=several)
    assert holds(judged, several, validation=several)
    item = json.loads((judged.path / "run.json").read_text())
    item["scores"][0]["weighted_accuracy"] *= 0.99
    (judged.path / "run.json").write_text(json.dumps(item))
    with pytest.raises(RunError, match="the stored weighted_accuracy"):
        holds(judged, several, validation=several)


def test_a_named_score_is_what_its_name_says(weighted, tmp_path):
    run = pipeline.tune(weighted, out=tmp_path / "run", cv=3, class_weight=WEIGHTS, metric="accuracy", grid=(0.1, 1.0))
    assert run.spec.select == "accuracy"
    assert "weighted_accuracy" not in run.header.cv_scores[0]
    again = pipeline.tune(weighted, out=tmp_path / "run", cv=3, class_weight=WEIGHTS, grid=(0.1, 1.0))
    assert again.header == run.header, "a run goes on with its own score"


def test_words(weighted, tmp_path, capsys):
    words = ["tune", weighted.path, "--cv", "3", "--grid", "0.1,1", "-q"]
    code, out, _ = command(capsys, *words, "--class-weight", "1,5", "--out", tmp_path / "a")
    assert (code, "weighted accuracy" in out) == (0, True)
    code, out, _ = command(capsys, *words, "--class-weight", "1,5", "--metric", "accuracy", "--out", tmp_path / "b")
    assert (code, "weighted accuracy" in out) == (0, False)
    code, out, _ = command(capsys, "path", *words[1:], "--out", tmp_path / "c")
    assert (code, "weighted accuracy" in out) == (0, True)


class TestEstimators:
    def test_folds_and_splits_agree_on_what_counts(self, world):
        weights = np.random.default_rng(2).uniform(0.5, 4.0, 200)
        splits = list(StratifiedKFold(4).split(world.x, world.y))
        model = SieveSVCCV([0.1, 1.0], cv=splits, class_weight={-1: 1.0, 1: 6.0})
        found = model.fit(world.x, world.y, sample_weight=weights).scores_
        for k, (train, test) in enumerate(splits):
            fold = SieveSVC(0.1, class_weight={-1: 1.0, 1: 6.0}).fit(world.x[train], world.y[train], weights[train])
            costs = weights[test] * np.where(world.y[test] == 1, 6.0, 1.0)
            expected = accuracy_score(world.y[test], fold.predict(world.x[test]), sample_weight=costs)
            assert found[k, 0] == pytest.approx(expected, abs=1e-12)
        named = SieveSVCCV([0.1, 1.0], cv=splits, class_weight={-1: 1.0, 1: 6.0}, scoring="accuracy")
        assert not np.allclose(named.fit(world.x, world.y, sample_weight=weights).scores_, found)

    def test_a_class_that_weighs_more_is_said_more_often(self, world):
        """By plain accuracy a small C, at which weights mean little, would be the best."""
        few = np.concatenate([np.flatnonzero(world.y == -1), np.flatnonzero(world.y == 1)[:12]])
        x, y = world.x[few], world.y[few]
        plain = SieveSVCCV(class_weight="balanced", scoring="accuracy").fit(x, y)
        usual = SieveSVCCV(class_weight="balanced").fit(x, y)
        assert balanced_accuracy_score(y, usual.predict(x)) >= balanced_accuracy_score(y, plain.predict(x))
        assert usual.run_.spec.select == "weighted_accuracy"
