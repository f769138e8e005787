"""Whatever happens to a writer, a reader finds the old data set, the new one or none, and running again finishes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import files
from pipeline.cli import main
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards import directory
from pipeline.data.shards.directory import existing_directory, new_directory
from pipeline.data.shards.manifest import MANIFEST, read_manifest
from pipeline.errors import DataError, DatasetError
from tests.disk import not_waited_for
from tests.forked import LIMIT, Server, one_line, run_command

MODES = {"fresh": [], "append": ["--append"], "overwrite": ["--overwrite"]}


def write_rows(path: Path, rows: int, seed: int) -> Path:
    rng = random.Random(seed)
    path.write_text("".join(f"{1 - i % 2 * 2} {rng.randint(1, 9)}:{rng.random()!r} 10:1\n" for i in range(rows)))
    return path


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Inode, time of change and content of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(f.relative_to(folder)): (f.stat().st_ino, f.stat().st_mtime_ns, f.read_bytes()) for f in files}


@dataclass
class Job:
    """An ingest of ``source`` into ``folder/out``, where (but for a fresh one) the data set ``old`` is already."""

    mode: str
    folder: Path
    source: Path
    old: str
    new: str
    before: dict[str, tuple[int, int, bytes]]

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def writes_to(self) -> Path:
        return self.out if self.mode == "append" else self.folder / ".out.partial"

    @property
    def spec(self) -> IngestSpec:
        return IngestSpec(rows_per_shard=100, append=self.mode == "append", overwrite=self.mode == "overwrite")

    def arguments(self, rows_per_shard: int = 1) -> list[str]:
        sizes = ["--rows-per-shard", str(rows_per_shard)]
        return ["ingest", str(self.source), "--out", str(self.out), "-q", *sizes, *MODES[self.mode]]

    def wait_for_shards(self, count: int, ended: Callable[[], bool] = lambda: False) -> None:
        """Wait until so many new shards are there."""
        end = time.monotonic() + LIMIT
        count += sum(name.endswith(".arrow") for name in self.before) if self.mode == "append" else 0
        while len(list(self.writes_to.glob("shard-*.arrow"))) < count and not ended():
            assert time.monotonic() < end
            time.sleep(0.001)

    def check_what_a_reader_finds(self) -> None:
        if self.mode == "fresh":
            assert not self.out.exists() or open_shards(self.out, full_check=True).fingerprint == self.new
        else:
            assert open_shards(self.out, full_check=True).fingerprint in (self.old, self.new)
        if self.mode == "append":
            now = snapshot(self.folder)
            assert {name: now[name] for name in self.before if name.endswith(".arrow")}.items() <= self.before.items()

    def run_again(self) -> None:
        """Finish the job in this process, unless it was finished, and look for leftovers."""
        if self.mode == "overwrite" or not self.out.exists() or open_shards(self.out).fingerprint == self.old:
            ingest([str(self.source)], self.out, self.spec)
        elif self.mode == "append":
            with existing_directory(self.out):
                pass  # the next writer ends what was not ended
        assert open_shards(self.out, full_check=True).fingerprint == self.new
        listed = {shard.name for shard in read_manifest(self.out).shards} | {MANIFEST}
        assert {path.name for path in self.out.iterdir()} == listed
        assert [path.name for path in self.folder.iterdir()] == ["out"]

    def assert_untouched(self) -> None:
        assert snapshot(self.folder) == self.before
        assert {path.name for path in self.folder.iterdir()} == ({"out"} if self.before else set())


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Two files, and the fingerprints of what they make undisturbed."""
    folder = tmp_path_factory.mktemp("known")
    old, new = str(write_rows(folder / "old.svm", 30, 1)), str(write_rows(folder / "new.svm", 300, 2))
    inputs = {"old": [old], "fresh": [new], "overwrite": [new], "append": [old, new]}
    return folder, {name: ingest(files, folder / name, IngestSpec()).fingerprint for name, files in inputs.items()}


@pytest.fixture
def job(tmp_path, known):
    files, fingerprints = known

    def make(mode: str, name: str = "place") -> Job:
        folder = tmp_path / name
        folder.mkdir()
        if mode != "fresh":
            ingest([str(files / "old.svm")], folder / "out", IngestSpec(rows_per_shard=10))
        return Job(mode, folder, files / "new.svm", fingerprints["old"], fingerprints[mode], snapshot(folder))

    return make


# Writers in processes of their own, forked from one that has everything loaded


FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "fcntl.flock", "ctypes.dlsym"}


