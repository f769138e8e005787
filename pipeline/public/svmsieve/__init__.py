"""svmsieve: certified SVM regularisation paths on data larger than memory.

    model = svmsieve.SieveSVC(C=0.1).fit(X, y)         # as scikit-learn's estimators are; model.relative_gap_
    run = svmsieve.tune("clicks.csv", bias=1)          # the C that predicts best, and a certified model at it
    run = svmsieve.fit_path(X, y, grid=[0.1, 1])       # a certified model at every C; run.to_frame()
    svmsieve.predict(run, X2, c=1).label

Data are a path, a URL, a registry name, a ``Dataset``, or arrays and frames with ``y``; passes run on ``scheduler``
(text) or on an ``engine`` that is open. Names are loaded when they are first used, so that the import is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline import errors
    from pipeline.api.checks import export, screen, verify
    from pipeline.api.data import ingest, open_dataset
    from pipeline.api.predictions import Predictions, predict
    from pipeline.data.dataset import Dataset
    from pipeline.engine.engine import Engine
    from pipeline.estimators import SieveSVC, SieveSVCCV, sieve_svc_path
    from pipeline.path.fit import fit_path, tune
    from pipeline.runs.classes import ClassesRun, ClassesStep
    from pipeline.runs.directory import open_run
    from pipeline.runs.run import Run, StepView
    from pipeline.use.export import load_sklearn

    __version__: str

_HOME = {
    "ClassesRun": "pipeline.runs.classes",
    "ClassesStep": "pipeline.runs.classes",
    "Dataset": "pipeline.data.dataset",
    "Engine": "pipeline.engine.engine",
    "Predictions": "pipeline.api.predictions",
    "Run": "pipeline.runs.run",
    "SieveSVC": "pipeline.estimators",
    "SieveSVCCV": "pipeline.estimators",
    "StepView": "pipeline.runs.run",
    "export": "pipeline.api.checks",
    "fit_path": "pipeline.path.fit",
    "ingest": "pipeline.api.data",
    "load_sklearn": "pipeline.use.export",
    "open_dataset": "pipeline.api.data",
    "open_run": "pipeline.runs.directory",
    "predict": "pipeline.api.predictions",
    "screen": "pipeline.api.checks",
    "sieve_svc_path": "pipeline.estimators",
    "tune": "pipeline.path.fit",
    "verify": "pipeline.api.checks",
}

__all__ = [
    "ClassesRun",
    "ClassesStep",
    "Dataset",
    "Engine",
    "Predictions",
    "Run",
    "SieveSVC",
    "SieveSVCCV",
    "StepView",
    "errors",
    "export",
    "fit_path",
    "ingest",
    "load_sklearn",
    "open_dataset",
    "open_run",
    "predict",
    "screen",
    "sieve_svc_path",
    "tune",
    "verify",
]


if not TYPE_CHECKING:  # or an editor would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            found = getattr(import_module(_HOME[name]), name)
        elif name == "errors":
            found = import_module("pipeline.errors")
        elif name == "__version__":
            found = import_module("pipeline.installed").version("svmsieve")
        else:
            raise AttributeError(f"module 'svmsieve' has no attribute {name!r}")
        globals()[name] = found  # asked for once; tools that look into the module find it, too
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
