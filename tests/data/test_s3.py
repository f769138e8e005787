"""Shards in an S3-compatible store, over the protocol itself: every command, a cluster, and what goes wrong."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs
from distributed import Client, LocalCluster

from pipeline.data.dataset import Dataset, Shard, open_shards
from pipeline.data.inputs import open_dataset
from pipeline.data.stores import located as stores
from pipeline.data.stores.shard_cache import shard_folder
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DatasetError
from tests.data.remotes import same
from tests.data.s3_server import S3Server, serving
from tests.trained import command

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

URL = "s3://bucket/clicks"
GRID = ["--grid", "0.01,0.1,1", "-q"]
LIMIT = 60.0


@pytest.fixture
def s3(monkeypatch) -> Iterator[S3Server]:
    """A store with one bucket, reached as users would: by the variables of the AWS tools."""
    with serving() as server:
        server.buckets["bucket"] = {}
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(stores, "PAUSES", (0.0, 0.0))
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def data(s3, local) -> Dataset:
    """Four shards in the bucket."""
    copy_shards(local.path, URL)
    s3.requests.clear()
    return open_shards(URL)


def fetched(s3: S3Server) -> Counter:
    """How often each shard was asked for."""
    return Counter(key for method, key in s3.requests if method == "GET" and key.endswith(".arrow"))


def models(run: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in (run / "models").iterdir()}
    assert len(found) == 3
    return found


def done(capsys, *arguments) -> str:
    code, said, errors = command(capsys, *arguments)
    assert code == 0, errors
    return said


def test_every_command_gives_the_same_bytes_as_on_this_machine(data, local, s3, tmp_path, capsys):
    runs = {}
    for name, place in (("here", local.path), ("there", URL)):
        run, out = tmp_path / f"run-{name}", tmp_path / name
        out.mkdir()
        done(capsys, "path", place, "--out", run, *GRID)
        done(capsys, "train", place, "--c", "0.5", "--reference", run, "--out", out / "train", "-q")
        done(capsys, "screen", place, "--reference", run, "--c", "0.5", "--out", out / "verdicts.parquet", "-q")
        done(capsys, "predict", run, place, "--c", "0.5", "--out", out / "predictions.parquet", "-q")
        assert "3 certificates hold" in done(capsys, "verify", run, place, "-q")
        described = json.loads(done(capsys, "datasets", "describe", place, "--json", "-q"))
        assert described.pop("path") == place
        (trained,) = (out / "train" / "models").iterdir()
        files = [out / "verdicts.parquet", out / "predictions.parquet", trained]
        runs[name] = (models(run), [file.read_bytes() for file in files], described)
        assert json.loads((run / "run.json").read_text())["data"]["path"] == place
    assert runs["here"] == runs["there"]
    assert fetched(s3) == {f"clicks/{shard.name}": 1 for shard in data.shards}
    assert "every checksum holds" in done(capsys, "datasets", "check", URL)


def test_opening_is_one_listing(data, s3):
    s3.requests.clear()
    open_dataset(URL)
    asked = Counter(method if key == "clicks/manifest.json" else key for method, key in s3.requests)
    assert asked["list bucket"] == 1
    assert set(asked) <= {"list bucket", "HEAD", "GET"}


def total(shard: Shard) -> float:
    return float(shard.load().values.sum())


def test_workers_of_a_cluster_bring_what_they_read(data, local, s3, tmp_path, capsys):
    with (
        LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=LIMIT)
        workers = list(client.scheduler_info()["workers"])
        both = [client.submit(total, data.shards[0], workers=[worker], pure=False) for worker in workers]
        assert client.gather(both) == [total(local.shards[0])] * 2
        assert fetched(s3) == {f"clicks/{data.shards[0].name}": 1}
        done(capsys, "path", URL, "--out", tmp_path / "there", "--scheduler", cluster.scheduler_address, *GRID)
    done(capsys, "path", local.path, "--out", tmp_path / "here", *GRID)
    assert models(tmp_path / "there") == models(tmp_path / "here")
    assert fetched(s3) == {f"clicks/{shard.name}": 1 for shard in data.shards}


def test_a_busy_server_and_a_connection_that_breaks(data, local, s3):
    troubles = ["SlowDown", "cut", "InternalError", "cut"]
    s3.fault = lambda method, key: troubles.pop() if troubles and key.endswith(".arrow") else None
    same(data, local)
    assert troubles == []


def test_a_server_that_keeps_failing(data, s3, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    s3.fault = lambda method, key: "InternalError"
    with pytest.raises(DatasetError, match=rf"^{URL}/{data.shards[0].name}: .* internal error.*AWS_ENDPOINT_URL"):
        data.shards[0].load()
    assert not [path for path in shard_folder().iterdir() if path.is_file()]


def test_wrong_credentials(data, monkeypatch, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    s3fs.S3FileSystem.clear_instance_cache()
    code, _, said = command(capsys, "datasets", "describe", URL)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith(f"svmsieve: {URL}/manifest.json: cannot be reached (")
    assert "check the credentials: AWS_ACCESS_KEY_ID" in said


def test_no_credentials(data, monkeypatch, tmp_path, capsys):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    s3fs.S3FileSystem.clear_instance_cache()
    code, _, said = command(capsys, "path", URL, "--out", tmp_path / "run")
    assert (code, said.count("\n")) == (1, 1)
    assert "(Unable to locate credentials); check the credentials: AWS_ACCESS_KEY_ID" in said


def test_no_such_bucket(s3, local, capsys):
    for words in (["describe", "s3://nowhere/clicks"], ["copy", "-q", local.path, "s3://nowhere/clicks"]):
        code, _, said = command(capsys, "datasets", *words)
        assert (code, said.count("\n")) == (1, 1)
        assert said.startswith("svmsieve: s3://nowhere/clicks/")
        assert "(The specified bucket does not exist); check the address" in said


def test_shards_of_older_data_sets_are_pruned(data, s3, local):
    s3.buckets["bucket"]["clicks/shard-7.arrow"] = b"of an older data set"
    assert copy_shards(local.path, URL).strays == ("shard-7.arrow",)
    assert copy_shards(local.path, URL, prune=True).strays == ()
    assert "clicks/shard-7.arrow" not in s3.buckets["bucket"]
    same(open_shards(URL), local)
