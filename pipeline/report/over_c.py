"""The numbers of a run over C, of one path, of several classes or of a search, as arrays: no models, no data.

Of several classes, and of several folds, gaps are the worst, rows, reads and seconds the sums over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.runs.classes import AnyRun, AnyStep, parts_of
from pipeline.runs.directory import open_run
from pipeline.runs.run import StepView
from pipeline.runs.searched import folds_of

Parts = tuple[StepView, ...]  # the steps at one C
PHASES = ("screen", "gather", "solve", "certify")


@dataclass(frozen=True)
class OverC:
    """Arrays with an entry a step. ``rules`` has rows decided by each rule; one that was not counted is not there."""

    c: np.ndarray
    gap: np.ndarray
    rows: np.ndarray
    zero: np.ndarray
    upper: np.ndarray
    kept: np.ndarray
    free: np.ndarray
    at_bound: np.ndarray
    working_set: np.ndarray
    passes: np.ndarray
    seconds: dict[str, np.ndarray]
    rules: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """How many steps there are."""
        return int(self.c.size)

    @property
    def off_margin(self) -> np.ndarray:
        """How many rows are not on the margin at the solution: those that a rule could decide."""
        return np.maximum(self.rows - self.free, 1)


def over_c(run: AnyRun) -> OverC:
    """Collect the numbers of the finished steps."""
    return _together([parts_of(step) for step in run.steps], run.spec.rule)


def over_search(search: Path) -> OverC | None:
    """Collect the numbers of the folds of a search, at the C that all with steps have; None without any."""
    found = [{step.c: parts_of(step) for step in steps_of(places)} for places in folds_of(search)]
    folds = [each for each in found if each]
    shared = sorted(set(folds[0]).intersection(*folds[1:])) if folds else []
    every = [tuple(part for fold in folds for part in fold[c]) for c in shared]
    return _together(every, every[0][0].rule) if every else None


def steps_of(places: Sequence[Path]) -> list[AnyStep]:
    """Return the steps of some run directories, such as those of a fold, by ascending C."""
    return sorted((step for place in places for step in open_run(place).steps), key=lambda step: step.c)


def _together(steps: list[Parts], rule: str) -> OverC:
    def total(name: str) -> np.ndarray:
        return np.array([sum(getattr(part, name) for part in parts) for parts in steps], float)

    zero, upper, total_seconds = total("screened_zero"), total("screened_upper"), _seconds(steps, "total")
    phases = {name: _seconds(steps, name) for name in PHASES}
    phases["other"] = np.maximum(0.0, total_seconds - sum(phases.values()))
    return OverC(
        c=np.array([parts[0].c for parts in steps], float),
        gap=np.array([max(part.relative_gap for part in parts) for parts in steps], float),
        rows=total("n_rows"),
        zero=zero,
        upper=upper,
        kept=total("survivors"),
        free=total("n_free"),
        at_bound=total("n_upper"),
        working_set=np.array([max(part.working_set for part in parts) for parts in steps], float),
        passes=total("passes"),
        seconds=phases,
        rules={rule: zero + upper, **_rules(steps)},
    )


def _seconds(steps: list[Parts], name: str) -> np.ndarray:
    return np.array([sum(part.seconds.get(name, 0.0) for part in parts) for parts in steps], float)


def _rules(steps: list[Parts]) -> dict[str, np.ndarray]:
    """Return the rows that other rules decide; nan where a step has no count (the closed form proves nothing)."""
    names = sorted({rule for parts in steps for part in parts for rule in part.rules or ()})
    return {
        rule: np.array([sum(sum((part.rules or {}).get(rule, [np.nan])) for part in parts) for parts in steps], float)
        for rule in names
    }
