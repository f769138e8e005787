"""Predictions of rows of any kind, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.collections.kinds import is_dask
from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine, engine_for
from pipeline.errors import SpecError
from pipeline.events import Listener
from pipeline.keywords import checked_keywords
from pipeline.progress import progress
from pipeline.runs.classes import AnyStep
from pipeline.runs.directory import open_run
from pipeline.runs.run import RunOf
from pipeline.scoring.models import AnyModel, any_model_of
from pipeline.use.label_values import label_array
from pipeline.use.outcomes import Labelling, Probabilities
from pipeline.use.predict import all_scores

AnySource = RunOf[Any] | AnyStep | str | Path


@dataclass(frozen=True)
class Predictions:
    """Predictions of all rows, in row order."""

    score: Any
    """Of two classes (n,), above 0 for the positive one; of several (n, K)."""
    label: Any
    """The classes, whole numbers where the labels of the training data were such."""
    classes: np.ndarray
    """All classes: the negative and the positive one, or those of the columns of ``score``."""
    probability: Any
    """The probabilities of all classes, (n, K), if they were asked for."""


@checked_keywords
def predict(  # noqa: PLR0913 - all but two are keywords
    run: AnySource,
    data: Any,
    *,
    c: float | None = None,
    probability: bool = False,
    training: Dataset | str | Path | None = None,
    hasher: Any = None,
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
    data : path, URL, name, Dataset, array, sparse matrix, frame or Dask collection
        The rows. Features are matched by name where both have names, else by position.
    c : float, default=None
        The C of the model; None is the best step of a run.
    probability : bool, default=False
        Return probabilities, too, if the run was calibrated (``tune`` does that).
    training : path or Dataset, default=None
        The training data of a kernel's model, if they are no longer where they were.
    hasher : object with n_features and transform, default=None
        That of a Dask bag.
    scheduler, workers, engine, verbose
        As in ``fit_path``.

    Returns
    -------
    predictions : Predictions
        Scores, labels, and probabilities, all in memory; ``svmsieve predict`` writes them to a file instead. Of a Dask
        collection they are lazy Dask arrays.
    """
    with progress(quiet=not verbose) as listen, engine_for(engine, scheduler, workers) as made:
        source = opened_run(run)
        model = any_model_of(source, c if isinstance(source, RunOf) else None, listen, training)
        classes = label_array(model.names)
        labelling, chances = Labelling(classes), _probabilities(source, model, classes) if probability else None
        if is_dask(data):
            from pipeline.use.lazy import lazy_scores  # noqa: PLC0415 - Dask is slow to import

            lazy = lazy_scores(model, data, hasher=hasher)
            return Predictions(lazy, labelling.over(lazy), classes, None if chances is None else chances.over(lazy))
        score = _scores(made, model, data, listen)
    return Predictions(score, labelling(score), classes, None if chances is None else chances(score))


def opened_run(source: AnySource) -> RunOf[Any] | AnyStep:
    """Return a run or a step, or the run that a path names."""
    return open_run(source) if isinstance(source, str | Path) else source


def _scores(engine: Engine, model: AnyModel, data: Any, listen: Listener) -> np.ndarray:
    """Return the scores of rows: of files and data sets part after part, of what is in memory as it is."""
    if not isinstance(data, str | Path | Dataset):
        from pipeline.use.in_memory import memory_scores  # noqa: PLC0415 - Arrow's compute, slow to import

        return memory_scores(model, data)
    return all_scores(engine, model, data, listen)


def _probabilities(source: RunOf[Any] | AnyStep, model: AnyModel, classes: np.ndarray) -> Probabilities:
    """Return what makes probabilities of scores: the calibration of the run that the model is of."""
    if not isinstance(source, RunOf):
        raise SpecError("probabilities are made by a run's calibration; give the run, not a step of it")
    return Probabilities(source.calibration_of(model.c), len(classes))
