"""Temporary files: new ones, under names that nobody knows before, and gone if anything fails."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pipeline import files
from pipeline.data.registry.fetch import fetch
from pipeline.data.registry.registry import Entry
from pipeline.errors import FetchError, OutputError
from pipeline.files import atomic, replacing, write_json
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


def test_nor_is_one_in_a_run_or_among_downloads(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    (tmp_path / "model.npz.tmp").symlink_to(victim)
    write_model(tmp_path / "model.npz", 1.0, np.ones(2), np.ones(3), np.zeros(3, np.int8))
    assert not (tmp_path / "model.npz").is_symlink()
    (tmp_path / "rows.svm.part").symlink_to(victim)
    with pytest.raises(FetchError, match="symbolic links"):
        fetch(Entry("rows", "download", url="http://127.0.0.1:1/rows.svm"), tmp_path)
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
