"""SieveSVCCV and sieve_svc_path: what was tried, what was chosen, and a certified model at it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

import pipeline
from pipeline.data.in_memory import in_memory
from pipeline.data.reading.labels import LabelMap
from pipeline.errors import DataError, SieveWarning, SpecError
from pipeline.estimators import SieveSVC, SieveSVCCV, sieve_svc_path
from pipeline.verify.verify import verify
from tests.trained import shards_of, sparse_rows

GRID = [0.01, 0.1, 1.0]


def two():
    table = sparse_rows(150, 6)
    return table.x, table.y


def three():
    return load_iris(return_X_y=True)


def check(model, x, y):
    """What every fitted search says of itself."""
    folds, count = model.scores_.shape
    assert model.Cs_.shape == (count,)
    assert np.all(np.diff(model.Cs_) > 0)
    assert isinstance(model.C_, float)
    assert model.C_ in model.Cs_
    assert model.C_1se_ in model.Cs_
    means = model.cv_results_["mean_test_score"]
    assert np.allclose(model.scores_.mean(axis=0), means, rtol=1e-14)
    assert model.cv_results_["rank_test_score"][np.argmax(means)] == 1
    assert model.best_score_ == means[model.Cs_.tolist().index(model.C_)]
    for k in range(folds):
        assert np.array_equal(model.cv_results_[f"split{k}_test_score"], model.scores_[k])
    if model.selection == "best":
        assert model.Cs_[np.argmax(means)] == model.C_
        assert model.C_1se_ <= model.C_
    assert np.all(np.asarray(model.relative_gap_) <= model.tol)
    coef, intercept = model.coef_at(model.C_)
    assert np.array_equal(coef, model.coef_)
    assert np.array_equal(intercept, model.intercept_)
    alone = SieveSVC(C=model.C_, tol=1e-7).fit(x, y)
    assert np.allclose(alone.decision_function(x), model.decision_function(x), atol=0.2)


@pytest.mark.parametrize("data", [two, three])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"Cs": GRID, "selection": "1se"},
        {"Cs": "path", "epsilon": 0.3, "c_max": 3.0},
        {"cv": StratifiedKFold(3)},
        {"Cs": "path", "epsilon": 0.5, "c_max": 1.0, "cv": StratifiedKFold(3), "scoring": "f1_micro"},
    ],
    ids=["auto", "list", "path", "splitter", "path and splitter"],
)
def test_what_was_tried_and_chosen(data, settings):
    x, y = data()
    check(SieveSVCCV(**{"cv": 3, **settings}).fit(x, y), x, y)


def test_it_is_what_tune_finds():
    x, y = two()
    model = SieveSVCCV(cv=4).fit(x, y)
    run = pipeline.tune(in_memory(x, y, LabelMap(("0",), ("1",)), bias=1.0), cv=4)
    assert model.Cs_.tolist() == run.header.cv_c
    assert (model.C_, model.C_1se_) == (run.header.c_best, run.header.c_1se)
    assert model.cv_results_["mean_test_score"].tolist() == [each["accuracy"] for each in run.header.cv_scores]
    assert np.array_equal(model.coef_[0], run.steps[0].w[:-1])


@pytest.mark.parametrize("data", [two, three])
def test_splits_are_scored_as_a_grid_search_scores_them(data):
    x, y = data()
    splits = StratifiedKFold(4)
    ours = SieveSVCCV(GRID, cv=splits, tol=1e-8).fit(x, y)
    theirs = GridSearchCV(SieveSVC(tol=1e-8), {"C": GRID}, cv=splits).fit(x, y)
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    for key in ("mean_test_score", "std_test_score", *(f"split{k}_test_score" for k in range(4))):
        assert np.allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-12), key
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert ours.cv_results_["param_C"].tolist() == theirs.cv_results_["param_C"].tolist()
    assert theirs.best_params_["C"] == ours.C_


def test_an_iterable_of_splits_and_a_scorer_of_ones_own():
    x, y = two()
    groups = np.arange(len(y)) % 5
    pairs = list(GroupKFold(5).split(x, y, groups))
    ours = SieveSVCCV(GRID, cv=pairs, scoring=make_scorer(accuracy_score)).fit(x, y)
    assert ours.scores_.shape == (5, 3)
    train, test = pairs[2]
    alone = SieveSVC(C=0.1, tol=1e-8).fit(x[train], y[train])
    assert ours.scores_[2, 1] == pytest.approx(alone.score(x[test], y[test]), abs=0.04)


def test_losses_are_negative_scores():
    x, y = two()
    model = SieveSVCCV(GRID, cv=3, scoring="neg_log_loss").fit(x, y)
    assert np.all(model.scores_ < 0)
    assert model.Cs_[np.argmax(model.scores_.mean(axis=0))] == model.C_


@pytest.mark.parametrize("cv", [3, StratifiedKFold(3)])
@pytest.mark.parametrize("data", [two, three])
@pytest.mark.parametrize("tried", ["auto", GRID])
def test_probabilities(cv, data, tried):
    x, y = data()
    model = SieveSVCCV(tried, cv=cv, probability=True).fit(x, y)
    found = model.predict_proba(x)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert np.mean(model.classes_[found.argmax(axis=1)] == y) > 0.8


def test_weights_of_0_are_left_out_of_splits():
    x, y = two()
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    splits = [(np.arange(0, 100), np.arange(100, 150)), (np.arange(50, 150), np.arange(50))]
    ours = SieveSVCCV([0.1], cv=splits).fit(x, y, sample_weight=weights)
    train = splits[0][0][weights[:100] > 0]
    alone = SieveSVC(C=0.1).fit(x[train], y[train])
    assert ours.scores_[0, 0] == alone.score(x[100:], y[100:], weights[100:])
    assert (weights[ours.support_] > 0).all()
    weights[100:] = 0.0
    with pytest.raises(DataError, match="all rows that split 1 scores have weight 0"):
        SieveSVCCV([0.1], cv=splits).fit(x, y, sample_weight=weights)


def test_models_of_every_c():
    x, y = two()
    model = SieveSVCCV(GRID, cv=3).fit(x, y)
    for c in GRID:
        assert np.allclose(model.coef_at(c)[0], SieveSVC(C=c).fit(x, y).coef_, atol=1e-2)
    with pytest.raises(SpecError, match=r"no model on all rows is there for C = 0.5, but 0.01 to 1 \(3 values\)"):
        model.coef_at(0.5)
    path = SieveSVCCV("path", cv=3, epsilon=0.3, c_max=1.0).fit(x, y)
    between = (path.Cs_[3] + path.Cs_[4]) / 2
    assert np.array_equal(path.coef_at(between)[0], path.coef_at(path.Cs_[3])[0])
    with pytest.raises(SpecError, match="no model on all rows"):
        path.coef_at(2.0)
    with pytest.raises(SpecError, match="has no coefficients"):
        SieveSVCCV([1.0], cv=3, kernel="rbf").fit(x, y).coef_at(1.0)


def test_few_different_rows_get_fewer_folds_and_a_warning():
    x, y = np.repeat(np.array([[0.0, 1], [1, 0], [2, 2], [3, 1]]), 5, axis=0), np.repeat([0, 0, 1, 1], 5)
    with pytest.warns(SieveWarning, match="no class has more than 2 different rows.*: 2 folds are made, not 5"):
        model = SieveSVCCV([0.1, 1.0]).fit(x, y)
    assert model.scores_.shape == (2, 2)


def test_files_are_searched_in_folds(tmp_path):
    table = sparse_rows(150, 6)
    data = shards_of(tmp_path, table, bias=1.0)
    model = SieveSVCCV(GRID, cv=3, out=tmp_path / "run").fit(data)
    assert model.scores_.shape == (3, 3)
    assert model.run_.path == tmp_path / "run"
    assert model.C_ == SieveSVCCV(GRID, cv=3).fit(table.x, table.y).C_
    with pytest.raises(SpecError, match="give cv=5, or arrays"):
        SieveSVCCV(GRID, cv=StratifiedKFold(3)).fit(data)


@pytest.mark.parametrize("settings", [{}, {"Cs": GRID}, {"Cs": GRID, "cv": StratifiedKFold(3)}])
def test_what_is_written_verifies(tmp_path, settings):
    x, y = two()
    model = SieveSVCCV(**{"cv": 3, **settings}, probability=True, out=tmp_path / "run").fit(x, y)
    data = in_memory(x, y, LabelMap(("0",), ("1",)), bias=1.0)
    with pipeline.Engine("inline") as engine:
        assert all(finding.holds for finding in verify(engine, tmp_path / "run", data))
    stored = pipeline.open_run(tmp_path / "run")
    assert stored.header.calibration.c == model.C_
    assert stored.at(model.C_).relative_gap == model.relative_gap_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": "all"}, "Cs is 'auto', 'path' or a list of C"),
        ({"Cs": []}, "the grid has no C in it"),
        ({"Cs": [1.0, -1.0]}, "C must be a positive finite number"),
        ({"selection": "worst", "Cs": GRID}, "unknown selection 'worst'; there are best, 1se"),
        ({"cv": 1}, "cross-validation needs at least 2 folds"),
        ({"cv": [], "Cs": GRID}, "cv makes no split"),
    ],
)
def test_wrong_settings_are_one_line(settings, message):
    with pytest.raises((SpecError, DataError), match=message):
        SieveSVCCV(**settings).fit(*two())


def test_a_path_is_as_lasso_path_has_it():
    x, y = two()
    cs, coefs, gaps, run = sieve_svc_path(x, y, epsilon=0.1, c_max=1.0, return_run=True)
    assert coefs.shape == (6, cs.size)
    assert gaps.shape == cs.shape
    assert np.array_equal(coefs[:, -1], run.steps[-1].w)
    assert all(gap == step.primal - step.dual for gap, step in zip(gaps, run.steps, strict=True))
    cs, coefs, _ = sieve_svc_path(x, y, Cs=[1.0, 0.1], fit_intercept=True, intercept_scaling=2.0)
    model = SieveSVC(C=0.1, intercept_scaling=2.0).fit(x, y)
    assert cs.tolist() == [0.1, 1.0]
    assert np.allclose(coefs[:, 0], np.append(model.coef_, model.intercept_), atol=1e-2)
    cs, coefs, gaps = sieve_svc_path(*three(), Cs=GRID)
    assert (coefs.shape, gaps.shape) == ((3, 4, 3), (3, 3))
