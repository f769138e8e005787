"""Are the scores of rows left out, as run.json keeps them, those of the models? For ``verify``.

Scores in plain float64 are off by a known doubt, so that a row near an edge may have been counted on either side of it.
Below each edge there must be as many rows of each class as there are whatever the doubts, and no more than there may
be. What several classes are called is held against what is said of each row for sure, and what may be said.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.verify.said import SaidRun

HOLDOUT, VALIDATION, OF_FOLDS = "holdout", "validation", "folds"


@dataclass
class HeldOutRows:
    """Scores, doubts and labels of rows left out, by the models at the C that run.json names."""

    said: dict[str, Any] | None
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def take(self, c: float, f: np.ndarray, doubt: np.ndarray, labels: np.ndarray) -> None:
        """Take in the margins of the rows left out of a model, if it is one at that C."""
        if self.said is not None and self.said["c"] == c:
            self.parts.append((f * labels, doubt, labels))

    def check(self, run: SaidRun) -> None:
        """Raise RunError if the histogram of a finished run is not that of its models."""
        if self.said is None:
            return
        problem = wrong_rows(run.header, self.said, [step.facts.get("c") for step in run.steps])
        if not problem and self.parts:
            problem = wrong_histogram(self.said, *(np.concatenate([part[k] for part in self.parts]) for k in range(3)))
        if problem:
            raise RunError(f"{run.path}: held_out in run.json: {problem}; train again")


def wrong_rows(header: dict[str, Any], said: dict[str, Any], cs: list[Any]) -> str:
    """Say why a run cannot have kept scores of such rows, or of a model at such a C; empty if it can."""
    tuned, best = header.get("cv_c") is not None, header.get("best_step")
    spec = header["spec"]
    expected = VALIDATION if header["data"].get("validation") else HOLDOUT
    if header.get("cv_scores") is not None and (spec["cv"] or tuned):
        expected = said["of"] if tuned and said["of"] != VALIDATION else OF_FOLDS
    if said["of"] != expected:
        return f"it is of {said['of']}, and the run scored on {expected}"
    chosen = cs[0] if tuned and cs else cs[best] if isinstance(best, int) and best < len(cs) else None
    return "" if said["c"] == chosen else f"it is of C = {said['c']:g}, which is not that of the chosen model"


def wrong_histogram(said: dict[str, Any], score: np.ndarray, doubt: np.ndarray, labels: np.ndarray) -> str:
    """Say why a histogram, whose form has been checked, is not that of scores; empty if it is."""
    edges = np.array(said["edges"], float)
    for side, mine in (("negative", labels < 0), ("positive", labels > 0)):
        below = np.cumsum(said[side])
        if int(below[-1]) != int(np.count_nonzero(mine)):
            return f"it counts {int(below[-1]):,} {side} rows, and there are {int(np.count_nonzero(mine)):,}"
        least, most = (np.searchsorted(np.sort((score + sign * doubt)[mine]), edges, "right") for sign in (1, -1))
        wrong = (below[:-1] < least) | (below[:-1] > most)
        if wrong.any():
            k = int(np.argmax(wrong))
            return f"it counts {int(below[k]):,} {side} rows up to {edges[k]:.6g}, and there are {int(least[k]):,}"
    return ""


@dataclass
class HeldOutClasses:
    """What rows left out are called by the models of several classes at the C that run.json names, and their scores."""

    said: dict[str, Any] | None
    least: np.ndarray | int = 0
    most: np.ndarray | int = 0
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def take(
        self, c: float, s: np.ndarray, doubt: np.ndarray, calls: tuple[np.ndarray, np.ndarray], codes: np.ndarray
    ) -> None:
        """Take in scores, and which classes each row is called for sure and may be called, by the models at C."""
        if self.said is None or self.said["c"] != c:
            return
        if self.said.get("classes") is not None:
            self.parts.append((s, doubt, codes))
        sure, may = calls
        true = np.arange(sure.shape[1])[:, None] == codes
        self.least = self.least + true.astype(np.int64) @ sure.astype(np.int64)
        self.most = self.most + true.astype(np.int64) @ may.astype(np.int64)

    def problem(self, header: dict[str, Any], cs: list[Any]) -> str:
        """Say why what run.json says is not that of the models; empty if it is."""
        if self.said is None:
            return ""
        wrong = wrong_rows(header, self.said, cs)
        if wrong or isinstance(self.most, int):
            return wrong
        found = np.array(self.said["confusion"], np.int64)
        off = (found < self.least) | (found > self.most)
        if off.any():
            k, j = np.argwhere(off)[0]
            least = int(np.asarray(self.least)[k, j])
            return f"it counts {found[k, j]:,} rows of class {k} called {j}, and there are {least:,}"
        return self._wrong_scores()

    def _wrong_scores(self) -> str:
        if not self.parts or self.said is None:
            return ""
        s, doubt, codes = (np.concatenate([part[k] for part in self.parts]) for k in range(3))
        for k, said in enumerate(self.said["classes"]):
            problem = wrong_histogram(said, s[:, k], doubt[:, k], np.where(codes == k, 1, -1))
            if problem:
                return f"class {k}: {problem}"
        return ""
