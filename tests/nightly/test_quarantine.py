"""Input that cannot be taken in: none of it stops the others, each is reported, tried again when there is reason to."""

from __future__ import annotations

import errno
import gzip
import io
import os
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from pipeline.nightly import arrivals, days, intake, listing
from pipeline.nightly.days import day_of
from pipeline.nightly.job import read_job
from pipeline.nightly.night import plan_night
from tests.nightly.nights import SETTINGS, Nightly, day, rows
from tests.trained import command

pytestmark = pytest.mark.attack


@pytest.fixture
def locked_away(monkeypatch):
    """Files whose names have `secret` in them cannot be opened."""
    allowed = arrivals.open_binary

    @contextmanager
    def refusing(path: str):
        if "secret" in path:
            raise arrivals.DataError("cannot be read (Permission denied); check the file", path=path) from OSError(
                errno.EACCES, "Permission denied"
            )
        with allowed(path) as stream:
            yield stream

    with monkeypatch.context() as patch:
        patch.setattr(arrivals, "open_binary", refusing)
        yield patch


def left_out(line: dict) -> list[tuple[str, str]]:
    return sorted((Path(item["file"]).name, item["status"]) for item in line["files"]["left_out"])


def test_an_unreadable_file_stops_nothing(begun, locked_away, capsys):
    begun.arrive(1)
    begun.arrive(1, rows(9), name="secret.svm")
    plan = plan_night(read_job(begun.job), day(1))
    assert len(plan["add"]) == 1 and plan["left_out"][0]["status"] == "unreadable"
    line = begun.night(1)
    assert (line["status"], line["rows"], left_out(line)) == ("published", 80, [("secret.svm", "unreadable")])
    assert begun.run(1) == []
    assert begun.night(2)["status"] == "nothing new"
    locked_away.undo()  # the same file, the same time: it can be read now
    assert begun.night(3)["rows"] == 120


def test_an_input_output_error_in_the_middle_is_no_corrupt_file(begun, monkeypatch):
    def failing(inputs, *arguments, **options):
        raise intake.DataError("cannot be read (Input/output error)", path=inputs[0]) from OSError(errno.EIO, "EIO")

    begun.arrive(1)
    with monkeypatch.context() as patch:
        patch.setattr(intake, "ingest", failing)
        assert left_out(begun.failed(1)) == [(f"rows-{day(1)}.svm", "unreadable")]
    assert begun.night(2)["rows"] == 80


def test_a_file_that_takes_all_memory_is_quarantined(begun, monkeypatch):
    def failing(*arguments, **options):
        raise MemoryError

    begun.arrive(1)
    with monkeypatch.context() as patch:
        patch.setattr(intake, "ingest", failing)
        assert "more memory" in begun.failed(1)["error"]
    begun.arrive(2)
    assert begun.night(2)["rows"] == 80


def test_a_line_has_a_limit_and_a_file_beyond_it_is_tried_once(begun, monkeypatch):
    """A small gzip file may hold a line of any length."""
    begun.job.write_text(SETTINGS + "max_line: 10kB\n")
    path = begun.folder / "incoming" / f"long-{day(1)}.svm.gz"
    path.write_bytes(gzip.compress(b"1 " + b" 1:1" * 100_000 + b"\n"))
    begun.arrive(1)
    line = begun.night(1)
    assert (line["rows"], left_out(line)) == (80, [(path.name, "corrupt")])
    assert "line 1" in line["files"]["left_out"][0]["reason"]
    monkeypatch.setattr(intake, "ingest", None)  # nothing is read again
    assert begun.night(2)["status"] == "nothing new"


def test_links_folders_and_pipes_are_reported_once(begun):
    incoming = begun.folder / "incoming"
    begun.arrive(1)
    (incoming / "folder").mkdir()
    os.mkfifo(incoming / "pipe.svm")
    (incoming / "link.svm").symlink_to(begun.job)
    (incoming / "broken.svm").symlink_to("nowhere")
    (incoming / "folderlink").symlink_to(begun.folder)
    line = begun.night(1)
    names = ["broken.svm", "folder", "folderlink", "link.svm", "pipe.svm"]
    assert left_out(line) == [(name, "not a file") for name in names]
    assert "symbolic link" in line["files"]["left_out"][0]["reason"]
    (incoming / "folder" / "inside").touch()
    assert begun.run(1) == []
    (incoming / "link.svm").unlink()
    begun.arrive(2, rows(31), name="link.svm")
    assert begun.night(2)["rows"] == 120


