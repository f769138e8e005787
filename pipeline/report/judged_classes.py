"""The section on rows left out, of several classes: which are taken for which, and each against the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pipeline.draw import charts
from pipeline.draw.canvas import shown_name
from pipeline.maths.calibration import Calibration
from pipeline.report.held_out import curves
from pipeline.report.judged import HEADING, ROWS_OF, precision_figure, reliability_figure, roc_figure
from pipeline.report.parts import Figure, PageSection, PageTable, share
from pipeline.runs.held_out import MOST_BINNED, ClassesHeldOut

MOST_DRAWN = 60  # classes whose confusion is drawn
MOST_MIXED = 20  # pairs of classes in the table


def classes_section(
    found: ClassesHeldOut,
    names: Sequence[str],
    calibrations: Sequence[Calibration] | None,
    rows_of: str | None,
) -> PageSection:
    """Return the section of a run of several classes; ``calibrations`` are theirs, if it has some."""
    matrix = np.array(found.confusion)
    count = matrix.sum(axis=1)
    shares = matrix / np.maximum(count, 1)[:, None]
    section = PageSection(HEADING, f"C = {found.c:.4g} on {int(count.sum()):,} rows: {rows_of or ROWS_OF[found.of]}.")
    section.tables.append(_by_class(matrix, count, names))
    mixed = _mixed(matrix, shares, names)
    if mixed.rows:
        section.tables.append(mixed)
    if len(names) <= MOST_DRAWN:
        section.figures.append(_confusion(matrix, shares, names))
    else:
        section.missing.append(f"The confusion of {len(names)} classes is too large to draw.")
    _each_class(section, found, names, calibrations)
    return section


def _each_class(
    section: PageSection, found: ClassesHeldOut, names: Sequence[str], calibrations: Sequence[Calibration] | None
) -> None:
    """Add what each class's model is worth against the rest."""
    if found.classes is None:
        many = f"Scores by class are kept of at most {MOST_BINNED} classes."
        section.missing.append(
            many if len(names) > MOST_BINNED else "The run was made before scores by class were kept."
        )
        return
    drawn = {name: said for name, each in zip(names, found.classes, strict=True) if (said := curves(each.histogram))}
    if drawn:
        section.figures += [roc_figure(drawn), precision_figure(drawn, None)]
    for k, (name, each) in enumerate(zip(names, found.classes, strict=True)):
        calibration = None if calibrations is None else calibrations[k]
        section.figures.append(reliability_figure(each, calibration, f"Class {shown_name(name)}"))
    section.lead += " Curves are of each class against the rest"
    section.lead += "." if calibrations is None else ", reliability before a row's probabilities are made to sum to 1."
    if calibrations is None:
        section.missing.append("The models have no calibration, and so no probabilities: svmsieve tune makes one.")


def _by_class(matrix: np.ndarray, count: np.ndarray, names: Sequence[str]) -> PageTable:
    said = matrix.sum(axis=0)
    rows = [
        (name, f"{count[k]:,}", *(share(float(matrix[k, k] / of[k]) if of[k] else None) for of in (count, said)))
        for k, name in enumerate(names)
    ]
    return PageTable("By class", ("class", "rows", "recall", "precision"), rows, names=1)


def _mixed(matrix: np.ndarray, shares: np.ndarray, names: Sequence[str]) -> PageTable:
    mixed = [(k, j) for k, j in np.ndindex(*matrix.shape) if k != j and matrix[k, j]]
    mixed.sort(key=lambda at: -int(matrix[at]))
    cells = [(names[k], names[j], f"{matrix[k, j]:,}", share(float(shares[k, j]))) for k, j in mixed[:MOST_MIXED]]
    return PageTable("What is taken for what most often", ("class", "called", "rows", "of the class"), cells, names=2)


def _confusion(matrix: np.ndarray, shares: np.ndarray, names: Sequence[str]) -> Figure:
    rows = [(name, *(f"{x:,}" for x in row)) for name, row in zip(names, matrix, strict=True)]
    table = PageTable("Confusion", ("is, called", *names), rows, names=1)
    text = "Rows by their class and the class they were called; full colour is all rows of the class"
    return Figure("Confusion", text, partial(charts.heat, shares=shares, counts=matrix, names=names), table, height=4.0)
