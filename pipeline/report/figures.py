"""The figures of a run, each with its numbers: validation, certificates, screening, time, weights."""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.draw import charts
from pipeline.report.over_c import OverC
from pipeline.report.parts import Figure, PageTable, number, share
from pipeline.report.weights import WeightPaths
from pipeline.runs.score_curve import ScoreCurve, score_name
from pipeline.runs.weights import TopWeights

RULE_NAMES = {"it": "IT", "bt1": "BT1", "bt2": "BT2", "gap": "gap ball", "none": "none"}
WORST = 5  # gaps in the table


def validation_figure(curve: ScoreCurve, name: str | None) -> Figure:
    """Show the score over C, with folds, standard errors, and the C that are chosen by it."""
    name = name or curve.select
    mean, errors, marks = curve.mean(name), curve.error(name), curve.marks if name == curve.select else {}
    label = score_name(name)
    header = ("C", label, *(["± 1 SE"] if errors else []), *(f"fold {k + 1}" for k in range(len(curve.folds))), "")
    rows = []
    for k, c in enumerate(curve.cs):
        cells = [number(c), number(mean[k]), *([number(errors[k], 2)] if errors else [])]
        cells += [number(fold[c].get(name)) if c in fold else "–" for fold in curve.folds]
        rows.append((*cells, " and ".join(mark for mark, where in marks.items() if where == c)))
    said = f"{label} over C, {len(curve.cs)} values of C"
    said += "".join(f"; {mark} at C = {c:.4g}" for mark, c in marks.items())
    return Figure(f"Validation: {label}", said, curve.drawing(name), PageTable(f"{label} by C", header, rows))


def gap_figure(path: OverC, tol: float) -> Figure:
    """Show the relative gaps over C."""
    rows = [(number(c), f"{gap:.2e}", f"{gap / tol:.0%}") for c, gap in zip(path.c, path.gap, strict=True)]
    said = f"Relative duality gaps of {path.count} models; the largest is {path.gap.max():.1e}, tol is {tol:g}"
    table = PageTable("Relative gaps by C", ("C", "relative gap", "of tol"), rows)
    return Figure("Certificates", said, partial(charts.gaps, cs=path.c, found=path.gap, tol=tol), table)


def worst_gaps(path: OverC, tol: float, caption: str = "The largest gaps") -> PageTable:
    """Return the models with the largest gaps."""
    worst = np.argsort(-path.gap, kind="stable")[:WORST]
    rows = [(f"{k}", number(float(path.c[k])), f"{path.gap[k]:.2e}", f"{path.gap[k] / tol:.0%}") for k in worst]
    return PageTable(caption, ("step", "C", "relative gap", "of tol"), rows)


def screening_figure(path: OverC, rule: str) -> Figure:
    """Show which share of the rows was decided before the solve, over C."""
    parts = {"ZERO": path.zero, "UPPER": path.upper, "kept": path.kept}
    shares = {name: values / np.maximum(path.rows, 1) for name, values in parts.items()}
    rows = [
        (number(float(c)), *(f"{int(values[k]):,}" for values in parts.values()), share(1 - shares["kept"][k]))
        for k, c in enumerate(path.c)
    ]
    by = RULE_NAMES.get(rule, rule)
    said = f"Rows proven by {by} before the solve: alpha = 0 (ZERO), alpha at its bound (UPPER), or kept"
    table = PageTable("Rows by verdict", ("C", "ZERO", "UPPER", "kept", "screened"), rows)
    draw = partial(charts.stacked, cs=path.c, parts=shares, label="share of rows", share=True)
    return Figure("Screened before the solve", said, draw, table)


