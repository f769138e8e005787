"""Predictions of rows of any kind, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.api.data import matrix_of
from pipeline.api.keywords import checked_keywords
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import in_memory
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.engine.engine import Engine, engine_for
from pipeline.errors import SpecError
from pipeline.events import Listener
from pipeline.maths.calibration import Calibration, class_probabilities
from pipeline.progress import progress
from pipeline.runs.classes import ClassesStep
from pipeline.runs.directory import RunOf, StepView, open_run
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import AnyModel, any_model_of
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.use.export_names import classes_of
from pipeline.use.predict import predicted, rows_for
from pipeline.use.predict_classes import predict_classes

AnySource = RunOf[Any] | StepView | ClassesStep | str | Path


@dataclass(frozen=True)
class Predictions:
    """Predictions of all rows, in row order."""

    score: np.ndarray
    """Of two classes (n,), above 0 for the positive one; of several (n, K)."""
    label: np.ndarray
    """The classes, whole numbers where the labels of the training data were such."""
    classes: np.ndarray
    """All classes: the negative and the positive one, or those of the columns of ``score``."""
    probability: np.ndarray | None
    """The probabilities of all classes, (n, K), if they were asked for."""


@checked_keywords
def predict(
    run: AnySource,
    data: Any,
    *,
    c: float | None = None,
    probability: bool = False,
    training: Dataset | str | Path | None = None,
    scheduler: str = "threads",
    workers: int | None = None,
    engine: Engine | None = None,
    verbose: int = 0,
) -> Predictions:
    """Predict rows, which need no labels.

    Parameters
    ----------
    run : Run, step or path
        The model: of a run that at ``c``, or its best.
    data : path, URL, name, Dataset, array, sparse matrix or frame
        The rows. Features are matched by name where both have names, else by position.
    c : float, default=None
        The C of the model; None is the best step of a run.
    probability : bool, default=False
        Return probabilities, too, if the run was calibrated (``tune`` does that).
    training : path or Dataset, default=None
        The training data of a kernel's model, if they are no longer where they were.
    scheduler, workers, engine, verbose
        As in ``fit_path``.

    Returns
    -------
    predictions : Predictions
        Scores, labels, and probabilities, all in memory; ``svmsieve predict`` writes them to a file instead.
    """
    with progress(quiet=not verbose) as listen, engine_for(engine, scheduler, workers) as made:
        source = opened_run(run)
        model = any_model_of(source, c if isinstance(source, RunOf) else None, listen, training)
        rows = _rows(model, data, listen)
        if isinstance(model, ClassesModel):
            names = model.classes
            score = np.concatenate([part.scores for part in predict_classes(made, model, rows, listen)])
            codes = score.argmax(axis=1)
        else:
            names = model.names
            score = np.concatenate([part.score for part in predicted(made, model, rows, listen)])
            codes = (score > 0).astype(np.intp)
    classes = classes_of(names)
    return Predictions(score, classes[codes], classes, _probabilities(source, model, score) if probability else None)


def opened_run(source: AnySource) -> RunOf[Any] | StepView | ClassesStep:
    """Return a run or a step, or the run that a path names."""
    return open_run(source) if isinstance(source, str | Path) else source


def _rows(model: AnyModel, data: Any, listen: Listener) -> Dataset | RowsToScore:
    """Return rows to be scored; those in memory need no labels, and get the model's own."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return rows_for(model, str(data), IngestSpec(bias=model.bias), listen)
    x, columns = matrix_of(data)
    codes = np.zeros(x.shape[0], np.int32)
    return in_memory(x, codes, model.labels, bias=model.bias, columns=columns, name="X")


def _probabilities(source: RunOf[Any] | StepView | ClassesStep, model: AnyModel, score: np.ndarray) -> np.ndarray:
    """Return the probabilities of all classes, by the calibration of the run that the model is of."""
    if not isinstance(source, RunOf):
        raise SpecError("probabilities are made by a run's calibration; give the run, not a step of it")
    found = source.calibration_of(model.c)
    if isinstance(found, Calibration):
        positive = found.probabilities(score)
        return np.stack([1.0 - positive, positive], axis=1)
    return class_probabilities(found, score)
