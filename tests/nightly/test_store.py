"""``svmsieve store``: how a job stands, a rollback that lasts, and files of the store that say anything."""

from __future__ import annotations

import errno
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.errors import JobError, SieveError
from pipeline.files import locked
from pipeline.nightly.job import read_job
from pipeline.nightly.metrics import metrics, write_metrics
from pipeline.nightly.night import plan_night
from pipeline.nightly.operate import status
from pipeline.nightly.standing import standing
from pipeline.nightly.store import Store
from tests.nightly.nights import FIRST, SETTINGS, copied, day
from tests.trained import command

pytestmark = pytest.mark.attack
SAMPLE = re.compile(r'(svmsieve_[a-z_]+)\{(\w+="(?:[^"\\\n]|\\[\\"n])*",?)+\} -?[0-9.e+]+')


@pytest.fixture(scope="module")
def second(first, tmp_path_factory):
    """A job after two nights, both published."""
    made = copied(first, tmp_path_factory.mktemp("second") / "job")
    made.arrive(1)
    made.night(1)
    return made


@pytest.fixture
def begun(second, tmp_path):
    return copied(second, tmp_path / "job")


def store(capsys, *words) -> tuple[int, str, str]:
    return command(capsys, "store", *words)


def samples(text: str) -> dict[str, float]:
    """Read a Prometheus text file strictly: HELP, TYPE, then the samples of a family; {name and labels: value}."""
    found, family = {}, ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            family = line.split()[2]
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {family} gauge"
        else:
            match = SAMPLE.fullmatch(line)
            assert match and match[1] == family, line
            name, _, value = line.rpartition(" ")
            assert name not in found
            found[re.sub(r'store="[^"]*",?', "", name)] = float(value)
    return found


def test_status_when_all_is_well(begun, capsys, tmp_path):
    code, out, _ = store(capsys, "status", begun.store, "--max-age", "1h", "--metrics", tmp_path / "x.prom")
    assert code == 0 and "fine" in out and f"published   {day(1)}" in out
    code, out, _ = store(capsys, "status", begun.store, "--json")
    facts = json.loads(out)
    assert (code, facts["state"], facts["published"]["night"]) == (0, "fine", str(day(1)))
    assert 0 <= facts["published"]["age_seconds"] < 600
    assert [night["status"] for night in facts["nights"]] == ["published", "published"]
    assert samples((tmp_path / "x.prom").read_text()) == samples((begun.store / "metrics.prom").read_text())


