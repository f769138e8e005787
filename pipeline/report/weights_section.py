"""The section on weights of a linear model: the largest by name, of every class, and their paths over C."""

from __future__ import annotations

from pathlib import Path

from pipeline.draw.canvas import shown_name
from pipeline.report.figures import paths_figure, weights_figure
from pipeline.report.over_c import steps_of
from pipeline.report.parts import PageSection
from pipeline.report.weights import weight_paths
from pipeline.runs.classes import AnyRun, ClassesRun, parts_of
from pipeline.runs.searched import folds_of
from pipeline.runs.weights import top_weights

MOST_CLASSES_WITH_WEIGHTS = 12  # a figure each, as for the histograms of classes (``runs.held_out``)
TOP, TOP_OF_CLASS = 20, 10  # weights of a model


def weights_section(run: AnyRun, search: Path | None) -> PageSection:
    """Return the weights of the chosen model; a tuned run's paths are those of the first fold of its ``search``."""
    section = PageSection("Weights")
    if run.spec.kernel != "linear":
        section.missing.append(f"A model of kernel {run.spec.kernel} has no weights of features.")
        return section
    best = run.best_step
    step = run.steps[-1 if best is None else best]
    why = "of the last C, as nothing was scored" if best is None else "of the chosen model"
    section.lead = f"Weights {why}, C = {step.c:.4g}. Features on other scales have weights on other scales."
    folds = [] if search is None else folds_of(search)
    steps, of = (run.steps, "") if len(run.steps) > 1 or not folds else (steps_of(folds[0]), "in the search")
    along = [parts_of(each) for each in steps]
    if len(along) == 1:
        section.missing.append("The run has one C, and so no paths of weights: svmsieve path goes along many.")
    elif of and len(folds) > 1:
        section.missing.append("Paths of weights are those of the search's first fold.")
    names = run.classes if isinstance(run, ClassesRun) else ()
    if len(names) > MOST_CLASSES_WITH_WEIGHTS:
        section.missing.append(f"Weights of the first {MOST_CLASSES_WITH_WEIGHTS} of {len(names):,} classes.")
    for k, part in enumerate(parts_of(step)[:MOST_CLASSES_WITH_WEIGHTS]):
        found, whose = (
            top_weights(part, TOP_OF_CLASS if names else TOP),
            f"Class {shown_name(names[k])}" if names else "",
        )
        if not found.largest:
            section.missing.append(f"{whose or 'The model'}: all weights are 0.")
            continue
        section.lead += "" if names else f" A positive one speaks for {shown_name(found.positive)}."
        section.figures.append(weights_figure(found, whose or "Largest weights"))
        if len(along) > 1:
            paths = weight_paths([parts[k] for parts in along], found, part)
            section.figures.append(paths_figure(paths, step.c, whose, of))
    return section
