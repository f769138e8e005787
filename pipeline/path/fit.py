"""The path as a function, and the right C: ``svmsieve.fit_path`` and ``svmsieve.tune``, on data of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.collections.door import dataset_of
from pipeline.engine.engine import Engine, engine_for
from pipeline.events import Listener, silent
from pipeline.files import local
from pipeline.keywords import checked_keywords
from pipeline.path.gamma import asked_kernel
from pipeline.path.train import AnyReference, budget_for, judge_of, kept, references_of, told, train_run
from pipeline.path.tune import tune_run
from pipeline.path.usual_score import with_score
from pipeline.runs.classes import ClassesRun
from pipeline.runs.run import Run
from pipeline.sizes import bytes_of
from pipeline.spec import PATIENCE, ClassWeight, PathSpec


@checked_keywords
def fit_path(  # noqa: PLR0913 - all but two are keywords
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    label: str | None = None,
    positive: Any = None,
    columns: Any = None,
    bias: float | None = None,
    hasher: Any = None,
    shards: str | Path | None = None,
    out: str | Path | None = None,
    validation: Any = None,
    reference: AnyReference | None = None,
    c_max: float = PathSpec.c_max,
    epsilon: float = PathSpec.epsilon,
    grid: Sequence[float] | None = PathSpec.grid,
    grid_in_c_min: bool = PathSpec.grid_in_c_min,
    tol: float = PathSpec.tol,
    rule: str = PathSpec.rule,
    solver: str = PathSpec.solver,
    memory: int | str | None = None,
    class_weight: ClassWeight | Mapping[str, float] = PathSpec.class_weight,
    holdout: float = PathSpec.holdout,
    fold: tuple[int, int] | None = PathSpec.fold,
    cv: int = PathSpec.cv,
    select: str | None = None,
    patience: int = PathSpec.patience,
    predict: bool = PathSpec.predict,
    shrink: bool = PathSpec.shrink,
    kernel: str | None = None,
    gamma: float | str | None = None,
    stratified: bool = PathSpec.stratified,
    seed: int = PathSpec.seed,
    every_row: bool = PathSpec.every_row,
    scheduler: str = "threads",
    workers: int | None = None,
    solve_on: str = "client",
    engine: Engine | None = None,
    listen: Listener = silent,
    verbose: int = 0,
) -> Run | ClassesRun:
    """Train a certified SVM at every C of the path; where the data have several classes, one for each of them.

    Parameters
    ----------
    data : path, URL, name, Dataset, array, sparse matrix, frame or Dask collection
        The rows; see ``open_dataset``. A Dask collection is never brought into memory.
    y : array-like of shape (n_samples,) or Dask collection, default=None
        The labels, where rows do not have them in a column.
    sample_weight : array-like of shape (n_samples,) or Dask collection, default=None
        The costs of these rows.
    label : str, default=None
        The column of a table or frame, or the key of a bag's dicts, that has the labels; None is "label".
    positive, columns, bias, hasher, shards
        As in ``open_dataset``.
    out : path, default=None
        The run directory; a run there that was interrupted is continued. Without it arrays are trained in memory, and
        models of files live as long as the result or any of its steps.
    validation : path, Dataset or pair (X, y), default=None
        Data to score every model on.
    reference : step, run, path or list of steps, default=None
        Models of any runs, trained on these data or on others, to start from where their C is nearer.
    c_max : float, default=1e4
        Where the path ends.
    epsilon : float, default=1e-3
        Between two steps the model before is optimal up to this relative gap.
    grid : list of float, default=None
        The C to train at, instead of the path; in multiples of C_min if ``grid_in_c_min``.
    grid_in_c_min : bool, default=False
        See ``grid``.
    tol : float, default=1e-4
        The relative duality gap of every model, over all rows.
    rule : str, default="it"
        The screening rule: it, bt1, bt2, gap or none.
    solver : str, default="auto"
        auto, dcd, newton or liblinear; of a kernel auto, projected, newton or libsvm.
    memory : int or str, default=None
        Bytes, or "2GB"; None is what the run in ``out`` had, or half of the machine's.
    class_weight : "balanced", pair or mapping, default=None
        What multiplies the costs of negative and positive rows, or of rows by label: {"spam": 2}.
    holdout : float, default=0.0
        The share of the rows to leave out of training, and to score every model on.
    fold : pair of int, default=None
        (k, K): leave out part k of K instead.
    cv : int, default=0
        K: train K such folds beside the run, and score by them.
    select : str, default=None
        The score that names the best step: accuracy, balanced_accuracy, auc, f1, log_loss or weighted_accuracy. None is
        accuracy, or where rows or classes have weights weighted_accuracy: rows count as they do in training.
    patience : int, default=0
        K: end the path when that score has not improved for K values of C; 0 goes on to the end.
    predict : bool, default=True
        Solve over the rows that are likely to move first; without it over every undecided row.
    shrink : bool, default=True
        dcd's own heuristic.
    kernel : {"linear", "rbf"}, default=None
        None is that of the references, or linear.
    gamma : float or str, default=None
        Of a kernel: a number, "0.1/d", or "scale"; None is that of the references, or scale.
    stratified : bool, default=False
        Make hold-out and folds of each class's rows equally large.
    seed : int, default=0
        Another one makes another hold-out and other folds.
    every_row : bool, default=False
        Read every row for every certificate, also those of an eps-path that need fewer.
    scheduler : str, default="threads"
        threads, processes, inline, or the address of a Dask scheduler.
    workers : int, default=None
        How many threads or processes; None is all cores.
    solve_on : {"client", "worker"}, default="client"
        On a cluster: where the solver runs.
    engine : Engine, default=None
        Runs the passes instead of a new one, and stays open.
    listen : callable, default=None
        Is told what happens: progress, notes, finished steps (``pipeline.events``).
    verbose : int, default=0
        1 shows progress, on a terminal and in a notebook.

    Returns
    -------
    run : Run or ClassesRun
        The steps by ascending C: ``run.steps[k].c``, ``.w``, ``.alpha``, ``.relative_gap``; ``run.best``;
        ``run.to_frame()``.
    """
    here = None if out is None else local(out)
    given = {"y": y, "sample_weight": sample_weight, "label": label, "hasher": hasher, "out": shards}
    reading = {"positive": positive, "columns": columns, "bias": bias}
    budget = budget_for(here) if memory is None else bytes_of(memory)
    references = references_of(reference)
    shape = asked_kernel(kernel, gamma, references)
    spec = PathSpec(
        c_max=c_max,
        epsilon=epsilon,
        grid=grid,  # type: ignore[arg-type]  # a PathSpec makes a tuple of any list
        grid_in_c_min=grid_in_c_min,
        tol=tol,
        rule=rule,
        solver=solver,
        memory=budget,
        class_weight=class_weight,  # type: ignore[arg-type]  # nor is a mapping kept as one
        holdout=holdout,
        fold=fold,
        cv=cv,
        patience=patience,
        predict=predict,
        shrink=shrink,
        stratified=stratified,
        seed=seed,
        every_row=every_row,
        **shape.provisional,
    )
    with told(listen, verbose) as hear, engine_for(engine, scheduler, workers, solve_on) as made:
        source = dataset_of(data, **given, **reading, engine=made, listen=hear)
        judge = None if validation is None else judge_of(validation, source, made)
        scored = bool(cv or holdout or fold or judge)
        settled = with_score(shape.settled(spec, made, source), select, made, source, here, scored)
        return kept(here, source, lambda out: train_run(made, source, settled, out, judge, hear, references))


@checked_keywords
def tune(  # noqa: PLR0913 - all but two are keywords
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    label: str | None = None,
    positive: Any = None,
    columns: Any = None,
    bias: float | None = None,
    hasher: Any = None,
    shards: str | Path | None = None,
    out: str | Path | None = None,
    cv: int = 5,
    holdout: float = 0.0,
    metric: str | None = None,
    select: str = "best",
    patience: int = PATIENCE,
    c_max: float | None = None,
    grid: Sequence[float] | None = None,
    grid_in_c_min: bool = False,
    seed: int = PathSpec.seed,
    calibration: str | None = "sigmoid",
    tol: float = PathSpec.tol,
    rule: str = PathSpec.rule,
    solver: str = PathSpec.solver,
    memory: int | str | None = None,
    class_weight: ClassWeight | Mapping[str, float] = PathSpec.class_weight,
    kernel: str | None = None,
    gamma: float | str | Sequence[float | str] | None = None,
    scheduler: str = "threads",
    workers: int | None = None,
    solve_on: str = "client",
    engine: Engine | None = None,
    listen: Listener = silent,
    verbose: int = 0,
) -> Run | ClassesRun:
    """Find the C that predicts best, and train a certified SVM at it on all rows.

    Parameters
    ----------
    data, y, sample_weight, label, positive, columns, bias, hasher, shards, out
        As in ``fit_path``.
    cv : int, default=5
        In how many folds every C is scored: stratified, by what is in the rows, the same tomorrow.
    holdout : float, default=0.0
        Score on this share of the rows instead, once.
    metric : str, default=None
        What is to be good: accuracy, balanced_accuracy, auc, f1, log_loss or weighted_accuracy. None is accuracy, or
        where rows or classes have weights weighted_accuracy: rows left out count as they do in training.
    select : {"best", "1se"}, default="best"
        The C with the best score, or the smallest within one standard error of it.
    patience : int, default=4
        Stop when so many values of C in a row score no better.
    c_max : float, default=None
        No C above this.
    grid : list of float, default=None
        Try these C, all of them and no others; in multiples of C_min if ``grid_in_c_min``.
    grid_in_c_min : bool, default=False
        See ``grid``.
    seed : int, default=0
        Another one makes other folds.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        What makes probabilities of scores; None makes none.
    gamma : float, str or list of these, default=None
        Of a kernel, as in ``fit_path``, or several to choose from.
    tol, rule, solver, memory, class_weight, kernel, scheduler, workers, solve_on, engine, listen, verbose
        As in ``fit_path``.

    Returns
    -------
    run : Run or ClassesRun
        Its only step is the model at the chosen C; ``run.header`` has the curve: ``cv_c``, ``cv_scores``, ``cv_se``,
        ``c_best``, ``c_1se``, ``calibration``.
    """
    here = None if out is None else local(out)
    given = {"y": y, "sample_weight": sample_weight, "label": label, "hasher": hasher, "out": shards}
    reading = {"positive": positive, "columns": columns, "bias": bias}
    listed = [gamma] if gamma is None or isinstance(gamma, str | float | int) else list(gamma)
    shapes = [asked_kernel(kernel, each, ()) for each in listed]
    spec = PathSpec(
        grid=grid,  # type: ignore[arg-type]  # a PathSpec makes a tuple of any list
        grid_in_c_min=grid_in_c_min,
        tol=tol,
        rule=rule,
        solver=solver,
        memory=budget_for(here) if memory is None else bytes_of(memory),
        class_weight=class_weight,  # type: ignore[arg-type]  # nor is a mapping kept as one
        holdout=holdout,
        cv=0 if holdout else cv,
        patience=patience,
        stratified=True,
        seed=seed,
        **shapes[0].provisional,
    )
    with told(listen, verbose) as hear, engine_for(engine, scheduler, workers, solve_on) as made:
        source = dataset_of(data, **given, **reading, engine=made, listen=hear)
        judged = with_score(spec, metric, made, source, here)
        specs = [shape.settled(judged, made, source) for shape in shapes]
        return kept(here, source, lambda out: tune_run(made, source, specs, out, hear, select, calibration, c_max))
