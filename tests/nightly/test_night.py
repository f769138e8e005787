"""Nights from files to a published model: what comes, what goes, what is refused, and that twice is once."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.data.shards.digest import row_hashes
from pipeline.errors import DatasetError, JobError
from pipeline.events import StepProgress
from pipeline.files import locked
from pipeline.nightly import tonight
from pipeline.nightly.job import read_job
from pipeline.nightly.night import plan_night
from pipeline.path.curve import coarse_grid
from pipeline.runs.directory import open_run
from tests.nightly.nights import FIRST, SETTINGS, day, expect_yesterday_found_by_training, holds, rows
from tests.trained import command


def test_the_first_night_tries_what_tune_tries(begun):
    run = open_run(begun.store / "current")
    assert run.spec.grid == tuple(coarse_grid(run.spec.grid[0], 10.0))
    assert run.spec.grid[0] / 10**0.5 < 10 * run.header.c_min <= run.spec.grid[0]
    assert run.spec.patience == 4
    assert len(run.steps) > 4
    assert begun.current() == str(FIRST)
    assert holds(begun)


def test_the_first_night_trains_the_whole_path_if_asked_to(nightly):
    nightly.job.write_text(SETTINGS.replace("train: {", "train: {path: true, "))
    nightly.arrive(0)
    assert nightly.night(0)["status"] == "published"
    run = open_run(nightly.store / "current")
    assert (run.spec.grid, run.spec.patience) == (None, 0)
    assert run.steps[-1].c == 10.0


def test_patience_ends_a_night(nightly):
    nightly.job.write_text(SETTINGS.replace("train: {", "train: {path: true, patience: 2, "))
    nightly.arrive(0)
    assert nightly.night(0)["status"] == "published"
    assert open_run(nightly.store / "current").header.stopped == "patience"


def test_the_second_night_starts_from_the_first(begun):
    old = open_run(begun.store / "current")
    c = old.best.c
    begun.arrive(1)
    line = begun.night(1)
    assert (line["status"], line["reference"], begun.current()) == ("published", str(FIRST), str(day(1)))
    run = open_run(begun.store / "current")
    assert [step.c for step in run.steps] == sorted({c / 2, c, min(2 * c, 10.0)})
    assert [step.c_ref for step in run.steps[:2]] == [
        min(old.steps, key=lambda s: abs(np.log(s.c / c))).c for c in (c / 2, c)
    ]
    assert (line["rows"], line["files"]["rows_added"]) == (80, 40)
    assert 0 <= line["settled"] < 1
    assert set(line["yesterday"]) == {"accuracy", "balanced_accuracy", "auc", "f1"}
    assert holds(begun)


def test_yesterdays_scores_are_of_the_same_rows(begun):
    """Both models are judged on today's rows held out, by dense arithmetic on the rows themselves."""
    before = open_run(begun.store / "current").best.w
    begun.arrive(1)
    line = begun.night(1)
    parts = [shard.load() for shard in open_shards(begun.store / "shards").shards]
    held = np.concatenate([row_hashes(part) / 2.0**64 < 0.2 for part in parts])
    x = np.vstack([part.csr().toarray() for part in parts])[held]
    y = np.concatenate([part.labels for part in parts])[held]
    assert 4 < y.size < 30
    for w, said in ((before, line["yesterday"]), (open_run(begun.store / "current").best.w, line["scores"])):
        assert said["accuracy"] == pytest.approx(np.mean(np.sign(x @ w) == y))


def test_yesterdays_model_is_certified_by_training_alone(begun, monkeypatch):
    """What a night says of yesterday's model is what screening for it finds, but nothing is screened for it."""
    expect_yesterday_found_by_training(begun, monkeypatch)


