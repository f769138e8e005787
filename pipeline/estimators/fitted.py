"""What every fitted estimator here knows of its model, and what it makes of new rows.

    f(x) = coef_ . x + intercept_,  or of a kernel sum_j a_j K(x_j, x);   the class is the second of two where f(x) > 0,
                                                                       of several that of the largest f_k(x)

The model is that of one step of a certified run, ``run_``. Arrays by training row (``support_``, ``dual_coef_``) are
read off the run when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from pipeline.collections.kinds import is_dask
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import ARRAYS
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.estimators.inputs import TrainingRows, is_named
from pipeline.estimators.odd import explained
from pipeline.runs.classes import ClassesRun, ClassesStep, parts_of
from pipeline.runs.run import Run, StepView
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.kernel_model import KernelModel
from pipeline.scoring.models import any_model_of
from pipeline.use.outcomes import Labelling, Probabilities
from pipeline.use.predict import all_scores


def _has_probabilities(estimator: Any) -> bool:
    if not estimator.probability:
        raise AttributeError("predict_proba needs probability=True, set before fit")
    return True


class FittedSieve(ClassifierMixin, BaseEstimator):
    """A classifier whose model is a step of a certified run."""

    classes_: np.ndarray
    run_: Run | ClassesRun
    coef_: np.ndarray
    intercept_: np.ndarray
    dual_gap_: float | np.ndarray
    relative_gap_: float | np.ndarray
    kernel: str
    scheduler: str

    def __sklearn_tags__(self) -> Any:
        """Tell that sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """Score rows by the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), Dask array or frame, path or Dataset
            The rows; a path or a ``Dataset`` is read for the model, part after part.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes), or a lazy Dask array of a Dask collection
            Of two classes f(x), positive for ``classes_[1]``; of several a column a class.
        """
        check_is_fitted(self)
        if is_dask(X):
            from pipeline.estimators.dask_inputs import lazy_decisions  # noqa: PLC0415 - Dask is slow to import

            return lazy_decisions(self, X)
        if is_named(X):
            return self._scores_of_data(X)
        with explained(X):
            x = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        found = self._linear_scores(x) if self.kernel == "linear" else self._kernel_scores(x)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), path or Dataset
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Of ``classes_``; of two a score of exactly 0 is the first, of several equal scores the first class's count.
        """
        scores = self.decision_function(X)
        found = Labelling(self.classes_)
        return found.over(scores) if is_dask(X) else found(scores)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of all classes, by Platt's sigmoid of scores that the training rows got in folds.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), path or Dataset
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            A column for each of ``classes_``; rows sum to 1.
        """
        check_is_fitted(self)
        found = self.run_.header.calibration
        if found is None:
            raise RunError("the model was fitted without probabilities; fit it again with probability=True")
        scores, made = self.decision_function(X), Probabilities(found, len(self.classes_))
        return made.over(scores) if is_dask(X) else made(scores)

    @property
    def support_(self) -> np.ndarray:
        """The numbers of the training rows that have an alpha above 0 (in any class), ascending."""
        return self._duals()[0]

    @property
    def dual_coef_(self) -> np.ndarray:
        """y_i alpha_i of these rows, of shape (1, n_SV), or (n_classes, n_SV) of several classes."""
        return self._duals()[1]

    def _settle(self, training: TrainingRows, step: StepView | ClassesStep) -> None:
        """Take the model of a step of ``run_``."""
        parts = parts_of(step)
        data = training.data
        self.classes_, self._number = training.classes, step.step
        gaps = np.array([part.primal - part.dual for part in parts]), np.array([part.relative_gap for part in parts])
        self.dual_gap_, self.relative_gap_ = (each if len(parts) > 1 else float(each[0]) for each in gaps)
        for name in ("coef_", "intercept_"):
            self.__dict__.pop(name, None)
        if self.kernel == "linear":
            self.coef_, self.intercept_ = weights_of(parts)
        self._model = any_model_of(step, training=data)
        in_memory = data.kind == ARRAYS
        self._data = None if in_memory else data  # whose rows are somewhere else
        self._rows = None if in_memory else training.rows
        self._kept_duals = duals_of(parts, data, training.rows) if in_memory else None
        if in_memory:
            self.run_ = self.run_.kept_by(None)  # a model does not hold the rows that it was trained on

    @property
    def _step(self) -> StepView | ClassesStep:
        """The step of the run whose model this is."""
        check_is_fitted(self)
        return self.run_.steps[self._number]

    def _duals(self) -> tuple[np.ndarray, np.ndarray]:
        step = self._step
        if self._kept_duals is not None:
            return self._kept_duals
        assert self._data is not None
        return duals_of(parts_of(step), self._data, self._rows)

    def _linear_scores(self, x: Any) -> np.ndarray:
        found: np.ndarray = safe_sparse_dot(x, self.coef_.T, dense_output=True) + self.intercept_
        return found

    def _kernel_scores(self, x: Any) -> np.ndarray:
        matrix = sp.csr_array(x, copy=True)
        matrix.sum_duplicates()
        arrays = matrix.indptr, matrix.indices.astype(np.int32), matrix.data
        models = self._model.parts if isinstance(self._model, ClassesModel) else (self._model,)
        supports = [each.support for each in models if isinstance(each, KernelModel)]
        return np.stack([support.scores(arrays, x.shape[1]) for support in supports], axis=1)

    def _scores_of_data(self, x: str | Path | Dataset) -> np.ndarray:
        """Score rows of a data set, or of files, a part at a time."""
        with Engine(self.scheduler) as engine:
            return all_scores(engine, self._model, x)


def weights_of(parts: Sequence[StepView]) -> tuple[np.ndarray, np.ndarray]:
    """Return weights, a row a class (or one row), and what the bias column adds."""
    w, bias = np.stack([part.w for part in parts]), parts[0].data.bias
    return (w[:, :-1].copy(), bias * w[:, -1]) if bias else (w, np.zeros(len(parts)))


def duals_of(parts: Sequence[StepView], data: Dataset, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with an alpha above 0, by their numbers (``rows`` if given), and y_i alpha_i of each class."""
    alphas = np.stack([part.alpha for part in parts])
    found = np.flatnonzero(alphas.any(axis=0))
    labels = np.concatenate([shard.load().labels for shard in data.shards])[found]
    signs = np.where(labels == np.arange(len(parts))[:, None], 1.0, -1.0) if data.classes else labels[None, :]
    return (found if rows is None else rows[found]), alphas[:, found] * signs
