"""``sieve_svc_path``: coefficients and certificates along the path of C, as scikit-learn's ``lasso_path`` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.engine.engine import Engine
from pipeline.estimators.fitted import weights_of
from pipeline.estimators.inputs import training_of
from pipeline.estimators.svc import SieveSVC, memory_of
from pipeline.path.train import kept, train_run
from pipeline.progress import progress
from pipeline.runs.classes import parts_of
from pipeline.spec import PathSpec


def sieve_svc_path(  # noqa: PLR0913 - all but two are keywords
    X: Any,
    y: Any = None,
    *,
    Cs: Sequence[float] | None = None,
    epsilon: float = 1e-3,
    c_max: float = 1e4,
    tol: float = 1e-4,
    fit_intercept: bool = False,
    intercept_scaling: float = 1.0,
    sample_weight: Any = None,
    class_weight: Any = None,
    solver: str = "auto",
    memory: int | str | None = None,
    scheduler: str = "threads",
    verbose: int = 0,
    return_run: bool = False,
) -> tuple[Any, ...]:
    """Train the linear hinge-loss SVM at every C of a path, each to its certificate.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features), path or Dataset
        The rows.
    y : array-like of shape (n_samples,), default=None
        The classes of the rows of an array.
    Cs : list of float, default=None
        The C to train at; None is the path from C_min on, so close that in between the model before is optimal up to
        a relative gap of ``epsilon``.
    epsilon : float, default=1e-3
        Of the path.
    c_max : float, default=1e4
        Where the path ends, unless no row is at its bound any more.
    tol : float, default=1e-4
        The relative duality gap of every model, over all rows.
    fit_intercept : bool, default=False
        Whether there is an intercept; then it is the last row of ``coefs``.
    intercept_scaling, sample_weight, class_weight, solver, memory, scheduler, verbose
        As in ``SieveSVC``.
    return_run : bool, default=False
        Return the run, too.

    Returns
    -------
    Cs : ndarray of shape (n_Cs,)
        The C, ascending.
    coefs : ndarray of shape (n_features, n_Cs) or (n_classes, n_features, n_Cs)
        The coefficients, a column a C; with an intercept there is one more row.
    dual_gaps : ndarray of shape (n_Cs,) or (n_classes, n_Cs)
        The certified duality gaps.
    run : Run or ClassesRun
        The run, if ``return_run``.
    """
    model = SieveSVC(fit_intercept=fit_intercept, intercept_scaling=intercept_scaling, class_weight=class_weight)
    with progress(quiet=not verbose) as listen, Engine(scheduler) as engine:
        training = training_of(model, X, y, sample_weight, listen)
        data = training.data
        spec = PathSpec(
            grid=Cs,  # type: ignore[arg-type]  # a PathSpec makes a tuple of any list
            epsilon=epsilon,
            c_max=c_max,
            tol=tol,
            solver=solver,
            memory=memory_of(memory, None),
            class_weight=training.class_weight,
        )
        run = kept(None, data, lambda place: train_run(engine, data, spec, place, None, listen))
    steps = [parts_of(step) for step in run.steps]
    found = [weights_of(parts) for parts in steps]
    weights = [np.column_stack(both) if fit_intercept else both[0] for both in found]
    coefs = np.stack(weights, axis=-1)
    gaps = np.array([[part.primal - part.dual for part in parts] for parts in steps]).T
    one = len(steps[0]) == 1
    told = np.array([step.c for step in run.steps]), coefs[0] if one else coefs, gaps[0] if one else gaps
    return (*told, run) if return_run else told
