"""The path as a function, and the right C: ``pipeline.fit_path`` and ``pipeline.tune``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.budget import default_budget
from pipeline.collections.door import dataset_of
from pipeline.collections.kinds import is_frame
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import ARRAYS
from pipeline.data.inputs import open_like
from pipeline.data.tables.asked import AS_THEY_ARE
from pipeline.engine.engine import Engine, engine_for
from pipeline.errors import SpecError
from pipeline.events import Listener, silent
from pipeline.files import Temporary, local, remove_folder
from pipeline.path.class_weights import settled_for_two
from pipeline.path.classes import train_classes
from pipeline.path.folds import cross_validate
from pipeline.path.gamma import asked_kernel, check_references
from pipeline.path.path import run_path
from pipeline.path.tune import tune_run
from pipeline.runs.classes import ClassesRun, ClassesStep
from pipeline.runs.directory import Run, StepView, stored_spec
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.sizes import bytes_of
from pipeline.spec import PATIENCE, ClassWeight, PathSpec

AnyStep = StepView | ClassesStep


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
    reference: AnyStep | Sequence[AnyStep] | None = None,
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
    select: str = PathSpec.select,
    patience: int = PathSpec.patience,
    predict: bool = PathSpec.predict,
    shrink: bool = PathSpec.shrink,
    kernel: str | None = None,
    gamma: float | str | None = None,
    stratified: bool = PathSpec.stratified,
    seed: int = PathSpec.seed,
    scheduler: str = "threads",
    workers: int | None = None,
    solve_on: str = "client",
    listen: Listener = silent,
    engine: Engine | None = None,
) -> Run | ClassesRun:
    """Train a certified SVM at every C of the path; where the data have several classes, one for each of them.

    ``data``           a data set, what ``open_dataset`` opens, NumPy or SciPy arrays, frames of pandas, polars or
                       pyarrow, or a Dask array, frame or bag, which is written to shards where it is computed, and
                       never brought here
    ``y``              the labels, one a row, where arrays and frames do not have them
    ``sample_weight``  the costs of these rows
    ``label``          the column of a frame, or the key of a bag's dicts, that has the labels; by default "label"
    ``positive``       the label that is +1, against all others
    ``columns``        what becomes of the columns of tables and frames: "auto", "none" (numbers, as they are), a file
                       of columns, or a data set or run to do as; by default "none" for frames of numbers only, else
                       "auto"
    ``bias``           the value of a constant feature; by default 1 where columns are encoded, else none
    ``hasher``         makes rows of a bag's dicts (scikit-learn's FeatureHasher); ``dataset_of`` has more of these
    ``shards``         the shard directory that a Dask collection becomes, where all workers see it; without it the
                       shards live as long as the result
    ``out``            the run directory; a run there that was interrupted is continued. Without it the models live as
                       long as the result or any of its steps
    ``validation``     data to score every model on; arrays as (x, y)
    ``reference``      a step or several, of any runs, trained on these data or on others: a step starts from the one
                       before, or from one of these if its C is nearer
    ``c_max``          where the path ends
    ``epsilon``        between two steps the model before is optimal up to this relative gap
    ``grid``           the C to train at, instead of the path; in multiples of C_min if ``grid_in_c_min``
    ``tol``            the relative duality gap of every model, over all rows
    ``rule``           the screening rule: it, bt1, bt2, gap or none
    ``solver``         auto, dcd, newton or liblinear; of a kernel auto, projected, newton or libsvm
    ``memory``         bytes, or a text such as "2GB"; by default what the run in ``out`` had, or half of the machine's
    ``class_weight``   "balanced", or what to multiply the costs of negative and positive rows by, or of rows by their
                       label: {"spam": 2}
    ``holdout``        the share of the rows to leave out of training, and to score every model on
    ``fold``           (k, K): leave out part k of K instead
    ``cv``             K: train K such folds beside the run, and score by them
    ``select``         the score that names the best step: accuracy, balanced_accuracy, auc, f1 or log_loss
    ``patience``       K: end the path when that score has not improved for K values of C; 0 goes on to the end
    ``predict``        solve over the rows that are likely to move first; without it over every undecided row
    ``shrink``         dcd's own heuristic
    ``kernel``         linear, or rbf: exp(-gamma |x - x'|^2), plus the square of the data's bias; by default that of
                       the references, or linear
    ``gamma``          of a kernel: a number, "0.1/d" with any number over the number of features, or "scale", which is
                       1/(d variance of all entries); by default that of the references, or scale
    ``stratified``     makes hold-out and folds of each class's rows equally large
    ``seed``           another one makes another hold-out and other folds
    ``scheduler``      threads, processes, inline, or the address of a Dask scheduler, with ``workers`` of them
    ``solve_on``       on a cluster the solver runs here ("client"), or on one of the workers ("worker"); the models are
                       the same, to the bit
    ``listen``         is told what happens: progress, notes, finished steps (``pipeline.events``)
    ``engine``         runs the passes instead of a new one; it stays open
    """
    here = None if out is None else local(out)
    given = {"y": y, "sample_weight": sample_weight, "label": label, "hasher": hasher, "out": shards}
    reading = {"positive": positive, "columns": columns, "bias": bias}
    budget = budget_for(here) if memory is None else bytes_of(memory)
    references = (reference,) if isinstance(reference, StepView | ClassesStep) else tuple(reference or ())
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
        select=select,
        patience=patience,
        predict=predict,
        shrink=shrink,
        stratified=stratified,
        seed=seed,
        **shape.provisional,
    )
    with engine_for(engine, scheduler, workers, solve_on) as made:
        source = dataset_of(data, **given, **reading, engine=made, listen=listen)
        judge = None if validation is None else _judge(validation, source, made)
        settled = shape.settled(spec, made, source)
        return kept(here, source, lambda out: train_run(made, source, settled, out, judge, listen, references))


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
    metric: str = PathSpec.select,
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
    listen: Listener = silent,
    engine: Engine | None = None,
) -> Run | ClassesRun:
    """Find the C that predicts best, and train a certified SVM at it on all rows.

    ``data``           a data set, a path, arrays, frames or a Dask collection, with ``y`` and more as in ``fit_path``
    ``out``            the run directory; one that was interrupted goes on. Without it the model lives as the run does
    ``cv``             in how many folds every C is scored: stratified, by what is in the rows, the same tomorrow
    ``holdout``        score on this share of the rows instead, once
    ``metric``         what is to be good: accuracy, balanced_accuracy, auc, f1 or log_loss
    ``select``         "best", or "1se": the smallest C within one standard error of the best
    ``patience``       stop when so many values of C in a row score no better
    ``c_max``          no C above this
    ``grid``           try these C, all of them and no others; in multiples of C_min if ``grid_in_c_min``
    ``seed``           another one makes other folds
    ``calibration``    what makes probabilities of scores: "sigmoid", "isotonic" or None
    ``gamma``          of a kernel, as in ``fit_path``, or several to choose from

    All else is as in ``fit_path``. The run has the model at the chosen C as its only step, and the curve in its header:
    ``cv_c``, ``cv_scores``, ``cv_se``, ``c_best``, ``c_1se``, ``calibration``.
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
        select=metric,
        patience=patience,
        stratified=True,
        seed=seed,
        **shapes[0].provisional,
    )
    with engine_for(engine, scheduler, workers, solve_on) as made:
        source = dataset_of(data, **given, **reading, engine=made, listen=listen)
        specs = [shape.settled(spec, made, source) for shape in shapes]
        return kept(here, source, lambda out: tune_run(made, source, specs, out, listen, select, calibration, c_max))


