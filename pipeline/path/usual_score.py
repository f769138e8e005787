"""The score that C is chosen by where nobody names one: held-out rows count as rows do in training.

Without weights that is the accuracy. Where classes or rows have weights, training minimises sum c_i max(0, 1 - f_i):
a score that counts every row once would prefer the C at which the weights have the least effect, so that rows left out
count c_i, too (``weighted_accuracy``; with balanced classes nearly the balanced accuracy). A score that is named is
what its name says, whatever the weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.maths.score import WEIGHTED
from pipeline.runs.directory import SEARCH, stored_spec
from pipeline.runs.memory import Place
from pipeline.runs.searched import COARSE, GAMMA
from pipeline.spec import PathSpec


def with_score(
    spec: PathSpec, asked: str | None, engine: Engine, data: Dataset, out: Place | None, scored: bool = True
) -> PathSpec:
    """Return the settings with the score that was asked for, or the usual one; a run in ``out`` goes on with its own.

    Where nothing is ``scored`` there is nothing to find out.
    """
    if asked is not None or not scored:
        return replace(spec, select=asked or PathSpec.select)
    for begun in () if out is None else (out, out / SEARCH / COARSE / "0", out / SEARCH / f"{GAMMA}0" / COARSE / "0"):
        stored = stored_spec(begun)
        if stored is not None:
            return replace(spec, select=stored.select)
    return replace(spec, select=usual_score(engine, data, spec))


def usual_score(engine: Engine, data: Dataset, spec: PathSpec) -> str:
    """Return the score by which C is chosen where none is named."""
    weighed = spec.class_weight is not None or any(list(engine.stream(_has_costs, data.shards)))
    return WEIGHTED if weighed else PathSpec.select


def _has_costs(shard: Shard) -> bool:
    return bool(np.any(shard.load().costs != 1.0))
