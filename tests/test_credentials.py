"""No credentials in what is printed or written: every command, given addresses with passwords and signatures."""

from __future__ import annotations

import functools
import json
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.registry.fetch import fetch
from pipeline.data.registry.registry import RegistryEntry
from pipeline.data.stores import located as stores
from pipeline.engine.on_worker import named
from pipeline.errors import DataError, DatasetError, EngineError, FetchError, JobError, OutputError, RegistryError
from pipeline.events import Note
from pipeline.nightly.job import read_job
from pipeline.path.fit import fit_path
from pipeline.redact import identity, last_name, redacted
from tests.trained import command

pytestmark = pytest.mark.attack

SECRET = "hunter2XYZ"  # noqa: S105 - nobody's
ROWS = "1 1:2 2:1\n-1 1:-1\n" * 8


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A server on the loopback that lets everybody in, and its folder."""
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "rows.svm").write_text(ROWS)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(stores, "PAUSES", ())


def written(*folders: Path) -> str:
    """All names and all contents below folders, as text."""
    files = [path for folder in folders for path in folder.rglob("*")]
    return "\n".join(str(path) + (path.read_bytes().decode("latin-1") if path.is_file() else "") for path in files)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"https://user:{SECRET}@host:1/x?X-Amz-Signature={SECRET}", "https://***@host:1/x?***"),
        (f"https://{SECRET}@host/x", "https://***@host/x"),
        (f"https://host/x?{SECRET}", "https://host/x?***"),
        (f"https://user:pw@[::1]:8/x?sig={SECRET}: gone", "https://***@[::1]:8/x?***: gone"),
        (f"s3://KEY:{SECRET}/with/slash@bucket/x", "s3://***@bucket/x"),
        (f"s3://KEY:7/{SECRET}@bucket/x", "s3://***@bucket/x"),
        (f"https://user:a?{SECRET}@host/x", "https://***@host/x"),
        (f"https://user:{SECRET}?a#b@host/x?sig={SECRET}", "https://***@host/x?***"),
        (f"http:/user:{SECRET}@host/x: as a Path has it", "http:/***@host/x: as a Path has it"),
        (f"abfs://box@host/x?sv=1&sig={SECRET}", "abfs://box@host/x?***"),
        (
            f"zip://a::simplecache::https://u:{SECRET}@h/b.zip?t={SECRET}",
            "zip://a::simplecache::https://***@h/b.zip?***",
        ),
        (f"403, url='https://h/x?token={SECRET}'", "403, url='https://h/x?***'"),
        (f"https://h/x;jsessionid={SECRET} and https://u:{SECRET}@h2/", "https://h/x?*** and https://***@h2/"),
        ("s3://bucket/clicks-?.svm.gz", "s3://bucket/clicks-?.svm.gz"),
        ("https://host:80/a@b/c and tls://[::1]:8786", "https://host:80/a@b/c and tls://[::1]:8786"),
        ("me@home: is a=b?c", "me@home: is a=b?c"),
    ],
)
def test_addresses_are_shown_without_credentials(given, shown):
    assert redacted(given) == shown
    assert redacted(shown) == shown
    for kind in (DataError, DatasetError, EngineError, FetchError, RegistryError):
        assert SECRET not in f"{kind(given)} {kind(given)!r} {kind(given).__dict__}"
    assert SECRET not in f"{DataError('no', path=given, row=3)!r} {Note(given)!r}"


def test_a_name_says_which_file_it_was_and_a_record_which_address():
    signed = f"https://u:{SECRET}@h/d/rows.svm.gz?id=7&X-Amz-Signature={SECRET}/a/b&X-Amz-Expires=60"
    again = "https://h/d/rows.svm.gz?X-Amz-Expires=99&id=7&X-Amz-Signature=other"
    assert last_name(signed) == "rows.svm.gz"
    assert last_name("/data/what?.svm") == "what?.svm"
    assert identity(signed).replace("***@", "") == identity(again)
    assert identity(again) != identity(again.replace("id=7", "id=8"))
    assert identity("https://h/rows.svm") == "https://h/rows.svm"
    assert SECRET not in identity(signed)


BAD = (f"http://user:{SECRET}@127.0.0.1:1/x.svm", f"http://127.0.0.1:1/x.svm?X-Amz-Signature={SECRET}")
COMMANDS = (
    "ingest {url} --out new",
    "ingest rows.svm --out {url}",
    "path {url} --out new",
    "path rows.svm --out new --validation {url} --grid 0.1",
    "train {url} --c 1 --out new",
    "screen {url} --reference run --c 1 --out verdicts.parquet",
    "verify run {url}",
    "predict run {url} --out new.parquet",
    "datasets describe {url}",
    "datasets check {url}",
    "datasets copy {url} new",
    "datasets copy shards {url}",
    "path rows.svm --out new --scheduler {url}",
    "nightly job.yaml",
    "nightly {url}",
    "path rows.svm --out {url} --grid 0.1",
    "path rows.svm --out new --memory {url}",
    "train rows.svm --c 1 --out {url}",
    "train rows.svm --c 1 --out new --reference {url}",
    "screen rows.svm --reference run --c 0.1 --out {url}",
    "screen rows.svm --reference run --c 0.1 --out verdicts.parquet --keep-out {url}",
    "verify {url} rows.svm",
    "predict {url} rows.svm --out new.parquet",
    "predict run rows.svm --c 0.1 --out {url}",
    "export {url} --out new.npz",
    "export run --c 0.1 --out {url} --as npz",
    "datasets compact {url}",
    "datasets fetch {url}",
    "datasets fetch mushrooms --out {url}",
    "store status {url}",
    "store rollback {url}",
)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with rows, shards of them and a run."""
    folder = tmp_path_factory.mktemp("workplace")
    (folder / "rows.svm").write_text(ROWS)
    ingest([str(folder / "rows.svm")], folder / "shards", IngestSpec())
    fit_path(str(folder / "shards"), out=folder / "run", grid=[0.1], scheduler="inline")
    return folder