def test_an_old_model_is_stale(begun, capsys, tmp_path):
    path = begun.store / "history.jsonl"
    lines = begun.history()
    lines[-1]["ended"] = (datetime.now(UTC) - timedelta(hours=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert store(capsys, "status", begun.store, "--max-age", "41h")[0] == 0
    code, out, _ = store(capsys, "status", begun.store, "--max-age", "36h", "--metrics", tmp_path / "x.prom")
    assert code == 3 and "stale (the model of night 2026-03-02 is 40.0 hours old)" in out
    assert samples((tmp_path / "x.prom").read_text())['svmsieve_store_state{state="stale"}'] == 1
    assert store(capsys, "status", begun.store)[0] == 0
    code, _, err = store(capsys, "status", begun.store, "--max-age", "long")
    assert code == 2 and "'long' is not an age" in err


def test_status_tells_refusing_and_failing(begun, capsys):
    begun.job.write_text(SETTINGS.replace("yesterday - 0.2", "yesterday + 0.9"))
    begun.arrive(2)
    begun.night(2)
    code, out, _ = store(capsys, "status", begun.store)
    assert code == 3 and "refusing (night 2026-03-03 was refused (not passed: accuracy >= yesterday + 0.9)" in out
    begun.night(3)
    assert store(capsys, "status", begun.store)[0] == 3
    begun.arrive(4, "1 1:oops\n")
    begun.failed(4)
    code, out, _ = store(capsys, "status", begun.store)
    assert code == 1 and "failing" in out and "in quarantine: 1 file" in out and "line 1" in out


def test_every_night_writes_metrics(begun):
    found = samples((begun.store / "metrics.prom").read_text())
    assert found['svmsieve_nights{status="published"}'] == 2
    assert found["svmsieve_rows{}"] == 80
    made = found[f'svmsieve_model_timestamp_seconds{{night="{day(1)}"}}']
    begun.arrive(4, "1 1:oops\n")
    begun.failed(4)
    found = samples((begun.store / "metrics.prom").read_text())
    assert found["svmsieve_store_exit_code{}"] == 1 and found["svmsieve_quarantined_files{}"] == 1
    assert found['svmsieve_last_night_status{status="failed"}'] == 1
    assert found[f'svmsieve_model_timestamp_seconds{{night="{day(1)}"}}'] == made
    assert found[f'svmsieve_last_night_timestamp_seconds{{night="{day(4)}"}}'] >= made


def test_status_works_while_a_night_does(begun, capsys):
    with locked(begun.store, JobError("busy")):
        assert store(capsys, "status", begun.store)[0] == 0
        for words in (["rollback"], ["release"], ["quarantine", "--retry", "x"]):
            code, _, err = store(capsys, words[0], begun.store, *words[1:])
            assert code == 1 and "another nightly job is at work there" in err


def test_a_rollback_lasts_until_release(begun, capsys):
    code, out, _ = store(capsys, "rollback", begun.store)
    assert code == 0 and f"current is now runs/{FIRST}" in out and begun.current() == str(FIRST)
    assert store(capsys, "status", begun.store)[0] == 3
    code, out, err = command(capsys, "nightly", begun.job, "--date", day(1), "-q")
    assert (code, out) == (3, "nothing new; nothing was changed\n") and "held" in err
    begun.arrive(2)
    code, out, _ = command(capsys, "nightly", begun.job, "--date", day(2), "-q")
    assert code == 3 and f"{day(2)}: held" in out
    line = begun.history()[-1]
    assert (line["status"], line["reference"], begun.current()) == ("held", str(FIRST), str(FIRST))
    assert "svmsieve store release" in (begun.store / "summaries" / f"{day(2)}.md").read_text()
    assert begun.run(2) == []
    assert store(capsys, "release", begun.store)[0] == 0
    assert begun.night(2)["status"] == "published"
    assert begun.current() == f"{day(2)}.2"
    assert store(capsys, "status", begun.store)[0] == 0
    assert "nothing was held" in store(capsys, "release", begun.store)[1]


def test_a_hold_that_comes_after_the_decision_is_kept(begun, capsys):
    """Killed between decision and publication, then rolled back: completing the night publishes nothing."""
    line = begun.history()[-1] | {"night": str(day(2)), "date": str(day(2))}
    pending = {"night": str(day(2)), "date": str(day(2)), "reference": str(day(1)), "line": line}
    (begun.store / "night.json").write_text(json.dumps(pending))
    store(capsys, "rollback", begun.store)
    assert begun.run(2)[0]["status"] == "held"
    assert begun.current() == str(FIRST)


@pytest.mark.parametrize(
    ("night", "said"),
    [
        ("2026-01-01", "there is no run of night 2026-01-01"),
        ("../runs", "there is no run"),
        (str(day(2)), "was refused"),
    ],
)
def test_what_cannot_be_rolled_back_to(begun, capsys, night, said):
    begun.job.write_text(SETTINGS.replace("yesterday - 0.2", "yesterday + 0.9"))
    begun.arrive(2)
    begun.night(2)
    code, _, err = store(capsys, "rollback", begun.store, night)
    assert code == 1 and said in err
    assert begun.current() == str(day(1)) and not (begun.store / "hold.json").exists()


def test_nothing_to_roll_back_to(first, capsys, tmp_path):
    code, _, err = store(capsys, "rollback", copied(first, tmp_path / "job").store)
    assert code == 1 and "no run that was published before 2026-03-01 is kept" in err


def test_what_is_no_store(tmp_path, capsys):
    for words in ("status", "rollback", "release", "quarantine"):
        code, _, err = store(capsys, words, tmp_path / "none")
        assert code == 1 and "not the store of a nightly job" in err
    assert not (tmp_path / "none").exists()


def test_damaged_lines_of_the_history_are_reported_and_kept(begun, capsys):
    path = begun.store / "history.jsonl"
    good = path.read_bytes()
    flipped = good.replace(b'"status"', b'"sTatus"', 1)
    path.write_bytes(flipped + b'{"night": "2026-03-02", "torn')
    code, out, _ = store(capsys, "status", begun.store)
    assert code == 0 and f"{path}, line 1: damaged" in out and f"{path}, line 3: damaged" in out
    begun.arrive(2)
    notes = []
    (line,) = begun.run(2, listen=notes.append)
    assert line["status"] == "published"
    assert sum(": damaged" in getattr(note, "text", "") for note in notes) == 2
    assert path.read_bytes().startswith(flipped + b'{"night": "2026-03-02", "torn\n{"version": 3')
    assert samples((begun.store / "metrics.prom").read_text())["svmsieve_history_damaged_lines{}"] == 2


def test_lines_are_strict_and_older_ones_are_read(begun):
    path = begun.store / "history.jsonl"
    lines = begun.history()
    assert all(line["version"] == 3 for line in lines)
    del lines[0]["version"], lines[0]["ended"]
    lines[0]["scores"]["auc"] = float("nan")  # as nights wrote it before
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert Store(begun.store).history()[0].scores["auc"] is None
    begun.arrive(2)
    begun.night(2)
    assert path.read_text().count("NaN") == 1


def test_a_damaged_note_of_a_night_blocks_nothing(begun):
    for text in ("{", "[]", "null", '{"night": "../x", "date": "2026-03-03", "reference": null}'):
        (begun.store / "night.json").write_text(text)
        assert plan_night(read_job(begun.job), day(2))["night"] == str(day(2))
        assert (begun.store / "night.json").read_text() == text
    assert begun.night(2)["status"] == "nothing new"
    assert (begun.store / "night.damaged").read_text() == text


@pytest.fixture
def unreadable(monkeypatch):
    """Files of these names cannot be read."""
    names, allowed = set[str](), Path.read_bytes

    def refusing(path: Path) -> bytes:
        if path.name in names:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return allowed(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    return names


def test_a_history_that_cannot_be_read_is_one_line(begun, capsys, unreadable):
    unreadable.add("history.jsonl")
    for words in (("store", "status", begun.store), ("nightly", begun.job, "--dry-run"), ("nightly", begun.job, "-q")):
        code, _, err = command(capsys, *words)
        assert code == 1 and err.count("\n") == 1
        assert err.endswith("history.jsonl: cannot be read (Permission denied); check its permissions\n")


def test_a_note_of_a_night_that_cannot_be_read_blocks_nothing(begun, unreadable):
    (begun.store / "night.json").write_text("{}")
    unreadable.add("night.json")
    assert begun.night(2)["status"] == "nothing new"


def test_a_store_may_have_any_name(begun, tmp_path):
    begun.store.rename(tmp_path / "stor\udcff")
    write_metrics(Store(tmp_path / "stor\udcff"))
    assert b'/stor?"' in (tmp_path / "stor\udcff" / "metrics.prom").read_bytes()


def test_status_fits_a_terminal(begun, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    begun.arrive(2, "1 1:oops\n")
    reason = begun.failed(2)["error"]
    (begun.store / "hold.json").touch()
    (begun.store / "night.json").touch()
    _, out, _ = store(capsys, "status", begun.store)
    assert f"{day(2)} failed: {reason}" in " ".join(out.split()), "and nothing is lost"
    assert [line for line in out.splitlines() if len(line) > 80 and " " in line.strip()] == []


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_has_no_form_for_is_none(begun, number):
    """It cannot be written again."""
    text = json.dumps({"night": str(day(2)), "date": str(day(2)), "reference": str(day(1)), "taken_in": True, "x": 0})
    (begun.store / "night.json").write_text(text.replace('"x": 0', f'"x": {number}'))
    assert begun.run(3)[0]["night"] == str(day(2))


def test_a_copy_without_links_is_said(begun, capsys):
    current = begun.store / "current"
    current.unlink()
    current.mkdir()
    code, _, err = command(capsys, "nightly", begun.job, "-q")
    assert code == 1 and "current: is not a link" in err


def test_a_run_that_was_to_be_published_and_is_gone(begun):
    line = begun.history()[-1] | {"night": str(day(2)), "date": str(day(2))}
    pending = {"night": str(day(2)), "date": str(day(2)), "reference": str(day(1)), "line": line}
    (begun.store / "night.json").write_text(json.dumps(pending))
    failed, after = begun.run(3)
    assert failed["status"] == "failed" and "was to be published and is gone" in failed["error"]
    assert (after["status"], begun.current()) == ("nothing new", str(day(1)))


WEIRD = [None, True, -1, 10**40, "", "../../etc", "a\x00b\n\x1b[2J", [], {"a": []}, "2026-99-99", "x" * 9999]


def _mutants(item, keys=()):
    """Yield (keys, value): what to replace in a JSON item, every place by a third of the weird values."""
    for key in item if isinstance(item, dict) else range(len(item)):
        yield from (((*keys, key), value) for value in WEIRD[len(repr(key)) % 3 :: 3])
        if isinstance(item[key], dict | list):
            yield from _mutants(item[key], (*keys, key))


@pytest.mark.parametrize("name", ["files.json", "history.jsonl", "night.json"])
def test_files_of_a_store_may_say_anything(begun, name):
    """A store whose files were changed is read, or the error is one line of ours."""
    path, found = begun.store / name, Store(begun.store)
    line = begun.history()[-1]
    pending = {"night": str(day(1)), "date": str(day(1)), "reference": str(FIRST), "line": line, "notes": []}
    text = {"history.jsonl": json.dumps(line), "night.json": json.dumps(pending)}.get(name) or path.read_text()

    def looked(content: bytes) -> str:
        path.write_bytes(content)
        try:
            status(found, standing(found))
            metrics(found, standing(found))
            found.under_way()
            return ""
        except SieveError as error:
            return str(error)

    said = [looked(b"[" * 100_000), looked(b"\xff\xfe"), looked(b"null\n")]
    for (*keys, last), value in _mutants(json.loads(text)):
        item = whole = json.loads(text)
        for key in keys:
            item = item[key]
        item[last] = value
        said.append(looked(json.dumps(whole).encode() + b"\n"))
    assert len(said) > 50 and len(set(said)) > 1 - (name == "history.jsonl")
    assert all(len(text.splitlines()) <= 1 and len(text) < 1000 for text in said)


@pytest.mark.parametrize("text", ["", "{", "null", '{"night": 5}'])
def test_a_hold_is_a_hold_whatever_it_says(begun, capsys, text):
    (begun.store / "hold.json").write_text(text)
    assert store(capsys, "status", begun.store)[0] == 3
    assert store(capsys, "release", begun.store)[0] == 0
