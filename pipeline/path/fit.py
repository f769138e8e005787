"""The path as a function: ``pipeline.fit_path``."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.budget import default_budget
from pipeline.data.dataset import Dataset
from pipeline.data.inputs import open_dataset
from pipeline.engine.engine import Engine
from pipeline.events import Listener, silent
from pipeline.files import local, remove_folder
from pipeline.path.folds import check_folds, cross_validate
from pipeline.path.path import run_path
from pipeline.runs.directory import Run, StepView, stored_spec
from pipeline.sizes import bytes_of
from pipeline.spec import PathSpec


def fit_path(  # noqa: PLR0913 - all but one are keywords
    data: Dataset | str | Path,
    *,
    out: str | Path | None = None,
    validation: Dataset | str | Path | None = None,
    memory: int | str | None = None,
    grid: Sequence[float] | None = None,
    scheduler: str = "threads",
    workers: int | None = None,
    solve_on: str = "client",
    listen: Listener = silent,
    reference: StepView | Sequence[StepView] | None = None,
    **settings: Any,
) -> Run:
    """Train a certified SVM at every C of the path.

    ``settings`` are those of ``PathSpec``: c_max, epsilon, tol, rule, solver, class_weight, holdout, cv, select ... A
    run in ``out`` that was interrupted is continued; without ``out`` the models live as long as the result or any of
    its steps. ``memory`` is a number of bytes or a text such as "2GB", by default what the run in ``out`` had, or half
    of the machine's. A step starts from the one before, or from that of ``reference`` (a step or several, of any runs,
    trained on these data or on others) whose C is nearer. On a cluster the solver
    runs here, or with ``solve_on="worker"`` on one of the workers; the models are the same, to the bit.
    """
    here = None if out is None else local(out)
    source = data if isinstance(data, Dataset) else open_dataset(data)
    judge = validation if isinstance(validation, Dataset) or validation is None else open_dataset(validation)
    budget = budget_for(here) if memory is None else bytes_of(memory)
    spec = PathSpec(**{"memory": budget, "grid": grid, **settings})
    references = (reference,) if isinstance(reference, StepView) else tuple(reference or ())
    folder = here or Path(tempfile.mkdtemp(prefix="svmsieve-"))
    try:
        with Engine(scheduler, workers, solve_on) as engine:
            run = train_run(engine, source, spec, folder, judge, listen, references)
    except BaseException:
        if here is None:
            remove_folder(folder)
        raise
    if here is None:
        home = _Temporary(folder)
        for step in run.steps:
            step.home = home
    return run


class _Temporary:
    """Removes a folder once nobody holds this any more; a copy of a step holds the same, one from a pickle nothing."""

    def __init__(self, folder: Path) -> None:
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __deepcopy__(self, known: dict[int, Any]) -> _Temporary:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def train_run(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: Path,
    validation: Dataset | None = None,
    listen: Listener = silent,
    references: Sequence[StepView] = (),
) -> Run:
    """Train the path, and its folds if cross-validation was asked for."""
    if spec.cv:
        check_folds(engine, data, spec)
    run = run_path(engine, data, spec, out, validation, listen, references)
    return cross_validate(engine, data, run, listen) if spec.cv else run


def budget_for(out: str | Path | None) -> int:
    """Return the budget of the run that is in ``out``, if there is one, else the default."""
    stored = None if out is None else stored_spec(out)
    return stored.memory if stored else default_budget()
