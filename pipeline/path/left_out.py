"""Scores that models of folds, or of a run with a hold-out, give the rows they were not trained on.

They are made from models as they are stored: what a run says of itself does not depend on how it got there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.engine.together import Partner, Together
from pipeline.path.class_judge import split_rows
from pipeline.runs.classes import AnyStep
from pipeline.runs.held_out import HOLDOUT, OF_FOLDS, classes_held_out_of, held_out_of
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import any_model_of
from pipeline.working.facts import collect

LeftOutScores = tuple[np.ndarray, np.ndarray]  # scores, of several classes a column each, and labels or codes


def left_out_scores(engine: Engine, data: Dataset, steps: Sequence[AnyStep]) -> LeftOutScores:
    """Return the scores that each of some models gives the rows it was not trained on, one model after the other."""
    found = Together(engine).run([partial(_left_out, data=data, step=step) for step in steps])
    return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])


def record_of(data: Dataset, steps: Sequence[AnyStep], found: LeftOutScores) -> dict[str, Any] | None:
    """Return what run.json says of such scores."""
    of, (scores, labels), c = OF_FOLDS if steps[0].spec.fold else HOLDOUT, found, steps[0].c
    if not data.classes:
        return held_out_of(c, of, scores, labels)
    return classes_held_out_of(c, of, scores.T, labels, len(data.classes))


def _left_out(engine: Partner, data: Dataset, step: AnyStep) -> LeftOutScores:
    model = any_model_of(step, training=data)
    if isinstance(model, ClassesModel):
        wanted = split_rows(engine, data, step.spec).held_out
        parts = list(model.shard_scores(engine, data, wanted=wanted))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    held_out = collect(engine, data, step.spec, None).costs == 0.0
    scores, labels, row = [], [], 0
    for some, signs in model.shard_scores(engine, data):
        mine = held_out[row : row + some.size]
        scores.append(some[mine])
        labels.append(signs[mine])
        row += some.size
    return np.concatenate(scores), np.concatenate(labels)