def rules_figure(path: OverC) -> Figure:
    """Show the paper's screening rate of each rule that was counted."""
    rates = {RULE_NAMES.get(rule, rule): found / path.off_margin for rule, found in path.rules.items()}
    rows = [
        (number(float(c)), *(share(float(rate[k])) for rate in rates.values()), f"{int(path.off_margin[k]):,}")
        for k, c in enumerate(path.c)
    ]
    said = "Screening rate: decided rows over all rows that are not on the margin at the solution, as in the paper"
    header = ("C", *rates, "rows off the margin")
    draw = partial(charts.lines, cs=path.c, parts=rates, label="screening rate", share=True)
    return Figure("Screening rate by rule", said, draw, PageTable("Rates by rule", header, rows))


def seconds_figure(path: OverC) -> Figure:
    """Show the seconds of each step by phase."""
    parts = {name: values for name, values in path.seconds.items() if values.any()} or path.seconds
    total = np.sum(list(path.seconds.values()), axis=0)
    rows = [
        (number(float(c)), *(number(float(v[k]), 3) for v in parts.values()), number(float(total[k]), 3))
        for k, c in enumerate(path.c)
    ]
    said = f"Seconds of each of {path.count} steps by phase, {float(np.sum(total)):.1f} in all"
    table = PageTable("Seconds by phase", ("C", *parts, "total"), rows)
    return Figure("Seconds a step", said, partial(charts.stacked, cs=path.c, parts=parts, label="seconds"), table)


def reads_figure(path: OverC) -> Figure:
    """Show how often each step read the data."""
    rows = [(number(float(c)), f"{reads:.2f}") for c, reads in zip(path.c, path.passes, strict=True)]
    said = f"How often each step read the data; {path.passes.mean():.2f} on average"
    draw = partial(charts.lines, cs=path.c, parts={"reads": path.passes}, label="reads of the data")
    return Figure("Reads a step", said, draw, PageTable("Reads by C", ("C", "reads"), rows))


def working_set_figure(path: OverC) -> Figure:
    """Show how many rows were solved for, beside those that are free or at their bound."""
    parts = {"solved for": path.working_set, "free": path.free, "at bound": path.at_bound}
    rows = [(number(float(c)), *(f"{int(v[k]):,}" for v in parts.values())) for k, c in enumerate(path.c)]
    said = "Rows in the largest working set of each step, rows with alpha inside its box, rows with alpha at its bound"
    table = PageTable("Working set by C", ("C", *parts), rows)
    return Figure("Working set", said, partial(charts.lines, cs=path.c, parts=parts, label="rows"), table)


def weights_figure(found: TopWeights, title: str = "Largest weights") -> Figure:
    """Show the largest weights of a model by name."""
    names, values = [each.name for each in found.largest], [each.weight for each in found.largest]
    rows = [
        (each.name, f"{each.weight:.6g}", found.positive if each.weight > 0 else found.negative)
        for each in (*found.largest, *([found.bias] if found.bias else []))
    ]
    said = f"The {len(names)} largest of {found.nonzero:,} weights that are not 0, at C = {found.c:.4g}"
    table = PageTable("Weights by name", ("feature", "weight", "speaks for"), rows, names=1)
    height = max(2.0, 0.5 + 0.19 * len(names))
    return Figure(title, said, partial(charts.weight_bars, names=names, values=values), table, height=height)


def paths_figure(found: WeightPaths, chosen: float | None, whose: str, of: str) -> Figure:
    """Show how the largest weights change over C; ``whose`` is a class, ``of`` says in which models."""
    rows = [(number(float(c)), *(f"{x:.4g}" for x in found.values[:, k])) for k, c in enumerate(found.cs)]
    title = f"{whose}: paths of the largest weights" if whose else "Paths of the largest weights"
    said = f"The weights of {len(found.names)} features over C"
    draw = partial(charts.weight_paths, cs=found.cs, names=found.names, paths=found.values, chosen=chosen)
    table = PageTable("Weights by C", ("C", *found.names), rows)
    return Figure(f"{title} {of}".strip(), f"{said} {of}".strip(), draw, table, height=3.9)
