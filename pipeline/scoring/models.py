"""The model of a run's step: weights, or a kernel's support rows, which are gathered from the training data once.

A kernel's model on disk has alpha by row; its rows are those of the data that it was trained on, found where run.json
says that they were, or where the user says that they are now. They must have the fingerprint that they had.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.labels import LabelMap
from pipeline.engine.engine import Engine
from pipeline.errors import RunError, SieveError
from pipeline.events import Listener, silent
from pipeline.maths.kernel import Rbf
from pipeline.passes.gather import gather
from pipeline.runs.classes import AnyStep, ClassesRun, ClassesStep, parts_of
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import HEADER, read_item
from pipeline.runs.feature_names import feature_names
from pipeline.runs.run import Run, RunOf, StepView
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.kernel_model import KernelModel, support_of
from pipeline.scoring.linear_model import LinearModel

Model = LinearModel | KernelModel
AnyModel = Model | ClassesModel


def any_model_of(
    source: RunOf[Any] | AnyStep,
    c: float | None = None,
    listen: Listener = silent,
    training: Dataset | str | Path | None = None,
) -> AnyModel:
    """Return the model of a step, or of a run: its best step, or the step at ``c``; of two classes or several.

    A run in memory knows the rows that it was trained on.
    """
    training = _rows_at_hand(source) if training is None else training
    if isinstance(source, ClassesRun):
        return classes_model_of(source.path, source.at(c, listen), training, listen)
    if isinstance(source, ClassesStep):
        return classes_model_of(source.parts[0].model.path.parents[3], source, training, listen)
    assert isinstance(source, Run | StepView)
    return model_of(source, c, listen, training)


def _rows_at_hand(source: RunOf[Any] | AnyStep) -> Dataset | None:
    steps = source.steps if isinstance(source, RunOf) else [source]
    parts = [parts_of(step)[0] for step in steps[:1]]
    found = getattr(parts[0].home, "data", None) if parts else None
    return found if isinstance(found, Dataset) else None


def classes_model_of(
    run: Path, step: ClassesStep, training: Dataset | str | Path | None, listen: Listener = silent
) -> ClassesModel:
    """Return the model of several classes at one C."""
    views: list[Dataset | None] = [None] * len(step.parts)
    if step.spec.gamma is not None:
        data, weights = _training_data(run, step.header.data, training, listen), step.header.class_weights
        views = [data.against_rest(k, weights) for k in range(len(step.parts))]
    parts = [model_of(part, None, listen, view) for part, view in zip(step.parts, views, strict=True)]
    return ClassesModel.of(tuple(parts), step.classes, run, step.step, step.c)


def model_of(
    source: Run | StepView,
    c: float | None = None,
    listen: Listener = silent,
    training: Dataset | str | Path | None = None,
) -> Model:
    """Return the model of a step, or of a run: its best step, or the step at ``c``.

    ``training`` names the training data of a kernel's model if they are no longer where they were.
    """
    step = source if isinstance(source, StepView) else source.at(c, listen)
    path, header = step.model.path.parents[1], source.header
    about, gamma = header.data, header.spec.gamma
    labels = LabelMap(about.negative, about.positive, about.one_against_rest)
    same: dict[str, Any] = {"run": path, "step": step.step, "c": step.c, "labels": labels, "bias": about.bias}
    same["feature_names"] = feature_names(about, path)
    if gamma is None:
        return LinearModel(**same, w=step.w)
    data, alpha = _training_data(path, about, training, listen), step.alpha
    with Engine("threads") as engine:
        rows = gather(engine, data, alpha > 0.0)
    return KernelModel(**same, support=support_of(rows, alpha[rows.rows], Rbf(gamma, about.bias)))


def _training_data(run: Path, about: DataRecord, given: Dataset | str | Path | None, listen: Listener) -> Dataset:
    """Open the data that a run was trained on, and make sure that it was these."""
    cure = f"a kernel's model of {run} needs its training data; name them, or shards of them, with --training-data"
    if isinstance(given, Dataset):
        data = given
    else:
        spec = IngestSpec(positive=about.positive[0] if len(about.positive) == 1 else None, bias=about.bias)
        if about.encoding is not None:
            spec = replace(spec, reading=spec.reading.encoded(about.encoding))
        try:
            data = open_dataset(given or about.path, spec, listen, given=())
        except SieveError as error:
            raise RunError(f"{error}; {cure}") from error
    if data.classes and not about.classes:
        data = _against_rest(run, about, data)
    shape, said = (data.n_rows, data.n_features, data.bias), (about.rows, about.features, about.bias)
    if data.fingerprint != about.fingerprint or shape != said:
        raise RunError(f"{data.path}: has other rows than the run was trained on; {cure}")
    return data


def _against_rest(run: Path, about: DataRecord, data: Dataset) -> Dataset:
    """Return data of several classes as the run of one of them saw them, if they have it."""
    if about.positive[0] not in data.classes:
        return data
    above, weights = run.parents[1], None
    if (above / HEADER).is_file():
        weights = read_item(above).get("class_weights")
    return data.against_rest(data.classes.index(about.positive[0]), weights)
