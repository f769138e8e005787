"""The page of a tuned run that was interrupted: the search for C as far as it came."""

from __future__ import annotations

from pathlib import Path

from pipeline.draw.canvas import shown_name
from pipeline.errors import RunError
from pipeline.progress import counted
from pipeline.report.about import about_section
from pipeline.report.along import sections_along
from pipeline.report.over_c import over_search
from pipeline.report.page import made_by
from pipeline.report.parts import Page, PageSection
from pipeline.report.run_page import best_score, validation_section
from pipeline.runs.directory import open_run
from pipeline.runs.score_curve import curve_so_far
from pipeline.runs.searched import folds_of, searches

AGAIN = "run the same svmsieve tune again, which goes on"


def search_page(path: Path) -> Page:
    """Return the page of a search that is not finished; of several gammas the last that has a finished step."""
    folders = searches(path)
    found = [(folder, numbers) for folder in folders if (numbers := over_search(folder)) is not None]
    if not found:
        raise RunError(f"{path}: the search for C has no finished step yet, and nothing to show; {AGAIN}")
    folder, numbers = found[-1]
    places = folds_of(folder)
    first = open_run(places[0][0])
    curve = curve_so_far(folder, first.spec.select)
    about = about_section(first, ())
    about.missing.append("Settings are those of the first run of the search.")
    if len(folders) > 1:
        about.missing.append(f"This is gamma = {first.spec.gamma:.4g}; {len(folders)} of them have been begun.")
    later = PageSection("Weights, and the chosen model on rows it was not trained on")
    later.missing.append(f"They are there when the model at the chosen C is: {AGAIN}.")
    gap = f"relative gap at most {numbers.gap.max():.1e}, tol {first.spec.tol:g}"
    done = f"{counted(numbers.count, 'value')} of C in {counted(len(places), 'fold')} so far"
    said = f"Not finished: the search has {done}, {gap}{best_score(curve)}."
    certificates, *others = sections_along(first, numbers, None)
    for each in (certificates, *others):
        each.lead += " All folds together."
    sections = [validation_section(curve), later, certificates, *others, about]
    return Page(f"svmsieve: {shown_name(str(path), 60)}", said, False, sections, made_by())