def run_and_die(event: int, exchange: bool, source: str, out: str, spec: IngestSpec) -> None:
    """Ingest, and kill this process just before its n-th operation on files around ``out``."""
    if not exchange:
        directory._exchange = lambda one, other: False
    count = 0

    def watch(name: str, arguments: tuple) -> None:
        nonlocal count
        if name in FILE_EVENTS and (name != "open" or str(arguments[0]).startswith(str(Path(out).parent))):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    not_waited_for()
    sys.addaudithook(watch)
    ingest([source], out, spec)
    sys.exit(0)


def ingest_once(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ingest([source], Path(folder) / "warm", IngestSpec())


@pytest.fixture(scope="module")
def server(known):
    running = Server(ingest_once, str(known[0] / "new.svm"))
    yield running
    running.close()


@pytest.fixture
def command(server, tmp_path):
    """Start the command line with these arguments; the second function returned waits: exit code and stderr."""
    errors = tmp_path / "errors"

    def start(arguments: list[str], largest_file: int | None = None) -> int:
        return server.start(run_command, str(errors), largest_file, arguments)

    return start, lambda: (server.left(), errors.read_text())


# Killed


@pytest.mark.parametrize("mode", MODES)
def test_killed_at_random_moments(job, server, command, mode):
    start, left = command
    codes = []
    for k, shards in enumerate(random.Random(mode).sample(range(1, 300), 8)):
        one = job(mode, str(k))
        pid = start(one.arguments())
        one.wait_for_shards(shards, server.ended)
        if not server.ended():
            os.kill(pid, signal.SIGKILL)
        codes.append(left()[0])
        one.check_what_a_reader_finds()
        one.run_again()
    assert codes.count(-signal.SIGKILL) > 4, codes


@pytest.mark.parametrize(
    ("mode", "exchange"), [("fresh", True), ("append", True), ("overwrite", True), ("overwrite", False)]
)
def test_killed_at_every_operation_on_files(job, server, mode, exchange):
    event, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        event += 1
        one = job(mode, str(event))
        server.start(run_and_die, event, exchange, str(one.source), str(one.out), one.spec)
        code = server.left()
        if not exchange and not one.out.exists():  # between two renames: the next writer brings it back
            with existing_directory(one.out) as opened:
                assert opened.old is not None
                assert opened.old.fingerprint == one.old
        one.check_what_a_reader_finds()
        one.run_again()
    assert code == 0
    assert event > 10


# Interrupted, failing, refused


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupt_is_one_line_and_leaves_nothing(job, mode):
    one = job(mode)
    program = f"from pipeline.cli import main; main({one.arguments()!r})"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    one.wait_for_shards(10)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=LIMIT)[1]
    assert process.returncode == 1
    assert "interrupted" in one_line(said.lstrip("\n"))
    one.assert_untouched()


@pytest.mark.parametrize("mode", MODES)
def test_bad_input_after_many_shards_changes_nothing(job, tmp_path, mode):
    one = job(mode)
    bad = write_rows(tmp_path / "bad.svm", 50, 3)
    bad.write_text(bad.read_text() + "1 5:oops\n")
    for broken, message in ((bad, "line 51"), (tmp_path / "missing.svm", "(?i)no such file")):
        with pytest.raises(DataError, match=message):
            ingest([str(one.source), str(broken)], one.out, one.spec)
        one.assert_untouched()


@pytest.mark.parametrize(("rows_per_shard", "limit"), [(100, 2000), (1, 20_000)], ids=["shard", "manifest"])
@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk_is_one_line_and_changes_nothing(job, command, mode, rows_per_shard, limit):
    start, left = command
    one = job(mode)
    start(one.arguments(rows_per_shard), limit)
    code, said = left()
    assert code == 1
    assert f"{one.out}: cannot be written (File too large)" in one_line(said)
    one.assert_untouched()
    one.run_again()


@pytest.mark.parametrize("mode", MODES)
def test_a_second_writer_is_told_to_wait(job, command, capsys, mode):
    start, left = command
    one = job(mode)
    pid = start(one.arguments())
    one.wait_for_shards(10)
    os.kill(pid, signal.SIGSTOP)
    busy = "another svmsieve is writing there"
    expected = {"fresh": busy, "append": "no data set there", "overwrite": busy}
    if mode != "fresh":
        expected = {"fresh": "already; pass --append", "append": busy, "overwrite": busy}
    for second, message in expected.items():
        with pytest.raises(SystemExit) as exited:
            main(["ingest", str(one.source), "--out", str(one.out), "-q", *MODES[second]])
        assert exited.value.code == 1
        assert message in one_line(capsys.readouterr().err)
    os.kill(pid, signal.SIGCONT)
    assert left() == (0, "")
    assert open_shards(one.out, full_check=True).fingerprint == one.new


