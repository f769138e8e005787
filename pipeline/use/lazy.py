"""Predictions of Dask collections: lazy Dask arrays of scores or labels, by the model of a run.

    run -> model, once in the graph -> [rows of a partition -> checked blocks -> scores], when they are computed

Frames are matched by name as tables are; arrays and hashed bags must have the features that the model has, as many and
in the same order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.collections.bags import bag_reader
from pipeline.collections.dask_arrays import array_reader
from pipeline.collections.dask_frames import schema_of
from pipeline.collections.kinds import DASK, DASK_ARRAY, DASK_FRAME, kind_of
from pipeline.collections.lazy import lazily
from pipeline.collections.part import Reader
from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.errors import SpecError
from pipeline.runs.classes import AnyStep
from pipeline.runs.run import RunOf
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import AnyModel, any_model_of
from pipeline.use.in_memory import RowScorer, reader_that_fits, table_reader
from pipeline.use.label_values import label_array
from pipeline.use.outcomes import Labelling

Source = RunOf[Any] | AnyStep | AnyModel


def lazy_scores(source: Source, x: Any, *, hasher: Any = None, training: Dataset | str | Path | None = None) -> Any:
    """Return the scores of a Dask collection's rows by a model.

    Parameters
    ----------
    source : run, step or model
        Of a run its best step counts.
    x : Dask array, frame or bag
        The rows, which need no labels.
    hasher : object with n_features and transform, optional
        That of a bag: the one the model was trained with.
    training : Dataset or path, optional
        The training data of a kernel's model if they are no longer where run.json says.

    Returns
    -------
    dask.array.Array
        Of two classes a score a row, of K a column a class; nothing is computed yet.
    """
    model = _model(source, training)
    columns = len(model.names) if isinstance(model, ClassesModel) else None
    return lazily(RowScorer(_reader(model, x, hasher)), x, model, np.float64, columns)


def lazy_labels(source: Source, x: Any, *, hasher: Any = None, training: Dataset | str | Path | None = None) -> Any:
    """Return the predicted labels of a Dask collection's rows; labels that are all numbers are numbers.

    Parameters and laziness are those of ``lazy_scores``; the Dask array has one dimension.
    """
    model = _model(source, training)
    labels = Labelling(label_array(model.names))
    return lazily(_Labels(_reader(model, x, hasher), labels), x, model, labels.classes.dtype)


def _model(source: Source, training: Dataset | str | Path | None) -> AnyModel:
    if isinstance(source, RunOf | AnyStep):
        return any_model_of(source, training=training)
    return source


def _reader(model: AnyModel, x: Any, hasher: Any) -> Reader:
    """Return what reads the partitions for a model, or say in one line why they do not fit it."""
    kind = kind_of(x)
    if kind not in DASK:
        raise SpecError(f"lazy predictions are for Dask collections, and these data are {kind}; use predict")
    if kind == DASK_FRAME:
        return table_reader(model, schema_of(x), "the Dask frame")
    found: Reader = array_reader(x, unlabelled=True) if kind == DASK_ARRAY else bag_reader(hasher, "", unlabelled=True)
    return reader_that_fits(found, model, kind)


@dataclass(frozen=True)
class _Labels(RowScorer):
    """Predicts the labels of the rows of a partition."""

    labels: Labelling

    def __call__(self, rows: Any, where: str, model: AnyModel) -> np.ndarray:
        return self.labels(super().__call__(rows, where, model))