def test_a_file_of_the_year_2099_neither_stays_for_ever_nor_makes_others_late(begun):
    begun.arrive(0, rows(50), name="rows-2099-01-01.svm")
    begun.arrive(1)
    line = begun.night(1)
    assert (left_out(line), line["rows"], line["files"]["late"]) == ([("rows-2099-01-01.svm", "in the future")], 80, [])
    assert "its day 2099-01-01 is after" in line["files"]["left_out"][0]["reason"]
    assert begun.run(1) == []


def test_a_file_of_the_year_2099_that_is_in_the_data_already_retires(begun, monkeypatch):
    begun.arrive(1, name="rows-2099-01-01.svm")
    with monkeypatch.context() as patch:
        patch.setattr(days, "today", lambda: date(2099, 1, 1))  # as nights took it before
        assert begun.night(1)["rows"] == 80
    begun.arrive(9)
    line = begun.night(9)
    assert (line["rows"], line["files"]["late"]) == (120, [])
    line = begun.night(14)
    assert [Path(name).name for name in line["files"]["retired"]] == [f"rows-{day(0)}.svm", "rows-2099-01-01.svm"]
    assert line["rows"] == 40


def test_a_day_that_has_come_is_no_future_any_more(begun, monkeypatch):
    begun.arrive(1)
    monkeypatch.setattr(days, "today", lambda: day(-2))
    assert left_out(begun.failed(-2)) == [(f"rows-{day(1)}.svm", "in the future")]
    assert begun.night(-1)["rows"] == 80  # two days ahead is what clocks may differ


def test_a_clock_in_the_future_is_quarantined(begun):
    path = begun.arrive(1, name="undated.svm")
    os.utime(path, (1, datetime(2099, 5, 5, tzinfo=UTC).timestamp()))
    assert left_out(begun.failed(1)) == [("undated.svm", "in the future")]
    os.utime(path, (1, 2**62))  # no calendar has it
    assert left_out(begun.failed(2)) == [("undated.svm", "in the future")]


def test_what_is_gone_leaves_the_quarantine(begun, capsys):
    path = begun.arrive(1, "1 1:oops\n")
    begun.failed(1)
    assert "rows-2026-03-02.svm: corrupt since 2026-03-02" in command(capsys, "store", "quarantine", begun.store)[1]
    path.unlink()
    begun.night(2)
    assert command(capsys, "store", "quarantine", begun.store)[1] == "in quarantine: 0 files\n"


def test_retry_and_drop(begun, capsys, monkeypatch):
    path, other = begun.arrive(1, "1 1:oops\n"), begun.arrive(1, "1 1:wrong\n", name="other.svm")
    begun.failed(1)
    code, out, _ = command(capsys, "store", "quarantine", begun.store, "--retry", path.name, "--drop", other)
    assert code == 0 and "will be tried again" in out and "is dropped" in out
    tried = []
    true = intake.ingest
    monkeypatch.setattr(
        intake, "ingest", lambda inputs, *more, **options: tried.extend(inputs) or true(inputs, *more, **options)
    )
    assert left_out(begun.failed(2)) == [(path.name, "corrupt")]
    assert tried == [str(path)]
    assert begun.night(3)["status"] == "nothing new"
    assert tried == [str(path)]
    code, _, err = command(capsys, "store", "quarantine", begun.store, "--drop", other.name)
    assert code == 1 and "other.svm: not in quarantine" in err
    begun.arrive(1, rows(44), name="other.svm")  # it has changed
    assert begun.night(4)["rows"] == 80


def test_a_file_that_is_dropped_after_all_is_not_tried(begun, capsys):
    begun.arrive(1)
    bad = begun.arrive(1, "1 1:oops\n", name=f"bad-{day(1)}.svm")
    begun.night(1)
    words = ("store", "quarantine", begun.store)
    code, _, err = command(capsys, *words, "--retry", bad, "--drop", bad.name)
    assert code == 1 and "either --retry or --drop it" in err
    for option in ("--retry", "--retry", "--drop"):
        assert command(capsys, *words, option, bad)[0] == 0
    assert begun.run(1) == []
    bad.write_text(rows(7))
    assert begun.night(1)["rows"] == 120


