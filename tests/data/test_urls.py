"""Sources by URL: any fsspec file system, patterns and directories, in the given order."""

from __future__ import annotations

import gzip
import io
import zipfile

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.files import expand, format_of
from pipeline.errors import DataError
from tests.formats import WRITERS, Table, contents

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

TABLE = Table(np.array([[1.0, 0.0], [0.0, 2.5], [3.0, 4.0]]), np.array(["1", "-1", "1"]), np.ones(3))


def svm(value: int) -> bytes:
    """Two rows that tell which file they are from."""
    return f"1 1:{value}\n-1 2:{value}\n".encode()


def parquet_bytes(value: float) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"label": [1, -1], "x": [value, -value]}), buffer)
    return buffer.getvalue()


def first_column(urls, folder):
    ingest(urls, folder / "out", IngestSpec(overwrite=True))
    return contents(open_shards(folder / "out")).x[::2, 0].tolist()


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_every_format_by_url(tmp_path, memory, kind, scheme):
    write, name = WRITERS[kind]
    path = write(tmp_path / name, TABLE)
    url = f"file://{path}"
    if scheme == "memory":
        memory.pipe(f"/data/{name}", path.read_bytes())
        url = f"memory://data/{name}"
    ingest([url], tmp_path / "out", IngestSpec())
    found = contents(open_shards(tmp_path / "out"))
    assert found.x.tolist() == TABLE.x.tolist()
    assert found.labels.tolist() == [1, -1, 1]


@pytest.mark.parametrize("name", ["a.svm.gz", "no_suffix"])
def test_compressed_files_by_url(tmp_path, memory, name):
    memory.pipe(f"/{name}", gzip.compress(svm(7)))
    assert first_column([f"memory://{name}"], tmp_path) == [7]


@pytest.mark.parametrize("name", ["npz", "parquet"])
def test_the_format_is_known_by_content_where_the_name_says_nothing(tmp_path, memory, name):
    kind = {"npz": "npz", "parquet": "parquet lists"}[name]
    write, file = WRITERS[kind]
    memory.pipe("/data/0001", write(tmp_path / file, TABLE).read_bytes())
    assert format_of("memory://data/0001") == name
    ingest(["memory://data/0001"], tmp_path / "out", IngestSpec())
    assert contents(open_shards(tmp_path / "out")).x.tolist() == TABLE.x.tolist()


def test_patterns_are_sorted_and_files_keep_the_given_order(tmp_path, memory):
    for k in (3, 1, 2):
        memory.pipe(f"/d/{k}.svm", svm(k))
        (tmp_path / f"{k}.svm").write_bytes(svm(10 + k))
    assert first_column(["memory://d/*.svm"], tmp_path) == [1, 2, 3]
    assert first_column([f"file://{tmp_path}/[12].svm"], tmp_path) == [11, 12]
    assert first_column([str(tmp_path / "*.svm")], tmp_path) == [11, 12, 13]
    given = ["memory://d/2.svm", f"file://{tmp_path}/3.svm", "memory://d/1.svm", str(tmp_path / "1.svm")]
    assert first_column(given, tmp_path) == [2, 13, 1, 11]


def test_a_name_that_looks_like_a_pattern(tmp_path, memory):
    memory.pipe("/d/[a].svm", svm(5))
    memory.pipe("/d/a.svm", svm(6))
    (tmp_path / "[a].svm").write_bytes(svm(7))
    assert first_column(["memory://d/[a].svm"], tmp_path) == [5]
    assert first_column([str(tmp_path / "[a].svm")], tmp_path) == [7]


def test_a_directory_of_parquet(tmp_path, memory, monkeypatch):
    parts = {"b.parquet": 2, "a.parquet": 1, "deep/c.pq": 3, "_temporary/x.parquet": 8, ".hidden.parquet": 9}
    for name, value in parts.items():
        memory.pipe(f"/table/{name}", parquet_bytes(value))
        path = tmp_path / "table" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parquet_bytes(value))
    memory.pipe("/table/README.txt", b"not data")
    monkeypatch.chdir(tmp_path)
    local = [str(tmp_path / "table"), f"file://{tmp_path}/table", "table", "./table", "table/", "./table/../table"]
    for source in ["memory://table", "memory://table/", *local]:
        assert first_column([source], tmp_path) == [1, 2, 3], source


