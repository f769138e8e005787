"""Is the C of a tuned run the one that its search says? Scores of all C, their means and errors, the choice.

And did runs end where they may? With ``patience`` K the path ends at the first C where the mean score of the runs that
were trained together has moved, and not improved for K values of C, and not before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.errors import RunError
from pipeline.runs.directory import SEARCH
from pipeline.spec import SCORES
from pipeline.verify.said import SaidRun, read_said
from pipeline.verify.scores import SLACK, best_steps, mean_scores, number_of, same_scores, scores_at, sign_of

STAGES = ("coarse", "fine")


def searched(run: SaidRun) -> list[list[SaidRun]]:
    """Return the runs of a tuned run's search, stage by stage, a run a fold; none of a run that was not tuned."""
    if run.header.get("cv_c") is None:
        return []
    stages = []
    for stage in STAGES:
        folder = run.path / SEARCH / stage
        if stage == "fine" and not folder.is_dir():
            continue  # nothing lies between C_min and the first C
        first = read_said(folder / "0")
        count = first.spec.fold[1] if first.spec.fold else 1
        found = [first, *(read_said(folder / str(k)) for k in range(1, count))]
        for k, each in enumerate(found):
            own = {name: getattr(first.spec, name) for name in ("grid", "patience", "holdout")}
            asked = replace(run.spec, **own, fold=(k, count) if first.spec.fold else None)
            changed = asked.difference(each.spec)
            if changed:
                raise RunError(f"{each.path}: the search has other settings than its run ({changed}); tune again")
        stages.append(found)
    return stages


def check_curve(run: SaidRun, stages: Sequence[Sequence[SaidRun]]) -> None:
    """Raise RunError if run.json says another curve than the search, another choice by it, or another C was trained."""
    where, select = run.path, run.spec.select
    found = [
        {number_of(step.facts["c"]): scores_at(step) for each in runs for step in each.steps}
        for runs in zip(*stages, strict=True)
    ]
    cs = sorted(c for c in found[0] if c is not None)
    if any(sorted(c for c in fold if c is not None) != cs for fold in found):
        raise RunError(f"{where}: the folds of its search were not trained at the same C; tune again")
    folds = [[fold[c] for c in cs] for fold in found]
    means, errors = mean_scores(folds), _errors(folds)
    said = run.header
    if (
        said["cv_c"] != cs
        or not same_scores(said.get("cv_scores"), means)
        or not same_scores(said.get("cv_se"), errors)
    ):
        raise RunError(f"{where}: cv_c, cv_scores or cv_se in run.json are not what the search found; tune again")
    (top,) = best_steps(means, select)
    assert top is not None
    least = sign_of(select) * (means[top][select] or 0.0) - (errors[top].get(select) or 0.0)
    smallest = min(
        c
        for c, mean in zip(cs, means, strict=True)
        if (value := mean[select]) is not None and sign_of(select) * value >= least - SLACK
    )
    if said.get("c_best") != cs[top] or said.get("c_1se") != smallest:
        raise RunError(
            f"{where}: by the scores the best C is {cs[top]:g}, with one standard error {smallest:g}; tune again"
        )
    if any(step.facts.get("c") not in (cs[top], smallest) for step in run.steps):
        raise RunError(f"{where}: was trained at another C than the search chose; tune again")


def _errors(folds: Sequence[Sequence[Any]]) -> list[dict[str, float | None]]:
    """Return the standard errors of the means by step."""
    found: list[dict[str, float | None]] = [{} for _ in folds[0]]
    for name in SCORES:
        columns = [[number_of((item or {}).get(name)) for item in fold] for fold in folds]
        whole = [[value for value in column if value is not None] for column in columns if None not in column]
        for k, step in enumerate(found):
            step[name] = _error([column[k] for column in whole])
    return found


def _error(values: list[float]) -> float | None:
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def check_patience(runs: Sequence[SaidRun]) -> None:
    """Raise RunError if finished runs that were trained together did not end where their patience did."""
    spec, where = runs[0].spec, runs[0].path
    if not spec.patience or any(run.header["status"] != "finished" for run in runs):
        return
    scored = [run for run in runs if run.steps and scores_at(run.steps[0]) is not None]
    folds = [[scores_at(step) for step in run.steps] for run in scored]
    if len({len(run.steps) for run in runs}) > 1:
        raise RunError(f"{where}: runs that were trained together have different numbers of steps; train again")
    count = len(runs[0].steps)
    ended = [
        k
        for k in range(1, count + 1)
        if folds and _has_peaked([fold[:k] for fold in folds], spec.select, spec.patience)
    ]
    stopped = {run.header.get("stopped") for run in runs}
    if ended not in ([], [count]) or stopped != ({"patience"} if ended else {None}):
        raise RunError(f"{where}: did not end where a patience of {spec.patience} ends by the scores; train again")


def _has_peaked(folds: Sequence[Sequence[Any]], select: str, patience: int) -> bool:
    means = mean_scores(folds)
    (top,) = best_steps(means, select)
    values = [mean[select] for mean in means]
    return top is not None and values[top] is not None and len(set(values)) > 1 and len(values) - 1 - top >= patience
