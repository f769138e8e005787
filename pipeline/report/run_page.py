"""The page of a run, of two classes or several: what it is worth, how it was found, what it says, how to check it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pipeline.draw.canvas import shown_name
from pipeline.report.commands import commands, memory
from pipeline.report.compare import compare_section
from pipeline.report.figures import (
    gap_figure,
    paths_figure,
    reads_figure,
    rules_figure,
    screening_figure,
    seconds_figure,
    validation_figure,
    weights_figure,
    working_set_figure,
    worst_gaps,
)
from pipeline.report.judged import HEADING, classes_section, judged_section
from pipeline.report.over_c import OverC, over_c
from pipeline.report.page import made_by
from pipeline.report.parts import Page, PageSection, PageTable, number
from pipeline.report.weights import weight_paths
from pipeline.runs.classes import ClassesRun
from pipeline.runs.directory import Run
from pipeline.runs.held_out import MOST_CLASSES, ClassesHeldOut, HeldOut
from pipeline.runs.score_curve import ScoreCurve, score_curve, score_name
from pipeline.runs.weights import top_weights
from pipeline.spec import PathSpec

AnyRun = Run | ClassesRun
MOST_CLASSES_WITH_WEIGHTS = 12
NOT_SCORED = "Nothing was scored; svmsieve tune does, and svmsieve path with --cv, --holdout or --validation."


def run_page(
    run: AnyRun, other: AnyRun | None = None, judged: HeldOut | ClassesHeldOut | None = None, rows_of: str | None = None
) -> Page:
    """Return the page of a run that has steps; ``judged`` stands for scores that it has not kept itself."""
    path, curve = over_c(run), score_curve(run)
    sections = [
        _validation(run, curve),
        _judged(run, judged, rows_of),
        _certificates(run, path),
        _weights(run),
        _screening(run, path),
        _time(path),
        _about(run),
    ]
    if other is not None:
        sections.insert(1, compare_section(run, other))
    title = f"svmsieve: {shown_name(str(run.path), 60)}"
    good = run.is_finished and bool((path.gap <= run.spec.tol).all())
    return Page(title, verdict(run, path, curve), good, sections, made_by())


def verdict(run: AnyRun, path: OverC, curve: ScoreCurve | None) -> str:
    """Say in one line what the run is worth."""
    models = path.count * (len(run.classes) if isinstance(run, ClassesRun) else 1)
    held = int((path.gap <= run.spec.tol).sum())
    count = f"all {models:,} models are" if models > 1 else "the model is"
    said = f"{count} certified: relative gap at most {path.gap.max():.1e}, tol {run.spec.tol:g}"
    if held < path.count:
        said = f"{path.count - held} of {path.count} steps have a gap above tol {run.spec.tol:g}"
    if not run.is_finished:
        state = "folds are missing" if run.header.is_finished else f"{path.count:,} steps so far"
        said = f"not finished ({state}); {said}"
    best = None if curve is None else curve.c_best
    if curve is not None and best is not None:
        k = curve.cs.index(best)
        errors = curve.error(curve.select)
        spread = f" ± {errors[k]:.4f}" if errors is not None and errors[k] is not None else ""
        said += f"; best {score_name(curve.select)} {number(curve.mean(curve.select)[k])}{spread} at C = {best:.4g}"
    return said[0].upper() + said[1:] + "."


def _validation(run: AnyRun, curve: ScoreCurve | None) -> PageSection:
    section = PageSection("Which C")
    if curve is None:
        section.missing.append(NOT_SCORED)
        return section
    name = score_name(curve.select)
    many = f"the mean of {len(curve.folds)} folds" if curve.folds else "on rows left out, or on validation data"
    section.lead = f"{name[0].upper()}{name[1:]}, {many}, at {len(curve.cs)} values of C."
    if curve.error(curve.select) is None:
        section.missing.append("There are no standard errors: those need folds (--cv).")
    others = [
        other for other in curve.means[0] if other != curve.select and any(x is not None for x in curve.mean(other))
    ]
    section.figures += [validation_figure(curve, each) for each in (curve.select, *others)]
    if run.header.stopped:
        section.missing.append(f"The path ended here: {run.spec.patience} values of C in a row scored no better.")
    return section


def _judged(run: AnyRun, given: Any, rows_of: str | None) -> PageSection:
    kept = given or run.header.held_out
    if isinstance(kept, ClassesHeldOut) and isinstance(run, ClassesRun):
        return classes_section(kept, run.classes, rows_of)
    if isinstance(kept, HeldOut) and isinstance(run, Run):
        about, calibration = run.header.data, run.header.calibration
        sides = _side(about.negative, "-1"), _side(about.positive, "+1")
        if about.one_against_rest and len(about.negative) != 1:
            sides = "the rest", sides[1]
        fitting = calibration if calibration is not None and calibration.c in (None, kept.c) else None
        return judged_section(kept, sides, fitting, rows_of)
    section = PageSection(HEADING)
    if score_curve(run) is None:
        section.missing.append(NOT_SCORED)
    elif not run.is_finished:
        section.missing.append("Scores of rows left out are kept when the run is finished.")
    elif isinstance(run, ClassesRun) and len(run.classes) > MOST_CLASSES:
        section.missing.append(f"The confusion of more than {MOST_CLASSES} classes is not kept.")
    else:
        section.missing.append("The run was made before scores of rows left out were kept.")
    section.missing.append("svmsieve report RUN --data DATA computes them from rows.")
    return section


def _side(labels: tuple[str, ...], sign: str) -> str:
    return labels[0] if len(labels) == 1 else sign


def _certificates(run: AnyRun, path: OverC) -> PageSection:
    what = "the largest of all classes" if isinstance(run, ClassesRun) else "over all rows"
    lead = f"Each model's primal value is at most its relative gap above the optimum; {what}."
    section = PageSection("Certificates", lead, tables=[worst_gaps(path, run.spec.tol)])
    if path.count > 1:
        section.figures.append(gap_figure(path, run.spec.tol))
    return section


def _weights(run: AnyRun) -> PageSection:
    section = PageSection("Weights")
    if run.spec.kernel != "linear":
        section.missing.append(f"A model of kernel {run.spec.kernel} has no weights of features.")
        return section
    number_ = run.best_step
    step = run.steps[-1 if number_ is None else number_]
    why = "of the last C, as nothing was scored" if number_ is None else "of the chosen model"
    section.lead = f"Weights {why}, C = {step.c:.4g}. Features on other scales have weights on other scales."
    if isinstance(run, ClassesRun):
        some = run.steps[step.step].parts[:MOST_CLASSES_WITH_WEIGHTS]
        if len(run.classes) > len(some):
            section.missing.append(f"Weights of the first {len(some)} of {len(run.classes):,} classes.")
        for name, part in zip(run.classes, some, strict=False):
            section.figures.append(weights_figure(top_weights(part, 10), f"Class {shown_name(name)}"))
        return section
    found = top_weights(run.steps[step.step])
    if not found.largest:
        section.missing.append("All weights are 0.")
        return section
    section.lead += f" A positive one speaks for {shown_name(found.positive)}."
    section.figures.append(weights_figure(found))
    if len(run.steps) > 1:
        section.figures.append(paths_figure(weight_paths(run, found), step.c))
    else:
        section.missing.append("The run has one C, and so no paths of weights: svmsieve path goes along many.")
    return section


def _screening(run: AnyRun, path: OverC) -> PageSection:
    section = PageSection("Screening", "What was proven of rows before the solve, from the model before.")
    if run.spec.rule == "none":
        section.missing.append("The run screened nothing (--rule none).")
    if path.count == 1:
        k, rows = 0, max(1, int(path.rows[0]))
        cells = [(name, f"{int(v[k]):,}", f"{v[k] / rows:.1%}") for name, v in _verdicts(path).items()]
        section.tables.append(PageTable("Rows by verdict", ("verdict", "rows", "share"), cells, names=1))
        return section
    section.figures += [screening_figure(path, run.spec.rule), rules_figure(path)]
    if run.spec.rule == "it" and len(path.rules) == 1:
        section.missing.append("The run was made before rows were counted by BT1 and BT2 alone.")
    return section


def _verdicts(path: OverC) -> dict[str, Any]:
    return {"ZERO": path.zero, "UPPER": path.upper, "kept": path.kept}


def _time(path: OverC) -> PageSection:
    total = float(sum(values.sum() for values in path.seconds.values()))
    lead = f"{total:.1f} s in {path.count:,} steps, {path.passes.mean():.2f} reads of the data a step."
    section = PageSection("Time and reads", lead)
    if path.count > 1:
        section.figures += [seconds_figure(path), reads_figure(path), working_set_figure(path)]
    else:
        rows = [(name, f"{values[0]:.3g}") for name, values in path.seconds.items()]
        section.tables.append(PageTable("Seconds by phase", ("phase", "seconds"), rows, names=1))
    return section


def _about(run: AnyRun) -> PageSection:
    data, header, spec, default = run.header.data, run.header, run.spec, PathSpec()
    classes = data.classes or (", ".join(data.negative), ", ".join(data.positive))
    facts = [
        ("path", data.path),
        ("rows", f"{data.rows:,}"),
        ("features", f"{data.features:,}" + (" with the bias" if data.bias else "")),
        ("nonzeros", number(data.nnz)),
        ("bias", f"{data.bias:g}" if data.bias else "none"),
        ("classes", ", ".join(shown_name(each, 60) for each in classes[:20]) + (" ..." if len(classes) > 20 else "")),
        ("fingerprint", data.fingerprint),
        ("smallest C that matters (C_min)", number(header.c_min)),
    ]
    names = [field.name for field in fields(PathSpec) if field.name != "memory"]
    usual = {name: getattr(spec, name) == getattr(default, name) for name in names}
    settings = [
        (name.replace("_", " "), _setting(getattr(spec, name)), "default" if usual[name] else "") for name in names
    ]
    spent = [
        ("status", "finished" if run.is_finished else "not finished"),
        ("seconds", "–" if header.seconds is None else f"{header.seconds:.1f}"),
        ("memory", memory(run)),
        ("seal", header.seal or "none"),
    ]
    versions = list(header.versions.items())
    tables = [
        PageTable("Data", ("", ""), facts, names=2),
        PageTable("Settings", ("", "", ""), settings, names=3),
        PageTable("Run", ("", ""), spent, names=2),
        PageTable("Versions", ("", ""), versions, names=2),
    ]
    return PageSection("Data, settings, versions", tables=tables, commands=commands(run))


def _setting(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > 8:
        return f"{len(value)} values from {value[0]:.4g} to {value[-1]:.4g}" if isinstance(value[0], float) else "..."
    if isinstance(value, tuple):
        return ", ".join(_setting(each) for each in value)
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