def test_a_directory_of_parquet_is_used_in_place(tmp_path):
    (tmp_path / "table").mkdir()
    for k in (1, 2):
        (tmp_path / "table" / f"{k}.parquet").write_bytes(parquet_bytes(k))
    ingest([f"file://{tmp_path}/table"], tmp_path / "out", IngestSpec())
    assert open_dataset(tmp_path / "table").fingerprint == open_shards(tmp_path / "out").fingerprint


def test_files_in_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for k in (2, 1):
            archive.writestr(f"{k}.svm", svm(k))
    url = f"file://{tmp_path}/a.zip"
    assert first_column([f"zip://2.svm::{url}"], tmp_path) == [2]
    assert first_column([f"zip://*.svm::{url}"], tmp_path) == [1, 2]
    assert expand(f"zip://*.svm::{url}") == [f"zip://1.svm::{url}", f"zip://2.svm::{url}"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("bad.svm", svm(1) + b"1 2:x\n", ", line 3: 'x' is not a number"),
        ("bad.csv", b"label,a\n\n0,1\n1,x\n", ", line 4: column 'a': invalid value 'x'"),
        ("cut.svm.gz", gzip.compress(svm(1), mtime=0)[:-3], ": the compressed file is truncated"),
        ("cut.npz", b"PK\x03\x04", ": is not a readable npz file"),
        ("cut.parquet", parquet_bytes(1)[:-3], ": is not a readable Parquet file"),
    ],
)
def test_bad_input_by_url(tmp_path, memory, name, content, problem):
    memory.pipe(f"/d/{name}", content)
    with pytest.raises(DataError, match=f"memory://d/{name}{problem}"):
        ingest([f"memory://d/{name}"], tmp_path / "out", IngestSpec())


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("memory://d/gone.svm", r"cannot be reached \(no such file\); check the address"),
        ("file:///nowhere/gone.csv", r"cannot be reached \(no such file\); check the address"),
        ("memory://d/*.gone", "no input files there; "),
        ("memory://d/empty.svm", "the file is empty; "),
        ("memory://d", "no input files there; "),
        ("nosuch://d/a.svm", r"cannot be reached \(Protocol not known: nosuch\); check the address"),
        ("zip://a.svm::file:///nowhere/a.zip", r"cannot be reached \(no such file\); "),
    ],
)
def test_what_cannot_be_reached_is_one_line(tmp_path, memory, capsys, url, problem):
    memory.pipe("/d/empty.svm", b"")
    with pytest.raises(SystemExit) as end:
        main(["ingest", "-q", url, "--out", str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert end.value.code == 1
    assert printed.err.count("\n") == 1
    with pytest.raises(DataError, match=problem):
        ingest([url], tmp_path / "out", IngestSpec())
    assert url in printed.err
    assert not list(tmp_path.iterdir())


class Failing(fsspec.AbstractFileSystem):
    """A file system as other packages write them: it raises errors of its own."""

    protocol = "failing"

    class CredentialsError(Exception):
        pass

    def info(self, path, **kwargs):
        if path.endswith("sizeless.svm"):
            return {"name": path, "size": None, "type": "file"}
        raise self.CredentialsError("Unable to locate credentials\nat length")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a.svm", r"failing://a.svm: cannot be reached \(Unable to locate credentials\); check the address$"),
        ("sizeless.svm", "failing://sizeless.svm: the server does not tell its size; download it"),
    ],
)
def test_errors_of_other_packages_become_one_line(tmp_path, name, problem):
    fsspec.register_implementation("failing", Failing, clobber=True)
    with pytest.raises(DataError, match=problem):
        ingest([f"failing://{name}"], tmp_path / "out", IngestSpec(ReadOptions()))
