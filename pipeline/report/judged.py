"""The section on rows left out: ROC, precision and recall, reliability, scores, confusion; or that of classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pipeline.draw import charts
from pipeline.maths.calibration import Calibration
from pipeline.report.held_out import Curves, bars, confusion_counts, curves, groups
from pipeline.report.parts import Figure, PageSection, PageTable, number, share
from pipeline.runs.held_out import HOLDOUT, VALIDATION, ClassesHeldOut, HeldOut

ROWS_OF = {
    HOLDOUT: "the rows of the hold-out",
    VALIDATION: "the validation data",
    "folds": "rows left out, each scored by the model of the fold that left it out",
}
MOST_DRAWN = 60  # classes whose confusion is drawn
MOST_MIXED = 20  # pairs of classes in the table
HEADING = "The chosen model on rows it was not trained on"


def judged_section(
    found: HeldOut, sides: tuple[str, str], calibration: Calibration | None, rows_of: str | None = None
) -> PageSection:
    """Return the section of a run of two classes; ``sides`` are the names of the negative and the positive one."""
    histogram = found.histogram
    n = int(histogram.negative.sum() + histogram.positive.sum())
    matrix, said = confusion_counts(histogram), curves(histogram)
    section = PageSection(HEADING, f"C = {found.c:.4g} on {n:,} rows: {rows_of or ROWS_OF[found.of]}.")
    section.tables.append(_confusion_table(matrix, sides))
    if said is None:
        section.missing.append("Curves need rows of both classes; all rows here are of one.")
    else:
        section.figures += [_roc(said), _precision(said, matrix)]
    section.figures += [_reliability(found, calibration), _scores(found, sides)]
    if calibration is None:
        section.missing.append("The model has no calibration, and so no probabilities: svmsieve tune makes one.")
    return section


def classes_section(found: ClassesHeldOut, names: Sequence[str], rows_of: str | None = None) -> PageSection:
    """Return the section of a run of several classes: the confusion, and which classes are taken for which."""
    matrix = np.array(found.confusion)
    count = matrix.sum(axis=1)
    shares = matrix / np.maximum(count, 1)[:, None]
    section = PageSection(HEADING, f"C = {found.c:.4g} on {int(count.sum()):,} rows: {rows_of or ROWS_OF[found.of]}.")
    said = np.maximum(matrix.sum(axis=0), 1)
    rows = [
        (name, f"{count[k]:,}", share(shares[k, k]) if count[k] else "–", share(matrix[k, k] / said[k]))
        for k, name in enumerate(names)
    ]
    section.tables.append(PageTable("By class", ("class", "rows", "recall", "precision"), rows, names=1))
    mixed = [(k, j) for k, j in np.ndindex(*matrix.shape) if k != j and matrix[k, j]]
    mixed.sort(key=lambda at: -int(matrix[at]))
    cells = [(names[k], names[j], f"{matrix[k, j]:,}", share(shares[k, j])) for k, j in mixed[:MOST_MIXED]]
    header = ("class", "called", "rows", "of the class")
    section.tables.append(PageTable("What is taken for what most often", header, cells, names=2))
    if len(names) <= MOST_DRAWN:
        table = PageTable(
            "Confusion",
            ("is, called", *names),
            [(name, *(f"{x:,}" for x in row)) for name, row in zip(names, matrix, strict=True)],
            names=1,
        )
        draw = partial(charts.heat, shares=shares, counts=matrix, names=names)
        text = "Rows by their class and the class they were called; dark cells have many of the class's rows"
        section.figures.append(Figure("Confusion", text, draw, table, height=4.0))
    else:
        section.missing.append(f"The confusion of {len(names)} classes is too large to draw.")
    return section


def _confusion_table(matrix: np.ndarray, sides: tuple[str, str]) -> PageTable:
    right = [row[k] / row.sum() if row.sum() else None for k, row in enumerate(matrix)]
    rows = [(name, *(f"{x:,}" for x in row), share(part)) for name, row, part in zip(sides, matrix, right, strict=True)]
    header = ("is", *(f"called {name}" for name in sides), "right")
    return PageTable("Confusion", header, rows, names=1)


def _roc(found: Curves) -> Figure:
    rows = [(number(float(t), 4), share(x), share(y)) for t, x, y in _some(found.thresholds, found.fpr, found.recall)]
    draw = partial(
        charts.unit_curve,
        x=found.fpr,
        y=found.recall,
        labels=("false positive rate", "true positive rate"),
        chance=([0, 1], [0, 1]),
    )
    said = f"Receiver operating characteristic, area {found.auc:.4f}"
    header = ("score above", "false positive rate", "true positive rate")
    return Figure(f"ROC (area {found.auc:.4f})", said, draw, PageTable("ROC", header, rows))


def _precision(found: Curves, matrix: np.ndarray) -> Figure:
    base = float(matrix[1].sum() / matrix.sum())
    rows = [
        (number(float(t), 4), share(x), share(y)) for t, x, y in _some(found.thresholds, found.recall, found.precision)
    ]
    draw = partial(
        charts.unit_curve,
        x=found.recall,
        y=found.precision,
        labels=("recall", "precision"),
        chance=([0, 1], [base] * 2),
    )
    said = f"Precision over recall, average precision {found.average_precision:.4f}; guessing has {base:.4f}"
    table = PageTable("Precision and recall", ("score above", "recall", "precision"), rows)
    return Figure(f"Precision and recall (average {found.average_precision:.4f})", said, draw, table)


def _reliability(found: HeldOut, calibration: Calibration | None) -> Figure:
    group = groups(found.histogram)
    said = None if calibration is None else calibration.probabilities(group.score)
    at, label = (group.score, "score") if said is None else (said, "probability by the calibration")
    rows = [
        (number(float(x), 4), f"{int(n):,}", share(y), f"{share(low)} to {share(high)}")
        for x, n, y, low, high in zip(at, group.rows, group.share, group.low, group.high, strict=True)
    ]
    draw = partial(charts.reliability, at=at, share=group.share, bars=(group.low, group.high), said=said, label=label)
    text = "How many of the rows with about the same score are positive, with 95 % intervals"
    if calibration is not None and found.of != VALIDATION:
        text += "; the calibration was fitted on these scores"
    table = PageTable("Reliability", (label, "rows", "positive", "95 %"), rows)
    return Figure("Reliability", text, draw, table)


def _scores(found: HeldOut, sides: tuple[str, str]) -> Figure:
    edges, negative, positive = bars(found.histogram)
    rows = [
        (f"{a:.4g} to {b:.4g}", f"{x:.0f}", f"{y:.0f}")
        for a, b, x, y in zip(edges[:-1], edges[1:], negative, positive, strict=True)
    ]
    draw = partial(charts.histogram, edges=edges, sides={sides[0]: negative, sides[1]: positive})
    said = f"Rows by score, {sides[0]} and {sides[1]}; a score above 0 says {sides[1]}"
    return Figure("Scores", said, draw, PageTable("Scores (rows are spread over their bins)", ("score", *sides), rows))


def _some(*columns: np.ndarray, most: int = 25) -> list[tuple[float, ...]]:
    """Return some rows of columns, evenly, with the first and the last."""
    numbers = np.unique(np.linspace(0, columns[0].size - 1, min(most, columns[0].size)).round().astype(int))
    return [tuple(float(column[k]) for column in columns) for k in numbers]
