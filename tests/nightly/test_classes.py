"""Nights of several classes: named in job.yaml, one against the rest, judged, verified and published together."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.errors import JobError
from pipeline.nightly.job import read_job
from pipeline.nightly.night import plan_night
from pipeline.path.class_judge import split_rows
from pipeline.runs.classes import ClassesRun
from pipeline.runs.directory import open_run
from tests.forked import Server
from tests.nightly.nights import FEATURES, FIRST, SETTINGS, Nightly, day, expect_yesterday_found_by_training, holds
from tests.nightly.test_killed import relative
from tests.tampering import change_model
from tests.trained import command

NAMES = ("ham", "spam", "unsure")
CLASSES = SETTINGS.replace("{features: 8}", "{classes: [ham, unsure, spam], columns: none}")


def rows(seed: int, count: int = 60, names: tuple[str, ...] = NAMES) -> str:
    """Rows as CSV; the class is the largest of noisy linear functions of the features."""
    rng = np.random.default_rng(seed % 1000)
    x = np.round(rng.standard_normal((count, FEATURES)), 3)
    weights = np.random.default_rng(7).standard_normal((FEATURES, len(names)))
    y = np.argmax(x @ weights + 0.7 * rng.standard_normal((count, len(names))), axis=1)
    y[: len(names)] = np.arange(len(names))
    head = ",".join(["label", *(f"f{k}" for k in range(FEATURES))])
    return "\n".join([head, *(",".join([names[k], *map(str, row)]) for k, row in zip(y, x.tolist(), strict=True))])


class Job(Nightly):
    """A job of several classes."""

    def __init__(self, folder: Path, settings: str = CLASSES) -> None:
        super().__init__(folder, settings)

    def arrive(self, number: int, text: str | None = None, name: str = "") -> Path:
        return super().arrive(number, rows(number) if text is None else text, name or f"rows-{day(number)}.csv")


@pytest.fixture(scope="module")
def job_kind():
    return Job


def test_the_first_night_tries_what_tune_tries_and_ends_together(begun):
    run = open_run(begun.store / "current")
    assert isinstance(run, ClassesRun)
    assert run.classes == NAMES
    assert (run.spec.patience, run.spec.holdout, run.best_step is not None) == (4, 0.2, True)
    assert holds(begun)
    (night,) = begun.history()
    assert night["scores"] == run.best.scores
    assert night["scores"]["accuracy"] > 0.5
    assert (night["models"], night["c"], night["verified"]) == (3 * len(run.steps), run.best.c, True)
    assert begun.current() == str(FIRST)


def test_the_second_night_starts_from_the_first(begun):
    old = open_run(begun.store / "current")
    begun.arrive(1)
    plan = plan_night(read_job(begun.job), day(1))
    assert (plan["reference"], plan["train_at"]) == (str(FIRST), [old.best.c / 2, old.best.c, min(10, old.best.c * 2)])
    night = begun.night(1)
    run = open_run(begun.store / "current")
    assert night["status"] == "published"
    assert run.spec.grid == tuple(plan["train_at"])
    assert old.best.c in {each.c for each in run.header.data.reference}
    assert 0 < night["settled"] < 1
    assert night["reference_gap"] > 0
    assert set(night["yesterday"]) == set(night["scores"])
    assert night["rows"] == 120
    assert holds(begun)
    assert begun.run(1) == [], "nothing new"


def test_yesterdays_models_are_certified_by_training_alone(begun, monkeypatch):
    expect_yesterday_found_by_training(begun, monkeypatch)


def test_yesterdays_scores_are_those_of_its_model_on_the_rows_held_out(begun, tmp_path, capsys):
    begun.arrive(1)
    old = begun.store / "runs" / str(FIRST)
    night = begun.night(1)
    shards = begun.store / "shards"
    assert command(capsys, "predict", old, shards, "--out", tmp_path / "p.parquet", "-q")[0] == 0
    found = pq.read_table(tmp_path / "p.parquet")
    right = np.array(found["label"].to_pylist()) == np.array(found["truth"].to_pylist())
    with pipeline.Engine("inline") as engine:
        left = split_rows(engine, open_shards(shards), open_run(begun.store / "current").spec).held_out
    assert night["yesterday"]["accuracy"] == pytest.approx(right[left].mean())


def test_a_gate_keeps_a_worse_model_back(begun):
    settings = CLASSES.replace("accuracy >= yesterday - 0.2", "auc >= 0.9999")
    begun.job.write_text(settings)
    begun.arrive(1)
    night = begun.night(1)
    assert (night["status"], night["gates"][0]["passed"]) == ("refused", False)
    assert begun.current() == str(FIRST)


def test_a_new_class_goes_to_quarantine(begun):
    """Until job.yaml names it, which takes another store: models of other classes cannot be compared."""
    begun.arrive(1, rows(1, names=("ham", "spam", "unsure", "eggs")))
    begun.arrive(1, rows(2), name=f"more-{day(1)}.csv")
    night = begun.night(1)
    (left,) = night["files"]["left_out"]
    assert left["status"] == "corrupt"
    assert left["reason"] == "label eggs is new: this data set has ham, spam, unsure; correct the file's labels"
    assert (night["status"], night["rows"]) == ("published", 120)
    begun.job.write_text(CLASSES.replace("spam]", "spam, eggs]"))
    begun.arrive(2)
    assert "classes: are not those of the store, which has the classes ham, spam, unsure" in begun.failed(2)["error"]
    begun.job.write_text(CLASSES.replace("spam]", "spam, eggs]").replace("store: store", "store: other"))
    other = Job(begun.folder, begun.job.read_text())
    other.store = begun.folder / "other"
    assert other.night(2)["status"] == "published"
    assert open_run(other.store / "current").classes == ("eggs", *NAMES)


def test_a_job_that_stops_naming_classes(begun):
    begun.job.write_text(SETTINGS.replace("{features: 8}", "{columns: none}"))
    begun.arrive(1)
    assert "classes: are not those of the store" in begun.failed(1)["error"]
    assert begun.current() == str(FIRST)


def test_a_class_without_rows_waits(nightly):
    """The first file need not have all classes; a night needs rows of each."""
    nightly.arrive(0, rows(0, names=("ham", "spam")))
    assert nightly.failed(0)["error"].startswith("class unsure has no row in the store, and no model; wait for files")
    nightly.arrive(1)
    assert nightly.night(1)["status"] == "published"
    assert open_shards(nightly.store / "shards").class_counts[2] > 0


def test_a_damaged_model_of_one_class_is_not_started_from(begun):
    change_model(
        begun.store / "runs" / str(FIRST) / "classes" / "2",
        open_run(begun.store / "current").best_step,
        c=lambda c: c * 2,
    )
    begun.arrive(1)
    night = begun.night(1)
    assert night["reference"] is None
    assert "the published run cannot be used" in night["notes"][0]
    assert night["status"] == "published"


def test_weights_by_label_and_the_usual_score(nightly):
    nightly.job.write_text(CLASSES.replace("train: {", "train: {class_weight: {spam: 5}, "))
    nightly.arrive(0)
    night = nightly.night(0)
    run = open_run(nightly.store / "current")
    assert (run.spec.select, run.header.class_weights) == ("weighted_accuracy", (1.0, 5.0, 1.0))
    assert night["scores"]["weighted_accuracy"] is not None
    nightly.arrive(1)
    assert nightly.night(1)["yesterday"]["weighted_accuracy"] is not None
    assert holds(nightly)


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ("{classes: [a, b]}", "classes are 3 to 10,000 different labels, not a, b; two need no naming"),
        ("{classes: [a, b, a]}", "classes are 3 to 10,000 different labels"),
        ("{classes: ham}", "'ham' is not a list of labels"),
        ("{classes: [a, b, c], positive: a}", "and positive exclude each other"),
    ],
)
def test_classes_that_cannot_be(nightly, reading, message):
    nightly.job.write_text(CLASSES.replace("{classes: [ham, unsure, spam], columns: none}", reading))
    with pytest.raises(JobError, match=message):
        read_job(nightly.job)


def test_operators_see_it(begun, capsys, tmp_path):
    begun.arrive(1)
    begun.night(1)
    assert command(capsys, "store", "status", begun.store)[0] == 0
    assert command(capsys, "report", begun.store, "--out", tmp_path / "page.html")[0] == 0
    assert command(capsys, "store", "rollback", begun.store)[0] == 0
    assert begun.current() == str(FIRST)
    text = (begun.store / "summaries" / f"{day(1)}.md").read_text()
    assert "Yesterday's model settled" in text


# --- killed ---


def one_night(folder: str) -> None:
    """Have everything loaded and compiled."""
    job = Job(Path(folder))
    for number in range(2):
        job.arrive(number)
        job.run(number)


def run_and_die(event: int, folder: str, number: int) -> None:
    """Run a night, and kill this process just before its n-th operation on files of the store."""
    count, kinds = 0, {"open", "os.mkdir", "os.rename", "os.remove", "os.symlink", "shutil.rmtree"}

    def watch(name: str, arguments: tuple) -> None:
        nonlocal count
        if name in kinds and str(arguments[0]).startswith(str(Path(folder) / "store")):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    Job(Path(folder)).run(number)
    sys.exit(0)


@pytest.mark.slow
def test_killed_anywhere_a_night_ends_the_same(tmp_path):
    """A first night, and one that starts from it; an attempt in training goes on after its last finished step."""
    server = Server(one_night, str(tmp_path / "warm"))
    try:
        for number in (0, 1):
            before = Job(tmp_path / f"before-{number}")
            for known in range(number):
                before.arrive(known)
                before.run(known)
            before.arrive(number)
            folder = tmp_path / f"whole-{number}"
            shutil.copytree(before.folder, folder, symlinks=True)
            undisturbed = Job(folder)
            undisturbed.run(number)
            wanted, event, code = relative(undisturbed), 3, -signal.SIGKILL
            while code == -signal.SIGKILL:
                folder = tmp_path / f"{number}-{event}"
                shutil.copytree(before.folder, folder, symlinks=True)
                server.start(run_and_die, event, str(folder), number)
                code = server.left()
                again = Job(folder)
                again.run(number)
                assert relative(again) == wanted, f"night {number}, killed before operation {event}"
                assert again.run(number) == []
                shutil.rmtree(folder)
                event += 29
            assert code == 0
            assert event > 200
    finally:
        server.close()
