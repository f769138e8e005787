"""What yesterday's model is worth on today's rows: how many it settles before training, its gap, its scores.

Training that starts from yesterday's model finds all of it on its way, and its step at the same C says so. Where no
step does (the whole path is trained), rows are screened for it. Of several classes each is screened against the rest; a
share is that of all rows in all classes, a gap the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.maths.score import Scores, scores
from pipeline.maths.verdicts import KEEP
from pipeline.path.class_judge import ClassJudge, SplitRows, split_rows
from pipeline.path.class_weights import settled_for_two, weights_of_classes
from pipeline.runs.classes import AnyRun, AnyStep, ClassesStep, parts_of
from pipeline.runs.run import StepView
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import any_model_of
from pipeline.spec import PathSpec
from pipeline.use.screen import Screening, screening


@dataclass(frozen=True)
class Yesterday:
    """What yesterday's model is worth on today's data: rows it settles at its C, and its scores."""

    settled: float
    relative_gap: float | None
    scores: Mapping[str, float | None] | None


def found_by(engine: Engine, data: Dataset, before: AnyStep, run: AnyRun) -> Yesterday | None:
    """Return what tonight's run has found of yesterday's model; None if no step at its C started from it."""
    step: AnyStep | None = next((each for each in run.steps if each.c == before.c), None)
    parts = () if step is None else parts_of(step)
    said = [part.reference for part in parts if part.reference is not None and part.c_ref == before.c]
    if not said or len(said) < len(parts):
        return None
    settled = float(np.mean([1 - part.survivors / max(1, part.n_rows) for part in parts]))
    gaps = [each["relative_gap"] for each in said]
    scored = said[0]["scores"]
    if isinstance(before, ClassesStep):
        split = split_rows(engine, data, run.spec)
        scored = _scored(engine, data, before, run.spec, split, weights_of_classes(data, run.spec, split.trained))
    return Yesterday(settled, None if None in gaps else max(gaps), scored)


def yesterday_of(engine: Engine, data: Dataset, before: AnyStep, spec: PathSpec) -> Yesterday:
    """Screen today's rows with yesterday's model, and score it on the rows held out."""
    if isinstance(before, ClassesStep):
        return _of_classes(engine, data, before, spec)
    found = _screened(engine, data, before, settled_for_two(data, spec))
    state = found.state
    held = state.held_out()
    f, labels = found.point.margins[held], state.labels[held]
    scored = scores(f, labels, spec.select, state.left_out_costs) if held.size else None
    return Yesterday(_settled(found), found.point.certificate.relative_gap, scored)


def _of_classes(engine: Engine, data: Dataset, before: ClassesStep, spec: PathSpec) -> Yesterday:
    split = split_rows(engine, data, spec)
    weights = weights_of_classes(data, spec, split.trained)
    settled, gaps = [], []
    for k, part in enumerate(before.parts):
        found = _screened(engine, data.against_rest(k, weights), part, replace(spec, class_weight=None))
        settled.append(_settled(found))
        gaps.append(found.point.certificate.relative_gap)
    return Yesterday(float(np.mean(settled)), max(gaps), _scored(engine, data, before, spec, split, weights))


def _scored(
    engine: Engine,
    data: Dataset,
    before: ClassesStep,
    spec: PathSpec,
    split: SplitRows,
    weights: tuple[float, ...] | None,
) -> Scores | None:
    model = any_model_of(before)
    assert isinstance(model, ClassesModel)
    return ClassJudge(engine, data, split, None, weights).scores(model, spec.select)


def _screened(engine: Engine, data: Dataset, before: StepView, spec: PathSpec) -> Screening:
    return screening(engine, data, before, before.c, spec.rule, spec.memory, spec)


def _settled(found: Screening) -> float:
    """Return the share of the rows that are decided."""
    undecided = sum(int((part.verdicts == KEEP).sum()) for part in found.parts())
    return 1 - undecided / max(1, found.state.trained)
