"""What yesterday's model is worth on today's rows: how many it settles before training, its gap, its scores.

Of several classes each is screened against the rest; a share is that of all rows in all classes, a gap the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.maths.score import scores
from pipeline.maths.verdicts import KEEP
from pipeline.path.class_judge import ClassJudge, split_rows
from pipeline.path.class_weights import settled_for_two, weights_of_classes
from pipeline.path.train import AnyStep
from pipeline.runs.classes import ClassesStep
from pipeline.runs.directory import StepView
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import any_model_of
from pipeline.spec import PathSpec
from pipeline.use.screen import Screening, screening


@dataclass(frozen=True)
class Yesterday:
    """What yesterday's model is worth on today's data: rows it settles at its C, and its scores."""

    settled: float
    relative_gap: float
    scores: Mapping[str, float | None] | None


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
    model = any_model_of(before)
    assert isinstance(model, ClassesModel)
    scored = ClassJudge(engine, data, split, None, weights).scores(model, spec.select)
    return Yesterday(float(np.mean(settled)), max(gaps), scored)


def _screened(engine: Engine, data: Dataset, before: StepView, spec: PathSpec) -> Screening:
    return screening(engine, data, before, before.c, spec.rule, spec.memory, spec)


def _settled(found: Screening) -> float:
    """Return the share of the rows that are decided."""
    undecided = sum(int((part.verdicts == KEEP).sum()) for part in found.parts())
    return 1 - undecided / max(1, found.state.trained)