def test_a_lock_on_a_directory_that_was_renamed_is_no_lock(tmp_path, monkeypatch):
    """The first writer finishes between the second one's opening and locking of the partial directory."""
    source, out = write_rows(tmp_path / "rows.svm", 30, 1), tmp_path / "out"
    first = new_directory(out)
    opened = first.__enter__()
    lock = files._lock

    def finish_first(descriptor: int, busy: DatasetError, deadline: float) -> None:
        monkeypatch.undo()
        manifest = ingest([str(source)], tmp_path / "other", IngestSpec())
        for shard in (tmp_path / "other").glob("shard-*"):
            shard.rename(opened.path / shard.name)
        opened.finish(manifest)
        first.__exit__(None, None, None)
        lock(descriptor, busy, deadline)

    monkeypatch.setattr(files, "_lock", finish_first)
    with pytest.raises(DatasetError, match="another svmsieve is writing there"), new_directory(out, overwrite=True):
        pytest.fail("locked a directory that is not the partial one any more")
    assert open_shards(out).n_rows == 30


def foreign_file(out: Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")


def foreign_file_in_a_data_set(out: Path) -> None:
    write_rows(out.parent / "rows.svm", 30, 1)
    ingest([str(out.parent / "rows.svm")], out, IngestSpec())
    (out / "thesis.txt").write_text("years of work")


REFUSED = {
    "below a file": (lambda out: out.parent.write_text("x"), "fresh", "below is not a directory"),
    "a file": (lambda out: out.write_text("x"), "overwrite", "exists and is not a data set"),
    "append to a file": (lambda out: out.write_text("x"), "append", "no data set there; run svmsieve ingest"),
    "append to nothing": (lambda out: None, "append", "no data set there; run svmsieve ingest"),
    "append to an empty directory": (Path.mkdir, "append", "no manifest.json"),
    "a foreign directory": (foreign_file, "overwrite", "exists and is not a data set"),
    "append to a foreign directory": (foreign_file, "append", "no manifest.json"),
    "a data set": (foreign_file_in_a_data_set, "fresh", "pass --append to add to it or --overwrite to replace it"),
    "a data set with a foreign file": (foreign_file_in_a_data_set, "overwrite", "thesis.txt there is not part of"),
    "a name too long": (lambda out: None, "fresh", "cannot be written (File name too long)"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_place_that_cannot_be_written_is_one_line_and_stays_as_it_is(tmp_path, known, capsys, kind):
    prepare, mode, message = REFUSED[kind]
    out = tmp_path / "below" / "out" if kind == "below a file" else tmp_path / ("out" * (84 if "long" in kind else 1))
    prepare(out)
    before = snapshot(tmp_path)
    with pytest.raises(SystemExit) as exited:
        main(["ingest", str(known[0] / "new.svm"), "--out", str(out), "-q", *MODES[mode]])
    said = one_line(capsys.readouterr().err)
    assert exited.value.code == 1
    assert str(out) in said
    assert message in said
    assert snapshot(tmp_path) == before
    assert not list(tmp_path.rglob(".*"))


def test_a_mount_point_is_refused_before_hours_of_work(tmp_path, known, monkeypatch):
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "out")
    with pytest.raises(DatasetError, match="is a mount point"):
        ingest([str(known[0] / "new.svm")], tmp_path / "out", IngestSpec())


# What does work


def test_an_empty_directory_and_missing_parents_are_fine(tmp_path, known):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        ingest([str(known[0] / "new.svm")], out, IngestSpec())
        assert open_shards(out).fingerprint == known[1]["fresh"]


def test_a_link_stays_a_link(tmp_path, known):
    source, link = str(known[0] / "new.svm"), tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    ingest([source], link, IngestSpec())
    ingest([str(known[0] / "old.svm")], link, IngestSpec(overwrite=True))
    ingest([source], link, IngestSpec(append=True))
    assert link.is_symlink()
    assert open_shards(tmp_path / "elsewhere").fingerprint == known[1]["append"]
    assert {path.name for path in tmp_path.iterdir()} == {"link", "elsewhere"}


def test_something_foreign_that_turns_up_meanwhile_is_not_replaced(tmp_path, known):
    out = tmp_path / "out"
    with pytest.raises(DatasetError, match=r"cannot be written \(Directory not empty\)"), new_directory(out) as opened:
        foreign_file(out)
        opened.finish(read_manifest(known[0] / "fresh"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "thesis.txt").read_text() == "years of work"