def test_names_may_hold_anything(begun, capsys):
    names = (b"\xff\xfe.svm", b"a\nb | `c`.svm", b"\x1b[2J.svm", "\u202e.svm".encode())
    for k, name in enumerate(names):
        Path(os.fsdecode(os.fsencode(begun.folder / "incoming") + b"/" + name)).write_text(f"1 1:oops{k}\n")
    begun.arrive(1)
    assert command(capsys, "nightly", begun.job, "--date", day(1), "--dry-run")[0] == 0
    code, out, err = command(capsys, "nightly", begun.job, "--date", day(1), "-q")
    assert code == 0 and all(line.isprintable() for line in (out + err).split("\n")) and out.count("corrupt") == 4
    out = command(capsys, "store", "status", begun.store)[1]
    assert out.count("corrupt") == 4 and all(line.isprintable() for line in out.split("\n"))
    page = (begun.store / "summaries" / f"{day(1)}.md").read_text()
    assert "| `a?b / 'c'.svm` | corrupt: line 1" in page


def test_credentials_of_inputs_are_neither_shown_nor_stored(begun, monkeypatch, capsys):
    secret = "https://user:password@host/rows-2026-03-02.svm?X-Amz-Signature=secret"  # noqa: S105
    facts = {"name": secret, "type": "file", "size": 9, "mtime": 0}
    monkeypatch.setattr(listing, "_matches", lambda pattern: [(secret, facts)])
    opened = []

    @contextmanager
    def opening(path: str):
        opened.append(path)
        yield io.BytesIO(b"1 1:oops\n")

    def failing(inputs, *arguments, **options):
        opened.extend(inputs)
        raise intake.DataError(f"cannot be read (403 for {inputs[0]})", path=inputs[0])

    monkeypatch.setattr(arrivals, "open_binary", opening)
    monkeypatch.setattr(intake, "ingest", failing)
    said = command(capsys, "nightly", begun.job, "--date", day(1), "--dry-run")
    said += command(capsys, "nightly", begun.job, "--date", day(1))
    said += command(capsys, "store", "status", begun.store)
    assert set(opened) == {secret}
    names = ("files.json", "history.jsonl", f"summaries/{day(1)}.md", "metrics.prom")
    kept = "".join((begun.store / name).read_text() for name in names)
    assert "host/rows-2026-03-02.svm" in kept
    assert not any(word in f"{said}{kept}" for word in ("password", "secret"))


def test_hive_folders_are_looked_into(begun):
    folder = begun.folder / "incoming" / f"date={day(1)}"
    (folder / "country=de").mkdir(parents=True)
    (folder / "part-0.svm").write_text(rows(1))
    (folder / "country=de" / "part-0.svm").write_text(rows(2))
    (folder / "_SUCCESS").touch()
    line = begun.night(1)
    assert (line["rows"], len(line["files"]["added"]), line["files"]["left_out"]) == (120, 2, [])
    begun.arrive(12)
    assert begun.night(12)["rows"] == 40


def test_tables_in_folders_by_date(tmp_path):
    """The folder's date is the file's day; as a column of the table it is text, and the job may ignore it."""
    ignoring = SETTINGS.replace("reading: {features: 8}", "reading: {ignore: date, columns: none}")
    made = Nightly(tmp_path, ignoring)
    for number in (0, 1):
        folder = tmp_path / "incoming" / f"date={day(number)}"
        folder.mkdir()
        y, *x = np.array([[word.rpartition(":")[2] for word in line.split()] for line in rows(number).splitlines()]).T
        pq.write_table(
            pa.table({"label": y} | {f"f{k}": v.astype(float) for k, v in enumerate(x)}), folder / "a.parquet"
        )
    line = made.night(1)
    assert (line["status"], line["rows"], line["features"], line["files"]["left_out"]) == ("published", 80, 8, [])
    assert made.night(11)["rows"] == 40