@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_tells_credentials_when_it_fails(capsys, monkeypatch, workplace, line):
    monkeypatch.chdir(workplace)
    for url in BAD:
        (workplace / "job.yaml").write_text(f"inputs: {json.dumps(url.replace('x.svm', 'x-*.svm'))}\nstore: store\n")
        code, out, err = command(capsys, *line.format(url=url).split())
        assert code in (1, 2), (code, out, err)
        assert err.splitlines()[-1].startswith("svmsieve")
        assert "Traceback" not in err
        assert SECRET not in out + err
    (workplace / "job.yaml").unlink()
    assert SECRET not in written(workplace, Path(os.environ["SVMSIEVE_CACHE"]))


def test_a_run_is_written_to_this_machine(workplace, monkeypatch):
    """An address became a folder of that name, password and all, and the command ended well."""
    monkeypatch.chdir(workplace)
    with pytest.raises(OutputError, match="results are written to this machine; name a local path"):
        fit_path("rows.svm", out=BAD[0], grid=[0.1], scheduler="inline")
    assert not (workplace / "http:").exists()


def test_a_setting_that_holds_an_address_is_shown_without_credentials(tmp_path):
    (tmp_path / "job.yaml").write_text(f"inputs: here\nstore: store\nwindow: {BAD[1]}\n")
    with pytest.raises(JobError, match="window") as raised:
        read_job(tmp_path / "job.yaml")
    assert SECRET[-4:] not in str(raised.value)


def test_nor_do_files_when_all_goes_well(capsys, monkeypatch, tmp_path, shelf):
    """A signed file is ingested, and a data set behind a password trained on, described, copied and verified."""
    folder, host = shelf
    monkeypatch.chdir(tmp_path)
    signed, behind = f"http://{host}/rows.svm?X-Amz-Signature={SECRET}", f"http://user:{SECRET}@{host}/clicks"
    said = []
    for line in (
        f"ingest {signed} --out {folder / 'clicks'} --overwrite",
        f"path {signed} --out run0 --grid 0.1",
        f"path {behind} --out run --grid 0.1",
        f"verify run {behind}",
        f"predict run {behind} --out p.parquet",
        f"datasets describe {behind}",
        f"datasets describe {behind} --json",
        f"datasets check {behind}",
        f"datasets copy {behind} copied",
    ):
        code, out, err = command(capsys, *line.split())
        assert code == 0, err
        said += [out, err]
    assert SECRET not in "".join(said)
    assert SECRET not in written(tmp_path, folder, Path(os.environ["SVMSIEVE_CACHE"]))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["data"]["path"] == f"http://***@{host}/clicks"
    assert json.loads((folder / "clicks" / "manifest.json").read_text())["sources"][0]["name"] == "rows.svm"
    shard = open_dataset(behind).shards[0]
    assert SECRET not in f"{shard!r} {named(shard)}", "which Dask writes to logs"


def test_the_record_of_a_download_names_the_file_and_nothing_else(tmp_path, shelf):
    _, host = shelf
    entry = RegistryEntry("rows", "download", url=f"http://{host}/rows.svm?id=1&X-Amz-Signature={SECRET}")
    file = fetch(entry, tmp_path)
    record = file.with_name("rows.svm.sha256")
    assert SECRET not in written(tmp_path)
    signed_again = RegistryEntry("rows", "download", url=f"http://{host}/rows.svm?X-Amz-Signature=other&id=1")
    assert fetch(signed_again, tmp_path) == file
    with pytest.raises(FetchError, match=r"came from http://\S+\?\*\*\* \w+, not http://"):
        fetch(RegistryEntry("rows", "download", url=f"http://{host}/rows.svm?id=2&X-Amz-Signature={SECRET}"), tmp_path)
    digest = record.read_text().split()[0]
    record.write_text(f"{digest}  rows.svm\n# {entry.url}\n")  # as older versions wrote it
    assert fetch(signed_again, tmp_path) == file
    assert SECRET not in record.read_text()
