"""Temporary files: new ones, under names that nobody knows before, and gone if anything fails."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pipeline import files
from pipeline.errors import OutputError
from pipeline.files import atomic, replacing, write_json

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
