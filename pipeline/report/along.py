"""The sections of a page that go along C: certificates, screening, time and reads.

A tuned run has one C: its figures are those of the search that chose it, and its own numbers are tables.
"""

from __future__ import annotations

from typing import Any

from pipeline.maths.rules import rule_named
from pipeline.report.figures import (
    RULE_NAMES,
    gap_figure,
    reads_figure,
    rules_figure,
    screening_figure,
    seconds_figure,
    working_set_figure,
    worst_gaps,
)
from pipeline.report.over_c import OverC
from pipeline.report.parts import PageSection, PageTable
from pipeline.runs.classes import ClassesRun
from pipeline.runs.run import RunOf

OF_SEARCH = " Figures are of the search that chose C: all of its folds together."


def sections_along(run: RunOf[Any], path: OverC, search: OverC | None) -> list[PageSection]:
    """Return the sections of a run; ``search`` are the numbers of the search of a tuned one."""
    drawn = path if path.count > 1 else search
    found = [_certificates(run, path, drawn), _screening(run, path, drawn), _time(path, drawn)]
    for section in found:
        section.lead += OF_SEARCH if drawn is search is not None else ""
    return found


def _certificates(run: RunOf[Any], path: OverC, drawn: OverC | None) -> PageSection:
    what = "the largest of all classes" if isinstance(run, ClassesRun) else "over all rows"
    lead = f"Each model's primal value is at most its relative gap above the optimum; {what}."
    section = PageSection("Certificates", lead, tables=[worst_gaps(path, run.spec.tol)])
    if drawn is not None:
        section.figures.append(gap_figure(drawn, run.spec.tol))
    if drawn is not None and drawn is not path:
        section.tables.append(worst_gaps(drawn, run.spec.tol, "The largest gaps of the search"))
    return section


def _screening(run: RunOf[Any], path: OverC, drawn: OverC | None) -> PageSection:
    section = PageSection("Screening", "What was proven of rows before the solve, from the model before.")
    if run.spec.rule == "none":
        section.missing.append("The run screened nothing (--rule none).")
    if path.count == 1:
        verdicts, rows = {"ZERO": path.zero, "UPPER": path.upper, "kept": path.kept}, max(1, int(path.rows[0]))
        cells = [(name, f"{int(v[0]):,}", f"{v[0] / rows:.1%}") for name, v in verdicts.items()]
        section.tables.append(PageTable("Rows by verdict", ("verdict", "rows", "share"), cells, names=1))
    if drawn is not None:
        section.figures += [screening_figure(drawn, run.spec.rule), rules_figure(drawn)]
        parts = rule_named(run.spec.rule).made_of
        if parts and len(drawn.rules) == 1:
            alone = " and ".join(RULE_NAMES.get(part, part) for part in parts)
            section.missing.append(f"The run was made before rows were counted by {alone} alone.")
    return section


def _time(path: OverC, drawn: OverC | None) -> PageSection:
    total = float(sum(values.sum() for values in path.seconds.values()))
    steps = "one step" if path.count == 1 else f"{path.count:,} steps"
    section = PageSection(
        "Time and reads", f"{total:.1f} s in {steps}, {path.passes.mean():.2f} reads of the data a step."
    )
    if path.count == 1:
        rows = [(name, f"{values[0]:.3g}") for name, values in path.seconds.items()]
        section.tables.append(PageTable("Seconds by phase", ("phase", "seconds"), rows, names=1))
    if drawn is not None:
        section.figures += [seconds_figure(drawn), reads_figure(drawn), working_set_figure(drawn)]
    return section
