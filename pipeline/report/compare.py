"""Two runs side by side: their scores over C, what they took, the settings and the weights in which they differ."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from pipeline.draw import charts
from pipeline.errors import SieveError
from pipeline.report.over_c import over_c
from pipeline.report.parts import Figure, PageSection, PageTable, number
from pipeline.report.weights import moved_weights
from pipeline.runs.classes import AnyRun
from pipeline.runs.run import Run
from pipeline.runs.score_curve import score_curve, score_name
from pipeline.spec import PathSpec

SIDES = ("this run", "the other")


def compare_section(ours: AnyRun, theirs: AnyRun) -> PageSection:
    """Return the section that compares a run with another."""
    section = PageSection("Compared", f"The other run is {theirs.path}.")
    same = ours.header.data.fingerprint == theirs.header.data.fingerprint
    if not same:
        section.missing.append("The two were trained on other rows: scores are of other rows, too.")
    section.tables.append(_facts(ours, theirs))
    section.tables.append(_settings(ours.spec, theirs.spec))
    figure = _scores(ours, theirs)
    if figure is None:
        section.missing.append("There are no scores of both by the same name to compare.")
    else:
        section.figures.append(figure)
    _weights(section, ours, theirs)
    return section


def _facts(ours: AnyRun, theirs: AnyRun) -> PageTable:
    columns = [_column(run) for run in (ours, theirs)]
    rows = [(name, columns[0][name], columns[1][name]) for name in columns[0]]
    return PageTable("Side by side", ("", *SIDES), rows, names=1)


def _column(run: AnyRun) -> dict[str, str]:
    path, curve = over_c(run), score_curve(run)
    best = None if curve is None else curve.c_best
    score = None if curve is None or best is None else curve.mean(curve.select)[curve.cs.index(best)]
    return {
        "values of C": f"{path.count:,}",
        "largest relative gap": f"{path.gap.max():.1e}",
        f"best {score_name(run.spec.select)}" if run.spec.select == "accuracy" else "best score": number(score),
        "at C": number(best),
        "seconds": number(run.header.seconds),
        "reads a step": f"{path.passes.mean():.2f}",
        "peak memory, MB": number(None if run.header.peak_memory is None else run.header.peak_memory / 1e6),
        "rows": f"{run.header.data.rows:,}",
        "features": f"{run.header.data.features:,}",
    }


def _settings(ours: PathSpec, theirs: PathSpec) -> PageTable:
    names = [field.name for field in fields(PathSpec) if getattr(ours, field.name) != getattr(theirs, field.name)]
    rows = [(name.replace("_", " "), *(_shown(getattr(spec, name)) for spec in (ours, theirs))) for name in names]
    caption = "Settings that differ" if names else "All settings are the same"
    return PageTable(caption, ("", *SIDES), rows, names=3)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."


def _scores(ours: AnyRun, theirs: AnyRun) -> Figure | None:
    curves = [score_curve(run) for run in (ours, theirs)]
    name = ours.spec.select
    if any(curve is None or not any(x is not None for x in curve.mean(name)) for curve in curves):
        return None
    lines = {
        side: (np.array(curve.cs), np.array([np.nan if x is None else x for x in curve.mean(name)], float))
        for side, curve in zip(SIDES, curves, strict=True)
        if curve is not None
    }
    rows = [
        (side, number(float(c)), number(float(x)))
        for side, (cs, xs) in lines.items()
        for c, x in zip(cs, xs, strict=True)
    ]
    label = score_name(name)
    table = PageTable(f"{label} of both", ("run", "C", label), rows, names=1)
    draw = partial(charts.several, lines=lines, label=label)
    return Figure(f"{label[0].upper()}{label[1:]} of both", f"{label} over C of both runs", draw, table)


def _weights(section: PageSection, ours: AnyRun, theirs: AnyRun) -> None:
    if not (isinstance(ours, Run) and isinstance(theirs, Run)) or "rbf" in (ours.spec.kernel, theirs.spec.kernel):
        section.missing.append("Weights are compared where both runs are linear and of two classes.")
        return
    try:
        steps = ours.best, theirs.best
    except SieveError:
        section.missing.append("Weights are those of best models, and one of the runs has scored nothing.")
        return
    moved = moved_weights(*steps)
    rows = [(name, f"{one:.4g}", f"{two:.4g}", f"{one - two:+.4g}") for name, one, two in moved]
    caption = f"Weights that differ most, at C = {steps[0].c:.4g} and C = {steps[1].c:.4g}"
    section.tables.append(PageTable(caption, ("feature", *SIDES, "difference"), rows, names=1))
