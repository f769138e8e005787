"""A report, or one figure, as a file: where it may be written, what is asked for, and what there is to show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipeline.data.dataset import Dataset
from pipeline.draw import charts
from pipeline.draw.canvas import FORMATS, Draw, drawn
from pipeline.engine.engine import Engine
from pipeline.errors import OutputError, RunError, SpecError
from pipeline.files import local, replacing
from pipeline.nightly.store import Store
from pipeline.report.figures import weights_figure
from pipeline.report.over_c import OverC, over_c, over_search
from pipeline.report.page import html
from pipeline.report.parts import Page
from pipeline.report.rows import judged_on
from pipeline.report.run_page import run_page
from pipeline.report.search_page import AGAIN, search_page
from pipeline.report.store_page import store_page
from pipeline.report.weights import weight_paths
from pipeline.runs.classes import AnyRun, ClassesRun
from pipeline.runs.directory import HEADER, followed, open_run
from pipeline.runs.score_curve import scored_curve
from pipeline.runs.searched import search_of, searches
from pipeline.runs.weights import check_linear, top_weights

FIGURES = ("validation", "weights", "screening", "time")
PAGES = (".html", ".htm")


def write_report(
    path: str, out: str | Path, data: Dataset | None = None, compare: str | None = None, engine: Engine | None = None
) -> Page:
    """Write the page of the run, or of the store, that lies in ``path``; return it.

    ``data`` are rows to score where the run has kept no scores of rows left out, ``compare`` is another run.
    """
    place = _place(out, path, PAGES)
    page = page_of(path, data, compare, engine)
    content = html(page)
    with replacing(place) as stream:
        stream.write(content)
    return page


def page_of(path: str, data: Dataset | None = None, compare: str | None = None, engine: Engine | None = None) -> Page:
    """Return the page that ``write_report`` writes; its figures are not drawn yet."""
    source = followed(path)
    if (source / "runs").is_dir() and not (source / HEADER).is_file():
        if data is not None or compare is not None:
            raise SpecError(f"{path}: is a store of nights; --data and --compare belong to a run")
        return store_page(Store.existing(source))
    if _is_searching(source):
        if data is not None or compare is not None:
            raise SpecError(f"{path}: its search for C is not finished; --data and --compare need a model")
        return search_page(source)
    run = _opened(path)
    other = None if compare is None else _opened(compare)
    judged, rows_of = (None, None) if data is None else judged_on(run, data, engine)
    return run_page(run, other, judged, rows_of)


def write_figure(path: str, name: str, out: str | Path) -> None:
    """Write one figure of a run as SVG, PNG or PDF."""
    if name not in FIGURES:
        raise SpecError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    place, run = _place(out, path, FORMATS), _opened(path)
    content = drawn(_DRAWINGS[name](run), place.suffix.lower())
    with replacing(place) as stream:
        stream.write(content)


def _is_searching(path: Path) -> bool:
    """Tell whether a tuned run was interrupted before all was said of it."""
    return bool(searches(path)) and (not (path / HEADER).is_file() or open_run(path).header.cv_c is None)


def _opened(path: str) -> AnyRun:
    if _is_searching(followed(path)):
        raise RunError(f"{path}: its search for C is not finished; {AGAIN}, or report it as it is: --out page.html")
    run = open_run(path)
    if not run.steps:
        raise RunError(f"{path}: the run has no finished step yet, and nothing to show; run the same svmsieve again")
    return run


def _place(out: str | Path, run: str, suffixes: tuple[str, ...]) -> Path:
    """Return where to write, if one may write there and its name says what it is."""
    place = local(out)
    if place.suffix.lower() not in suffixes:
        raise OutputError(f"{out}: the name says no format; end it with {' or '.join(suffixes)}")
    inside = place.parent.resolve()
    if inside == Path(run).resolve() or Path(run).resolve() in inside.parents:
        raise OutputError(f"{out}: lies inside {run}, which is kept as it was written; choose another --out")
    if not inside.is_dir():
        raise OutputError(f"{out}: cannot be written (there is no folder {place.parent}); make it, or choose another")
    return place


def _validation(run: AnyRun) -> Draw:
    return scored_curve(run).drawing()


def _weights(run: AnyRun) -> Draw:
    check_linear(run.spec.kernel, run.path)
    if isinstance(run, ClassesRun):
        problem = "has weights of every class; name one of them"
        raise RunError(f"{run.path}: {problem}, as {run.runs[0].path}")
    number = run.best_step
    step = run.steps[-1 if number is None else number]
    found = top_weights(step)
    if len(run.steps) == 1:
        return weights_figure(found).draw
    paths = weight_paths(run.steps, found, step)
    return partial(charts.weight_paths, cs=paths.cs, names=paths.names, paths=paths.values, chosen=found.c)


def _screening(run: AnyRun) -> Draw:
    path = _along(run)
    shares = {name: v / path.rows for name, v in (("ZERO", path.zero), ("UPPER", path.upper), ("kept", path.kept))}
    return partial(charts.stacked, cs=path.c, parts=shares, label="share of rows", share=True)


def _time(run: AnyRun) -> Draw:
    path = _along(run)
    return partial(charts.stacked, cs=path.c, parts=path.seconds, label="seconds")


def _along(run: AnyRun) -> OverC:
    """Return the numbers of a run over several C, of a tuned one those of its search: over one C nothing is drawn."""
    search = None if run.header.cv_c is None else search_of(run)
    found = over_c(run) if search is None else over_search(search)
    if found is None or found.count < 2:
        raise RunError(f"{run.path}: has one C, and nothing to draw over C; svmsieve path trains at many")
    return found


_DRAWINGS: dict[str, Callable[[AnyRun], Draw]] = {
    "validation": _validation,
    "weights": _weights,
    "screening": _screening,
    "time": _time,
}
