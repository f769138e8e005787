"""The page of a run, of two classes or several: what it is worth, how it was found, what it says, how to check it."""

from __future__ import annotations

from typing import Any

from pipeline.draw.canvas import shown_name
from pipeline.progress import counted
from pipeline.report.about import about_section
from pipeline.report.along import sections_along
from pipeline.report.commands import commands
from pipeline.report.compare import compare_section
from pipeline.report.figures import validation_figure
from pipeline.report.judged import HEADING, judged_section
from pipeline.report.judged_classes import classes_section
from pipeline.report.over_c import OverC, over_c, over_search
from pipeline.report.page import made_by
from pipeline.report.parts import Page, PageSection, number
from pipeline.report.weights_section import weights_section
from pipeline.runs.classes import AnyRun, ClassesRun
from pipeline.runs.held_out import MOST_CONFUSED, ClassesHeldOut, HeldOut
from pipeline.runs.run import Run
from pipeline.runs.score_curve import ScoreCurve, score_curve, score_name
from pipeline.runs.searched import search_of

NOT_SCORED = "Nothing was scored; svmsieve tune does, and svmsieve path with --cv, --holdout or --validation."


def run_page(run: AnyRun, other: AnyRun | None, judged: HeldOut | ClassesHeldOut | None, rows_of: str | None) -> Page:
    """Return the page of a run that has steps; ``judged`` stands for scores that it has not kept itself."""
    path, curve = over_c(run), score_curve(run)
    search = None if run.header.cv_c is None else search_of(run)
    certificates, *others = sections_along(run, path, None if search is None else over_search(search))
    sections = [
        validation_section(curve, run.spec.patience if run.header.stopped else None),
        _judged(run, judged, rows_of),
        certificates,
        weights_section(run, search),
        *others,
        about_section(run, commands(run)),
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
        state = "folds are missing" if run.header.is_finished else f"{counted(path.count, 'step')} so far"
        said = f"not finished ({state}); {said}"
    said += best_score(curve)
    return said[0].upper() + said[1:] + "."


def best_score(curve: ScoreCurve | None) -> str:
    """Say which score is best, and at which C; nothing where nothing was scored."""
    best = None if curve is None else curve.c_best
    if curve is None or best is None:
        return ""
    k, errors = curve.cs.index(best), curve.error(curve.select)
    spread = f" ± {errors[k]:.4f}" if errors is not None and errors[k] is not None else ""
    return f"; best {score_name(curve.select)} {number(curve.mean(curve.select)[k])}{spread} at C = {best:.4g}"


def validation_section(curve: ScoreCurve | None, patience: int | None = None) -> PageSection:
    """Return the scores over C; ``patience`` is that which ended the path, if it did."""
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
    if patience:
        section.missing.append(f"The path ended here: {patience} values of C in a row scored no better.")
    return section


def _judged(run: AnyRun, given: Any, rows_of: str | None) -> PageSection:
    kept = given or run.header.held_out
    if isinstance(kept, ClassesHeldOut) and isinstance(run, ClassesRun):
        own = [each for each in run.header.calibration or () if each.c in (None, kept.c)]
        return classes_section(kept, run.classes, own or None, rows_of)
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
    elif isinstance(run, ClassesRun) and len(run.classes) > MOST_CONFUSED:
        section.missing.append(f"The confusion of more than {MOST_CONFUSED} classes is not kept.")
    else:
        section.missing.append("The run was made before scores of rows left out were kept.")
    section.missing.append("svmsieve report RUN --data DATA computes them from rows.")
    return section


def _side(labels: tuple[str, ...], sign: str) -> str:
    return labels[0] if len(labels) == 1 else sign
