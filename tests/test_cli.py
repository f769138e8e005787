"""The command line as a user meets it: help worth reading, exit codes, one-line errors, progress."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.cli import app, main
from tests.watched import SVMSIEVE, on_a_terminal

TOP = Path(__file__).parents[1]


def run(capsys, *arguments):
    """Run in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err


def test_wrong_usage_is_one_printable_line_with_all_that_it_says(capsys, tmp_path):
    code, _, err = run(capsys, "export", tmp_path, "--out", "two\nlines \x1b[31m")
    assert (code, err.count("\n")) == (2, 1)
    assert err.rstrip("\n").isprintable()
    assert "--out two lines ?[31m does not tell the format" in err
    code, _, err = run(capsys, "train", "x", "--c", "1", "--out", "y", "--class-weight", "a")
    assert (code, "LABEL=WEIGHT,...; see svmsieve train --help\n" in err) == (2, True)


def commands(group=app, prefix=()):
    for name, command in group.commands.items():
        yield (*prefix, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*prefix, name))


@pytest.mark.parametrize("command", [(), *commands()], ids=" ".join)
def test_every_help_has_an_example(capsys, command):
    code, out, err = run(capsys, *command, "--help")
    assert code == 0
    assert err == ""
    assert re.search(r"Examples?:\n\s+svmsieve " + " ".join(command), out)


def parse(line):
    """Parse a command line up to the point where it would run: its command and options must exist."""
    words = line.partition(" > ")[0].split()
    found, name = app, "svmsieve"
    while hasattr(found, "commands"):
        name = words.pop(0)
        found = found.commands[name]
    found.make_context(name, words)


