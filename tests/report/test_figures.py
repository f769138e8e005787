"""Single figures: the same bytes for the same run, in three formats, and on axes of the caller's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.metrics import average_precision_score

from pipeline.cli import report as cli_report
from pipeline.draw.canvas import PALETTE, inline_svg, shown_name
from pipeline.draw.charts import lines
from pipeline.errors import RunError
from pipeline.maths.histogram import score_histogram
from pipeline.maths.score import auc
from pipeline.path.fit import fit_path
from pipeline.report.along import sections_along
from pipeline.report.figures import RULE_NAMES, screening_figure
from pipeline.report.held_out import bars, confusion_counts, curves, groups
from pipeline.report.over_c import over_c
from pipeline.report.report import FIGURES, write_figure
from pipeline.runs.classes import ClassesRun
from pipeline.spec import RULES
from tests.formats import Table
from tests.trained import command, shards_of, sparse_rows

STARTS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    data = shards_of(folder, sparse_rows(100), bias=1.0)
    return fit_path(data, out=folder / "run", grid=(0.1, 1.0), cv=3, scheduler="inline", memory=10**9)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("suffix", STARTS)
def test_drawn_twice_it_is_the_same(run, tmp_path, name, suffix):
    for k in range(2):
        write_figure(str(run.path), name, tmp_path / f"{k}{suffix}")
    one, two = ((tmp_path / f"{k}{suffix}").read_bytes() for k in range(2))
    assert one.startswith(STARTS[suffix])
    assert one == two


def test_from_the_command_line(capsys, run, tmp_path):
    code, out, err = command(capsys, "report", run.path, "--figure", "weights", "--out", tmp_path / "w.svg")
    assert (code, err) == (0, "")
    assert "weights of" in out
    assert (tmp_path / "w.svg").is_file()


def test_the_command_offers_what_there_is():
    assert cli_report.FIGURES == FIGURES


@pytest.mark.parametrize("rule", [*RULES, "of tomorrow"])
def test_a_rule_that_was_added_needs_no_other_name(run, rule):
    assert f"Rows proven by {RULE_NAMES.get(rule, 'of tomorrow')} " in screening_figure(over_c(run), rule).description


def test_a_run_of_before_rows_were_counted_by_part_says_so(run):
    path = over_c(run)
    older = replace(path, rules={"it": path.rules["it"]})
    for drawn, said in ((path, []), (older, ["The run was made before rows were counted by BT1 and BT2 alone."])):
        assert next(s for s in sections_along(run, drawn, None) if s.heading == "Screening").missing == said


def test_a_figure_takes_no_data(capsys, run, tmp_path):
    code, _, err = command(
        capsys, "report", run.path, "--figure", "time", "--compare", run.path, "--out", tmp_path / "w.svg"
    )
    assert (code, "belong to a page" in err) == (2, True)


def test_plot_draws_on_the_callers_axes(run):
    ax = Figure().add_subplot()
    assert run.plot(ax=ax) is ax
    assert ax.get_ylabel() == "accuracy"
    mean = ax.lines[3]  # after a line a fold
    assert mean.get_ydata() == pytest.approx([scores["accuracy"] for scores in run.scores])


def test_plot_of_several_classes(tmp_path):
    made = sparse_rows(90)
    data = shards_of(tmp_path, Table(made.x, np.argmax(made.x[:, :3], axis=1), made.costs), bias=1.0)
    run = fit_path(data, out=tmp_path / "run", grid=(0.1, 1.0), holdout=0.3, scheduler="inline", memory=10**9)
    assert isinstance(run, ClassesRun)
    ax = run.plot(ax=Figure().add_subplot())
    assert ax.lines[0].get_ydata() == pytest.approx([step.scores["accuracy"] for step in run.steps])


def test_nothing_scored_is_nothing_to_plot(tmp_path):
    data = shards_of(tmp_path, sparse_rows(60))
    run = fit_path(data, out=tmp_path / "run", grid=(0.1,), scheduler="inline", memory=10**9)
    with pytest.raises(RunError, match="nothing was scored"):
        run.plot()


def test_colours_follow_the_page():
    made = inline_svg(lambda ax: lines(ax, [1.0, 2.0], {"a": [1, 2], "b": [2, 3]}, "y"), "t <i>", "d & e")
    assert "var(--blue)" in made and "var(--ink)" in made
    assert not [colour for colour in PALETTE.values() if colour in made]
    assert "<title>t &lt;i&gt;</title><desc>d &amp; e</desc>" in made


@pytest.mark.parametrize(("name", "shown"), [("a\x00b\nc", "a?b c"), ("é" * 50, "é" * 17 + "…" + "é" * 16)])
def test_names_are_one_line(name, shown):
    assert shown_name(name) == shown


# Curves from bins


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(3000) < 0.3, 1, -1)
    return rng.standard_normal(3000) + 1.2 * y, y


def test_the_area_is_that_of_the_rows(scored):
    score, y = scored
    order = np.argsort(score)
    assert curves(score_histogram(score, y)).auc == pytest.approx(auc(score[order], y[order] > 0), abs=2e-4)


def test_the_average_precision_is_scikit_learns(scored):
    score, y = scored
    found = curves(score_histogram(score, y)).average_precision
    assert found == pytest.approx(average_precision_score(y, score), abs=5e-3)


def test_the_confusion_is_exact(scored):
    score, y = scored
    said = np.where(score > 0, 1, -1)
    exact = [[np.count_nonzero((y == a) & (said == b)) for b in (-1, 1)] for a in (-1, 1)]
    assert confusion_counts(score_histogram(score, y)).tolist() == exact


def test_groups_and_bars_keep_all_rows(scored):
    found = score_histogram(*scored)
    assert groups(found).rows.sum() == 3000
    assert (groups(found).low <= groups(found).share).all() and (groups(found).share <= groups(found).high).all()
    _, negative, positive = bars(found)
    assert (negative.sum(), positive.sum()) == pytest.approx((found.negative.sum(), found.positive.sum()))


def test_one_class_has_no_curves():
    assert curves(score_histogram(np.array([1.0, 2.0]), np.array([1, 1]))) is None
