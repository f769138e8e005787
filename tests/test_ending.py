"""Told to end, a command ends: soon, with one line and its exit code, whatever hangs, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clusters import ROOT

pytestmark = pytest.mark.attack

SAID = "svmsieve: interrupted; finished results stay, run the same command again to go on\n"
READS_FOR_EVER = """
import os, sys
from pipeline.cli import ending, main
from pipeline.data.reading import svmlight

ending.SECONDS_FOR_TASKS = ending.SECONDS_BETWEEN = 0.2
{patience}

def hang(*_):
    with open(sys.argv[1], "rb") as pipe:  # somebody holds it open and writes nothing
        pipe.read(1)

{hanging}
main(sys.argv[2:])
"""
IN_A_POOL = """
from pipeline.data.ingest import ingest as place
def wait(pool, *_, **__):
    future = pool.submit(hang)
    os.write(1, b"x")  # interrupted within submit, nobody would wait for the thread
    return [future.result()]
place.in_order = wait
"""
IN_COMPILED_CODE = """
import ctypes
from pipeline.data.ingest import ingest as place
def wait(*_, **__):
    os.write(1, b"x")
    ctypes.CDLL(None).pause()  # and again after every signal, as C code does that does not look at them
    return wait()
place.in_order = wait
"""
CALLED_FROM_C = """
import ctypes, time
from pipeline.data.ingest import ingest as place
def wait(*_, **__):
    ctypes.CFUNCTYPE(None)(lambda: (os.write(1, b"x"), time.sleep(30)) and None)()  # an exception ends it, and is lost
    time.sleep(30)
place.in_order = wait
"""


@contextmanager
def hanging(folder: Path, how: str, patience: str = ""):
    """An ingest that hangs: its process, once it does."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    (folder / "rows.svm").write_text("1 1:2\n-1 3:4\n")
    holding = os.open(pipe, os.O_RDWR)
    program = READS_FOR_EVER.format(hanging=how, patience=patience)
    words = [sys.executable, "-c", program, str(pipe), "ingest", "rows.svm", "--out", "shards"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        with subprocess.Popen(words, cwd=folder, env=environment, **streams) as process:
            try:
                assert process.stdout.read(1) == "x"
                yield process
            finally:
                process.kill()
    finally:
        os.close(holding)


def test_sigterm_ends_a_command_whose_thread_reads_for_ever(tmp_path):
    with hanging(tmp_path, IN_A_POOL) as process:
        assert (tmp_path / ".shards.partial").is_dir()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # as ``timeout`` does: once to us, once to our group
        said = process.communicate(timeout=20)[1]
    assert (process.returncode, said) == (128 + signal.SIGTERM, SAID)
    assert time.monotonic() - begun < 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "rows.svm"]


def test_an_interruption_that_c_loses_is_not_spoken_of_and_another_follows(tmp_path):
    with hanging(tmp_path, CALLED_FROM_C) as process:
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=20)[1]
    assert (process.returncode, said) == (128 + signal.SIGTERM, SAID)


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    with hanging(tmp_path, IN_A_POOL, "ending.SECONDS_FOR_TASKS = 1000") as process:
        process.send_signal(signal.SIGINT)
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT


def test_patience_ends_where_the_main_thread_hears_nothing(tmp_path):
    with hanging(tmp_path, IN_COMPILED_CODE, "ending.SECONDS_TO_END = 0.5") as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_told_to_end_while_it_is_still_being_imported_a_command_says_so(tmp_path, number, code):
    (tmp_path / "click.py").write_text("import os, time\nos.write(1, b'x')\ntime.sleep(30)\n")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["svmsieve"].partition(":")
    words = [sys.executable, "-c", f"from {module} import {function} as main; main()", "--version"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment, **streams) as process:
        assert process.stdout.read(1) == "x"
        process.send_signal(number)
        said = process.communicate(timeout=20)[1]
    assert (process.returncode, said) == (code, SAID)


@pytest.mark.parametrize("where", ["told.begin", "_run"])
def test_interrupted_just_before_or_after_what_it_does_a_command_says_so(where):
    program = f"""
import pipeline.cli as cli
done = cli.{where}
def interrupted(*words):
    done(*words)
    raise KeyboardInterrupt
cli.{where} = interrupted
cli.main()
"""
    words = [sys.executable, "-c", program, "--version"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, SAID)


def test_told_to_end_when_all_is_done_a_command_ends_as_it_did():
    program = """
import atexit, os, time
from pipeline.cli import main
atexit.register(lambda: (os.write(1, b"\\0"), time.sleep(30)))
main()
"""
    words = [sys.executable, "-c", program, "--version"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=os.environ | {"PYTHONPATH": str(ROOT)}, **streams) as process:
        while process.stdout.read(1) != "\0":
            pass
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)[1]
    assert (process.returncode, said) == (0, "")
