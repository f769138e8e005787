"""Verify a run: every certificate computed again from the stored model and all rows, and compared with what was said.

A step holds when its model is whole and for the C that the step names, alpha is feasible, P, D and the relative gap are
those in steps.jsonl but for rounding, the gap is within the run's ``tol``, w_alpha is sum alpha_i z_i, the counts are
right, and C ascends. Then, whatever made the model, P_C(w) is at most (relative gap) x P above the optimum.

What rounding may do is bounded. A margin: by its number of products; C multiplies that, so that on separable data at
C = 10^6 two honest values of P differ by 10^-9 and more. A sum over n rows: by n EPS/2 of the magnitudes that are added
up, in the run and here. The run then carries w_alpha from step to step, which adds up by chance: 16 EPS sqrt(n steps)
(the law is Higham's and Mary's, "A new approach to probabilistic rounding error analysis", 2019). Measured on a9a,
mushrooms and breast cancer: at most 3 % of all that. The box is compared exactly: solvers clip alpha to the float64
product C c_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.events import Listener, Note, Progress, silent
from pipeline.flow.cross_validation import FOLDS
from pipeline.flow.recompute import EPS, Model, Values, batch_size, effective_costs, read_model, recompute
from pipeline.flow.run_directory import Run, StepView, open_run

NUMBERS = ("c", "primal", "dual", "relative_gap", "n_rows", "n_free", "n_upper")


@dataclass(frozen=True)
class Finding:
    """What a step is worth: the recomputed values (None where there is no model to compute them from), or a problem."""

    run: str
    step: int
    c: float
    primal: float | None
    dual: float | None
    relative_gap: float | None
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether the certificate is what the run says it is."""
        return not self.problem

    def __str__(self) -> str:
        said = self.problem or f"holds, relative gap {self.relative_gap:.1e}"
        return f"{self.run}: step {self.step} (C = {self.c:.6g}): {said}"


def verify(
    engine: Engine, path: str | Path, data: Dataset, step: int | None = None, listen: Listener = silent
) -> list[Finding]:
    """Return a finding for every step of a run and of its folds, or for the one step of each."""
    run = open_run(path, checked=False)
    if not 0 <= (step or 0) < len(run.steps):
        raise RunError(f"{run.path}: there is no step {step or 0}; the run has {len(run.steps)} finished steps")
    return [finding for each in (run, *_folds(run)) for finding in _verify_run(engine, each, data, step, listen)]


def _folds(run: Run) -> Iterator[Run]:
    """Yield the runs of cross-validation: all of them once their scores are in run.json."""
    grid = tuple(_c_of(step) for step in run.steps)
    for k in range(run.spec.cv):
        folder, scored = run.path / FOLDS / str(k), "cv_scores" in run.header
        if not (scored or folder.is_dir()):
            return
        fold = open_run(folder, checked=False)
        asked = replace(run.spec, grid=grid, grid_in_c_min=False, fold=(k, run.spec.cv), cv=0)
        changed = asked.difference(fold.spec)
        if changed:
            raise RunError(f"{folder}: the fold has other settings than its run ({changed}); train again")
        yield fold


