"""The section on rows left out: ROC, precision and recall, reliability, scores, confusion."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from pipeline.draw import charts
from pipeline.maths.calibration import Calibration
from pipeline.report.held_out import Curves, bars, confusion_counts, curves, groups
from pipeline.report.parts import Figure, PageSection, PageTable, number, share
from pipeline.runs.held_out import HOLDOUT, VALIDATION, HeldOut

ROWS_OF = {
    HOLDOUT: "the rows of the hold-out",
    VALIDATION: "the validation data",
    "folds": "rows left out, each scored by the model of the fold that left it out",
}
HEADING = "The chosen model on rows it was not trained on"


def judged_section(
    found: HeldOut, sides: tuple[str, str], calibration: Calibration | None, rows_of: str | None
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
        one = {"the model": said}
        section.figures += [roc_figure(one), precision_figure(one, float(matrix[1].sum() / matrix.sum()))]
    section.figures += [reliability_figure(found, calibration), _scores(found, sides)]
    if calibration is None:
        section.missing.append("The model has no calibration, and so no probabilities: svmsieve tune makes one.")
    return section


def _confusion_table(matrix: np.ndarray, sides: tuple[str, str]) -> PageTable:
    right = [row[k] / row.sum() if row.sum() else None for k, row in enumerate(matrix)]
    rows = [(name, *(f"{x:,}" for x in row), share(part)) for name, row, part in zip(sides, matrix, right, strict=True)]
    header = ("is", *(f"called {name}" for name in sides), "right")
    return PageTable("Confusion", header, rows, names=1)


def roc_figure(found: Mapping[str, Curves]) -> Figure:
    """Show the ROC of a model, or of those of some classes by name."""
    curves = {name: (each.fpr, each.recall) for name, each in found.items()}
    area = _averaged({name: each.auc for name, each in found.items()})
    labels = "false positive rate", "true positive rate"
    draw = partial(charts.unit_curves, curves=curves, labels=labels, base=(0.0, 1.0))
    said = f"Receiver operating characteristic, area {area}"
    return Figure(f"ROC (area {area})", said, draw, _points("ROC", found, curves, labels))


def precision_figure(found: Mapping[str, Curves], base: float | None) -> Figure:
    """Show precision over recall; ``base`` is that of guessing, where it is one."""
    curves = {name: (each.recall, each.precision) for name, each in found.items()}
    average = _averaged({name: each.average_precision for name, each in found.items()})
    labels, said = ("recall", "precision"), f"Precision over recall, average precision {average}"
    said += "" if base is None else f"; guessing has {base:.4f}"
    draw = partial(charts.unit_curves, curves=curves, labels=labels, base=None if base is None else (base, base))
    table = _points("Precision and recall", found, curves, labels)
    return Figure(f"Precision and recall (average {average})", said, draw, table)


def _averaged(values: Mapping[str, float]) -> str:
    """Return the one number there is, or the least and the largest."""
    low, high = min(values.values()), max(values.values())
    return f"{low:.4f}" if len(values) == 1 else f"{low:.4f} to {high:.4f}"


def _points(
    caption: str,
    found: Mapping[str, Curves],
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    labels: tuple[str, str],
) -> PageTable:
    """Return some points of each curve; where there are several a row begins with the name."""
    several = len(found) > 1
    rows = [
        (*((name,) if several else ()), number(float(t), 4), share(x), share(y))
        for name, each in found.items()
        for t, x, y in _some(each.thresholds, *curves[name], most=12 if several else 25)
    ]
    header = (*(("class",) if several else ()), "score above", *labels)
    return PageTable(caption, header, rows, names=int(several))


def reliability_figure(found: HeldOut, calibration: Calibration | None, whose: str = "") -> Figure:
    """Show how many rows of about the same score are positive; ``whose`` is a class."""
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
    return Figure(f"{whose}: reliability" if whose else "Reliability", text, draw, table)


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
