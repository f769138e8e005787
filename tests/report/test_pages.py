"""Pages of runs: all is in one file, nothing is executed or fetched, names stay text, and what is missing is said."""

from __future__ import annotations

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from pipeline.errors import OutputError, RunError, SpecError
from pipeline.path.fit import fit_path, tune
from pipeline.report.report import page_of, write_report
from tests.formats import Table
from tests.tampering import lines_of, write_lines
from tests.trained import command, shards_of, sparse_rows

SETTINGS = {"scheduler": "inline", "memory": 10**9}
HOSTILE = ["<script>alert(1)</script>", "$\\frac{x$", 'a "quoted" & b', "x" * 300]
LABELS = ("</svg><script>alert(2)</script>", "<img src=x onerror=alert(3)>")
ELSEWHERE = re.compile(r"(?:src|href)\s*=\s*[\"'](?!#)|@import|url\((?!#)", re.IGNORECASE)


class Seen(HTMLParser):
    """What a browser would find: elements with their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(self.texts)


def seen(run, tmp_path, **options):
    write_report(str(run), tmp_path / "report.html", **options)
    return Seen((tmp_path / "report.html").read_text(encoding="utf-8"))


def said(run, **options):
    """Return all that a page says but for its tables' cells; nothing is drawn."""
    page = page_of(str(run), **options)
    texts = [page.verdict]
    for section in page.sections:
        texts += [section.heading, section.lead, *section.missing, *(each.title for each in section.figures)]
        texts += [*(each.description for each in section.figures), *(each.caption for each in section.tables)]
    return " ".join(texts)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("two"), sparse_rows(150), bias=1.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, two):
    root = tmp_path_factory.mktemp("runs")
    made = sparse_rows(120)
    y = np.argmax(made.x[:, :3] + 0.2 * np.random.default_rng(0).standard_normal((120, 3)), axis=1)
    several = shards_of(tmp_path_factory.mktemp("several"), Table(made.x, y, made.costs), bias=1.0)
    grid = (0.03, 0.1, 1.0)
    fit_path(two, out=root / "hold-out", c_max=3.0, epsilon=0.1, holdout=0.3, **SETTINGS)
    fit_path(two, out=root / "folds", grid=grid, cv=3, **SETTINGS)
    fit_path(two, out=root / "plain", grid=grid, **SETTINGS)
    fit_path(two, out=root / "one", grid=grid[:1], **SETTINGS)
    tune(two, out=root / "tuned", cv=3, **SETTINGS)
    fit_path(two, out=root / "kernel", grid=grid, holdout=0.3, kernel="rbf", gamma=0.3, **SETTINGS)
    fit_path(several, out=root / "classes", grid=grid, holdout=0.3, **SETTINGS)
    return root


@pytest.fixture(scope="module")
def pages(tmp_path_factory, runs):
    """The files of the pages, each made once."""
    folder, known = tmp_path_factory.mktemp("pages"), {}

    def page(name):
        if name not in known:
            made = write_report(str(runs / name), folder / f"{name}.html")
            known[name] = made, (folder / f"{name}.html").read_text(encoding="utf-8")
        return known[name]

    return page


NAMES = ("hold-out", "folds", "plain", "tuned", "kernel", "classes")


@pytest.mark.parametrize("name", NAMES)
def test_one_file_that_needs_nothing_else(pages, name):
    text = pages(name)[1]
    page = Seen(text)
    assert not page.all("script") and not page.all("link") and not page.all("img") and not page.all("iframe")
    assert not [word for tag, attributes in page.elements for word in attributes if word.startswith("on")]
    assert not ELSEWHERE.search(re.sub(r"<(pre|code)>.*?</\1>", "", text, flags=re.DOTALL))
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert len({each["id"] for tag, each in page.elements if "id" in each}) == text.count(' id="')


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_says_what_it_is_and_has_its_numbers(pages, name):
    text = pages(name)[1]
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    assert figures
    for figure in figures:
        svg = ElementTree.fromstring(figure[figure.index("<svg") : figure.index("</svg>") + 6])  # noqa: S314 - ours
        assert svg.get("role") == "img"
        for part in ("title", "desc"):
            assert (svg.findtext(f"{{http://www.w3.org/2000/svg}}{part}") or "").strip()
        assert figure.count("<tr>") > 1
    assert "\\math" not in text


