"""Is the C of a tuned run the one that its search says? Scores of all C, their means and errors, the choice.

And did runs end where they may? With ``patience`` K the path ends at the first C where the mean score of the runs that
were trained together has moved, and not improved for K values of C, and not before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.runs.directory import SEARCH
from pipeline.spec import SCORES, PathSpec
from pipeline.verify.said import SaidRun, read_said
from pipeline.verify.scores import SLACK, best_steps, mean_scores, same_scores, scores_at, sign_of, stored_number

FoldScores = dict[float, Any]  # a fold's scores by C


@dataclass(frozen=True)
class SearchRuns:
    """The runs of a search at one gamma, stage by stage, a run a fold."""

    stages: list[list[SaidRun]]

    @property
    def runs(self) -> list[SaidRun]:
        """All runs."""
        return [run for stage in self.stages for run in stage]

    @property
    def folds(self) -> list[FoldScores]:
        """The scores of every fold by C."""
        return [
            {float(step.facts["c"]): scores_at(step) for run in runs for step in run.steps}
            for runs in zip(*self.stages, strict=True)
        ]


def stages_of(run: Path) -> list[list[Path]]:
    """Return where the runs of a tuned run's searches lie: by gamma, the folders of stages."""
    several = sorted((run / SEARCH).glob("gamma-*"), key=lambda path: int("0" + path.name[6:]))
    found = []
    for folder in several or [run / SEARCH]:
        coarse = sorted(folder.glob("coarse*"), key=lambda path: int("0" + path.name[7:]))
        found.append([*coarse, *folder.glob("fine")])
    if not all(found):
        raise RunError(f"{run}: the runs that its C was chosen by are gone; tune again")
    return found


def searched(run: SaidRun) -> list[SearchRuns]:
    """Return the searches of a tuned run, that at its gamma first; none of a run that was not tuned."""
    if run.header.get("cv_c") is None:
        return []
    found = [SearchRuns([_stage(run, folder) for folder in stages]) for stages in stages_of(run.path)]
    found.sort(key=lambda each: each.runs[0].spec.gamma != run.spec.gamma)
    if found[0].runs[0].spec.gamma != run.spec.gamma:
        raise RunError(f"{run.path}: was trained at a gamma that was not tried; tune again")
    return found


def _stage(run: SaidRun, folder: Path) -> list[SaidRun]:
    first = read_said(folder / "0")
    count = first.spec.fold[1] if first.spec.fold else 1
    found = [first, *(read_said(folder / str(k)) for k in range(1, count))]
    for k, each in enumerate(found):
        check_stage(run.spec, first.spec, each.spec, k, str(each.path))
    return found


def check_stage(run: PathSpec, first: PathSpec, spec: PathSpec, k: int, where: str) -> None:
    """Raise RunError if fold k of a stage has other settings than its run, but for those that are its own."""
    own = {name: getattr(first, name) for name in ("grid", "patience", "holdout", "gamma")}
    asked = replace(run, **own, fold=(k, first.fold[1]) if first.fold else None)
    changed = asked.difference(spec)
    if changed:
        raise RunError(f"{where}: the search has other settings than its run ({changed}); tune again")


def check_curve(
    where: Path, said: dict[str, Any], select: str, searches: Sequence[Sequence[FoldScores]], c: float
) -> None:
    """Raise RunError if run.json says another curve than the search, another choice by it, or another C was trained.

    ``searches`` are the folds' scores, those at the run's own gamma first; no other may have a better mean score.
    """
    cs, means, errors = _curve(where, searches[0])
    same = said["cv_c"] == cs and same_scores(said.get("cv_scores"), means) and same_scores(said.get("cv_se"), errors)
    if not same:
        raise RunError(f"{where}: cv_c, cv_scores or cv_se in run.json are not what the search found; tune again")
    (top,) = best_steps(means, select)
    sign = sign_of(select)
    values = [math.nan if mean[select] is None else sign * float(mean[select] or 0.0) for mean in means]
    assert top is not None
    least = values[top] - (errors[top].get(select) or 0.0)
    smallest = min(c for c, value in zip(cs, values, strict=True) if value >= least - SLACK)
    if said.get("c_best") != cs[top] or said.get("c_1se") != smallest:
        by = f"by the scores the best C is {cs[top]:g}, with one standard error {smallest:g}"
        raise RunError(f"{where}: {by}; tune again")
    if c not in (cs[top], smallest):
        raise RunError(f"{where}: was trained at another C than the search chose; tune again")
    for other in searches[1:]:
        found = [mean[select] for mean in _curve(where, other)[1]]
        if any(value is not None and sign * value > values[top] + SLACK for value in found):
            raise RunError(f"{where}: another gamma has a better score; tune again")


def _curve(
    where: Path, found: Sequence[FoldScores]
) -> tuple[list[float], list[dict[str, float | None]], list[dict[str, float | None]]]:
    cs = sorted(found[0])
    if any(sorted(fold) != cs for fold in found):
        raise RunError(f"{where}: the folds of its search were not trained at the same C; tune again")
    folds = [[fold[c] for c in cs] for fold in found]
    return cs, mean_scores(folds), _errors(folds)


def _errors(folds: Sequence[Sequence[Any]]) -> list[dict[str, float | None]]:
    """Return the standard errors of the means by step."""
    found: list[dict[str, float | None]] = [{} for _ in folds[0]]
    for name in SCORES:
        columns = [[stored_number((item or {}).get(name)) for item in fold] for fold in folds]
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
