"""Dask collections in ``fit``, ``predict`` and the like: never brought into memory, neither rows nor predictions.

fit        partitions -> shards, where they are computed -> the data set that is trained on
predict    the fitted model, once in the graph -> a lazy Dask array, cut as the rows are
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.collections.distinct import rows_with_weight, typed_labels
from pipeline.collections.door import dataset_of
from pipeline.collections.kinds import DASK_ARRAY, DASK_BAG, DASK_FRAME, kind_of
from pipeline.collections.lazy import lazily
from pipeline.data.reading.labels import label_text
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.estimators.inputs import TrainingRows
from pipeline.events import Listener

NOT_FOR_SCORES = ("run_", "_data", "_rows", "_kept_duals", "cv_results_")  # what no partition needs


def dask_training(estimator: Any, x: Any, y: Any, sample_weight: Any, bias: float, listen: Listener) -> TrainingRows:
    """Return a Dask collection as what an estimator is to be trained on."""
    refuse_bags(x)
    if y is None:
        raise SpecError("requires y to be passed, but the target y is None; give the labels as y")
    columns = "none" if kind_of(x) == DASK_FRAME else None  # features as they are, as frames in memory have it
    with Engine(estimator.scheduler) as engine:
        data = dataset_of(x, y, sample_weight=sample_weight, columns=columns, bias=bias, engine=engine, listen=listen)
        names = data.classes or (data.labels.negative[0], data.labels.positive[0])
        classes = typed_labels(names, y, engine)
        rows = None if sample_weight is None else rows_with_weight(sample_weight, engine)
    estimator.n_features_in_ = data.own_features
    estimator.__dict__.pop("feature_names_in_", None)
    if data.columns is not None:
        estimator.feature_names_in_ = np.array(data.columns, dtype=object)
    weights = estimator.class_weight
    if isinstance(weights, Mapping):
        weights = {label_text(label): weight for label, weight in weights.items()}
    return TrainingRows(data, classes, rows, weights)


def refuse_bags(x: Any) -> None:
    """Raise SpecError for a bag, whose hasher no estimator has."""
    if kind_of(x) == DASK_BAG:
        raise SpecError("a bag has no features before it is hashed; use fit_path(bag, hasher=...), or an array of it")


def lazy_decisions(estimator: Any, x: Any) -> Any:
    """Return the scores of a Dask collection's rows by a fitted estimator."""
    refuse_bags(x)
    width = x.shape[1] if kind_of(x) == DASK_ARRAY else len(x.columns)
    if kind_of(x) == DASK_ARRAY and x.numblocks[1] > 1:
        raise SpecError(f"X is cut into {x.numblocks[1]:,} blocks of columns; pass X.rechunk({{1: -1}})")
    if width != estimator.n_features_in_:
        problem = f"X has {width} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_}"
        raise SpecError(f"{problem} features as input; give the same columns")
    model = copy.copy(estimator)
    for name in NOT_FOR_SCORES:
        model.__dict__.pop(name, None)
    several = len(estimator.classes_)
    return lazily(_decide, x, model, np.float64, several if several > 2 else None)


def _decide(rows: Any, where: str, estimator: Any) -> np.ndarray:
    del where  # what is wrong with rows is said as scikit-learn says it
    found: np.ndarray = estimator.decision_function(rows)
    return found