def test_the_same_run_has_the_same_page(pages, runs, tmp_path):
    write_report(str(runs / "folds"), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == pages("folds")[1]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("hold-out", ["certified", "best accuracy", "ROC", "Reliability", "Confusion", "BT1", "BT2", "no calibration"]),
        ("folds", ["fold 3", "± 1 SE", "one SE", "each scored by the model of the fold that left it out"]),
        ("plain", ["Nothing was scored", "of the last C", "--data DATA"]),
        ("tuned", ["probability by the calibration", "svmsieve tune", "of the search", "fitted on these scores"]),
        ("one", ["one step", "one C"]),
        ("kernel", ["has no weights", "ROC"]),
        (
            "classes",
            [
                "9 models are certified",
                "What is taken for what",
                "Class 2",
                "the largest of all classes",
                "Class 2: paths of the largest",
                "ROC (area",
                "Precision and recall (average",
                "Class 2: reliability",
            ],
        ),
    ],
)
def test_what_is_on_it(pages, name, texts):
    text = Seen(pages(name)[1]).text
    assert [each for each in texts if each not in text] == []


def test_the_confusion_is_that_of_the_scores(pages, runs):
    page = pages("hold-out")[0]
    header = json.loads((runs / "hold-out" / "run.json").read_text())
    facts = lines_of(runs / "hold-out")[header["best_step"]]
    table = next(table for section in page.sections for table in section.tables if table.caption == "Confusion")
    counts = [[int(cell) for cell in row[1:3]] for row in table.rows]
    assert (counts[0][0] + counts[1][1]) / np.sum(counts) == facts["scores"]["accuracy"]
    roc = next(figure for section in page.sections for figure in section.figures if figure.title.startswith("ROC"))
    assert float(roc.title[10:-1]) == pytest.approx(facts["scores"]["auc"], abs=0.01)


def test_without_folds_no_c_is_within_one_standard_error(two, tmp_path):
    tune(two, out=tmp_path / "run", holdout=0.3, **SETTINGS)
    text = said(tmp_path / "run")
    assert "There are no standard errors" in text
    assert "one SE" not in text


def test_the_worst_gaps_are_first(pages, runs):
    page = pages("hold-out")[0]
    table = next(each for section in page.sections for each in section.tables if each.caption == "The largest gaps")
    gaps = sorted((line["relative_gap"] for line in lines_of(runs / "hold-out")), reverse=True)[:5]
    assert [row[2] for row in table.rows] == [f"{gap:.2e}" for gap in gaps]


