"""The estimators inside scikit-learn's tools, and what they show while they train."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipeline import progress
from pipeline.estimators import SieveSVC, SieveSVCCV
from pipeline.events import Note
from tests.trained import sparse_rows


def rows():
    table = sparse_rows(120, 6)
    return table.x * 10.0 + 3.0, table.y


def test_in_a_pipeline_and_a_grid_search():
    x, y = rows()
    model = make_pipeline(StandardScaler(), SieveSVC())
    assert cross_val_score(model, x, y, cv=3).mean() > 0.7
    found = GridSearchCV(model, {"sievesvc__C": [0.01, 1.0]}, cv=3).fit(x, y)
    assert found.best_score_ > 0.7
    assert found.predict(x).shape == y.shape
    assert make_pipeline(StandardScaler(), SieveSVCCV([0.1, 1.0], cv=3)).fit(x, y).score(x, y) > 0.7


def test_calibrated_selected_and_one_against_the_rest():
    x, y = rows()
    calibrated = CalibratedClassifierCV(SieveSVC(), cv=3).fit(x, y)
    assert np.allclose(calibrated.predict_proba(x).sum(axis=1), 1.0)
    assert SelectFromModel(SieveSVC(), max_features=2).fit(x, y).transform(x).shape == (120, 2)
    assert OneVsRestClassifier(SieveSVC()).fit(x, y).score(x, y) > 0.7


def test_frames_bring_names():
    frames = pytest.importorskip("pandas")
    x, y = rows()
    frame = frames.DataFrame(x, columns=[f"f{k}" for k in range(6)])
    model = SieveSVC().fit(frame, y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.run_.header.data.columns == tuple(frame.columns)
    assert model.predict(frame).tolist() == SieveSVC().fit(x, y).predict(x).tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"f0": "other"}))


def test_quiet_is_quiet_and_verbose_tells(capsys, monkeypatch):
    x, y = rows()
    SieveSVC().fit(x, y)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    SieveSVC(verbose=1).fit(x, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "step 0: C = 1" in err


@pytest.mark.parametrize(("widgets", "live"), [(True, True), (False, False)])
def test_a_notebook_has_a_bar_if_it_can(monkeypatch, widgets, live):
    shown = []

    class Bar:
        def __enter__(self):
            return shown.append

        def __exit__(self, *args):
            return None

    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if widgets and name == "ipywidgets" else None)
    monkeypatch.setattr(progress, "_bar", Bar)
    with progress.progress() as listen:
        listen(Note("hello"))
    assert shown == ([Note("hello")] if live else [])
