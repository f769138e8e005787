"""svmsieve: certified SVM regularisation paths on data larger than memory.

    run = pipeline.tune("shards/")                   # the C that predicts best, in folds, and a certified model at it
    run = pipeline.fit_path("shards/", grid=[0.1, 1], holdout=0.2)
    run.best.c, run.best.relative_gap, run.best.w    # a StepView: what steps.jsonl says (StepRecord), and the model
    run.header.c_min, run.header.data.rows           # a RunHeader: what run.json says

    data = pipeline.open_dataset("shards/")          # a shard directory, Parquet, an svmlight file, or a registry name
    with pipeline.Engine("threads") as engine:       # or "inline", "processes", "tcp://scheduler:8786"
        f = pipeline.margins(engine, data, w)        # one pass over all rows, chunk by chunk

Names are loaded when they are first used, so that ``import pipeline`` and the command's ``--help`` are quick.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; typing itself would be most of what the import takes
if TYPE_CHECKING:
    from typing import Any

    from pipeline.collections.door import dataset_of
    from pipeline.data.dataset import Dataset
    from pipeline.data.ingest.ingest import IngestSpec, ingest
    from pipeline.data.inputs import open_dataset
    from pipeline.engine.engine import Engine
    from pipeline.passes.gather import gather
    from pipeline.passes.products import margins
    from pipeline.passes.sums import cost_sum
    from pipeline.path.fit import fit_path, tune
    from pipeline.runs.classes import ClassesRun, ClassesStep
    from pipeline.runs.data_record import DataRecord
    from pipeline.runs.directory import open_run
    from pipeline.runs.records import RunHeader, StepRecord
    from pipeline.runs.run import Run, StepView
    from pipeline.spec import PathSpec
    from pipeline.use.describe import describe
    from pipeline.use.export import load_sklearn
    from pipeline.use.lazy import lazy_labels, lazy_scores
    from pipeline.use.predict import predict
    from pipeline.use.screen import screen

    __version__: str

_HOME = {
    "Dataset": "pipeline.data.dataset",
    "dataset_of": "pipeline.collections.door",
    "IngestSpec": "pipeline.data.ingest.ingest",
    "ingest": "pipeline.data.ingest.ingest",
    "open_dataset": "pipeline.data.inputs",
    "Engine": "pipeline.engine.engine",
    "describe": "pipeline.use.describe",
    "fit_path": "pipeline.path.fit",
    "tune": "pipeline.path.fit",
    "open_run": "pipeline.runs.directory",
    "ClassesRun": "pipeline.runs.classes",
    "ClassesStep": "pipeline.runs.classes",
    "Run": "pipeline.runs.run",
    "StepView": "pipeline.runs.run",
    "StepRecord": "pipeline.runs.records",
    "RunHeader": "pipeline.runs.records",
    "DataRecord": "pipeline.runs.data_record",
    "PathSpec": "pipeline.spec",
    "screen": "pipeline.use.screen",
    "load_sklearn": "pipeline.use.export",
    "cost_sum": "pipeline.passes.sums",
    "gather": "pipeline.passes.gather",
    "margins": "pipeline.passes.products",
    "predict": "pipeline.use.predict",
    "lazy_labels": "pipeline.use.lazy",
    "lazy_scores": "pipeline.use.lazy",
}

__all__ = [
    "ClassesRun",
    "ClassesStep",
    "DataRecord",
    "Dataset",
    "Engine",
    "IngestSpec",
    "PathSpec",
    "Run",
    "RunHeader",
    "StepRecord",
    "StepView",
    "cost_sum",
    "dataset_of",
    "describe",
    "fit_path",
    "gather",
    "ingest",
    "lazy_labels",
    "lazy_scores",
    "load_sklearn",
    "margins",
    "open_dataset",
    "open_run",
    "predict",
    "screen",
    "tune",
]


if not TYPE_CHECKING:  # or an editor would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        if name == "__version__":
            return import_module("pipeline.installed").version("svmsieve")
        raise AttributeError(f"module 'pipeline' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
