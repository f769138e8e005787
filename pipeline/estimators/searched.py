"""What a search for C has found: scores of every C in every fold, and which C that makes the best.

A fold counts where it has a score at every C, so that values of C are compared on the same rows. Of equal means the
smallest C is the best; ``1se`` is the smallest C whose mean is within one standard error, the best's, of the best.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from pipeline.dataclass import dataclass
from pipeline.errors import DataError, SpecError
from pipeline.maths.score import best, mean_scores, one_se, standard_errors
from pipeline.path.tune import CHOICES
from pipeline.runs.classes import AnyRun, AnyStep, parts_of

SCORE = "accuracy"  # any name of which more is better


@dataclass(frozen=True)
class Searched:
    """The run on all rows, the C that were tried, and by fold and C scores (more is better) and seconds of training."""

    run: AnyRun
    cs: tuple[float, ...]
    scores: np.ndarray
    seconds: np.ndarray

    def chosen(self, selection: str) -> float:
        """Return the C that is chosen."""
        if selection not in CHOICES:
            raise SpecError(f"unknown selection {selection!r}; there are {', '.join(CHOICES)}")
        return self.c_best if selection == "best" else self.c_1se

    @property
    def c_best(self) -> float:
        """The C with the best mean score."""
        found = best(mean_scores(self._by_fold), SCORE)
        if found is None:
            raise DataError("no fold has a score at every C (a class is missing); use another scoring, or fewer folds")
        return self.cs[found]

    @property
    def c_1se(self) -> float:
        """The smallest C whose mean score is within one standard error of the best."""
        folds = self._by_fold
        found = one_se(self.cs, mean_scores(folds), standard_errors(folds), SCORE)
        assert found is not None
        return self.cs[found]

    @property
    def _by_fold(self) -> list[list[dict[str, float | None]]]:
        return [[{SCORE: None if np.isnan(x) else float(x)} for x in fold] for fold in self.scores]

    def results(self) -> dict[str, Any]:
        """Return ``cv_results_`` as GridSearchCV has it; scores come with the pass that certifies: no time is known."""
        means = np.array([math.fsum(column) / column.size for column in self.scores.T])
        unknown = np.full(len(self.cs), np.nan)
        order = rankdata(-np.nan_to_num(means, nan=-np.inf), method="min")
        return {
            "mean_fit_time": self.seconds.mean(axis=0),
            "std_fit_time": self.seconds.std(axis=0),
            "mean_score_time": unknown,
            "std_score_time": unknown.copy(),
            "param_C": np.ma.MaskedArray(np.array(self.cs), mask=False),
            "params": [{"C": c} for c in self.cs],
            **{f"split{k}_test_score": fold for k, fold in enumerate(self.scores)},
            "mean_test_score": means,
            "std_test_score": self.scores.std(axis=0),
            "rank_test_score": order.astype(np.int32),
        }


def seconds_of(step: AnyStep) -> float:
    """Return what the training of a step took."""
    return sum(part.seconds["total"] for part in parts_of(step))


@dataclass(frozen=True)
class SearchAsked:
    """What a search is to do: try C of its own (``auto``) or those of the settings, choose one, fit probabilities."""

    auto: bool
    selection: str
    probability: bool
    c_max: float | None
    out: Path | None
