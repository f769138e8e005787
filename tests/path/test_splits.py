"""Rows left out of training: hold-out, folds, validation data, and the scores they give."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score

import pipeline
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError
from pipeline.maths.score import best, scores
from pipeline.spec import SCORES, PathSpec
from pipeline.verify.verify import verify
from pipeline.working.facts import collect
from tests.worlds import World, check_run, plain_world, write_shards


def judged(score: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The four scores by scikit-learn."""
    said = np.where(score > 0, 1, -1)
    return {
        "accuracy": accuracy_score(y, said),
        "balanced_accuracy": balanced_accuracy_score(y, said),
        "auc": roc_auc_score(y, score),
        "f1": f1_score(y, said),
    }


def trained_rows(data, **settings) -> np.ndarray:
    """Which rows are trained on."""
    with Engine("inline") as engine:
        return collect(engine, data, PathSpec(**settings), None).costs > 0


@given(seed=st.integers(0, 2**32), n=st.integers(2, 60), ties=st.booleans(), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_scores_are_those_of_scikit_learn(seed, n, ties, share):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1, -1)
    y[:2] = 1, -1
    score = rng.integers(-2, 3, n).astype(float) if ties else rng.standard_normal(n)
    found = scores(score * y, y)
    assert set(found) == set(SCORES) - {"log_loss", "weighted_accuracy"}
    assert found == pytest.approx(judged(score, y))


def test_scores_that_are_not_defined():
    found = scores(np.array([1.0, -1.0]), np.array([1, 1]))
    assert found["accuracy"] == 0.5
    assert found["auc"] is None
    assert found["balanced_accuracy"] is None
    assert best([None, None], "auc") is None
    assert best([found, found], "auc") is None
    assert best([found, found | {"auc": 0.2}, found | {"auc": 0.7}, found | {"auc": 0.7}], "auc") == 2


class TestHoldout:
    WORLD = plain_world(3000, 4)

    @pytest.mark.parametrize("share", [0.1, 0.3, 0.75])
    def test_share(self, tmp_path, share):
        out = ~trained_rows(write_shards(tmp_path / "data", self.WORLD, [1000]), holdout=share)
        assert np.mean(out) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 3000))

    def test_a_row_stays_on_its_side(self, tmp_path):
        """Rows appended, permuted, in other shards, or stored in other precision: the same row, the same side."""
        first = trained_rows(write_shards(tmp_path / "first", self.WORLD), holdout=0.3)
        order = np.random.default_rng(0).permutation(3000)
        again = trained_rows(write_shards(tmp_path / "again", self.WORLD.rows(order), [5, 700]), holdout=0.3)
        np.testing.assert_array_equal(again, first[order])
        more = plain_world(500, 4, seed=1)
        pairs = ((self.WORLD, more), (more, self.WORLD))
        for k, (one, two) in enumerate(pairs):
            world = World(*(np.concatenate([getattr(w, key) for w in (one, two)]) for key in ("x", "y", "costs")))
            found = trained_rows(write_shards(tmp_path / f"more{k}", world), holdout=0.3)
            np.testing.assert_array_equal(found[:3000] if k == 0 else found[500:], first)

    def test_a_smaller_share_is_part_of_a_larger_one(self, tmp_path):
        data = write_shards(tmp_path / "data", self.WORLD)
        small, large = (~trained_rows(data, holdout=share) for share in (0.1, 0.4))
        assert np.all(large[small])

    def test_scored_on_what_was_left_out(self, tmp_path):
        world = plain_world(200)
        data = write_shards(tmp_path / "data", world, [90])
        run = pipeline.fit_path(data, grid=[0.01, 0.02, 1.0], holdout=0.3, tol=1e-6, scheduler="inline")
        used = trained_rows(data, holdout=0.3)
        check_run(world.weighed(used * 1.0), run)
        for step in run.steps:
            assert step.n_rows == np.count_nonzero(used)
            assert np.all(step.alpha[~used] == 0)
            assert step.scores == pytest.approx(judged(world.x[~used] @ step.w, world.y[~used]))

    def test_nothing_left_of_a_class(self, tmp_path):
        world = World(np.ones((3, 1)), np.array([1.0, 1.0, -1.0]), np.ones(3))
        data = write_shards(tmp_path / "data", world)
        with pytest.raises(DataError, match=r"no row is left to train on; leave out fewer of them"):
            pipeline.fit_path(data, grid=[1.0], holdout=0.999, scheduler="inline")
        with pytest.raises(DataError, match=r"all \d row.* to train on have the same label; an SVM needs both"):
            pipeline.fit_path(data, grid=[1.0], holdout=0.5, scheduler="inline")


class TestFolds:
    @pytest.mark.parametrize("folds", [2, 3, 7])
    def test_folds_partition_the_rows(self, tmp_path, folds):
        data = write_shards(tmp_path / "data", plain_world(700), [300])
        out = [~trained_rows(data, fold=(k, folds)) for k in range(folds)]
        assert np.all(np.sum(out, axis=0) == 1)
        share = 1 / folds
        for each in out:
            assert np.mean(each) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 700))

    def test_cross_validation(self, tmp_path):
        world = plain_world(200)
        data = write_shards(tmp_path / "data", world, [90])
        run = pipeline.fit_path(data, out=tmp_path / "run", grid=[0.01, 1.0], cv=3, select="auc", scheduler="inline")
        means = run.header.cv_scores
        found = []
        for k in range(3):
            fold = pipeline.open_run(tmp_path / "run" / "folds" / str(k))
            out = ~trained_rows(data, fold=(k, 3))
            check_run(world.weighed(~out * 1.0), fold)
            found.append([judged(world.x[out] @ step.w, world.y[out]) for step in fold.steps])
        for k in range(2):
            for name in means[k]:
                assert means[k][name] == pytest.approx(np.mean([fold[k][name] for fold in found]))
        assert run.header.best_step == int(np.argmax([mean["auc"] for mean in means]))
        with Engine("inline") as engine:
            assert len(verify(engine, run.path, data)) == 8
            assert all(finding.holds for finding in verify(engine, run.path, data))


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_validation_scores_are_those_of_scikit_learn(tmp_path, bias):
    def world(seed):
        made = plain_world(150, seed=seed)
        x = np.column_stack([made.x, np.full(150, bias)]) if bias else made.x
        return World(x, made.y, made.costs, bias)

    data, other = (write_shards(tmp_path / str(seed), world(seed), [70]) for seed in (0, 1))
    run = pipeline.fit_path(data, grid=[0.001, 0.01, 1.0], validation=other, select="f1", scheduler="inline")
    expected = [judged(world(1).x @ step.w, world(1).y) for step in run.steps]
    assert [step.scores for step in run.steps] == [pytest.approx(each) for each in expected]
    assert run.best.step == int(np.argmax([each["f1"] for each in expected]))


def test_without_its_folds_a_run_has_no_best_step(tmp_path):
    run = pipeline.fit_path("breast_cancer", out=tmp_path / "run", grid=(0.01, 0.1), tol=1e-2, cv=2)
    assert run.best.step == run.header.best_step
    header = json.loads((run.path / "run.json").read_text())
    del header["cv_scores"]
    (run.path / "run.json").write_text(json.dumps(header))
    unfinished = pipeline.open_run(run.path)
    with pytest.raises(RunError, match="its folds are not finished"):
        _ = unfinished.best
    assert unfinished.at(0.1).step == 1
