"""A search for C in splits that the user makes, by any of scikit-learn's scorers: for arrays.

    each split: rows to train on -> a data set of its own -> models at some C, each from the one before -> scored

The C are those of ``svmsieve tune``: the ones that were asked for, or a lattice until mean scores have had their peak,
then around the best. In memory are the rows of all splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.estimators.inputs import TrainingRows, training_of
from pipeline.estimators.searched import SCORE, SearchAsked, Searched, seconds_of
from pipeline.estimators.svc import SieveSVC
from pipeline.events import Listener, silent
from pipeline.maths.calibration import Calibration, fit_calibrations
from pipeline.path.agreement import has_peaked
from pipeline.path.curve import coarse_grid, fine_grid
from pipeline.path.search import AT_A_TIME, first_c, near
from pipeline.path.train import kept, train_run
from pipeline.path.tune import calibration_json
from pipeline.runs.classes import AnyRun
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.writer import rewritten
from pipeline.spec import PATIENCE, PathSpec

Scorer = Callable[..., float]


@dataclass
class ScoredSplit:
    """One split: what is trained on, what is scored, and what was found at each C.

    ``costs`` are those of the rows that are scored, where these are to count as they do in training.
    """

    model: SieveSVC
    training: TrainingRows
    x: Any
    y: np.ndarray
    costs: np.ndarray | None = None
    steps: dict[float, Any] = field(default_factory=dict)
    scores: dict[float, float] = field(default_factory=dict)

    def train(self, engine: Engine, spec: PathSpec, scorer: Scorer, listen: Listener) -> None:
        """Train at the C of a grid, from models that are near, and score each model."""
        steps = near([self.steps[c] for c in sorted(self.steps)], sorted(spec.grid or ()))
        run = train_run(engine, self.training.data, spec, MemoryPlace(), None, listen, steps)
        weighed = {} if self.costs is None else {"sample_weight": self.costs}
        for step in run.steps:
            self.steps[step.c] = step
            self.scores[step.c] = float(scorer(self._at(run, step.step), self.x, self.y, **weighed))

    def held_out(self, c: float) -> np.ndarray:
        """Return the scores f(x) that the model at C gives the rows that it was not trained on."""
        self.model._settle(self.training, self.steps[c])
        return self.model.decision_function(self.x)

    def _at(self, run: AnyRun, number: int) -> SieveSVC:
        self.model.run_ = run
        self.model._settle(self.training, run.steps[number])
        return self.model


class Splits:
    """All splits of some rows, given x, y, weights and costs to score with; ``settings`` are those of ``SieveSVC``."""

    def __init__(
        self,
        engine: Engine,
        spec: PathSpec,
        scorer: Scorer,
        arrays: tuple[Any, np.ndarray, np.ndarray | None, np.ndarray | None],
        pairs: Sequence[tuple[np.ndarray, np.ndarray]],
        settings: dict[str, Any],
    ) -> None:
        self.engine, self.spec, self.scorer = engine, spec, scorer
        x, y, weights, costs = arrays
        self.parts = list[ScoredSplit]()
        for k, (train, test) in enumerate(pairs):
            if costs is not None and not costs[test].any():
                problem = f"all rows that split {k + 1} scores have weight 0"
                raise DataError(f"{problem}; make other splits, or name a scoring, which counts rows once")
            model = SieveSVC(**settings)
            some = None if weights is None else weights[train]
            training = training_of(model, x[train], y[train], some, silent)
            self.parts.append(ScoredSplit(model, training, x[test], y[test], None if costs is None else costs[test]))
        if not self.parts:
            raise DataError("cv makes no split; give at least one pair of rows to train on and rows to score")

    def at(self, cs: Sequence[float]) -> None:
        """Train and score all splits at these C."""
        spec = replace(self.spec, grid=tuple(cs), grid_in_c_min=False)
        for part in self.parts:
            part.train(self.engine, spec, self.scorer, silent)

    def search(self, training: TrainingRows, c_max: float | None) -> None:
        """Try the lattice of C until scores have had their peak, then around the best."""
        spec = replace(self.spec, patience=PATIENCE, select=SCORE)
        coarse = coarse_grid(first_c(self.engine, training.data, self.spec), c_max)
        for first in range(0, len(coarse), AT_A_TIME):
            self.at(coarse[first : first + AT_A_TIME])
            found = [[{SCORE: part.scores[c]} for part in self.parts] for c in sorted(self.parts[0].scores)]
            if has_peaked(found, spec):
                break
        fine = fine_grid(self.found_by(None).c_best, coarse)
        if fine:
            self.at(fine)

    def found_by(self, run: Any) -> Searched:
        """Return what was found, with the run on all rows."""
        cs = sorted(self.parts[0].scores)
        scores = np.array([[part.scores[c] for c in cs] for part in self.parts])
        seconds = np.array([[seconds_of(part.steps[c]) for c in cs] for part in self.parts])
        return Searched(run, tuple(cs), scores, seconds)

    def calibrated(self, c: float, classes: np.ndarray) -> Calibration | tuple[Calibration, ...]:
        """Fit probabilities to the scores that each split's model at C gives the rows it was not trained on."""
        for part in self.parts:
            if not np.array_equal(part.training.classes, classes):
                raise DataError("a split trains on rows without one of the classes; use fewer, stratified splits")
        scores = np.concatenate([part.held_out(c) for part in self.parts])
        codes = np.searchsorted(classes, np.concatenate([part.y for part in self.parts]))
        return fit_calibrations(scores, codes if scores.ndim > 1 else 2 * codes - 1, "sigmoid", c)


def in_splits(splits: Splits, training: TrainingRows, asked: SearchAsked, listen: Listener) -> Searched:
    """Search in splits, and train on all rows: at the C that is chosen, or at all C that were asked for."""
    engine, spec, data = splits.engine, splits.spec, training.data

    def path(place: Place) -> Any:
        grid = spec.grid
        if asked.auto:
            splits.search(training, asked.c_max)
            grid = (splits.found_by(None).chosen(asked.selection),)
        run = train_run(engine, data, replace(spec, grid=grid), place, None, listen)
        if not asked.auto:
            splits.at([step.c for step in run.steps])
        if not asked.probability:
            return run
        chosen = splits.found_by(run).chosen(asked.selection)
        return rewritten(run, calibration=calibration_json(splits.calibrated(chosen, training.classes)))

    return splits.found_by(kept(asked.out, data, path))
