"""Predictions of Dask collections: lazy Dask arrays of scores or labels, by the model of a run.

    run -> model, once in the graph -> [rows of a partition -> checked blocks -> scores], when they are computed

Frames are matched by name as tables are; arrays and hashed bags must have the features that the model has, as many and
in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.collections.bags import bag_reader
from pipeline.collections.dask_arrays import array_reader
from pipeline.collections.dask_frames import schema_of
from pipeline.collections.kinds import DASK, DASK_ARRAY, DASK_FRAME, kind_of
from pipeline.collections.lazy import lazily
from pipeline.collections.part import Part, Reader
from pipeline.collections.tables import TableReader
from pipeline.data.dataset import Dataset
from pipeline.data.ingest.assemble import Piece, join
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.layout import layout_of
from pipeline.errors import DataError, SpecError
from pipeline.runs.classes import ClassesStep
from pipeline.runs.directory import RunOf, StepView
from pipeline.scoring.classes_model import ClassesModel, said_codes
from pipeline.scoring.models import AnyModel, any_model_of
from pipeline.use.export_names import classes_of

Source = RunOf[Any] | StepView | ClassesStep | AnyModel


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
    columns = len(model.classes) if isinstance(model, ClassesModel) else None
    return lazily(_Scores(_reader(model, x, hasher)), x, model, np.float64, columns)


def lazy_labels(source: Source, x: Any, *, hasher: Any = None, training: Dataset | str | Path | None = None) -> Any:
    """Return the predicted labels of a Dask collection's rows; labels that are all numbers are numbers.

    Parameters and laziness are those of ``lazy_scores``; the Dask array has one dimension.
    """
    model = _model(source, training)
    names = classes_of(model.classes if isinstance(model, ClassesModel) else model.names)
    return lazily(_Labels(_reader(model, x, hasher), names), x, model, names.dtype)


def _model(source: Source, training: Dataset | str | Path | None) -> AnyModel:
    if isinstance(source, RunOf | StepView | ClassesStep):
        return any_model_of(source, training=training)
    return source


def _reader(model: AnyModel, x: Any, hasher: Any) -> Reader:
    """Return what reads the partitions for a model, or say in one line why they do not fit it."""
    kind = kind_of(x)
    if kind not in DASK:
        raise SpecError(f"lazy predictions are for Dask collections, and these data are {kind}; use predict")
    if kind == DASK_FRAME:
        options = ReadOptions(rules=ReadRules(base=0, unlabelled=True), wanted=model.columns)
        if model.encoding is not None:
            options = options.encoded(model.encoding)
        layout = layout_of(schema_of(x), "the Dask frame", options)
        return TableReader(replace(layout, label=None, weight=None), unlabelled=True)
    reader: Reader = array_reader(x, unlabelled=True) if kind == DASK_ARRAY else bag_reader(hasher, "", unlabelled=True)
    if reader.n_features != model.known:
        problem = f"the {kind} has {reader.n_features:,} features, the model of {model.run} {model.known:,}"
        raise SpecError(f"{problem}; give the features that it was trained on, in the same order")
    return reader


@dataclass(frozen=True)
class _Scores:
    """Scores the rows of a partition."""

    reader: Reader

    def __call__(self, rows: Any, where: str, model: AnyModel) -> np.ndarray:
        found = []
        for block in self.reader.blocks(Part(rows, where)):
            piece = Piece(block, np.zeros(block.n_rows, np.int8), 0, block.n_rows)
            found.append(model.block_scores(block, join([piece], model.bias, model.known)))
        scores = np.concatenate(found)
        finite = np.isfinite(scores) if scores.ndim == 1 else np.isfinite(scores).all(axis=1)
        if not finite.all():
            problem = f"its score by {model.run} is beyond float64's range; scale the features, and train again"
            raise DataError(problem, path=where, row=int(np.argmin(finite)))
        return scores


@dataclass(frozen=True)
class _Labels(_Scores):
    """Predicts the labels of the rows of a partition."""

    names: np.ndarray

    def __call__(self, rows: Any, where: str, model: AnyModel) -> np.ndarray:
        scores = super().__call__(rows, where, model)
        return self.names[(scores > 0).astype(np.intp) if scores.ndim == 1 else said_codes(scores)]