def _judge(validation: Any, source: Dataset, engine: Engine) -> Dataset:
    """Return validation data, read as the others were; a data set stays as it is, arrays come with their labels."""
    if isinstance(validation, Dataset):
        return validation
    if isinstance(validation, str | Path):
        return open_like(validation, source)
    x, y = validation if isinstance(validation, tuple) and len(validation) == 2 else (validation, None)
    positive = source.labels.positive[0] if source.labels.one_against_rest else None
    columns = AS_THEY_ARE if source.encoding is None and is_frame(x) else source.encoding
    return dataset_of(x, y, positive=positive, columns=columns, bias=source.bias, engine=engine)


def kept(out: Path | None, data: Dataset, train: Callable[[Place], Run | ClassesRun]) -> Run | ClassesRun:
    """Train into ``out``; without one, arrays in memory, files into a folder that lives as long as any step."""
    if out is not None:
        run = train(out)
        return run if data.keeper is None else run.kept_by(data.keeper)
    if data.kind == ARRAYS:
        return train(MemoryPlace()).kept_by(_Arrays(data))
    folder = Path(tempfile.mkdtemp(prefix="svmsieve-"))
    try:
        run = train(folder)
    except BaseException:
        remove_folder(folder)
        raise
    return run.kept_by((Temporary(folder), data.keeper))


class _Arrays:
    """The rows that a run in memory was trained on, which a kernel's model is made of; one from a pickle has none."""

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def __deepcopy__(self, known: dict[int, Any]) -> _Arrays:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def train_run(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: Place,
    validation: Dataset | None = None,
    listen: Listener = silent,
    references: Sequence[AnyStep] = (),
) -> Run | ClassesRun:
    """Train the path, of each class where there are several, and its folds if cross-validation was asked for."""
    if data.classes:
        return train_classes(engine, data, spec, out, validation, listen, references)  # type: ignore[arg-type]
    return train_two(engine, data, spec, out, validation, listen, references)


def train_two(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: Place,
    validation: Dataset | None = None,
    listen: Listener = silent,
    references: Sequence[AnyStep] = (),
) -> Run:
    """Train the path of two classes, and its folds if cross-validation was asked for."""
    data.expect_two_classes("this")
    starts = [step for step in references if isinstance(step, StepView)]
    if len(starts) < len(references):
        raise SpecError("the reference is a model of several classes, and the data have two; give a run of those")
    spec = settled_for_two(data, spec)
    check_references(spec, starts)
    train = cross_validate if spec.cv else run_path
    return train(engine, data, spec, out, validation, listen, starts)


def budget_for(out: str | Path | None) -> int:
    """Return the budget of the run that is in ``out``, if there is one, else the default."""
    stored = None if out is None else stored_spec(out)
    return stored.memory if stored else default_budget()
