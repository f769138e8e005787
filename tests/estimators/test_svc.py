"""SieveSVC: the optimum that the oracle has, certificates over all rows, weights, classes, kernels, files, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, LinearSVC

from pipeline.data.in_memory import in_memory
from pipeline.data.reading.labels import LabelMap
from pipeline.errors import DataError, RunError, SieveWarning, SpecError
from pipeline.estimators import SieveSVC
from pipeline.runs.directory import open_run
from tests.trained import shards_of, sparse_rows
from tests.worlds import World


def rows(n=80, d=6):
    table = sparse_rows(n, d)
    return table.x, table.y


def world_of(x, y, costs=None, bias=1.0):
    """The rows with their bias column, as the oracle needs them."""
    wide = np.column_stack([x, np.full(len(y), bias)]) if bias else x
    return World(wide, 2.0 * y - 1, np.ones(len(y)) if costs is None else costs, bias)


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.csc_matrix, np.asfortranarray])
def test_the_model_is_the_optimum_and_the_certificate_is_true(form):
    x, y = rows()
    model, world = SieveSVC(C=0.7, tol=1e-9).fit(form(x), y), world_of(x, y)
    w = np.append(model.coef_[0], model.intercept_)
    alpha = np.zeros(len(y))
    alpha[model.support_] = model.dual_coef_[0] * (2 * y[model.support_] - 1)
    primal, dual = world.primal(w, 0.7), world.dual(alpha)
    assert np.all((alpha >= 0) & (alpha <= 0.7))
    assert dual <= world.optimum(0.7).primal + 1e-12 <= primal + 2e-12
    assert model.dual_gap_ == pytest.approx(primal - dual, abs=1e-11)
    assert model.dual_gap_ >= primal - dual - 1e-13
    assert 0 <= model.relative_gap_ <= 1e-9
    assert np.allclose(alpha @ world.z, w, atol=1e-12)
    assert model.predict(x).tolist() == (x @ model.coef_[0] + model.intercept_ > 0).astype(int).tolist()


def test_the_problem_is_that_of_linear_svc():
    x, y = rows()
    ours = SieveSVC(C=0.3, tol=1e-10, intercept_scaling=2.0, class_weight={0: 2.0, 1: 0.5}).fit(x, y)
    same = {"C": 0.3, "intercept_scaling": 2.0, "class_weight": {0: 2.0, 1: 0.5}}
    theirs = LinearSVC(loss="hinge", tol=1e-6, max_iter=1_000_000, random_state=0, **same).fit(x, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert np.allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    bare = SieveSVC(fit_intercept=False).fit(x, y)
    assert bare.intercept_.tolist() == [0.0]


def test_weights_are_costs_and_rows_of_weight_0_are_left_out():
    x, y = rows()
    weights = np.arange(len(y)) % 4 / 2.0
    model = SieveSVC(tol=1e-9).fit(x, y, sample_weight=weights)
    kept = weights > 0
    world = world_of(x[kept], y[kept], weights[kept])
    assert model.run_.header.data.rows == np.count_nonzero(kept)
    assert model.run_.steps[0].primal == pytest.approx(float(world.optimum(1.0).primal), rel=1e-8)
    assert kept[model.support_].all()
    assert np.all(np.abs(model.dual_coef_[0]) <= weights[model.support_])
    w = model.dual_coef_[0] @ np.column_stack([x, np.ones(len(y))])[model.support_]
    assert np.allclose(w[:-1], model.coef_[0], atol=1e-12)


def test_balanced_classes_count_weights():
    x, y = rows()
    repeats = np.arange(len(y)) % 3 + 1
    once = SieveSVC(tol=1e-10, class_weight="balanced").fit(x, y, sample_weight=repeats)
    often = SieveSVC(tol=1e-10, class_weight="balanced").fit(x.repeat(repeats, axis=0), y.repeat(repeats))
    assert np.allclose(once.coef_, often.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "labels", [("no", "yes"), (2.0, -1.0), (True, False), ("1.0", "1"), ("", "nan"), (10**17, 10**17 + 1)]
)
def test_labels_come_back_as_they_went_in(labels):
    x, y = rows()
    named = np.array(labels)[y]
    model = SieveSVC().fit(x, named)
    assert model.classes_.tolist() == sorted(labels)
    assert model.classes_.dtype == named.dtype
    assert model.score(x, named) > 0.8


def test_several_classes_are_one_against_the_rest():
    x, y = load_iris(return_X_y=True)
    model = SieveSVC(tol=1e-8).fit(x, y)
    assert (model.coef_.shape, model.intercept_.shape) == ((3, 4), (3,))
    assert model.dual_coef_.shape == (3, model.support_.size)
    for k in range(3):
        alone = SieveSVC(tol=1e-8).fit(x, y == k)
        assert np.allclose(model.coef_[k], alone.coef_[0], atol=1e-3)
        assert model.relative_gap_[k] <= 1e-8
        assert model.dual_gap_[k] >= 0
        w = model.dual_coef_[k] @ x[model.support_]
        assert np.allclose(w, model.coef_[k], atol=1e-9)
    assert model.predict(x).tolist() == model.decision_function(x).argmax(axis=1).tolist()


def test_a_kernel_is_near_svc():
    x, y = rows()
    ours = SieveSVC(kernel="rbf", gamma=0.3, C=2.0, tol=1e-6, intercept_scaling=20.0).fit(x, y)
    theirs = SVC(gamma=0.3, C=2.0, tol=1e-8).fit(x, y)
    assert np.allclose(ours.decision_function(x), theirs.decision_function(x), atol=2e-2)  # a bias that is hardly free
    assert np.array_equal(ours.decision_function(sp.csr_array(x)), ours.decision_function(x))
    assert not hasattr(ours, "coef_")
    several = SieveSVC(kernel="rbf").fit(*load_iris(return_X_y=True))
    assert several.score(*load_iris(return_X_y=True)) > 0.95


def test_probabilities():
    x, y = rows()
    model = SieveSVC(probability=True).fit(x, y)
    found = model.predict_proba(x)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert np.all(np.diff(found[np.argsort(model.decision_function(x)), 1]) >= 0)
    assert found[y == 1, 1].mean() > found[y == 0, 1].mean() + 0.3
    several = SieveSVC(probability=True).fit(*load_iris(return_X_y=True))
    assert np.allclose(several.predict_proba(load_iris().data).sum(axis=1), 1.0)
    assert not hasattr(SieveSVC().fit(x, y), "predict_proba")
    late = SieveSVC().fit(x, y).set_params(probability=True)
    with pytest.raises(RunError, match="fit it again with probability=True"):
        late.predict_proba(x)


def test_warm_starts_start_from_the_last_model():
    x, y = rows()
    model = SieveSVC(warm_start=True).fit(x, y)
    again = model.set_params(C=1.2).fit(x, y)
    assert again.run_.steps[0].c_ref == 1.0
    assert np.allclose(again.coef_, SieveSVC(C=1.2).fit(x, y).coef_, atol=1e-2)
    with pytest.warns(SieveWarning, match="the last model has kernel linear, this one kernel rbf.*starting afresh"):
        model.set_params(kernel="rbf").fit(x, y)
    with pytest.warns(SieveWarning, match="the last model has other classes; starting afresh"):
        SieveSVC(warm_start=True).fit(x, y).fit(x, np.arange(len(y)) % 3)
    cold = SieveSVC().fit(x, y)
    cold.set_params(C=1.2).fit(x, y)
    assert cold.run_.steps[0].c_ref < 1.0


def test_files_and_data_sets_are_trained_on_and_predicted(tmp_path, tables_as_they_are):
    table = sparse_rows(labels=("no", "yes"))
    data = shards_of(tmp_path, table, bias=1.0)
    arrays = SieveSVC().fit(table.x, table.y)
    for x in (data, str(tmp_path / "shards"), tmp_path / "shards", tmp_path / "rows.csv"):
        model = SieveSVC().fit(x)
        assert np.allclose(model.coef_, arrays.coef_, atol=1e-6)
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.n_features_in_ == 12
        assert np.allclose(model.decision_function(x), arrays.decision_function(table.x), atol=1e-6)
        assert model.predict(x).tolist() == arrays.predict(table.x).tolist()
        assert model.support_.tolist() == arrays.support_.tolist()
        assert np.allclose(model.dual_coef_, arrays.dual_coef_, atol=1e-6)
    with pytest.raises(SpecError, match="y belongs to arrays"):
        SieveSVC().fit(data, table.y)
    with pytest.raises(SpecError, match="has bias 1, not what fit_intercept=False"):
        SieveSVC(fit_intercept=False).fit(data)


def test_a_run_directory_is_written_and_goes_on(tmp_path):
    x, y = rows()
    model = SieveSVC(out=tmp_path / "run").fit(x, y)
    stored = open_run(tmp_path / "run")
    assert stored.header.is_finished
    assert np.array_equal(stored.steps[0].w[:-1], model.coef_[0])
    assert SieveSVC(out=tmp_path / "run").fit(x, y).run_.header.seal == stored.header.seal
    with pytest.raises(RunError, match="was made from other data"):
        SieveSVC(out=tmp_path / "run").fit(x[1:], y[1:])


def test_models_are_pickled_cloned_and_do_not_hold_their_rows():
    x, y = rows(2000)
    model = SieveSVC(C=0.5).fit(x, y)
    stored = pickle.dumps(model)
    assert len(stored) < x.nbytes / 2
    again = pickle.loads(stored)  # noqa: S301
    assert np.array_equal(again.decision_function(x), model.decision_function(x))
    assert np.array_equal(again.support_, model.support_)
    assert again.run_.steps[0].home is None
    with pytest.raises(NotFittedError):
        clone(model).predict(x)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("scheduler", ["inline", "processes"])
def test_every_scheduler_has_the_same_model(scheduler):
    x, y = rows()
    assert np.array_equal(SieveSVC(scheduler=scheduler).fit(x, y).coef_, SieveSVC().fit(x, y).coef_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": 0.0}, "C must be a positive finite number, not 0.0"),
        ({"C": "1"}, "C must be a positive finite number, not '1'"),
        ({"tol": 2.0}, "tol is a relative gap below 1"),
        ({"kernel": "poly"}, "unknown kernel 'poly'; there are linear, rbf"),
        ({"solver": "smo"}, "unknown solver 'smo'"),
        ({"intercept_scaling": -1.0}, "intercept_scaling must be a positive finite number"),
        ({"class_weight": "even"}, "class_weight is 'balanced' or weights by label"),
        ({"class_weight": {0: 0.0, 1: 1.0}}, "a class weight is 0"),
        ({"memory": "much"}, "is not a size"),
        ({"gamma": "wide", "kernel": "rbf"}, "gamma is a positive number"),
        ({"gamma": -1}, "gamma is a positive number"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, not 'no'"),
        ({"fit_intercept": None}, "fit_intercept must be True or False, not None"),
    ],
)
def test_wrong_settings_are_one_line(settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        SieveSVC(**settings).fit(*rows())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("odd", [None, 1, b"a"])
def test_labels_that_cannot_be_sorted_are_one_line(odd):
    x, y = rows()
    labels = np.where(y == y[0], "a", "b").astype(object)
    labels[3] = odd
    with pytest.raises(ValueError, match=r"^y: the labels are no classes \(.*\); make them all numbers or all text$"):
        SieveSVC().fit(x, labels)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(80), "all sample weights are zero"),
        (np.where(np.arange(80) == 3, -1.0, 1.0), "sample_weight, row 3: weight -1 is negative"),
    ],
)
def test_wrong_weights_are_one_line(weights, message):
    with pytest.raises(ValueError, match=message):
        SieveSVC().fit(*rows(), sample_weight=weights)


def test_weights_that_leave_one_class_are_one_line():
    x, y = rows()
    with pytest.raises(DataError, match=r"there is only one class, .* among rows of weight above 0"):
        SieveSVC().fit(x, y, sample_weight=(y == 1).astype(float))


def test_a_data_set_in_memory_is_one_as_any_other():
    x, y = rows()
    data = in_memory(x, y, LabelMap(("0",), ("1",)), bias=1.0)
    assert np.array_equal(SieveSVC().fit(data).coef_, SieveSVC().fit(x, y).coef_)