def test_rows_settled_are_settled(begun):
    """What yesterday's model proves about today's rows is true of today's optimum."""
    old = open_run(begun.store / "current")
    begun.arrive(1)
    begun.night(1)
    data = open_shards(begun.store / "shards")
    found = pipeline.screen(data, old.best, old.best.c, scheduler="inline")
    exact = pipeline.fit_path(data, grid=[old.best.c], tol=1e-10, holdout=0.2, scheduler="inline").steps[0]
    with pipeline.Engine("inline") as engine:
        f = pipeline.margins(engine, data, exact.w)
    assert np.all(f >= found.lower - 1e-6) and np.all(f <= found.upper + 1e-6)


def test_twice_is_once(begun):
    before = begun.contents()
    stamps = {path: path.stat().st_mtime_ns for path in begun.store.rglob("*")}
    assert begun.run(0) == []
    assert begun.contents() == before
    assert {path: path.stat().st_mtime_ns for path in begun.store.rglob("*")} == stamps


def test_a_night_without_files_is_one_line(begun):
    line = begun.night(1)
    assert line["status"] == "nothing new"
    assert begun.current() == str(FIRST)
    assert begun.run(1) == []
    assert len((begun.store / "history.jsonl").read_text().splitlines()) == 2


def test_files_that_come_later_the_same_day(begun):
    begun.arrive(1)
    assert begun.night(1)["night"] == str(day(1))
    begun.arrive(2, name="more.svm")
    assert begun.night(1)["night"] == f"{day(1)}.2"
    assert begun.current() == f"{day(1)}.2"


def test_old_files_retire(begun):
    begun.arrive(5)
    begun.night(5)
    line = begun.night(11)
    assert line["status"] == "published"
    assert [Path(name).name for name in line["files"]["retired"]] == [f"rows-{day(0)}.svm"]
    assert (line["rows"], line["files"]["rows_retired"]) == (40, 40)
    assert open_shards(begun.store / "shards").n_rows == 40
    assert holds(begun)
    assert begun.run(11) == []


def test_not_everything_retires(begun):
    with pytest.raises(DatasetError, match="would be retired; choose a longer window"):
        begun.run(20)
    assert begun.current() == str(FIRST)
    assert open_shards(begun.store / "shards").n_rows == 40


