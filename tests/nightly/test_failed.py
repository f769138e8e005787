"""Nights that fail: each is on record, none blocks the next, and exit codes say how old the model is."""

from __future__ import annotations

import json
import shutil
import sys
import tracemalloc
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.shards.retire import retire
from pipeline.errors import EngineError, SieveError
from pipeline.events import StepProgress
from pipeline.nightly import intake, tonight
from pipeline.nightly.night import MOST_STOPS
from pipeline.nightly.notify import notify
from pipeline.nightly.operate import release_from_quarantine
from pipeline.nightly.records import NightRecord
from pipeline.nightly.store import Store
from tests.nightly.nights import FIRST, SETTINGS, Nightly, day, rows
from tests.trained import command

pytestmark = pytest.mark.attack
FEW = "1 1:1\n-1 2:3\n"  # no row of these is held out
TOLD = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read())"


def nightly_command(capsys, nightly: Nightly, number: int) -> tuple[int, str, str]:
    return command(capsys, "nightly", nightly.job, "--date", day(number), "-q")


def test_no_row_held_out_fails_until_more_rows_come(nightly, capsys):
    nightly.arrive(0, FEW)
    code, out, err = nightly_command(capsys, nightly, 0)
    assert code == 1 and "failed" in out and err.count("\n") == 1 and "Traceback" not in err
    assert nightly.history()[-1]["status"] == "failed"
    assert not any((nightly.store / "runs").iterdir())
    nightly.arrive(1)
    line = nightly.night(1)
    assert (line["status"], line["rows"]) == ("published", 42)


def test_one_class_held_out_fails_by_name(nightly):
    nightly.job.write_text(SETTINGS + "select: auc\n")
    signs = [line.replace("-1 ", "1 ", 1) for line in rows(3, 12).splitlines(keepends=True)]
    nightly.arrive(0, "".join(signs[:-1]) + "-1 1:3\n")
    assert "auc is not defined" in nightly.failed(0)["error"]
    nightly.arrive(1)
    assert nightly.night(1)["status"] == "published"


def test_a_window_that_empties_the_data_blocks_nothing(begun):
    assert "would be retired" in begun.failed(20)["error"]
    assert "would be retired" in begun.failed(21)["error"]
    begun.arrive(22)
    line = begun.night(22)
    assert (line["night"], line["status"], line["rows"]) == (str(day(22)), "published", 40)


def test_a_reference_that_went_while_a_night_was_killed(begun):
    begun.arrive(1)
    with pytest.raises(KeyboardInterrupt):
        begun.run(1, listen=_interrupting)
    shutil.rmtree(begun.store / "runs" / str(FIRST))
    failed, made = begun.run(2)
    assert (failed["night"], failed["status"]) == (str(day(1)), "failed") and "no run.json" in failed["error"]
    assert (made["status"], made["rows"], made["reference"]) == ("published", 80, None)
    assert "the published run cannot be used" in made["notes"][0]
    assert begun.run(2) == []


def test_a_published_run_that_is_gone_is_replaced_by_the_one_before(begun):
    begun.arrive(1)
    begun.night(1)
    for path in (begun.store / "runs" / str(day(1)) / "models").iterdir():
        path.write_bytes(b"no model")
    line = begun.night(2)
    assert (line["status"], line["reference"]) == ("published", str(FIRST))
    assert f"runs/{FIRST}, published before it, is taken instead" in line["notes"][0]


def test_an_interrupted_night_is_no_failed_one(begun):
    begun.arrive(1)
    with pytest.raises(KeyboardInterrupt):
        begun.run(1, listen=_interrupting)
    assert len(begun.history()) == 1
    assert (begun.store / "runs" / str(day(1)) / "steps.jsonl").is_file()
    assert begun.night(1)["night"] == str(day(1))


def test_an_error_of_a_night_that_was_told_to_stop_is_no_failure(begun, monkeypatch):
    """Worker processes get SIGTERM, too; that they are missed may come before the interrupt."""

    def missed(*arguments):
        raise EngineError("a worker is gone")

    begun.arrive(1)
    with monkeypatch.context() as patch, pytest.raises(EngineError):
        patch.setattr(tonight, "train_run", missed)
        begun.run(1, stopped=lambda: True)
    assert len(begun.history()) == 1 and (begun.store / "night.json").is_file()
    assert begun.night(1)["night"] == str(day(1))