@pytest.mark.attack
def test_hostile_names_stay_text(tmp_path):
    rows = sparse_rows(80, d=4, labels=LABELS)
    folder = tmp_path / 'a "<b>&'
    folder.mkdir()
    with (folder / "rows.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["label", *HOSTILE])
        writer.writerows([label, *map(float, x)] for label, x in zip(rows.y, rows.x, strict=True))
    fit_path(folder / "rows.csv", out=folder / "run", grid=(0.1, 1.0), holdout=0.3, **SETTINGS)
    page = seen(folder / "run", tmp_path)
    assert not page.all("script") and not page.all("img") and not page.all("b")
    assert [name for name in HOSTILE[:3] if name not in page.text] == []
    assert [label for label in LABELS if label not in page.text] == []
    for svg in re.findall(r"<svg.*?</svg>", (tmp_path / "report.html").read_text(), re.DOTALL):
        ElementTree.fromstring(svg)  # noqa: S314 - ours


def test_classes_whose_names_look_alike_have_figures_of_their_own(tmp_path):
    made = sparse_rows(90)
    names = np.array(["a+", "a-", "a*"])[np.argmax(made.x[:, :3], axis=1)]
    data = shards_of(tmp_path, Table(made.x, names, made.costs))
    fit_path(data, out=tmp_path / "run", grid=(0.1, 1.0), holdout=0.3, **SETTINGS)
    page = seen(tmp_path / "run", tmp_path)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_an_interrupted_run_shows_what_there_is(runs, tmp_path):
    shutil.copytree(runs / "hold-out", tmp_path / "run")
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    header |= {"status": "running", "n_steps": None, "held_out": None, "seconds": None, "peak_memory": None}
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    write_lines(tmp_path / "run", lines_of(tmp_path / "run")[:3])
    text = said(tmp_path / "run")
    assert "Not finished (3 steps so far)" in text
    assert "kept when the run is finished" in text


def test_an_older_run_says_what_it_has_not(pages, runs, two, tmp_path):
    shutil.copytree(runs / "hold-out", tmp_path / "run")
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    del header["held_out"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    write_lines(
        tmp_path / "run",
        [{name: value for name, value in line.items() if name != "rules"} for line in lines_of(tmp_path / "run")],
    )
    text = said(tmp_path / "run")
    assert "made before scores of rows left out were kept" in text
    assert "before rows were counted by BT1 and BT2" in text
    with_rows = said(tmp_path / "run", data=two)
    area = re.search(r"ROC \(area ([\d.]+)\)", pages("hold-out")[1])[1]
    assert f"ROC (area {area})" in with_rows  # the same rows by the same model


@pytest.mark.parametrize(("name", "problem"), [("plain", "all of its rows were trained on"), ("folds", "")])
def test_rows_that_were_trained_on_are_refused(runs, two, tmp_path, name, problem):
    shutil.copytree(runs / name, tmp_path / "run")
    header = json.loads((tmp_path / "run" / "run.json").read_text()) | {"held_out": None}
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    if problem:
        with pytest.raises(RunError, match=problem):
            page_of(str(tmp_path / "run"), data=two)
    else:
        assert "each scored by the model of the fold" in said(tmp_path / "run", data=two)


def test_other_rows_are_scored_as_they_are(runs, tmp_path):
    other = shards_of(tmp_path, sparse_rows(40, seed=7), bias=1.0)
    assert "on 40 rows: all rows of" in said(runs / "hold-out", data=other)


def test_rows_are_scored_by_the_last_model_where_nothing_was(runs, tmp_path):
    other = shards_of(tmp_path, sparse_rows(40, seed=7), bias=1.0)
    text = said(runs / "plain", data=other)
    assert "C = 1 on 40 rows" in text and "by the model of the last C, as the run has scored nothing" in text


@pytest.mark.parametrize("other", ["kernel", "classes"])
def test_weights_that_cannot_be_compared_are_named(runs, other):
    assert "where both runs are linear and of two classes" in said(runs / "folds", compare=str(runs / other))


def test_two_runs_side_by_side(runs):
    text = said(runs / "folds", compare=str(runs / "hold-out"))
    assert [each for each in ("Compared", "Settings that differ", "Weights that differ most") if each not in text] == []


# What cannot be


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "--out", "r.html"], "not a run directory"),
        (["RUN", "--out", "r.txt"], "the name says no format; end it with .html or .htm"),
        (["RUN", "--out", "RUN/r.html"], "lies inside"),
        (["RUN", "--out", "RUN/models/r.html"], "lies inside"),
        (["RUN", "--out", "missing/r.html"], "cannot be written"),
        (["RUN", "--figure", "validation", "--out", "r.html"], "end it with .svg or .png or .pdf"),
        (["RUN", "--compare", "nowhere", "--out", "r.html"], "not a run directory"),
        (["PLAIN", "--figure", "validation", "--out", "r.svg"], "nothing was scored"),
        (["ONE", "--figure", "time", "--out", "r.svg"], "has one C"),
        (["KERNEL", "--figure", "weights", "--out", "r.svg"], "no weights of features"),
        (["CLASSES", "--figure", "weights", "--out", "r.svg"], "name one of them"),
    ],
)
def test_errors_are_one_line(capsys, monkeypatch, runs, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    names = {"RUN": "hold-out", "PLAIN": "plain", "ONE": "one", "KERNEL": "kernel", "CLASSES": "classes"}
    words = [re.sub(r"^[A-Z]+", lambda found: str(runs / names[found[0]]), word) for word in words]
    code, _, err = command(capsys, "report", *words)
    assert (code, said in err, err.count("\n")) == (1, True, 1), err
    assert not list(tmp_path.iterdir())


def test_a_run_without_steps_has_nothing_to_show(runs, tmp_path):
    shutil.copytree(runs / "hold-out", tmp_path / "run")
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    header |= {"status": "running", "n_steps": None, "held_out": None}
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    (tmp_path / "run" / "steps.jsonl").unlink()
    with pytest.raises(RunError, match="no finished step yet"):
        write_report(str(tmp_path / "run"), tmp_path / "r.html")


def test_what_belongs_to_a_run_is_refused_for_a_store(tmp_path, two):
    for name in ("runs", "summaries"):
        (tmp_path / "store" / name).mkdir(parents=True)
    with pytest.raises(SpecError, match="belong to a run"):
        write_report(str(tmp_path / "store"), tmp_path / "r.html", compare="x")
    with pytest.raises(RunError, match="no night has ended yet"):
        write_report(str(tmp_path / "store"), tmp_path / "r.html")


def test_an_old_page_stays_if_a_new_one_cannot_be_made(runs, tmp_path):
    (tmp_path / "r.html").write_text("old")
    with pytest.raises(RunError):
        write_report(str(tmp_path / "nowhere"), tmp_path / "r.html")
    with pytest.raises(OutputError):
        write_report(str(runs / "plain"), tmp_path / "r.doc")
    assert (tmp_path / "r.html").read_text() == "old"
