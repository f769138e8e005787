"""The page of a store: its nights, from the history and the runs that are there."""

from __future__ import annotations

import shutil

import pytest

import pipeline
from pipeline.report.report import page_of
from tests.nightly.nights import Nightly
from tests.report.test_pages import said, seen
from tests.trained import command


@pytest.fixture(scope="module")
def nightly(tmp_path_factory):
    made = Nightly(tmp_path_factory.mktemp("nightly"))
    for number in range(3):
        made.arrive(number)
        if number == 1:
            made.arrive(number, "rubbish <i>\n", name="rows-2026-03-02-<script>.svm")
        made.night(number)
    return made


def test_all_that_happened_is_there(nightly, tmp_path):
    page = seen(nightly.store, tmp_path)
    wanted = ["2026-03-01", "2026-03-03", "accuracy >= yesterday - 0.2", "Rows in and out", "Files by fate", "intake"]
    wanted += [
        "Reads of the data",
        "rows-2026-03-02-<script>.svm",
        "corrupt",
        "tonight's",
        "From 2026-03-02 to 2026-03-03",
    ]
    assert [text for text in wanted if text not in page.text] == []
    assert not page.all("script") and not page.all("i")


def test_the_weights_that_moved_are_those_of_the_runs(nightly):
    page = page_of(str(nightly.store))
    table = next(each for section in page.sections for each in section.tables if each.caption.startswith("From "))
    new, old = (pipeline.open_run(nightly.store / "runs" / name).best.w for name in ("2026-03-03", "2026-03-02"))
    at = int(table.rows[0][0].split()[1]) - 1
    assert table.rows[0][1:] == (f"{new[at]:.4g}", f"{old[at]:.4g}", f"{new[at] - old[at]:+.4g}")


def test_from_the_command_line(capsys, nightly, tmp_path):
    code, out, err = command(capsys, "report", nightly.store, "--out", tmp_path / "h.html")
    assert (code, err) == (0, "")
    assert "The last night, 2026-03-03, is published" in out


def test_a_damaged_line_is_said(nightly, tmp_path):
    shutil.copytree(nightly.store, tmp_path / "store", symlinks=True)
    with (tmp_path / "store" / "history.jsonl").open("a") as stream:
        stream.write("rubbish\n")
    assert "line 4: damaged" in said(tmp_path / "store")
