"""Temporary files: new ones, under names that nobody knows before, and gone if anything fails."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pipeline import files
from pipeline.data.registry.fetch import fetch
from pipeline.data.registry.registry import RegistryEntry
from pipeline.errors import FetchError, OutputError
from pipeline.files import atomic, link_whole, open_new, replacing, write_json
from pipeline.runs.model_file import write_model

pytestmark = pytest.mark.attack


def test_a_link_that_lies_in_wait_is_not_followed(tmp_path, monkeypatch):
    """Even where its name is known: the file is created, or it is an error."""
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "known")
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    (tmp_path / "out.json.known.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "out.json", {})
    with (
        pytest.raises(OutputError, match=r"out\.json: cannot be written \(File exists\)"),
        replacing(tmp_path / "out.json"),
    ):
        pytest.fail("opened")
    assert victim.read_text() == "years of work"
    assert (tmp_path / "out.json.known.tmp").is_symlink()


def test_nor_is_one_in_a_run_or_among_downloads(tmp_path, monkeypatch):
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "known")
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    (tmp_path / "model.npz.known.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_model(tmp_path / "model.npz", 1.0, np.ones(2), np.ones(3), np.zeros(3, np.int8))
    (tmp_path / "rows.svm.part").symlink_to(victim)
    with pytest.raises(FetchError, match="symbolic links"):
        fetch(RegistryEntry("rows", "download", url="http://127.0.0.1:1/rows.svm"), tmp_path)
    assert victim.read_text() == "years of work"


def test_names_differ_and_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "out"
    with atomic(path) as one, atomic(path) as other:
        assert len(list(tmp_path.iterdir())) == 2
        one.write(b"one")
        other.write(b"other")
    assert path.read_bytes() == b"one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.json"
    write_json(path, {"a": 1})

    def fail() -> None:
        with atomic(path) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_others_may_read_what_the_umask_allows(tmp_path):
    write_json(tmp_path / "out.json", {})
    Path(tmp_path / "usual").touch()
    assert (tmp_path / "out.json").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert os.stat(tmp_path / "out.json").st_nlink == 1  # noqa: PTH116


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_forced_to_disk_unless_its_reader_would_notice(tmp_path, monkeypatch, sync):
    forced = []
    monkeypatch.setattr(files.os, "fsync", forced.append)
    with atomic(tmp_path / "out", sync) as stream:
        stream.write(b"whole")
        stream.seek(0)
        assert stream.read() == b"whole"
    assert (tmp_path / "out").read_bytes() == b"whole"
    assert len(forced) == sync


def test_a_model_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(AttributeError):
        write_model(tmp_path / "model.npz", 1.0, np.ones(2), np.ones(3), None)
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_new_and_for_whom_it_is_said(tmp_path):
    with open_new(tmp_path / "key", 0o600) as stream:
        stream.write(b"secret")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("key", "link"):
        with pytest.raises(FileExistsError):
            open_new(tmp_path / name)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_changes_in_one_step(tmp_path, monkeypatch):
    link_whole(tmp_path / "current", Path("one"))
    replace, seen = Path.replace, []

    def spied(self, target):
        seen.append(Path(target).readlink())
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", spied)
    link_whole(tmp_path / "current", Path("two"))
    assert seen == [Path("one")] and (tmp_path / "current").readlink() == Path("two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["current"]
