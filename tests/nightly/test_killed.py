"""A night killed with SIGKILL before any of its operations on files: the next run completes it, as if undisturbed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.runs.directory import open_run
from tests.disk import not_waited_for
from tests.forked import Server
from tests.nightly.nights import SETTINGS, Nightly, day, rows

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "shutil.rmtree"}
EVERY = 5  # of the operations; all of them take minutes


def two_nights(folder: str) -> None:
    """Have everything loaded and compiled."""
    nightly = Nightly(Path(folder))
    for number in range(2):
        nightly.arrive(number)
        nightly.run(number)


def run_and_die(event: int, folder: str, number: int, where: str = "store") -> None:
    """Run a night, and kill this process just before its n-th operation on files of the store, or of a part of it."""
    count = 0

    def watch(name: str, arguments: tuple) -> None:
        nonlocal count
        if name in EVENTS and str(arguments[0]).startswith(str(Path(folder) / where)):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    not_waited_for()
    sys.addaudithook(watch)
    Nightly(Path(folder), SETTINGS.replace("keep: {runs: 2}", "keep: {runs: 1}")).run(number)
    sys.exit(0)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(two_nights, str(tmp_path_factory.mktemp("warm")))
    yield running
    running.close()


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> Path:
    """Three nights are over; tonight two files come whose shards are merged, one comes again with other rows and leaves
    the shard that it shares, one is bad, and two retire."""
    nightly = Nightly(tmp_path_factory.mktemp("before"), SETTINGS.replace("keep: {runs: 2}", "keep: {runs: 1}"))
    nightly.arrive(2, name=f"more-{day(2)}.svm", text=rows(52))
    for number in range(3):
        nightly.arrive(number)
        nightly.run(number)
    nightly.arrive(12)
    nightly.arrive(12, name=f"more-{day(12)}.svm", text=rows(62))
    nightly.arrive(2, nightly.arrive(2).read_text().replace("1:", "1:0"))
    nightly.arrive(11, "1 1:oops\n")
    return nightly.folder


@pytest.fixture(scope="module")
def undisturbed(before, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "job"
    shutil.copytree(before, folder, symlinks=True)
    nightly = Nightly(folder, (before / "job.yaml").read_text())
    (line,) = nightly.run(12)
    assert (line["status"], line["rows"], len(line["files"]["retired"])) == ("published", 160, 2)
    return relative(nightly)


def relative(nightly: Nightly) -> dict:
    """The store's contents with paths that do not depend on where it is."""
    text = str(nightly.folder)
    found = nightly.contents()
    return {name: _replaced(value, text) for name, value in found.items()}


def _replaced(value, text: str):
    if isinstance(value, bytes):
        return value.replace(text.encode(), b"")
    if isinstance(value, list):
        return [_replaced(each, text) for each in value]
    if isinstance(value, dict):
        return {key: _replaced(each, text) for key, each in value.items()}
    return value.replace(text, "") if isinstance(value, str) else value


@pytest.mark.slow
def test_killed_before_an_operation_on_files(server, before, undisturbed, tmp_path):
    event, code = 1, -signal.SIGKILL
    while code == -signal.SIGKILL:
        folder = tmp_path / str(event)
        shutil.copytree(before, folder, symlinks=True)
        server.start(run_and_die, event, str(folder), 12)
        code = server.left()
        nightly = Nightly(folder, (before / "job.yaml").read_text())
        open_run(nightly.store / "current").best.model.w()
        open_shards(nightly.store / "shards", full_check=True)
        nightly.run(12)
        assert relative(nightly) == undisturbed, f"killed before operation {event}"
        assert nightly.run(12) == []
        shutil.rmtree(folder)
        event += EVERY
    assert code == 0
    assert event > 60


def test_the_day_after_completes_the_night_first(before, tmp_path, server):
    folder = tmp_path / "job"
    shutil.copytree(before, folder, symlinks=True)
    server.start(run_and_die, 5, str(folder), 12, f"store/runs/{day(12)}")
    assert server.left() == -signal.SIGKILL
    nightly = Nightly(folder, (before / "job.yaml").read_text())
    nightly.arrive(13)
    first, second = nightly.run(13)
    assert (first["night"], second["night"], nightly.current()) == (str(day(12)), str(day(13)), str(day(13)))
    assert (first["rows"], second["rows"]) == (160, 120)  # a file came, and two went
