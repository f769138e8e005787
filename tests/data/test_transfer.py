"""Copies between directories and URLs: never half there, and no surprise for who reads what was there before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.retire import retire
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DatasetError
from tests.data.remotes import URL, object_of, same
from tests.formats import contents, write_svmlight
from tests.trained import command, shards_of, sparse_rows


def test_a_copy_that_was_stopped_goes_on(memory, local, monkeypatch):
    put, sent = MemoryFileSystem.put_file, []

    def put_file(fs, lpath, rpath, **options):
        if len(sent) == 2:
            raise PermissionError("stopped")
        sent.append(rpath)
        return put(fs, lpath, rpath, **options)

    monkeypatch.setattr("pipeline.data.stores.transfer.REQUESTS", 1)
    monkeypatch.setattr(MemoryFileSystem, "put_file", put_file)
    with pytest.raises(DatasetError, match=rf"{URL}/shard-\d+.arrow: cannot be reached \(stopped\)"):
        copy_shards(local.path, URL)
    assert not memory.exists("/bucket/clicks/manifest.json")
    monkeypatch.setattr(MemoryFileSystem, "put_file", put)
    assert copy_shards(local.path, URL).sent == 2
    assert copy_shards(local.path, URL).sent == 0
    same(open_shards(URL), local)


def test_a_half_written_object_is_sent_again(memory, local, remote):
    memory.rm("/bucket/clicks/manifest.json")
    memory.pipe(object_of(remote.shards[0]), b"half")
    assert copy_shards(local.path, URL).sent == 1
    same(open_shards(URL), local)


def test_the_data_set_that_was_there_stays_readable_until_it_is_pruned(remote, memory, local, tmp_path, capsys):
    old = contents(local)
    gone = Path(local.shards[0].path).name
    retire(local.path, [gone])
    ingest([str(write_svmlight(tmp_path / "new.svm", sparse_rows(n=8, seed=5)))], local.path, IngestSpec(append=True))
    code, _, said = command(capsys, "datasets", "copy", "-q", local.path, URL)
    assert (code, said) == (1, f"svmsieve: {URL}: another data set is there already; pass --overwrite to replace it\n")
    same(open_shards(URL), remote)
    _, said, _ = command(capsys, "datasets", "copy", "-q", local.path, URL, "--overwrite")
    assert said.startswith(f"{URL}: 51 rows in 4 shards of ")
    assert said.splitlines()[0].endswith(", 1 of them sent now")
    assert said.splitlines()[1] == f"{URL}: 1 other shard there for readers of older data sets; --prune removes them"
    same(open_shards(URL), open_shards(local.path))
    assert contents(remote).x.tolist() == old.x.tolist()
    memory.pipe("/bucket/clicks/notes.txt", b"not ours")
    assert copy_shards(local.path, URL, prune=True).strays == ()
    names = {path.rpartition("/")[2] for path in memory.ls("/bucket/clicks", detail=False)}
    assert names == {shard.name for shard in open_shards(URL).shards} | {"manifest.json", "notes.txt"}


def test_there_and_back(remote, local, tmp_path, memory):
    back = tmp_path / "back"
    copied = copy_shards(URL, str(back))
    assert copied.manifest.next_number == len(local.shards)
    same(open_shards(back), local)
    assert {path.name for path in back.iterdir()} == {path.name for path in Path(local.path).iterdir()}
    with pytest.raises(DatasetError, match="a data set is there already; pass --append to add to it or --overwrite"):
        copy_shards(URL, f"file://{back}")
    copy_shards(URL, f"file://{back}", overwrite=True)
    copy_shards(URL, "memory://other/place")
    same(open_shards("memory://other/place"), local)


def test_the_same_rows_ingested_again_are_the_same_data_set(remote, local, tmp_path):
    again = shards_of(tmp_path, sparse_rows())
    assert again.shards[0].path == local.shards[0].path
    assert copy_shards(again.path, URL).sent == 0


@pytest.mark.parametrize("how", [[], ["--append"], ["--overwrite"]])
def test_ingest_to_a_url_says_how(memory, capsys, how):
    code, _, said = command(capsys, "ingest", "-q", "breast_cancer", "--out", URL, *how)
    remedy = f"write them to a DIR, then run svmsieve datasets copy DIR {URL}"
    assert (code, said) == (1, f"svmsieve: {URL}: shards are written to a local directory; {remedy}\n")
    assert not memory.store


def test_a_copy_of_rows_with_the_same_sizes_and_other_values(memory, tmp_path):
    """The size of an object tells nothing of its content, its name does."""
    table = sparse_rows()
    one = shards_of(tmp_path, table)
    copy_shards(one.path, URL)
    two = shards_of(tmp_path, type(table)(np.where(table.x, 2.5, 0.0), table.y, table.costs))
    copy_shards(two.path, URL, overwrite=True)
    same(open_shards(URL), two)
