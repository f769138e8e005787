"""A manifest that disagrees with its directory: nothing is written, and nothing that could be meant is removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.compact import compact
from pipeline.data.shards.journal import JOURNAL, write_journal
from pipeline.data.shards.manifest import MANIFEST, read_manifest
from pipeline.data.shards.retire import retire
from pipeline.data.shards.shard import LARGEST_NUMBER
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DatasetError
from tests.data.hostile import edit, snapshot
from tests.trained import command

pytestmark = pytest.mark.attack

ROWS = "1 1:1 3:2.5\n-1 2:1\n1 3:1\n-1 1:2\n"


@pytest.fixture
def out(tmp_path) -> Path:
    """Four shards of a row each."""
    (tmp_path / "rows.svm").write_text(ROWS)
    ingest([str(tmp_path / "rows.svm")], tmp_path / "out", IngestSpec(rows_per_shard=1))
    return tmp_path / "out"


def append(out: Path) -> None:
    ingest([str(out.parent / "rows.svm")], out, IngestSpec(append=True))


def wrong_digit(out: Path) -> str:
    edit(out, lambda item: item["shards"][2].update(name="shard-00012.arrow"))
    return "manifest.json names shard-00012.arrow, which is not there"


def two_of_one_name(out: Path) -> str:
    edit(out, lambda item: item["shards"][2].update(name="shard-00001.arrow"))
    return "two shards are called shard-00001.arrow"


def the_same_twice(out: Path) -> str:
    edit(out, lambda item: item["shards"].append(item["shards"][1]))
    return "manifest.json names a shard twice"


def an_older_manifest(out: Path) -> str:
    old = (out / MANIFEST).read_bytes()
    append(out)
    (out / MANIFEST).write_bytes(old)
    return "shard-00004.arrow is there, but manifest.json does not name it"


def an_append_killed_by_an_older_version(out: Path) -> str:
    shutil.copy(out / "shard-00000.arrow", out / "shard-00004.arrow")
    return "shard-00004.arrow is there, but manifest.json does not name it"


def a_gap(out: Path) -> str:
    """The journal explains shard 4; shard 1 is nobody's."""
    edit(out, lambda item: item["shards"].pop(1))
    write_journal(out, 4)
    shutil.copy(out / "shard-00000.arrow", out / "shard-00004.arrow")
    return "shard-00001.arrow is there, but manifest.json does not name it"


def a_finished_change(out: Path) -> str:
    """Killed when all was done but the journal's end; what the new manifest named then is no leftover."""
    append(out)
    write_journal(out, 4)
    edit(out, lambda item: item["shards"].pop())
    return "shard-00004.arrow is there, but manifest.json does not name it"


def a_damaged_journal(out: Path) -> str:
    (out / JOURNAL).write_text('{"format": "svmsieve-journal", "version": 1, "first_new": true, "removed": []}')
    return "the journal of an interrupted change is damaged (first_new is true, not a whole number"


DISAGREEING = [
    wrong_digit,
    two_of_one_name,
    the_same_twice,
    an_older_manifest,
    an_append_killed_by_an_older_version,
    a_gap,
    a_finished_change,
    a_damaged_journal,
]
CHANGES = {"append": append, "retire": lambda out: retire(out, ["shard-00000.arrow"]), "compact": compact}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", DISAGREEING)
def test_a_manifest_that_disagrees_is_an_error_before_anything_is_written(out, make, change):
    message = make(out)
    before = snapshot(out)
    with pytest.raises(DatasetError) as caught:
        CHANGES[change](out)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert snapshot(out) == before


@pytest.mark.parametrize("change", [append, compact])
def test_no_shard_gets_a_name_that_no_manifest_may_have(out, change):
    edit(out, lambda item: item.update(next_number=LARGEST_NUMBER))
    before = snapshot(out)
    with pytest.raises(DatasetError, match=r"out: no number is left for another shard; svmsieve datasets copy \S+ NEW"):
        change(out)
    assert snapshot(out) == before
    copy_shards(str(out), str(out.parent / "new"))
    append(out.parent / "new")
    assert open_shards(out.parent / "new").n_rows == 8


def test_the_command_says_so_in_one_line(out, capsys):
    wrong_digit(out)
    before = snapshot(out)
    code, said, error = command(capsys, "ingest", "-q", "--append", out.parent / "rows.svm", "--out", out)
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert snapshot(out) == before


def test_what_an_interrupted_append_left_is_removed_and_nothing_else(out):
    write_journal(out, 4)
    shutil.copy(out / "shard-00000.arrow", out / "shard-00005.arrow")
    (out / "shard-00006.arrow.0a1b2c3d.tmp").write_bytes(b"half")
    (out / "thesis.txt").write_text("years of work")
    append(out)
    assert open_shards(out, full_check=True).n_rows == 8
    named = {shard.name for shard in read_manifest(out).shards}
    assert {path.name for path in out.iterdir()} == named | {MANIFEST, "thesis.txt"}


def test_what_an_interrupted_retirement_left_is_removed(out, monkeypatch):
    """Killed when the new manifest is there: the old shards and the journal still are."""
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: None)
    retire(out, ["shard-00000.arrow"])
    monkeypatch.undo()
    assert json.loads((out / JOURNAL).read_text())["removed"] == ["shard-00000.arrow"]
    assert (out / "shard-00000.arrow").exists()
    assert open_shards(out).n_rows == 3
    append(out)
    assert not (out / "shard-00000.arrow").exists()
    assert open_shards(out, full_check=True).n_rows == 7


def test_a_manifest_of_the_first_format_is_read_and_appended_to(out):
    """It was written with a line a value."""
    item = read_manifest(out).to_json()
    (out / MANIFEST).write_text(json.dumps(item, indent=1) + "\n")
    append(out)
    assert open_shards(out, full_check=True).n_rows == 8


def test_where_a_data_set_grows_nobody_else_has_put_a_folder(out, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis.txt").write_text("years of work")
    (tmp_path / ".new.partial").symlink_to(victim)
    with pytest.raises(DatasetError, match=r"\.new\.partial: is in the way and not yours"):
        ingest([str(tmp_path / "rows.svm")], tmp_path / "new", IngestSpec())
    assert (victim / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in victim.iterdir()] == ["thesis.txt"]


def test_a_data_set_grows_in_a_private_folder_and_has_the_usual_permissions(tmp_path, out, monkeypatch):
    from pipeline.data.ingest import ingest as module  # noqa: PLC0415

    seen, write = [], module.write_shard

    def look(directory, *what):
        seen.append(directory.stat().st_mode & 0o777)
        return write(directory, *what)

    monkeypatch.setattr(module, "write_shard", look)
    (tmp_path / "usual").mkdir()
    ingest([str(tmp_path / "rows.svm")], tmp_path / "new", IngestSpec())
    assert seen == [0o700]
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
