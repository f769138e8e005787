"""K-fold cross-validation: K more runs on the same data set, each leaving out the rows whose hash falls into its part.

All runs have the C of the main run, so that scores can be averaged C by C. A fold is a mask (cost 0), never a copy. The
folds' runs lie in RUN/folds and continue after an interruption as the main run does.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.events import Listener, Note
from pipeline.files import write_json
from pipeline.flow.path import run_path
from pipeline.flow.run_directory import HEADER, Run, open_run
from pipeline.flow.run_writer import alone_in
from pipeline.flow.score import best
from pipeline.spec import SCORES

FOLDS = "folds"


def cross_validate(engine: Engine, data: Dataset, run: Run, listen: Listener) -> Run:
    """Train the folds of a finished run, and name its best step by their mean score."""
    with alone_in(run.path):
        return _cross_validate(engine, data, run, listen)


def _cross_validate(engine: Engine, data: Dataset, run: Run, listen: Listener) -> Run:
    spec = run.spec
    grid = tuple(step.c for step in run.steps)
    found = []
    for k in range(spec.cv):
        listen(Note(f"fold {k + 1} of {spec.cv}"))
        part = replace(spec, grid=grid, grid_in_c_min=False, fold=(k, spec.cv), cv=0)
        fold = run_path(engine, data, part, run.path / FOLDS / str(k), None, listen)
        found.append([step.scores for step in fold.steps])
    means: list[dict[str, float] | None] = [
        {name: math.fsum(scores[name] for scores in at_c) / spec.cv for name in SCORES}
        for at_c in zip(*found, strict=True)
    ]
    header = run.header | {"cv_scores": means, "best_step": best(means, spec.select)}
    if header != run.header:
        write_json(run.path / HEADER, header)
    return open_run(run.path)
