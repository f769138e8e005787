"""``SieveSVC``: the linear (or RBF) hinge-loss SVM at one C, with a certificate, as scikit-learn's estimators are.

    minimise  |w|^2/2 + C sum_i c_i max(0, 1 - y_i (w . x_i + b))      over w and b, b = intercept_scaling w_0

as ``LinearSVC(loss="hinge")`` has it, the intercept regularised with the rest; of K classes one problem each, against
the rest. The fit ends when the relative duality gap, over all rows, is at most ``tol``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from pipeline.budget import default_budget
from pipeline.engine.engine import Engine
from pipeline.errors import SieveWarning
from pipeline.estimators.fitted import FittedSieve
from pipeline.estimators.folds import possible_folds
from pipeline.estimators.inputs import TrainingRows, kernel_of, training_of
from pipeline.events import Listener
from pipeline.files import local
from pipeline.path.gamma import said_of
from pipeline.path.train import budget_for, kept, train_run
from pipeline.path.tune import tune_run
from pipeline.progress import progress
from pipeline.runs.classes import AnyRun, AnyStep, ClassesStep
from pipeline.sizes import bytes_of
from pipeline.spec import PathSpec

FOLDS = 5  # that probabilities are fitted in, as in scikit-learn's SVC


class SieveSVC(FittedSieve):
    """Certified hinge-loss SVM.

    Parameters
    ----------
    C : float, default=1.0
        The weight of the hinge losses, as in ``LinearSVC``.
    tol : float, default=1e-4
        The relative duality gap, over all rows, at which the fit ends.
    fit_intercept : bool, default=True
        Whether there is an intercept, regularised as the weights are.
    intercept_scaling : float, default=1.0
        The value of the constant feature that the intercept is the weight of.
    class_weight : dict or "balanced", default=None
        What multiplies the costs of a class's rows: weights by label, or n/(K n_k).
    solver : str, default="auto"
        auto, dcd, newton or liblinear; of a kernel auto, projected, newton or libsvm. What it finds is certified.
    kernel : {"linear", "rbf"}, default="linear"
        The kernel; rbf is exp(-gamma |x - x'|^2), plus the square of ``intercept_scaling`` if there is an intercept.
    gamma : "scale", str or float, default="scale"
        Of rbf: 1/(d variance of all entries), a number over d such as "0.1/d", or a number.
    warm_start : bool, default=False
        Start from the model of the last fit, of these rows or of others.
    memory : int or str, default=None
        Bytes, or "2GB"; None is half of the machine's.
    scheduler : str, default="threads"
        threads, processes, inline, or the address of a Dask scheduler.
    out : path, default=None
        The run directory to write; None keeps the run in memory.
    verbose : int, default=0
        1 shows progress, on a terminal and in a notebook.
    probability : bool, default=False
        Fit probabilities, too, on scores that the rows get in five folds, each counting once whatever it weighs. As in
        ``SVC`` the most probable class may be another than ``predict`` says.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights of a linear model.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercept of a linear model.
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certificate: an upper bound of the primal minus a lower bound of the dual value, over all rows.
    relative_gap_ : float or ndarray of shape (n_classes,)
        The same over the primal value; at most ``tol``.
    support_ : ndarray of shape (n_SV,)
        The rows with an alpha above 0.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        y_i alpha_i of these rows.
    run_ : Run or ClassesRun
        The run that the model is a step of.
    n_features_in_ : int
        How many features there are.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        What they are called, where X had names that are text.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from svmsieve import SieveSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SieveSVC(C=0.1).fit(scale(X), y)
    >>> model.relative_gap_ <= 1e-4
    True
    """

    def __init__(  # noqa: PLR0913 - all but one are keywords
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        solver: str = "auto",
        kernel: str = "linear",
        gamma: float | str = "scale",
        warm_start: bool = False,
        memory: int | str | None = None,
        scheduler: str = "threads",
        out: str | Path | None = None,
        verbose: int = 0,
        probability: bool = False,
    ) -> None:
        self.C = C
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.warm_start = warm_start
        self.memory = memory
        self.scheduler = scheduler
        self.out = out
        self.verbose = verbose
        self.probability = probability

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the SVM to its certificate.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), path or Dataset
            The rows. A path is what ``open_dataset`` opens; its labels and weights are in it.
        y : array-like of shape (n_samples,), default=None
            The classes of the rows of an array.
        sample_weight : array-like of shape (n_samples,), default=None
            What multiplies each row's cost; rows of weight 0 are left out.

        Returns
        -------
        self : SieveSVC
            The fitted estimator.
        """
        with progress(quiet=not self.verbose) as listen:
            training = training_of(self, X, y, sample_weight, listen)
            with Engine(self.scheduler) as engine:
                self.run_ = self._trained(engine, training, listen)
        self._settle(training, self.run_.steps[0])
        return self

    def _trained(self, engine: Engine, training: TrainingRows, listen: Listener) -> AnyRun:
        data, out = training.data, None if self.out is None else local(self.out)
        shape = kernel_of(self)
        spec = PathSpec(
            grid=(self.C,),
            tol=self.tol,
            solver=self.solver,
            memory=memory_of(self.memory, out),
            class_weight=training.class_weight,
            **shape.provisional,
        )
        spec = shape.settled(spec, engine, data)
        if self.probability:
            folds = replace(spec, cv=possible_folds(data, FOLDS), stratified=True)
            return kept(out, data, lambda place: tune_run(engine, data, [folds], place, listen))
        start = self._start(spec, training)
        return kept(out, data, lambda place: train_run(engine, data, spec, place, None, listen, start))

    def _start(self, spec: PathSpec, training: TrainingRows) -> tuple[AnyStep, ...]:
        """Return the model of the last fit, if it is to be started from and can be."""
        if not (self.warm_start and hasattr(self, "run_")):
            return ()
        last, data = self._step, training.data
        old = last.classes if isinstance(last, ClassesStep) else ()
        if (last.spec.kernel, last.spec.gamma) != (spec.kernel, spec.gamma):
            said = f"the last model has {said_of(last.spec)}, this one {said_of(spec)}"
        elif old != data.classes:
            said = "the last model has other classes"
        else:
            return (last,)
        warnings.warn(f"warm_start: {said}; starting afresh", SieveWarning, stacklevel=3)
        return ()


def memory_of(given: int | str | None, out: Path | None) -> int:
    """Return the budget in bytes."""
    if given is not None:
        return bytes_of(given)
    return _half_of_the_machine() if out is None else budget_for(out)


@cache
def _half_of_the_machine() -> int:
    """Ask the system once in a process: 0.2 ms."""
    return default_budget()
