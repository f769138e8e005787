"""The scores of a run over C: their mean, its standard errors, each fold's, and the C that they choose; no models read.

Of a tuned run they are those of its search, of any other those of its steps and of its folds, if it has some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.draw.canvas import Draw, draw_on
from pipeline.draw.charts import validation
from pipeline.errors import RunError
from pipeline.maths.score import Scores, best, mean_scores, one_se, standard_errors
from pipeline.runs.directory import FOLDS, read_item, read_steps
from pipeline.runs.records import CLASSES_FORMAT
from pipeline.runs.run import RunOf
from pipeline.runs.searched import folds_of, numbered, search_of

FoldScores = Mapping[float, Scores]


@dataclass(frozen=True)
class ScoreCurve:
    """Scores by C, ascending. ``folds`` has each fold's by C; ``errors`` is None where there is no more than one."""

    cs: tuple[float, ...]
    means: Sequence[Scores]
    errors: Sequence[Scores] | None
    folds: tuple[FoldScores, ...]
    select: str

    @property
    def c_best(self) -> float | None:
        """The C with the best score; None if none has one."""
        number = best(self.means, self.select)
        return None if number is None else self.cs[number]

    @property
    def c_1se(self) -> float | None:
        """The smallest C within one standard error of the best; None without standard errors."""
        if self.errors is None or self.error(self.select) is None:
            return None
        number = one_se(self.cs, self.means, self.errors, self.select)
        return None if number is None else self.cs[number]

    @property
    def marks(self) -> dict[str, float]:
        """The C that are chosen by the scores, by name."""
        found = {"best": self.c_best, "one SE": self.c_1se}
        return {name: c for name, c in found.items() if c is not None}

    def drawing(self, name: str | None = None) -> Draw:
        """Return what draws a score over C; by default the one that C is chosen by."""
        name = name or self.select
        folds = [(list(fold), np.array([each.get(name) for each in fold.values()], float)) for fold in self.folds]
        errors, marks = self.error(name), self.marks if name == self.select else {}
        return partial(
            validation,
            cs=self.cs,
            mean=np.array(self.mean(name), float),
            errors=None if errors is None else np.array(errors, float),
            folds=folds,
            marks=marks,
            label=score_name(name),
        )

    def mean(self, name: str) -> list[float | None]:
        """Return a score over C."""
        return [scores.get(name) for scores in self.means]

    def error(self, name: str) -> list[float | None] | None:
        """Return the standard errors of a score over C; None if there are none."""
        found = None if self.errors is None else [scores.get(name) for scores in self.errors]
        return None if found is None or not any(x is not None for x in found) else found


def score_name(name: str) -> str:
    """Return a score's name as people write it."""
    return {"auc": "AUC", "f1": "F1", "log_loss": "log-loss"}.get(name, name.replace("_", " "))


def plot_curve(run: RunOf[Any], ax: Any) -> Any:
    """Draw the scores of a run over C on axes of Matplotlib's, the caller's or new ones; return them."""
    return draw_on(ax, scored_curve(run).drawing())


def scored_curve(run: RunOf[Any]) -> ScoreCurve:
    """Return the scores of a run over C, where there must be some; else RunError."""
    found = score_curve(run)
    if found is None:
        problem = "nothing was scored; train with --cv, --holdout or --validation, or use svmsieve tune"
        raise RunError(f"{run.path}: {problem}")
    return found


def score_curve(run: RunOf[Any]) -> ScoreCurve | None:
    """Return the scores of a run over C; None if nothing was scored."""
    header, folds = run.header, tuple(_folds(run))
    if header.cv_c is not None and header.cv_scores is not None:
        return ScoreCurve(tuple(header.cv_c), header.cv_scores, header.cv_se, folds, run.spec.select)
    found = [(step.c, scores) for step, scores in zip(run.steps, run.scores, strict=False) if scores is not None]
    if not found:
        return None
    cs, means = tuple(c for c, _ in found), [scores for _, scores in found]
    errors = None
    if header.cv_scores is not None and len(folds) > 1 and all(c in fold for fold in folds for c in cs):
        errors = standard_errors([[fold[c] for c in cs] for fold in folds])
    return ScoreCurve(cs, means, errors, folds if header.cv_scores is not None else (), run.spec.select)


def _folds(run: RunOf[Any]) -> list[FoldScores]:
    """Return the scores of each fold by C."""
    if run.header.cv_c is None:
        return [_scores(place) for place in numbered(run.path / FOLDS)]
    search, known = search_of(run), set(run.header.cv_c)
    folds = [] if search is None else scores_of_folds(search)
    kept = [{c: scores for c, scores in fold.items() if c in known} for fold in folds]
    return list(kept) if len(kept) > 1 else []


def scores_of_folds(search: Path) -> list[dict[float, Scores]]:
    """Return the scores of each fold of a search by C, ascending, as far as there are some."""
    found = []
    for places in folds_of(search):
        every = [item for place in places for item in _scores(place).items()]
        found.append(dict(sorted(every, key=lambda item: item[0])))
    return found


def curve_so_far(search: Path, select: str) -> ScoreCurve | None:
    """Return the scores of a search that is not finished, at the C that all folds with scores have."""
    folds = [fold for fold in scores_of_folds(search) if fold]
    cs = tuple(c for c in folds[0] if all(c in fold for fold in folds)) if folds else ()
    if not cs:
        return None
    scores = [[fold[c] for c in cs] for fold in folds]
    errors = standard_errors(scores) if len(folds) > 1 else None
    return ScoreCurve(cs, mean_scores(scores), errors, tuple(folds) if len(folds) > 1 else (), select)


def _scores(place: Path) -> dict[float, Scores]:
    """Return the scores of one fold's run by C."""
    item = read_item(place)
    if item["format"] == CLASSES_FORMAT:
        cs = sorted(set(item["spec"].get("grid") or ()))
        return dict(zip(cs, item.get("scores") or (), strict=False))
    return {facts["c"]: facts["scores"] for facts in read_steps(place) if facts["scores"] is not None}
