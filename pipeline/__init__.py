"""svmsieve: certified SVM regularisation paths on data larger than memory.

    data = pipeline.open_dataset("shards/")          # a shard directory, Parquet, an svmlight file, or a registry name
    with pipeline.Engine("threads") as engine:       # or "inline", "processes", "tcp://scheduler:8786"
        f = pipeline.margins(engine, data, w)        # one pass over all rows, chunk by chunk

Names are loaded when they are first used, so that ``import pipeline`` and the command's ``--help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.data.dataset import Dataset
    from pipeline.data.ingest import IngestSpec, ingest
    from pipeline.data.inputs import open_dataset
    from pipeline.engine.engine import Engine
    from pipeline.flow.describe import describe
    from pipeline.flow.export import load_sklearn
    from pipeline.flow.fit import fit_path
    from pipeline.flow.passes import cost_sum, gather, margins
    from pipeline.flow.predict import predict
    from pipeline.flow.run_directory import open_run
    from pipeline.flow.screen import screen

_HOME = {
    "Dataset": "pipeline.data.dataset",
    "IngestSpec": "pipeline.data.ingest",
    "ingest": "pipeline.data.ingest",
    "open_dataset": "pipeline.data.inputs",
    "Engine": "pipeline.engine.engine",
    "describe": "pipeline.flow.describe",
    "fit_path": "pipeline.flow.fit",
    "open_run": "pipeline.flow.run_directory",
    "screen": "pipeline.flow.screen",
    "load_sklearn": "pipeline.flow.export",
    "cost_sum": "pipeline.flow.passes",
    "gather": "pipeline.flow.passes",
    "margins": "pipeline.flow.passes",
    "predict": "pipeline.flow.predict",
}

__all__ = [
    "Dataset",
    "Engine",
    "IngestSpec",
    "cost_sum",
    "describe",
    "fit_path",
    "gather",
    "ingest",
    "load_sklearn",
    "margins",
    "open_dataset",
    "open_run",
    "predict",
    "screen",
]
__version__ = _version("svmsieve")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'pipeline' has no attribute {name!r}")
