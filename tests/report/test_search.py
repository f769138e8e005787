"""Pages of tuned runs: what the search for C was like, over C; and a search that was interrupted."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from pipeline.errors import RunError, SpecError
from pipeline.path.fit import tune
from pipeline.report.over_c import over_search
from pipeline.report.report import page_of, write_figure, write_report
from pipeline.runs.directory import open_run
from pipeline.runs.searched import folds_of, searches
from tests.formats import Table
from tests.tampering import lines_of, write_lines
from tests.trained import shards_of, sparse_rows

SETTINGS = {"scheduler": "inline", "memory": 10**9}
ALONG = ("Certificates", "Screened before the solve", "Screening rate by rule", "Seconds a step", "Reads a step")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root, made = tmp_path_factory.mktemp("runs"), sparse_rows(120)
    y = np.argmax(made.x[:, :3] + 0.2 * np.random.default_rng(0).standard_normal((120, 3)), axis=1)
    two = shards_of(tmp_path_factory.mktemp("two"), made, bias=1.0)
    three = shards_of(tmp_path_factory.mktemp("three"), Table(made.x, y, made.costs), bias=1.0)
    tune(two, out=root / "two", cv=3, c_max=1.0, **SETTINGS)
    tune(two, out=root / "rbf", cv=2, c_max=1.0, kernel="rbf", gamma=(0.1, 0.3), **SETTINGS)
    tune(three, out=root / "three", cv=2, c_max=1.0, **SETTINGS)
    return root


def titles(page):
    return [figure.title for section in page.sections for figure in section.figures]


def section(page, heading):
    return next(each for each in page.sections if each.heading.startswith(heading))


def cut(run, folder, steps=2):
    """Copy a tuned run as if it had been killed in its search, with so many C of each first stage."""
    shutil.copytree(run / "search", folder / "search")
    for search in searches(folder):
        for places in folds_of(search):
            for place in places[1:]:
                shutil.rmtree(place)
            write_lines(places[0], lines_of(places[0])[:steps])
    return folder


@pytest.mark.parametrize("name", ["two", "rbf", "three"])
def test_a_tuned_run_shows_its_search_over_c(runs, name):
    page, run = page_of(str(runs / name)), open_run(runs / name)
    assert [title for title in ALONG if title not in titles(page)] == []
    gaps = next(figure for figure in section(page, "Certificates").figures)
    assert len(gaps.table.rows) == len(run.header.cv_c)
    assert [table.caption for table in section(page, "Certificates").tables][1] == "The largest gaps of the search"
    assert "all of its folds together" in section(page, "Time").lead


def test_the_numbers_of_a_search_are_those_of_its_folds(runs):
    found = over_search(runs / "two" / "search")
    lines = [line for places in folds_of(runs / "two" / "search") for place in places for line in lines_of(place)]
    k = 3
    mine = [line for line in lines if line["c"] == found.c[k]]
    assert len(mine) == 3
    assert found.gap[k] == max(line["relative_gap"] for line in mine)
    assert found.zero[k] == sum(line["screened_zero"] for line in mine)
    assert found.rows[k] == sum(line["n_rows"] for line in mine)
    assert found.seconds["solve"][k] == pytest.approx(sum(line["seconds"]["solve"] for line in mine))


def test_weights_have_paths_in_the_search(runs):
    weights = section(page_of(str(runs / "two")), "Weights")
    assert [figure.title for figure in weights.figures] == [
        "Largest weights",
        "Paths of the largest weights in the search",
    ]
    assert len(weights.figures[1].table.rows) == len(open_run(runs / "two").header.cv_c)
    several = section(page_of(str(runs / "three")), "Weights")
    assert sum("paths of the largest weights in the search" in figure.title for figure in several.figures) == 3


@pytest.mark.parametrize("figure", ["screening", "time"])
def test_single_figures_are_of_the_search(runs, tmp_path, figure):
    write_figure(str(runs / "three"), figure, tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 1000


# Interrupted


@pytest.mark.parametrize("name", ["two", "rbf"])
def test_an_interrupted_search_shows_what_there_is(runs, tmp_path, name):
    folder = cut(runs / name, tmp_path / "run")
    page = write_report(str(folder), tmp_path / "r.html")
    assert page.verdict.startswith("Not finished: the search has 2 values of C in")
    assert not page.good
    assert [title for title in ("Validation: accuracy", *ALONG) if title not in titles(page)] == []
    assert "when the model at the chosen C is" in (tmp_path / "r.html").read_text()


def test_before_the_model_on_all_rows_is_there(runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(runs / "three" / "search", folder / "search")
    page = page_of(str(folder))
    header = open_run(runs / "three").header
    scores = section(page, "Which C").figures[0].table
    assert [row[0] for row in scores.rows] == [f"{c:.4g}" for c in header.cv_c]
    assert f"at C = {header.c_best:.4g}" in page.verdict


def test_a_search_without_steps_has_nothing_to_show(runs, tmp_path):
    folder = cut(runs / "two", tmp_path / "run", steps=0)
    with pytest.raises(RunError, match=r"no finished step yet.*tune again"):
        page_of(str(folder))


def test_what_needs_a_model_is_refused(runs, tmp_path):
    folder = cut(runs / "two", tmp_path / "run")
    with pytest.raises(RunError, match="search for C is not finished"):
        write_figure(str(folder), "weights", tmp_path / "x.svg")
    with pytest.raises(RunError, match="search for C is not finished"):
        page_of(str(runs / "two"), compare=str(folder))
    with pytest.raises(SpecError, match="need a model"):
        page_of(str(folder), compare=str(runs / "two"))
