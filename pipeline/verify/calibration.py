"""Is the calibration in run.json the one of these scores? For ``verify``, which has them from the folds' models.

Scores in plain float64 are off by a known doubt. A sigmoid must give the same probabilities but for that; a point of an
isotonic regression must lie between the regressions a doubt to its left and a doubt to its right.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from scipy.special import expit

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.verify.said import SaidRun
from pipeline.verify.sigmoid import sigmoid_of

SLACK = 1e-6  # of a probability, whatever way its optimum was found


@dataclass
class LeftOutRows:
    """Scores, doubts and labels of rows left out, by the models at the C of a calibration, from all folds."""

    said: dict[str, Any] | None
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def take(self, c: float, f: np.ndarray, doubt: np.ndarray, labels: np.ndarray) -> None:
        """Take in the margins of the rows left out of a model, if it is one at that C."""
        if self.said is not None and self.said["c"] == c:
            self.parts.append((f * labels, doubt, labels))

    def check(self, run: SaidRun, where: str) -> None:
        """Raise RunError, for the run ``where``, if the calibration of its models ``run`` is not that of its folds."""
        if self.said is None:
            return
        cs = [step.facts.get("c") for step in run.steps]
        problem = "the calibration is of another C"
        if self.parts and self.said["c"] in cs:
            problem = wrong_calibration(
                self.said, *(np.concatenate([part[k] for part in self.parts]) for k in range(3))
            )
        if problem:
            raise RunError(f"{where}: {problem}; tune again")


def wrong_calibration(said: dict[str, Any], score: np.ndarray, doubt: np.ndarray, labels: np.ndarray) -> str:
    """Say why a calibration, whose form has been checked, is not that of scores of rows left out; empty if it is."""
    true, most = labels > 0, float(doubt.max(initial=0.0))
    if said["kind"] == "sigmoid":
        slope, intercept = sigmoid_of(score, true)
        ends = np.array([score.min(initial=0.0), score.max(initial=0.0), *np.quantile(score, [0.1, 0.5, 0.9])])
        off = np.abs(expit(said["slope"] * ends + said["intercept"]) - expit(slope * ends + intercept))
        if off.max() <= SLACK + 4 * slope * most:
            return ""
        return f"the calibration is not that of the folds' scores (slope {said['slope']:.6g}, not {slope:.6g})"
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415 - takes half a second to import

    fit = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, true)
    at, p = np.array(said["scores"], float), np.array(said["probabilities"], float)
    low, high = fit.predict(at - 2 * most), fit.predict(at + 2 * most)
    wrong = (p < low - SLACK) | (p > high + SLACK)
    if wrong.any():
        k = int(np.argmax(wrong))
        return f"the calibration is not that of the folds' scores (at {at[k]:.6g} it is {p[k]:.6g}, not {low[k]:.6g})"
    ends = fit.X_thresholds_[[0, -1]]
    inside = abs(at[0] - ends[0]) <= 2 * most and abs(at[-1] - ends[1]) <= 2 * most
    return "" if inside else "the calibration does not reach as far as the folds' scores"