def test_examples_in_help_parse(capsys):
    for command in [(), *commands()]:
        _, out, _ = run(capsys, *command, "--help")
        for example in re.findall(r"^\s+svmsieve (.*?)\s*(?:#.*)?$", out.split("Example")[-1], re.MULTILINE):
            parse(example)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["ingest", "--out", "x"], 2, "Missing argument"),
        (["ingest", "a", "--out", "x", "--bias", "nan"], 2, "not finite"),
        (["ingest", "a", "--out", "x", "--shard-size", "many"], 2, "not a size"),
        (["ingest", "a", "--out", "x", "--append", "--overwrite"], 2, "exclude each other"),
        (["path", "a", "--out", ""], 2, "'' is no name of what is to be written"),
        (["path", "a", "--out", "x", "--tol", "0"], 2, "tol must be a positive finite number, not 0.0"),
        (["path", "a", "--out", "x", "--tol", "1"], 2, "tol is a relative gap below 1"),
        (["path", "a", "--out", "x", "--c-max", "inf"], 2, "c_max must be a positive finite number, not inf"),
        (["path", "a", "--out", "x", "--epsilon", "nan"], 2, "epsilon must be a positive finite number, not nan"),
        (["path", "a", "--out", "x", "--holdout", "1"], 2, "holdout is a share of the rows from 0 to below 1"),
        (["path", "a", "--out", "x", "--grid", "1", "--c-max", "9"], 2, "and --c-max is about others; leave one out"),
        (["path", "a", "--out", "x", "--grid", "1", "--epsilon", "0.1"], 2, "and --epsilon is about others"),
        (["path", "a", "--out", "x", "--patience", "2"], 2, "--patience needs scores; add --cv, --holdout or"),
        (["path", "a", "--out", "x", "--select", "auc"], 2, "--select needs scores; add --cv, --holdout or"),
        (["train", "a", "--out", "x", "--c", "0"], 2, "C must be a positive finite number, not 0.0"),
        (["screen", "a", "--reference", "r", "--out", "x.csv", "--c", "-1"], 2, "C must be a positive finite number"),
        (["ingest", "nowhere.svm", "--out", "x"], 1, "no such file"),
        (["ingest", "gisete", "--out", "x"], 1, "svmsieve datasets list"),
        (["ingest", "url-like", "--out", "x"], 1, "svmsieve datasets make url-like"),
        (["ingest", "digit1", "--out", "x"], 1, "convert it"),
        (["datasets", "make", "url", "--out", "x"], 1, "url-like, kdda-like"),
        (["datasets", "fetch", "breast_cancer"], 1, "svmsieve ingest breast_cancer"),
        (["datasets", "describe", "nowhere"], 1, "svmsieve datasets list"),
        (["datasets", "check", "nowhere"], 1, "svmsieve ingest again"),
        (["datasets", "describe", "breast_cancer", "--scheduler", "carrier-pigeon"], 1, "threads"),
    ],
)
def test_errors_are_one_line(capsys, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    found, out, err = run(capsys, *arguments)
    assert found == code
    assert out == ""
    *notes, last = err.splitlines()
    assert message in last
    assert all(note.startswith("ingest") for note in notes)
    assert list(tmp_path.iterdir()) == []


def test_ingest_and_describe_a_bundled_data_set(capsys, tmp_path):
    code, out, err = run(capsys, "ingest", "breast_cancer", "--out", tmp_path / "cancer", "--bias", "1")
    assert code == 0
    assert "569 rows, 31 features, 17,639 nonzeros, 62.7% positive, in 1 shard" in out
    assert "569 rows" in err
    code, out, err = run(capsys, "datasets", "describe", tmp_path / "cancer", "--json")
    found = json.loads(out)
    assert (found["rows"], found["features"], found["positives"], found["bias"]) == (569, 31, 357, 1.0)
    assert found["row_lengths"] == [31] * 7
    assert run(capsys, "datasets", "check", tmp_path / "cancer")[0] == 0
    assert run(capsys, "ingest", "breast_cancer", "--out", tmp_path / "cancer")[0] == 1
    assert run(capsys, "ingest", "breast_cancer", "--out", tmp_path / "cancer", "--overwrite", "-q")[2] == ""


def test_describe_opens_whatever_data_may_be(capsys, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:2\n-1 3:4\n1\n")
    for _ in range(2):
        code, out, err = run(capsys, "datasets", "describe", tmp_path / "rows.svm")
        assert code == 0
        assert re.search(r"rows +3\n +features +3\n +nonzeros +2 ", out)
    assert err == "", "the second time it is found in the cache"
    (tmp_path / "rows.svm").write_text("1 1:2\n-1 3:4\n")
    assert re.search(r"rows +2\n", run(capsys, "datasets", "describe", tmp_path / "rows.svm")[1])


def test_list_names_every_data_set(capsys):
    code, out, _ = run(capsys, "datasets", "list")
    assert code == 0
    for name in ("breast_cancer", "kdd-b", "ijcnn1", "url-like"):
        assert re.search(rf"^ +{name} ", out, re.MULTILINE)


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:2\n-1 3:4\n" * 200_000)
    command = [*SVMSIEVE, "ingest", "rows.svm", "--out"]
    plain = subprocess.run([*command, "a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "400,000 rows, 2.6 MB of 2.6 MB (100%)" in plain.stderr
    assert "\x1b" not in plain.stderr
    shown = on_a_terminal(*command, "b", cwd=tmp_path, stdout=subprocess.DEVNULL)
    assert b"\x1b[" in shown
    assert b"rows," in shown


@pytest.mark.parametrize("command", ["path", "ingest"])
def test_links_in_a_circle_are_no_place_to_write(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.svm").write_text("1 1:2\n-1 3:4\n")
    (tmp_path / "loop").symlink_to("loop")
    for out in ("loop", "loop/out"):
        code, said, err = run(capsys, command, "a.svm", "--out", out)
        assert (code, said, err.count("\n")) == (2 if command == "path" else 1, "", 1)
        assert f"{out}: its links go in a circle; choose another --out" in err


def test_a_run_that_is_a_file_is_none(capsys, tmp_path):
    (tmp_path / "rows.csv").write_text("label,x\n0,1\n1,2\n")
    code, _, err = run(capsys, "predict", tmp_path / "rows.csv", tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert (code, err.count("\n")) == (1, 1)
    assert "rows.csv: no run.json: not a run directory" in err


def test_a_folder_that_is_gone_is_said_to_be(capsys, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, _, err = run(capsys, "path", "../rows.svm", "--out", "run")
    assert (code, err) == (1, "svmsieve: the folder that this was started in is gone; go to another\n")


def test_names_of_files_need_not_be_text(capsys, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.svm")
    Path(path).write_text("1 1:2\n-1 3:4\n")
    code, out, _ = run(capsys, "datasets", "describe", path)
    assert code == 0
    assert "rows" in out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed_do_not_matter(tmp_path, closed):
    (tmp_path / "rows.svm").write_text("1 1:2\n-1 3:4\n")
    start = f"{sys.executable} -c 'from pipeline.start import main; main()'"
    words = ["bash", "-c", f"{start} ingest rows.svm --out data {closed} && {start} datasets check data"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_a_closed_pipe_is_not_a_traceback(tmp_path):
    code = "from pipeline.cli import main; main(['datasets', 'list'])"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert "Traceback" not in done.stderr


@pytest.mark.attack
@pytest.mark.parametrize("words", [["datasets", "list"], ["--version"]])  # more and less than what is kept back
def test_output_that_has_no_room_is_one_line(words):
    code = "from pipeline.cli import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "No space left on device" in done.stderr


def test_a_command_that_is_a_process_ends_as_python_does(tmp_path):
    """It does not take modules apart, but what is to be done at the end is done, and what was said is written."""
    code = (
        "import atexit, pathlib, threading, time; from pipeline.cli import main\n"
        "atexit.register(lambda: pathlib.Path('at-exit').touch())\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), pathlib.Path('thread').touch())).start(); main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "datasets", "list"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "breast_cancer" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"at-exit", "thread"}
