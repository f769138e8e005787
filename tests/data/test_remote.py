"""Shard directories behind URLs: the same rows as on this machine, and errors that say what to do."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.stores import located as stores
from pipeline.data.stores.shard_cache import shard_folder
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DatasetError
from tests.data.remotes import URL, cached, object_of, same
from tests.formats import write_svmlight
from tests.trained import command, sparse_rows


def test_opening_reads_the_manifest_only(remote, local, downloads):
    data = open_dataset(URL + "/")
    assert data.path == URL
    assert downloads.paths == []
    assert (data.n_rows, data.nnz, data.bytes) == (local.n_rows, local.nnz, local.bytes)
    assert [shard.digest for shard in data.shards] == [shard.digest for shard in local.shards]
    assert all(len(pickle.dumps(shard)) < 1000 for shard in data.shards)


def test_rows_are_the_same_and_mapped_and_brought_once(remote, local, downloads):
    same(remote, local)
    same(open_shards(URL), local)
    assert sorted(downloads.paths) == sorted(object_of(shard) for shard in remote.shards)
    values = remote.shards[0].load().values
    assert not values.flags.owndata
    assert not values.flags.writeable


def test_shards_are_cached_by_what_is_in_them(remote, local, downloads, tmp_path):
    more = write_svmlight(tmp_path / "more.svm", sparse_rows(n=9, seed=1))
    same(remote, local)
    ingest([str(more)], local.path, IngestSpec(append=True))
    copy_shards(local.path, "memory://elsewhere/grown")
    grown = open_shards("memory://elsewhere/grown")
    same(grown, open_shards(local.path))
    assert len(downloads.paths) == len(grown.shards) == len(remote.shards) + 1


def test_a_file_url_is_a_local_directory(local, downloads):
    data = open_dataset(f"file://{local.path}")
    assert data == local
    assert not shard_folder().exists()


def test_a_directory_that_was_uploaded_by_other_means(memory, local):
    for path in Path(local.path).iterdir():
        memory.pipe(f"/plain/{path.name}", path.read_bytes())
    same(open_dataset("memory://plain"), local)


def test_files_behind_urls_are_ingested_as_before(memory, tmp_path):
    source = write_svmlight(tmp_path / "rows.svm", sparse_rows())
    for name in ("rows.svm", "rows"):
        memory.pipe(f"/d/{name}", source.read_bytes())
        assert open_dataset(f"memory://d/{name}").fingerprint == open_dataset(source).fingerprint
    assert open_dataset(f"file://{source}").fingerprint == open_dataset(source).fingerprint


def test_over_http_without_ranges(local, tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "PIECE", 1000)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/shards"
            same(open_dataset(url), local)
            with pytest.raises(DatasetError, match=f"{url}2: no manifest.json there"):
                open_shards(f"{url}2")
        finally:
            server.shutdown()
            thread.join()


def test_a_shard_that_is_missing_or_cut(remote, memory):
    victim = object_of(remote.shards[2])
    content = memory.cat_file(victim)
    memory.pipe(victim, content[:-1])
    with pytest.raises(DatasetError, match=f"memory:/{victim}: has {len(content) - 1} bytes instead of {len(content)}"):
        open_shards(URL)
    memory.rm(victim)
    with pytest.raises(DatasetError, match=f"memory:/{victim}: the shard is missing; copy the data set there again"):
        open_shards(URL)


def test_a_shard_that_was_altered(remote, memory, downloads, capsys):
    assert command(capsys, "datasets", "check", URL)[:2] == (0, f"{URL}: 4 shards read, 9.5 kB: every checksum holds\n")
    victim = object_of(remote.shards[1])
    content = bytearray(memory.cat_file(victim))
    content[len(content) // 2] ^= 1
    memory.pipe(victim, bytes(content))
    code, _, said = command(capsys, "datasets", "check", URL)
    assert (code, said.count("\n")) == (1, 1)
    assert f"memory:/{victim}: the shard was altered" in said
    downloads.paths.clear()
    with pytest.raises(DatasetError, match=f"memory:/{victim}: the object is not the shard that the manifest names"):
        remote.shards[1].load()
    assert downloads.paths == [victim] * 2
    assert cached() == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda item: item["shards"][0].update(name="../../secret"),
            r"name is \"\.\./\.\./secret\", not the name of a shard",
        ),
        (lambda item: item["shards"][0].update(sha256="../x"), "not 64 hexadecimal digits"),
        (lambda item: item.update(rows=3), "the manifest contradicts itself"),
        (lambda item: item.pop("features"), "the manifest is damaged"),
        (lambda item: item.update(version=99), "version 99, but this svmsieve reads versions 1 to 5"),
    ],
)
def test_a_manifest_that_is_wrong(remote, memory, change, problem):
    item = json.loads(memory.cat_file("/bucket/clicks/manifest.json"))
    change(item)
    memory.pipe("/bucket/clicks/manifest.json", json.dumps(item).encode())
    with pytest.raises(DatasetError, match=problem):
        open_shards(URL)


def test_an_unfinished_copy_is_no_data_set(remote, memory, capsys):
    memory.rm("/bucket/clicks/manifest.json")
    with pytest.raises(DatasetError, match=r"no manifest\.json there: not a shard directory, or its copy did not"):
        open_shards(URL)
    code, _, said = command(capsys, "datasets", "describe", URL)
    assert (code, said.count("\n")) == (1, 1)
    assert f"{URL}: no manifest.json there" in said


def test_a_shard_with_other_rows_than_its_manifest_says(remote, memory):
    item = json.loads(memory.cat_file("/bucket/clicks/manifest.json"))
    first, second = (
        next(i for i in item["shards"] if i["name"] == shard.name) for shard in (remote.shards[0], remote.shards[-1])
    )
    for key in ("name", "bytes", "sha256"):
        first[key] = second[key]
    memory.pipe("/bucket/clicks/manifest.json", json.dumps(item).encode())
    with pytest.raises(DatasetError, match="its manifest says other rows than it has"):
        open_shards(URL).shards[0].load()


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(DatasetError, match=r"^s3://b/c: .*s3fs.*; run pip install 'svmsieve\[s3\]'$"):
        open_dataset("s3://b/c")
