"""``SieveSVCCV``: the C that predicts best, by cross-validation, and the certified SVM at it.

cv a number, a score of ours    ``pipeline.path.tune`` and ``folds``: folds by what is in a row, trained together
a splitter, splits, a scorer    ``splits``: one data set a split
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, validate_data

from pipeline.collections.kinds import is_dask
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError, shown
from pipeline.estimators.fitted import FittedSieve, weights_of
from pipeline.estimators.folds import in_folds, possible_folds
from pipeline.estimators.inputs import TrainingRows, costs_of, is_named, kernel_of, training_of, weights_given
from pipeline.estimators.searched import SearchAsked, Searched
from pipeline.estimators.splits import Splits, in_splits
from pipeline.estimators.svc import SieveSVC, memory_of
from pipeline.events import Listener
from pipeline.files import local
from pipeline.path.usual_score import usual_score
from pipeline.progress import progress
from pipeline.runs.classes import parts_of
from pipeline.spec import PathSpec

AUTO, PATH = "auto", "path"
OURS = {"accuracy": "accuracy", "balanced_accuracy": "balanced_accuracy", "neg_log_loss": "log_loss"}
OF_TWO, OF_SEVERAL = {"roc_auc": "auc", "f1": "f1"}, {"roc_auc_ovr": "auc", "f1_macro": "f1"}
OWN = ("Cs", "cv", "scoring", "selection", "epsilon", "c_max", "out", "probability", "verbose")


class SieveSVCCV(FittedSieve):
    """Certified hinge-loss SVM at the C that scores best in cross-validation.

    Parameters
    ----------
    Cs : "auto", "path" or list of float, default="auto"
        The C to try: a lattice from 10 C_min on until scores get no better, then around the best; all C of the path,
        so close that in between nothing changes by more than ``epsilon``; or these.
    cv : int, splitter or iterable of (train, test), default=5
        In how many folds every C is scored: stratified, by what is in the rows, so that they are the same whatever the
        order of the rows. A splitter of scikit-learn, or splits, are for arrays; each is trained on its own.
    scoring : str or callable, default=None
        What is to be good; None is accuracy, in which rows left out count as they do in training: by their weights and
        those of their classes, where there are any. By name of scikit-learn, every row counting once: accuracy,
        balanced_accuracy, roc_auc and f1 (of several classes roc_auc_ovr and f1_macro), neg_log_loss; any other, and
        callables, for arrays.
    selection : {"best", "1se"}, default="best"
        The C with the best mean score, or the smallest within one standard error of it.
    epsilon : float, default=1e-3
        Of ``Cs="path"``: between two C the model before is optimal up to this relative gap.
    c_max : float, default=None
        No C above this; None is 10^4 for "path", and none for "auto".
    tol, fit_intercept, intercept_scaling, class_weight, solver, kernel, gamma, memory, scheduler, out, verbose
        As in ``SieveSVC``.
    probability : bool, default=False
        Fit probabilities, too, on the scores that rows get in the folds.

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    C_1se_ : float
        The smallest C within one standard error of the best.
    Cs_ : ndarray of shape (n_Cs,)
        The C that were tried, ascending.
    scores_ : ndarray of shape (n_folds, n_Cs)
        The scores; of losses the negative, so that more is better.
    cv_results_ : dict
        The same as ``GridSearchCV`` has it. The time to score is not known (nan).
    best_score_ : float
        The mean score of ``C_``.

    All attributes of ``SieveSVC`` are there, too: the model is that at ``C_``, trained on all rows.
    """

    def __init__(  # noqa: PLR0913 - all but one are keywords
        self,
        Cs: str | Sequence[float] = AUTO,
        *,
        cv: Any = 5,
        scoring: Any = None,
        selection: str = "best",
        epsilon: float = 1e-3,
        c_max: float | None = None,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        solver: str = "auto",
        kernel: str = "linear",
        gamma: float | str = "scale",
        memory: int | str | None = None,
        scheduler: str = "threads",
        out: str | Path | None = None,
        verbose: int = 0,
        probability: bool = False,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.epsilon = epsilon
        self.c_max = c_max
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.memory = memory
        self.scheduler = scheduler
        self.out = out
        self.verbose = verbose
        self.probability = probability

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find C, and train the SVM at it to its certificate.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), path or Dataset
            The rows. A path is what ``open_dataset`` opens; its labels and weights are in it.
        y : array-like of shape (n_samples,), default=None
            The classes of the rows of an array.
        sample_weight : array-like of shape (n_samples,), default=None
            What multiplies each row's cost in training, and its part in the score if ``scoring`` is None; rows of
            weight 0 are left out.

        Returns
        -------
        self : SieveSVCCV
            The fitted estimator.
        """
        with progress(quiet=not self.verbose) as listen, Engine(self.scheduler) as engine:
            training = training_of(self, X, y, sample_weight, listen)
            select = self._select(engine, training)
            if select is not None and (self.cv is None or isinstance(self.cv, Integral)):
                count = possible_folds(training.data, 5 if self.cv is None else int(self.cv))
                spec = replace(self._spec(engine, training, select), cv=count)
                found = in_folds(engine, training, spec, self._asked(), listen)
            else:
                found = self._in_splits(engine, training, (X, y, sample_weight), listen)
        self.run_, self.Cs_, self.scores_ = found.run, np.array(found.cs), found.scores
        self.C_, self.C_1se_ = found.chosen(self.selection), found.c_1se
        self.cv_results_ = found.results()
        self.best_score_ = float(self.cv_results_["mean_test_score"][found.cs.index(self.C_)])
        self._settle(training, next(step for step in self.run_.steps if step.c == self.C_))
        return self

    def coef_at(self, C: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights and the intercept that were trained on all rows at one of the C.

        Parameters
        ----------
        C : float
            With ``Cs="path"`` any C up to the last, of which the step before is within ``epsilon``; with a list one of
            it; with "auto" the one that was chosen.

        Returns
        -------
        coef : ndarray of shape (1, n_features) or (n_classes, n_features)
            The weights.
        intercept : ndarray of shape (1,) or (n_classes,)
            The intercept.
        """
        check_is_fitted(self)
        near = [step for step in self.run_.steps if step.c <= C * (1 + 1e-12)]
        exact = [step for step in near if abs(step.c - C) <= 1e-12 * C]
        if self.kernel != "linear":
            raise SpecError(f"a model of kernel {self.kernel} has no coefficients; use decision_function")
        if not exact and (not near or not isinstance(self.Cs, str) or self.Cs != PATH or self.run_.steps[-1].c < C):
            there = f"{self.run_.steps[0].c:.6g} to {self.run_.steps[-1].c:.6g} ({len(self.run_.steps)} values)"
            raise SpecError(f"no model on all rows is there for C = {C!r}, but {there}; give C in Cs, or Cs='path'")
        step = (exact or near)[-1]
        return weights_of(parts_of(step))

    def _select(self, engine: Engine, training: TrainingRows) -> str | None:
        """Return the score of ours that is meant, if it is one."""
        if self.scoring is None:
            return usual_score(engine, training.data, PathSpec(class_weight=training.class_weight))
        if not isinstance(self.scoring, str):
            return None
        several = len(training.classes) > 2
        return (OURS | (OF_SEVERAL if several else OF_TWO)).get(self.scoring)

    def _spec(self, engine: Engine, training: TrainingRows, select: str = PathSpec.select) -> PathSpec:
        out = None if self.out is None else local(self.out)
        shape = kernel_of(self)
        spec = PathSpec(
            grid=self._grid(),
            epsilon=self.epsilon,
            c_max=PathSpec.c_max if self.c_max is None else self.c_max,
            tol=self.tol,
            solver=self.solver,
            memory=memory_of(self.memory, out),
            class_weight=training.class_weight,
            select=select,
            stratified=True,
            **shape.provisional,
        )
        return shape.settled(spec, engine, training.data)

    def _grid(self) -> tuple[float, ...] | None:
        if not isinstance(self.Cs, str):
            return PathSpec(grid=self.Cs).grid  # type: ignore[arg-type]  # a PathSpec makes a tuple of any list
        if self.Cs not in (AUTO, PATH):
            raise SpecError(f"Cs is 'auto', 'path' or a list of C such as [0.01, 0.1, 1], not {shown(self.Cs)}")
        return None

    def _in_splits(
        self, engine: Engine, training: TrainingRows, given: tuple[Any, Any, Any], listen: Listener
    ) -> Searched:
        """Search in splits, by a scorer, as scikit-learn would."""
        if is_named(given[0]) or is_dask(given[0]):
            raise SpecError(
                "data in files and of Dask are cut into a number of folds, and scored by name; give cv=5, or arrays"
            )
        x, y = validate_data(self, given[0], given[1], accept_sparse="csr", dtype=np.float64, reset=False)
        weights = None if given[2] is None else weights_given(given[2], x)
        costs = None if self.scoring is not None else costs_of(self.class_weight, y, weights)
        pairs = list(check_cv(self.cv, y, classifier=True).split(x, y))
        names = SieveSVC().get_params()
        settings = {name: value for name, value in self.get_params().items() if name in names and name not in OWN}
        spec = self._spec(engine, training)
        if spec.gamma is not None:
            settings["gamma"] = spec.gamma
        scorer = check_scoring(SieveSVC(**settings), self.scoring)
        splits = Splits(engine, spec, scorer, (x, y, weights, costs), pairs, settings)
        return in_splits(splits, training, self._asked(), listen)

    def _asked(self) -> SearchAsked:
        auto = isinstance(self.Cs, str) and self.Cs == AUTO
        out = None if self.out is None else local(self.out)
        return SearchAsked(auto, self.selection, self.probability, self.c_max, out)