def _verify_run(engine: Engine, run: Run, data: Dataset, step: int | None, listen: Listener) -> list[Finding]:
    if run.header["data"]["fingerprint"] != data.fingerprint:
        origin = run.header["data"].get("path")
        raise RunError(f"{run.path}: was made from other data ({origin}) than {data.path}; verify it with those")
    _expect_all_steps(run, listen)
    steps = run.steps if step is None else run.steps[step : step + 1]
    costs = effective_costs(engine, data, run.spec)
    size = batch_size(data, engine.backend.workers)
    seen = _meter(data, -(-len(steps) // size), listen)
    found: list[Finding] = []
    for first in range(0, len(steps), size):
        found += _verify_batch(engine, run, data, costs, steps[first : first + size], seen)
    return found


def _expect_all_steps(run: Run, listen: Listener) -> None:
    """Raise RunError if a finished run lacks a step of its grid, or of those it says it has."""
    count, grid = len(run.steps), run.spec.grid
    if run.header["status"] != "finished":
        listen(Note(f"{run.path}: the run is not finished; it has {count} steps so far"))
        return
    expected = len(set(grid)) if grid else run.header["n_steps"]
    if count < expected:
        raise RunError(f"{run.path}: says it is finished, but has {count} steps of {expected} or more; train again")


def _verify_batch(
    engine: Engine, run: Run, data: Dataset, costs: np.ndarray, steps: list[StepView], seen: Callable[[int], None]
) -> list[Finding]:
    models: dict[int, Model] = {}
    problems: dict[int, str] = {}
    for step in steps:
        try:
            models[step.step] = read_model(step.model.path, data.n_rows, data.n_features)
        except RunError as error:
            problems[step.step] = str(error)
    values = recompute(engine, data, costs, list(models.values()), seen) if models else []
    worth = dict(zip(models, values, strict=True))
    trained = int(np.count_nonzero(costs))
    found = []
    for step in steps:
        n, c = step.step, _c_of(step)
        if n in problems:
            found.append(Finding(str(run.path), n, c, None, None, None, problems[n]))
            continue
        before = _c_of(run.steps[n - 1]) if n else 0.0
        rounding = EPS * (data.n_rows + 16 * math.sqrt(data.n_rows * (n + 1)))
        claim = Claim(step.facts, before, trained, run.spec.tol, rounding)
        problem = next(claim.problems(models[n].c, worth[n]), "")
        primal, dual, gap = (_finite(x) for x in (worth[n].primal, worth[n].dual, worth[n].relative_gap))
        found.append(Finding(str(run.path), n, c, primal, dual, gap, problem))
    return found


def _c_of(step: StepView) -> float:
    c = step.facts.get("c")
    return c if isinstance(c, int | float) else math.nan


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


@dataclass(frozen=True)
class Claim:
    """What steps.jsonl says of a step, and what it is measured by."""

    facts: dict[str, Any]
    c_before: float
    trained: int
    tol: float
    rounding: float

    def problems(self, c: float, found: Values) -> Iterator[str]:
        """Yield what is wrong with the step, given its model's C and worth; causes before what follows from them."""
        said = self.facts
        for name in NUMBERS:
            if not isinstance(said.get(name), int | float):
                yield f"steps.jsonl does not say its {name}"
                return
        if said["c"] != c:
            yield f"the model is for C = {c:.12g}"
        if not said["c"] > self.c_before:
            yield f"C does not ascend: the step before has C = {self.c_before:.12g}"
        if found.outside is not None:
            row, alpha, u = found.outside
            box = f"outside its box from 0 to {u:.12g}" if u > 0 else "but the row was not trained on"
            yield f"alpha of row {row} is {alpha:.12g}, {box}"
        if not (math.isfinite(found.primal) and math.isfinite(found.dual)):
            yield "the model has no finite primal and dual value"
        slack_primal, slack_dual = self.rounding * found.primal + found.blur, self.rounding * found.magnitude
        slack = (slack_primal + slack_dual) / found.primal if found.primal > 0 else 0.0
        yield from self._differences("primal", found.primal, slack_primal)
        yield from self._differences("dual", found.dual, slack_dual)
        yield from self._differences("relative_gap", found.relative_gap, slack)
        if not found.relative_gap <= self.tol + slack:
            yield f"the relative gap {found.relative_gap:.6g} is above the run's tol {self.tol:g}"
        if not found.apart <= self.rounding * found.reach:
            yield f"the stored w or w_alpha is {found.apart:.3g} apart from sum alpha_i z_i"
        yield from self._differences("n_rows", self.trained)
        yield from self._differences("n_free", found.n_free)
        yield from self._differences("n_upper", found.n_upper)

    def _differences(self, name: str, found: float, slack: float = 0.0) -> Iterator[str]:
        if not abs(self.facts[name] - found) <= slack:
            yield f"the stored {name} {self.facts[name]:.12g} is not {found:.12g}"


def _meter(data: Dataset, passes: int, listen: Listener) -> Callable[[int], None]:
    """Return a function that is told of rows that were read, and reports how far the passes are."""
    rows = 0

    def seen(more: int) -> None:
        nonlocal rows
        rows += more
        listen(Progress("verify", rows, data.bytes * rows // data.n_rows, data.bytes * passes))

    return seen