def test_a_night_that_was_killed_before_an_upgrade_trains_afresh(begun):
    begun.arrive(1)
    with pytest.raises(KeyboardInterrupt):
        begun.run(1, listen=_interrupting)
    path = begun.store / "runs" / str(day(1)) / "run.json"
    header = json.loads(path.read_text())
    header["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(header))
    assert begun.night(1)["status"] == "published"
    assert json.loads(path.read_text())["versions"]["numpy"] != "1.0"


@pytest.mark.parametrize("memory", ["memory: 1GB, ", ""])
def test_a_night_whose_run_json_is_damaged_trains_afresh(begun, memory):
    begun.job.write_text(SETTINGS.replace("memory: 1GB, ", memory))
    begun.arrive(1)
    with pytest.raises(KeyboardInterrupt):
        begun.run(1, listen=_interrupting)
    (begun.store / "runs" / str(day(1)) / "run.json").write_text("{")
    assert begun.night(1)["status"] == "published"


def test_an_error_in_training_leaves_nothing_half_done(begun, monkeypatch, capsys):
    def lost(*arguments):
        raise EngineError("lost the cluster; look at its log")

    begun.arrive(1)
    with monkeypatch.context() as patch:
        patch.setattr(tonight, "train_run", lost)
        code, _, err = nightly_command(capsys, begun, 1)
        assert (code, err) == (1, "svmsieve: lost the cluster; look at its log\n")
        assert begun.failed(1)["night"] == f"{day(1)}.2"  # the rows are there and not trained on: it is tried again
    line = begun.night(1)
    assert (line["night"], line["status"], line["rows"]) == (f"{day(1)}.3", "published", 80)
    assert [line["status"] for line in begun.history()] == ["published", "failed", "failed", "published"]


def test_a_mistake_of_ours_is_on_record_too(begun, monkeypatch):
    def wrong(*arguments):
        raise TypeError("a bug")

    begun.arrive(1)
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr(tonight, "train_run", wrong)
        begun.run(1)
    assert begun.history()[-1]["error"] == "TypeError a bug"
    assert begun.night(2)["rows"] == 80


def test_inputs_that_are_gone_are_on_record(begun, capsys):
    (begun.folder / "incoming").rename(begun.folder / "elsewhere")
    assert nightly_command(capsys, begun, 1)[0] == 1
    assert "cannot be listed" in begun.history()[-1]["error"]
    assert nightly_command(capsys, begun, 2)[0] == 1
    (begun.folder / "elsewhere").rename(begun.folder / "incoming")
    assert begun.night(3)["status"] == "nothing new"


def test_refusing_stays_refusing_until_a_model_is_published(nightly, capsys):
    nightly.job.write_text(SETTINGS.replace("gate: accuracy >= yesterday - 0.2", "gate: accuracy >= 1.5"))
    nightly.arrive(0)
    assert nightly_command(capsys, nightly, 0)[0] == 3
    code, out, err = nightly_command(capsys, nightly, 0)
    assert (code, out) == (3, "nothing new; nothing was changed\n")
    assert "refusing: nothing is published: night 2026-03-01 was refused (not passed: accuracy >= 1.5)" in err
    assert nightly_command(capsys, nightly, 1)[0] == 3
    nightly.job.write_text(SETTINGS)
    assert nightly_command(capsys, nightly, 2)[0] == 0


def test_nothing_published_is_not_fine(nightly, capsys):
    code, out, err = nightly_command(capsys, nightly, 0)
    assert code == 3 and "nothing new" in out and "nothing is published" in err


def test_failing_stays_failing_until_a_night_is_good(begun, capsys):
    begun.arrive(1, "1 1:oops\n")
    assert nightly_command(capsys, begun, 1)[0] == 1
    code, _, err = nightly_command(capsys, begun, 1)
    assert code == 1 and f"failing: night {day(1)} failed: no file could be added" in err
    assert len(begun.history()) == 2
    assert nightly_command(capsys, begun, 2)[0] == 0


def dropped(begun):
    release_from_quarantine(Store(begun.store), [], [f"rows-{day(1)}.svm"])


def mended(begun):
    begun.arrive(1)


def lower_expectations(begun):
    begun.job.write_text(SETTINGS)


REPAIRS = {
    "dropped": ("1 1:oops\n", "", dropped, "nothing new", 40),
    "mended": ("1 1:oops\n", "", mended, "published", 80),
    "expected less": (rows(1), "expect: {files: 2}\n", lower_expectations, "published", 80),
    "expected less, nothing came": (None, "expect: {files: 2}\n", lower_expectations, "nothing new", 40),
}


@pytest.mark.parametrize("repair", REPAIRS)
def test_a_cause_that_is_repaired_on_the_same_day_is_no_cause(begun, capsys, repair):
    """The night is tried again at once, not on the next day; until then, trying again changes nothing."""
    text, settings, repaired, status, count = REPAIRS[repair]
    begun.job.write_text(SETTINGS + settings)
    if text is not None:
        begun.arrive(1, text)
    assert nightly_command(capsys, begun, 1)[0] == 1
    failures = len(begun.history())
    tried = [nightly_command(capsys, begun, 1)[0] for _ in range(2)]
    assert tried == [1, 1]
    repaired(begun)
    assert nightly_command(capsys, begun, 1)[0] == 0
    line = begun.history()[-1]
    assert (line["status"], line["rows"], line["date"]) == (status, count, str(day(1)))
    assert [each["status"] for each in begun.history()[1:-1]] == ["failed"] * (len(begun.history()) - 2)
    assert failures == 2
    code, out, _ = nightly_command(capsys, begun, 1)
    assert (code, out) == (0, "nothing new; nothing was changed\n")


def test_inputs_that_are_back_on_the_same_day(begun, capsys):
    (begun.folder / "incoming").rename(begun.folder / "elsewhere")
    assert nightly_command(capsys, begun, 1)[0] == 1
    (begun.folder / "elsewhere").rename(begun.folder / "incoming")
    assert nightly_command(capsys, begun, 1)[0] == 0
    assert [line["status"] for line in begun.history()[1:]] == ["failed", "nothing new"]


def test_a_bad_file_after_good_ones_is_not_forgotten_by_trying_again(begun, capsys):
    begun.arrive(1)
    assert nightly_command(capsys, begun, 1)[0] == 0
    begun.arrive(1, "1 1:oops\n", name=f"more-{day(1)}.svm")
    assert [nightly_command(capsys, begun, 1)[0] for _ in range(3)] == [1, 1, 1]
    assert len(begun.history()) == 3


@pytest.mark.parametrize(("expect", "said"), [("files: 2", "1 files arrived"), ("rows: 41", "40 rows arrived")])
def test_less_than_expected_fails(begun, expect, said):
    begun.job.write_text(SETTINGS + f"expect: {{{expect}}}\n")
    begun.arrive(1)
    line = begun.failed(1)
    assert said in line["error"] and line["files"]["rows_added"] == 40
    assert open_shards(begun.store / "shards").n_rows == 80
    begun.arrive(1, rows(7, 3), name=f"more-{day(1)}.svm")  # the rest of the day's files
    assert begun.night(1)["rows"] == 83
    begun.arrive(2)
    assert said in begun.failed(2)["error"]


def test_a_dry_run_says_what_is_missing(begun, capsys):
    begun.job.write_text(SETTINGS + "expect: {files: 2}\n")
    code, out, _ = command(capsys, "nightly", begun.job, "--date", day(1), "--dry-run")
    assert code == 0 and "the night would fail: 0 files arrived, but expect says 2" in out


def test_others_are_told_of_success_refusal_and_failure(begun, tmp_path):
    told = tmp_path / "told; touch injected"
    words = json.dumps([sys.executable, "-c", TOLD, str(told)])
    begun.job.write_text(SETTINGS + f"notify: {words}\n")
    begun.arrive(1)
    begun.night(1)
    begun.arrive(2, "1 1:oops\n", name=f"$(touch injected) {day(2)}.svm")
    begun.failed(2)
    begun.night(3)  # nothing new: nobody is told
    begun.job.write_text(SETTINGS.replace("yesterday - 0.2", "yesterday + 0.9") + f"notify: {words}\n")
    begun.night(4)
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert [line["status"] for line in lines] == ["published", "failed", "refused"]
    assert lines == [line for line in begun.history()[1:] if line["status"] != "nothing new"]
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.parametrize(
    ("notify", "said"),
    [
        ('"false"', "notify: false ended with 1"),
        ("no-such-command-here", "notify: no-such-command-here cannot be run (No such file or directory)"),
        ("sh -c 'sleep 60 & sleep 60'", "notify: sh did not end within 0.2 s and was killed"),
    ],
)
def test_a_notify_that_fails_changes_nothing(begun, capsys, monkeypatch, notify, said):
    monkeypatch.setattr("pipeline.nightly.notify.SECONDS", 0.2)
    begun.job.write_text(SETTINGS + f"notify: {notify}\n")
    begun.arrive(1)
    code, out, err = nightly_command(capsys, begun, 1)
    assert code == 0 and "published" in out and said in err
    assert begun.current() == str(day(1))


@pytest.mark.parametrize("notify", ["'yes'", "sh -c 'exec setsid yes'", "sh -c 'yes >&2'"])
def test_a_notify_that_says_no_end_takes_no_memory(begun, capsys, monkeypatch, notify):
    monkeypatch.setattr("pipeline.nightly.notify.SECONDS", 0.5)
    begun.job.write_text(SETTINGS + f"notify: {notify}\n")
    begun.arrive(1)
    tracemalloc.start()
    code, _, err = nightly_command(capsys, begun, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 0 and "did not end within 0.5 s and was killed" in err
    assert peak < 64e6


def test_a_notify_that_reads_nothing_is_no_trouble():
    error = "more than a pipe holds " * 10_000
    assert notify(("true",), NightRecord(night=str(FIRST), date=str(FIRST), status="failed", error=error)) == ""


def _no_metrics(nightly: Nightly) -> str:
    (nightly.store / "metrics.prom").unlink()
    (nightly.store / "metrics.prom").mkdir()
    return "metrics.prom: is a directory"


def _no_summary(nightly: Nightly) -> str:
    (nightly.store / "summaries" / f"{day(1)}.md").mkdir()
    return f"{day(1)}.md: is a directory"


def _no_removal(nightly: Nightly) -> str:
    nightly.job.write_text(SETTINGS.replace("keep: {runs: 2}", "keep: {runs: 0}"))
    (nightly.store / "runs" / f".discarded-{FIRST}").write_text("a file is no folder to rename to")
    return f"runs/{FIRST}: cannot be removed (Not a directory)"


@pytest.mark.parametrize("spoil", [_no_metrics, _no_summary, _no_removal])
def test_what_cannot_be_tidied_up_is_said_and_blocks_nothing(begun, capsys, spoil):
    said = spoil(begun)
    begun.arrive(1)
    code, out, err = nightly_command(capsys, begun, 1)
    assert code == 0 and "published" in out and said in err and err.count("\n") == 1
    assert not (begun.store / "night.json").exists()
    begun.arrive(2)
    assert nightly_command(capsys, begun, 2)[0] == 0
    assert begun.current() == str(day(2))


def test_what_lies_about_in_a_store_blocks_nothing(begun):
    (begun.store / "backup.tmp").mkdir()
    begun.arrive(1)
    assert begun.night(1)["status"] == "published"


def test_a_file_at_which_a_night_is_killed_every_time_is_given_up(begun, monkeypatch):
    """The system kills what takes too much memory: that is no error and no line, and the next night did it again."""

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    begun.arrive(1)
    with monkeypatch.context() as patch:
        patch.setattr(intake, "ingest", killed)
        for number in range(1, 1 + MOST_STOPS):
            with pytest.raises(KeyboardInterrupt):
                begun.run(number)
    begun.arrive(7)
    failed, made = begun.run(7)
    assert (failed["night"], failed["status"]) == (str(day(1)), "failed")
    assert failed["error"].startswith(f"stopped {MOST_STOPS} times while ")
    assert [item["status"] for item in failed["files"]["left_out"]] == ["corrupt"]
    assert (made["status"], made["rows"]) == ("published", 80)


def test_a_night_that_is_killed_in_training_every_time_is_given_up(begun, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    begun.arrive(1)
    with monkeypatch.context() as patch:
        patch.setattr(tonight, "train_run", killed)
        for number in range(1, 1 + MOST_STOPS):
            with pytest.raises(KeyboardInterrupt):
                begun.run(number)
    begun.arrive(7)
    failed, made = begun.run(7)
    assert failed["error"].startswith(f"stopped {MOST_STOPS} times in training, after 0 steps")
    assert (made["status"], made["rows"]) == ("published", 120)


def test_a_night_that_gets_on_is_never_given_up(begun):
    """However often it is stopped: every time it finishes a step."""
    begun.job.write_text(SETTINGS.replace("train: {", "train: {path: true, "))
    begun.arrive(1)
    for number in range(1, 3 + MOST_STOPS):
        with pytest.raises(KeyboardInterrupt):
            begun.run(number, listen=_interrupting)
    (begun.folder / "incoming").rename(begun.folder / "elsewhere")
    with pytest.raises(SieveError):
        begun.run(1)
    assert [line["status"] for line in begun.history()] == ["published", "published", "failed"]


def _interrupting(event: object) -> None:
    if isinstance(event, StepProgress) and event.done:
        raise KeyboardInterrupt


def test_a_shard_that_takes_the_number_of_a_retired_one_is_not_taken_for_it(begun, monkeypatch):
    """The newest shard retires; killed before the ledger knows; then a file comes and gets its number."""
    begun.arrive(8)
    begun.night(8)
    begun.arrive(1)  # late: its shard has the highest number
    begun.night(9)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(intake, "retire", _then_killed)
        begun.run(12)
    begun.arrive(12)
    assert [line["rows"] for line in begun.run(12)] == [80]
    assert open_shards(begun.store / "shards").n_rows == 80
    retired = [Path(name).name for name in begun.history()[-1]["files"]["retired"]]
    assert retired == [f"rows-{day(0)}.svm", f"rows-{day(1)}.svm"]


def _then_killed(*arguments):
    retire(*arguments)
    raise KeyboardInterrupt