BAD = {
    "empty": ("", "the file is empty"),
    "empty, comments only": ("# nothing\n\n", "no rows in the file"),
    "corrupt": ("1 1:2\n1 3:oops\n", "line 2"),
    "corrupt, truncated gzip": (None, "truncated or damaged"),
    "duplicate": (rows(0), "the same content as"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_are_reported_and_left_out(begun, kind):
    text, reason = BAD[kind]
    path = begun.arrive(1, text or "", name="bad.svm")
    if text is None:
        path.write_bytes(gzip.compress(rows(1).encode())[:-20])
    begun.arrive(2)
    line = begun.night(2)
    (left,) = line["files"]["left_out"]
    assert (left["file"], left["status"]) == (str(path), kind.partition(",")[0])
    assert reason in left["reason"]
    assert line["status"] == "published" and line["rows"] == 80
    assert begun.run(2) == []
    assert reason in (begun.store / "summaries" / f"{day(2)}.md").read_text()


def test_only_bad_files_fail_the_night(begun):
    begun.arrive(1, "1 1:2\n1 3:oops\n")
    line = begun.failed(1)
    assert "no file could be added" in line["error"] and len(line["files"]["left_out"]) == 1
    assert begun.run(1) == []
    assert begun.night(2)["status"] == "nothing new"


def test_a_corrupt_file_is_tried_again_when_it_changes(begun):
    begun.arrive(1, "1 1:2\n1 3:oops\n")
    begun.failed(1)
    begun.arrive(1)
    assert begun.night(2)["rows"] == 80


def test_a_corrupt_file_is_tried_again_when_reading_changes(begun):
    begun.arrive(1, rows(1).replace("8:", "9:"))
    assert "index 9" in begun.failed(1)["files"]["left_out"][0]["reason"]
    begun.job.write_text(SETTINGS.replace("features: 8", "features: 9"))
    line = begun.night(2)
    assert (line["rows"], line["features"]) == (80, 9)


def test_late_and_too_old_files(begun):
    begun.arrive(8)
    begun.night(8)
    begun.arrive(3)
    begun.arrive(-5)
    line = begun.night(9)
    assert [Path(name).name for name in line["files"]["late"]] == [f"rows-{day(3)}.svm"]
    (left,) = line["files"]["left_out"]
    assert (Path(left["file"]).name, left["status"]) == (f"rows-{day(-5)}.svm", "too old")
    assert line["rows"] == 120


def test_a_file_that_comes_again_replaces_itself(begun):
    begun.arrive(1)
    begun.night(1)
    path = begun.arrive(1, rows(77, 50))
    line = begun.night(2)
    assert line["files"]["added"] == [str(path)]
    assert line["rows"] == 90
    assert begun.run(2) == []


def test_a_touched_file_is_no_other(begun):
    path = begun.folder / "incoming" / f"rows-{day(0)}.svm"
    os.utime(path, (1, 1))
    before = open_shards(begun.store / "shards").fingerprint
    assert begun.run(0) == []
    assert begun.night(1)["status"] == "nothing new"
    assert open_shards(begun.store / "shards").fingerprint == before
    assert begun.run(1) == []


def test_files_being_written_wait(begun):
    for name in (".hidden.svm", "_half.svm", "rows.svm.tmp", "rows.svm.part"):
        begun.arrive(1, name=name)
    assert begun.night(1)["files"]["added"] == []


def test_a_gate_keeps_yesterdays_model(begun, capsys):
    begun.job.write_text(SETTINGS.replace("yesterday - 0.2", "yesterday + 0.5"))
    begun.arrive(1)
    code, out, _ = command(capsys, "nightly", begun.job, "--date", day(1), "-q")
    assert code == 3
    assert "refused" in out and "gate not passed: accuracy >= yesterday + 0.5" in out
    assert begun.current() == str(FIRST)
    assert "`current` stays" in (begun.store / "summaries" / f"{day(1)}.md").read_text()
    code, out, _ = command(capsys, "nightly", begun.job, "--date", day(1), "-q")
    assert (code, out) == (3, "nothing new; nothing was changed\n")
    begun.job.write_text(SETTINGS)
    assert begun.night(2)["status"] == "published"


def test_a_certificate_that_does_not_hold_is_not_published(begun, monkeypatch):
    true = tonight.verify_any

    def doubtful(*arguments):
        return [replace(finding, problem="its gap is larger") for finding in true(*arguments)]

    monkeypatch.setattr(tonight, "verify_any", doubtful)
    begun.arrive(1)
    line = begun.night(1)
    assert (line["status"], line["problem"], begun.current()) == ("refused", "its gap is larger", str(FIRST))


def test_old_runs_go_but_never_the_current_one(begun):
    begun.job.write_text(SETTINGS.replace("yesterday - 0.2", "yesterday + 0.5"))
    for number in range(1, 5):
        begun.arrive(number)
        assert begun.night(number)["status"] == "refused"
    names = sorted(path.name for path in (begun.store / "runs").iterdir())
    assert names == [str(day(0)), str(day(3)), str(day(4))]
    assert begun.current() == str(day(0))


def test_changed_settings_train_again(begun):
    begun.job.write_text(SETTINGS.replace("tol: 1e-5", "tol: 1e-6"))
    assert begun.night(0)["night"] == f"{FIRST}.2"
    assert open_run(begun.store / "current").spec.tol == 1e-6


def test_a_whole_path_every_night(begun):
    begun.job.write_text(SETTINGS.replace("tol: 1e-5", "tol: 1e-5, path: true"))
    begun.arrive(1)
    assert begun.night(1)["models"] > 5


def test_a_dry_run_changes_nothing(begun, capsys):
    begun.arrive(1)
    begun.arrive(2, rows(0), name="again.svm")
    before = begun.contents()
    plan = plan_night(read_job(begun.job), day(1))
    assert [Path(name).name for name in plan["add"]] == [f"rows-{day(1)}.svm"]
    assert plan["left_out"][0]["status"] == "duplicate"
    assert plan["reference"] == str(FIRST) and len(plan["train_at"]) == 3
    code, out, _ = command(capsys, "nightly", begun.job, "--date", day(1), "--dry-run")
    assert code == 0 and "would add 1 file" in out and "leave out" in out
    assert begun.contents() == before


def test_a_dry_run_of_the_first_night_makes_no_store(nightly):
    nightly.arrive(0)
    assert plan_night(read_job(nightly.job), day(0))["train_at"] == "the whole path"
    assert not nightly.store.exists()


def test_two_at_once(begun, capsys):
    begun.arrive(1)
    with locked(begun.store, JobError("busy")):
        code, _, err = command(capsys, "nightly", begun.job, "--date", day(1), "-q")
        assert code == 1 and "another nightly job is at work there" in err
        code, _, err = command(capsys, "nightly", begun.job, "--date", day(1), "-q", "--wait", "0.3")
        assert code == 1 and "another nightly job" in err
    assert begun.night(1)["status"] == "published"


def test_no_usable_file_on_the_first_night(nightly):
    nightly.arrive(0, "1 1:x\n")
    with pytest.raises(JobError, match=r"no file could be added, first .*line 1"):
        nightly.run(0)
    nightly.arrive(0)
    assert [line["status"] for line in nightly.run(1)] == ["published"]


def test_no_input_folder_is_one_line(nightly, capsys):
    nightly.job.write_text(SETTINGS.replace("inputs: incoming", "inputs: elsewhere"))
    code, _, err = command(capsys, "nightly", nightly.job, "-q")
    assert code == 1 and "elsewhere: cannot be listed (no such directory)" in err


def test_a_pattern_of_a_file_system(nightly):
    fs = fsspec.filesystem("memory")
    fs.pipe(f"/nightly/{day(0)}.svm", rows(0).encode())
    fs.pipe("/nightly/other.txt", b"no")
    nightly.job.write_text(SETTINGS.replace("inputs: incoming", "inputs: memory://nightly/*.svm"))
    try:
        assert nightly.night(0)["rows"] == 40
        assert nightly.run(0) == []
    finally:
        fs.rm("/nightly", recursive=True)


def test_json_for_machines(begun, capsys):
    begun.arrive(1)
    code, out, _ = command(capsys, "nightly", begun.job, "--date", day(1), "-q", "--json")
    assert code == 0
    assert json.loads(out) == json.loads((begun.store / "history.jsonl").read_text().splitlines()[-1])


def test_a_night_under_way_is_completed_with_todays_settings(begun):
    """Killed while training, then the job was changed: the run that was begun is not continued but trained afresh."""
    begun.arrive(1)
    job = read_job(begun.job)
    with pytest.raises(KeyboardInterrupt):
        begun.run(1, listen=_interrupting)
    assert (begun.store / "night.json").is_file()
    begun.job.write_text(SETTINGS.replace("tol: 1e-5", "tol: 1e-7"))
    first, second = begun.run(2)
    assert (first["night"], first["status"]) == (str(day(1)), "published")
    assert second["status"] == "nothing new"
    assert open_run(begun.store / "runs" / str(day(1))).spec.tol == 1e-7
    assert job.settings != read_job(begun.job).settings


def test_a_night_whose_models_were_lost_in_a_power_cut_is_completed(begun):
    """A line of steps.jsonl may be on disk and its model not."""
    begun.arrive(1)
    with pytest.raises(KeyboardInterrupt):
        begun.run(1, listen=_interrupting)
    models = list((begun.store / "runs" / str(day(1)) / "models").iterdir())
    assert models
    for path in models:
        path.unlink()
    assert begun.night(1)["status"] == "published"
    assert holds(begun)


def _interrupting(event: object) -> None:
    if isinstance(event, StepProgress) and event.done:
        raise KeyboardInterrupt
