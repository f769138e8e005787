"""Training on data that are open, by settings that are settled: two classes or several, folds, where models live."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.budget import default_budget
from pipeline.collections.door import dataset_of
from pipeline.collections.kinds import is_frame
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import ARRAYS
from pipeline.data.inputs import open_like
from pipeline.data.tables.asked import AS_THEY_ARE
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError, shown
from pipeline.events import Listener, silent
from pipeline.files import Temporary, remove_folder
from pipeline.path.class_weights import settled_for_two
from pipeline.path.classes import train_classes
from pipeline.path.folds import cross_validate
from pipeline.path.gamma import check_references
from pipeline.path.path import run_path
from pipeline.progress import progress
from pipeline.runs.classes import AnyRun, AnyStep
from pipeline.runs.directory import open_run, stored_spec
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.run import RunOf, StepView
from pipeline.spec import PathSpec

AnyReference = AnyStep | RunOf[Any] | str | Path | Sequence[AnyStep]


def judge_of(validation: Any, source: Dataset, engine: Engine) -> Dataset:
    """Return validation data, read as the others were; a data set stays as it is, arrays come with their labels."""
    if isinstance(validation, Dataset):
        return validation
    if isinstance(validation, str | Path):
        return open_like(validation, source)
    x, y = validation if isinstance(validation, tuple) and len(validation) == 2 else (validation, None)
    positive = source.labels.positive[0] if source.labels.one_against_rest else None
    columns = AS_THEY_ARE if source.encoding is None and is_frame(x) else source.encoding
    found = dataset_of(x, y, positive=positive, columns=columns, bias=source.bias, engine=engine)
    if found.columns is None and found.n_features != source.n_features:  # of a file the last ones may be 0 in all rows
        counts = f"validation has {found.n_features:,} features, the rows to train on {source.n_features:,}"
        raise SpecError(f"{counts} (the bias included); give the same features, in the same order")
    return found


def kept(out: Path | None, data: Dataset, train: Callable[[Place], AnyRun]) -> AnyRun:
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
) -> AnyRun:
    """Train the path, of each class where there are several, and its folds if cross-validation was asked for."""
    if data.classes:
        return train_classes(engine, data, spec, out, validation, listen, references)  # type: ignore[arg-type]
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


def references_of(reference: AnyReference | None) -> tuple[AnyStep, ...]:
    """Return the models to start from: a step, those of a run, which a path may name, or several."""
    if isinstance(reference, str | Path):
        reference = open_run(reference)
    if isinstance(reference, RunOf):
        return tuple(reference.steps)
    found = () if reference is None else reference
    steps = tuple(found) if isinstance(found, Sequence) else (found,)
    for step in steps:
        if not isinstance(step, AnyStep):
            raise SpecError(f"reference is a step, a run, its path, or a list of steps, not {shown(step)}")
    return steps


@contextmanager
def told(listen: Listener, verbose: int) -> Iterator[Listener]:
    """Yield who is told what happens: the caller's listener, or progress on the screen."""
    if not verbose:
        yield listen
        return
    with progress() as shown:
        yield shown