def test_folders_on_the_way_to_a_pattern_are_not_passed_by_in_silence(begun, monkeypatch):
    begun.job.write_text(SETTINGS.replace("inputs: incoming", "inputs: lake/*/*.svm"))
    assert "lake/*/*.svm: cannot be listed (No such file or directory)" in begun.failed(1)["error"]
    for name in ("open", "secret"):
        (begun.folder / "lake" / name).mkdir(parents=True)
        (begun.folder / "lake" / name / f"rows-{day(2)}.svm").write_text(rows(len(name)))
    (begun.folder / "lake" / "link").symlink_to("open")
    allowed = LocalFileSystem.ls

    def refusing(self, path, detail=False, **options):
        if Path(path).name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return allowed(self, path, detail, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "ls", refusing)
        line = begun.night(2)
    assert (line["rows"], left_out(line)) == (80, [("link", "not a file"), ("secret", "unreadable")])
    assert begun.night(3)["rows"] == 120


def test_a_pattern_may_name_hive_folders(begun):
    begun.job.write_text(SETTINGS.replace("inputs: incoming", "inputs: incoming/dt=*"))
    folder = begun.folder / "incoming" / f"dt={day(1):%Y%m%d}"
    folder.mkdir()
    (folder / "rows.svm").write_text(rows(1))
    assert begun.night(1)["files"]["added"] == [str(folder / "rows.svm")]


NOON = datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()
DAYS = {
    "clicks-2026-11-16.svm": "2026-11-16",
    "clicks_20261116.svm.gz": "2026-11-16",
    "clicks-20261116093000.svm": "2026-11-16",
    "2026-11-16T09:30:00Z.csv": "2026-11-16",
    "20261116T093000+0200.csv": "2026-11-16",
    "in/date=2026-11-16/part-0.parquet": "2026-11-16",
    "in/dt=20261116/part-0.parquet": "2026-11-16",
    "in/hour=20261116093000/part-20200101.parquet": "2026-11-16",
    "in/year=2026/month=11/day=16/x.csv": "2026-11-16",
    "in/date=2026-11-16/country=de/x.csv": "2026-11-16",
    "in/date=2026-13-40/clicks-2026-11-16.csv": "2026-11-16",
    "in/year=2026/month=13/day=16/x.csv": "2026-07-01",
    "in/date=__HIVE_DEFAULT_PARTITION__/x.csv": "2026-07-01",
    "in/2026-11-16/x.csv": "2026-07-01",
    "clicks-20261340.svm": "2026-07-01",
    "clicks-20261116253000.svm": "2026-07-01",
    "clicks-2026111609.svm": "2026-07-01",
    "clicks-2026-1116.svm": "2026-07-01",
    "id-1202611169.svm": "2026-07-01",
    "clicks-20260230-20261116.svm": "2026-11-16",
    "": "2026-07-01",
}


@pytest.mark.parametrize("path", DAYS)
def test_days(path):
    assert str(day_of(path, NOON)) == DAYS[path]


def test_days_are_utc_days(monkeypatch):
    late = datetime(2026, 7, 1, 23, 30, tzinfo=UTC)
    monkeypatch.setenv("TZ", "Pacific/Auckland")  # 2 July there
    assert day_of("x", late.timestamp()) == day_of("x", late) == date(2026, 7, 1)
    assert day_of("x", late.astimezone()) == day_of("x", late.replace(tzinfo=None)) == date(2026, 7, 1)
    assert day_of("x", late + timedelta(hours=1)) == date(2026, 7, 2)


def test_a_night_begins_with_the_utc_day(nightly_job, capsys, monkeypatch):
    monkeypatch.setattr(days, "today", lambda: day(3))
    command(capsys, "nightly", nightly_job.job, "-q")
    assert nightly_job.history()[-1]["date"] == str(day(3))


@pytest.fixture
def nightly_job(tmp_path):
    return Nightly(tmp_path)


def test_a_file_of_several_classes_waits(tmp_path):
    """A night trains two classes: a first file with three labels waits in quarantine, and the next is taken in."""
    nightly = Nightly(tmp_path / "job")
    nightly.arrive(0, "1 1:1\n-1 2:1\n2 1:1\n")
    nightly.arrive(1)
    line = nightly.night(1)
    (left,) = line["files"]["left_out"]
    assert (line["status"], line["rows"], left["status"]) == ("published", 40, "corrupt")
    assert "more than two labels: -1, 1, 2; pass --positive LABEL" in left["reason"]
