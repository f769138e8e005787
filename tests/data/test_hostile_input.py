"""Input that is damaged, lies, never ends or is no file at all: one line each, in little memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import resource
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.data import parquet_dataset
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest, reading_spec
from pipeline.data.inputs import open_dataset
from pipeline.data.reading import xz
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import Origin, ReadRules
from pipeline.data.reading.columns import labels_of
from pipeline.data.reading.csv import READ_BYTES
from pipeline.data.reading.labels import label_text
from pipeline.data.reading.layout import Layout
from pipeline.data.reading.parquet import ParquetSource
from pipeline.data.reading.parquet_footer import _pages, check_pages, list_entries
from pipeline.errors import DataError
from tests.formats import WRITERS, Table, contents
from tests.trained import command
from tests.watched import SVMSIEVE, watched

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("tables_as_they_are")]


@pytest.fixture
def refused(tmp_path, capsys):
    """Run ``svmsieve ingest``, which must fail in one line and leave nothing behind; return the line."""

    def run(*arguments, expected):
        code, out, err = command(capsys, "ingest", "-q", "--out", tmp_path / "out", *arguments)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert re.search(expected, err), err
        assert "; " in err, "what to do?"
        assert not [path.name for path in tmp_path.iterdir() if "out" in path.name]
        return err

    return run


def write(folder: Path, name: str, content: str | bytes) -> Path:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


# --- labels beyond the whole numbers of float64 ---


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("numbers", [(2**53, 2**53 + 1), (-(2**53) - 1, -(2**53)), (2**64 - 2, 2**64 - 1)])
def test_large_whole_numbers_are_different_labels(tmp_path, kind, numbers):
    y = np.array([numbers[1], numbers[0]] * 2, np.uint64 if numbers[1] > 2**63 else np.int64)
    writer, name = WRITERS[kind]
    path = writer(tmp_path / name, Table(np.eye(4), y, np.ones(4)))
    manifest = ingest([str(path)], tmp_path / "out", IngestSpec())
    assert (manifest.labels.negative, manifest.labels.positive) == ((str(numbers[0]),), (str(numbers[1]),))
    assert contents(open_shards(tmp_path / "out")).labels.tolist() == [1, -1, 1, -1]


def test_every_spelling_of_a_large_label_is_one():
    spellings = [10**16 + 2, "10000000000000002", "+10000000000000002.0", "1.0000000000000002e16", np.int64(10**16 + 2)]
    assert {label_text(spelling) for spelling in spellings} == {"10000000000000002"}
    assert label_text(1e16) == label_text("1e16") == "1" + "0" * 16
    assert label_text("9" * 400) == "inf"
    assert label_text("0" * 5000 + "7") == "7"


def test_labels_are_no_novels(tmp_path, refused):
    refused(
        write(tmp_path, "a.svm", "1 1:1\n" + "x" * 5000 + " 1:1\n"), expected="line 2: the label has more than 4,096"
    )
    path = write(tmp_path, "a.csv", "label,a\n1,1\n" + "x" * 5000 + ",1\n")
    refused(path, expected="line 3: the label has more than 4,096 characters; ")


# --- weights ---


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "svmlight"])
@pytest.mark.parametrize("cost", [1e200, 1e-200])
def test_weights_with_which_sums_would_overflow(tmp_path, refused, kind, cost):
    writer, name = WRITERS[kind]
    path = writer(tmp_path / name, Table(np.eye(4), np.array([0, 1, 0, 1]), np.array([1, 1, 1e100, cost])))
    refused(
        path,
        expected=rf"(row 4|line 5): weight {re.escape(f'{cost:g}')} is not from 1e-100 to 1e\+100; scale the weights",
    )


# --- npz ---


def npz(folder: Path, **members: bytes | np.ndarray) -> Path:
    """Write an npz of three rows; a member given as bytes is written as it is."""
    arrays = {"data": [1.0, 2.0, 3.0], "indices": [0, 1, 0], "indptr": [0, 2, 3], "shape": [2, 2], "y": [0, 1]}
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in (arrays | members).items():
            stream = io.BytesIO()
            if not isinstance(array, bytes):
                np.lib.format.write_array(stream, np.asarray(array))
            archive.writestr(f"{name}.npy", array if isinstance(array, bytes) else stream.getvalue())
    return folder / "a.npz"


def header(text: str, rest: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text.encode() + rest


def described(descr: str, shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


HEADERS = {
    "open bracket": (header("{'descr': ('<i8', "), "'y' is damaged"),
    "no dictionary": (header("7"), "'y' is damaged"),
    "no literal": (header("f(x)"), "'y' is damaged"),
    "indented": (header("   {\n 'descr'\n  : 1"), "'y' is damaged"),
    "deep": (header("[" * 3000), "'y' is damaged"),
    "other keys": (header("{'a': 1}"), "'y' is damaged"),
    "no dtype": (header(described("'<q9'")), "'y' is damaged"),
    "no text": (header("\x00" * 20), "'y' is damaged"),
    "too short": (b"\x93NUMPY\x01\x00\xff\xff", "'y' is damaged"),
    "no magic": (b"", "'y' is damaged"),
    "version 9": (header(described("'<i8'"), b"", b"\x09\x00"), "'y' (is damaged|says)"),
    "empty text": (header(described("'<U0'")), "the entries of 'y' have 0 bytes, not 1 to"),
    "empty bytes": (header(described("'|S0'")), "the entries of 'y' have 0 bytes"),
    "void": (header(described("'|V0'")), r"'y' is an array of \|V0"),
    "endless text": (header(described("'<U2000000'")), "the entries of 'y' have 8,000,000 bytes"),
    "beyond Unicode": (header(described("'<U1'"), b"\xff" * 8), r"'y' is damaged \(no Unicode text\)"),
    "a surrogate": (header(described("'<U1'"), b"\x00\xd8\x00\x00" * 2), r"'y' is damaged \(no Unicode text\)"),
    "too long": (header(described("'<i8'", "(1000000000000,)")), "'y' says it has 1000000000000 entries of int64, but"),
    "beyond 64 bits": (header(described("'<i8'", f"({10**30},)")), "'y' says it has 10+ entries"),
    "negative": (header(described("'<i8'", "(-2,)"), bytes(16)), "'y' says it has -2 entries"),
    "text shape": (header(described("'<i8'", "('a',)"), bytes(16)), "'y' is damaged"),
    "trailing bytes": (header(described("'<i8'"), bytes(24)), "'y' says it has 2 entries of int64, but is 24 bytes"),
    "objects": (header(described("'|O'"), bytes(16)), "'y' is an array of object"),
    "complex": (header(described("'<c16'"), bytes(32)), "'y' is an array of complex128"),
    "two dimensions": (
        header(described("'<i8'", "(2, 1)"), bytes(16)),
        r"'y' is an array of int64 with shape \(2, 1\)",
    ),
    "a record": (header(described("[('a', '<i8')]"), bytes(16)), "'y' is an array of"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_damaged_or_lying_headers(tmp_path, refused, what):
    content, expected = HEADERS[what]
    refused(npz(tmp_path, y=content), expected=f"a.npz: {expected}")


ARRAYS = {
    "no columns": ({"shape": [2, 0]}, "the shape 2 x 0 cannot be"),
    "too many rows": ({"shape": [10**12, 2]}, "'y' has 2 entries, not 1000000000000"),
    "too many columns": ({"shape": [2, 10**12]}, "the shape 2 x 1000000000000 cannot be"),
    "shape beyond": ({"shape": np.array([2**64 - 1, 2], np.uint64)}, "'y' has 2 entries, not 18446744073709551615"),
    "indptr beyond": ({"indptr": [0, 10**12, 3]}, "row 1: 'indptr' decreases or goes beyond the 3 stored"),
    "indptr below": ({"indptr": [0, -5, 3]}, "row 1: 'indptr' decreases or goes beyond"),
    "indptr of 64 bits": ({"indptr": np.array([0, 2**64 - 1, 3], np.uint64)}, "row 1: 'indptr' decreases or goes"),
    "format of numbers": ({"format": np.array([1])}, "'format' is an array of int64"),
    "no format": ({"format": np.array([], "U3")}, "'format' ends too early"),
    "long format": ({"format": np.array(["x" * 3000])}, "the matrix is x{40}; convert"),
    "nan labels": ({"y": [0.0, np.nan]}, "row 2: the label is missing"),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays_that_do_not_fit(tmp_path, refused, what):
    changes, expected = ARRAYS[what]
    refused(npz(tmp_path, **changes), expected=f"a.npz(, |: ){expected}")


def test_a_directory_of_an_archive_that_is_no_text(tmp_path, refused):
    content = bytearray(npz(tmp_path).read_bytes())
    at = content.rindex(b"data.npy")
    content[at] = 0xFF
    content[content.rindex(b"PK\x01\x02", 0, at) + 9] |= 0x08  # says that its names are UTF-8
    refused(write(tmp_path, "a.npz", bytes(content)), expected="a.npz: (is not a readable npz file|no array 'data')")


def test_an_npz_row_longer_than_a_line_may_be(tmp_path, refused):
    n = 5000
    path = npz(tmp_path, data=np.ones(n), indices=np.arange(n), indptr=[0, 1, n], shape=[2, n])
    refused(
        path, "--max-line", "16kB", expected="a.npz, row 2: the row has 4,999 entries, more than the 4,000 there may"
    )
    assert ingest([str(path)], tmp_path / "out", IngestSpec(max_line=20_000)).nnz == n


# --- lines and rows that never end ---

LONG = {
    "svm": "1 1:1\n-1 2:1\n\n1 " + "3:1 " * 400_000,
    "csv": "label,a,b\n0,1,2\n\n1,2," + "3" * 1_500_000 + "\n0,1,2\n",
}
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kind", LONG)
def test_a_line_has_a_limit(tmp_path, refused, kind, packed):
    path = write(tmp_path, f"a.{kind}{packed}", PACKERS[packed](LONG[kind].encode()))
    said = f"{path.name}, line 4: the line is longer than 500,000 bytes; correct the file, or raise --max-line"
    refused(path, "--max-line", "500kB", expected=said)


@pytest.mark.parametrize("kind", LONG)
def test_the_limit_of_a_line_is_an_option(tmp_path, kind):
    good = (
        LONG[kind].replace("3" * 1_500_000, "3." + "0" * 1_500_000).replace("3:1 " * 400_000, "3:1" + " " * 1_500_000)
    )
    manifest = ingest([str(write(tmp_path, f"a.{kind}", good))], tmp_path / "out", IngestSpec(max_line=2_000_000))
    assert manifest.rows == 3
    assert reading_spec(max_line=7).options.max_line == 7
    assert IngestSpec().options.max_line == ReadOptions().max_line == 64 << 20


def test_a_csv_line_longer_than_a_block_but_not_than_a_line_may_be(tmp_path):
    """Reading goes on after the rows that are done: every row once."""
    lines = [f"{k % 2},{k},1" for k in range(300_000)]
    lines[200_000] = f"0,200000,1.{'0' * (3 * READ_BYTES)}"
    path = write(tmp_path, "a.csv", "label,a,b\n" + "\n".join(lines) + "\n")
    ingest([str(path)], tmp_path / "out", IngestSpec())
    np.testing.assert_array_equal(contents(open_shards(tmp_path / "out")).x[:, 0], np.arange(300_000))


def test_a_header_line_has_a_limit(tmp_path, refused):
    path = write(tmp_path, "a.csv", "label," + ",".join(f"f{k}" for k in range(100_000)) + "\n")
    refused(path, "--max-line", "100kB", expected="a.csv, line 1: the line is longer than 100,000 bytes")
    path = write(tmp_path, "a.csv", "," * (1 << 20) + ",\n")
    refused(path, expected=r"a.csv: the header has more than 1,048,576 columns; write rows this wide as svmlight")


def test_memory_does_not_depend_on_the_input(tmp_path):
    """60 MB in one line, 60 kB on disk: it took 13 times the line before lines had a limit."""
    with gzip.open(tmp_path / "a.svm.gz", "wb", 6) as stream:
        stream.write(b"1 1:1\n-1 2:1\n1 ")
        for _ in range(60):
            stream.write(b"3:1 " * (1 << 18))
    out = str(tmp_path / "out")
    run = watched(*SVMSIEVE, "ingest", str(tmp_path / "a.svm.gz"), "--out", out, "-q", "--max-line", "1MB")
    assert run.code == 1
    assert "a.svm.gz, line 3: the line is longer than 1,000,000 bytes" in run.stderr
    assert run.peak < 150_000_000, f"{run.peak:,} bytes"


def test_parquet_is_read_in_small_batches_whatever_its_row_groups(tmp_path):
    n = 500_000
    pq.write_table(pa.table({"label": np.arange(n) % 2, "a": np.zeros(n)}), tmp_path / "a.parquet", row_group_size=n)
    sizes = [task().n_rows for task in ParquetSource(str(tmp_path / "a.parquet"), ReadOptions()).tasks()]
    assert sum(sizes) == n
    assert max(sizes) < 1 << 17
    rows = [np.zeros(20_000, np.int32)] * 100
    lists = {"label": [0, 1] * 50, "indices": rows, "values": [row.astype(float) for row in rows]}
    pq.write_table(pa.table(lists), tmp_path / "lists.parquet")
    source = ParquetSource(str(tmp_path / "lists.parquet"), reading_spec(duplicates="sum").reading)
    assert [task().n_rows for task in source.tasks()] == [52, 48]


def test_a_label_in_a_dictionary_is_not_repeated(tmp_path, refused):
    """Two labels of a megabyte in 100 rows: 100 MB if every row had its own."""
    labels = ["x" * 1_000_000, "y" * 1_000_000] * 50
    pq.write_table(pa.table({"label": labels, "a": np.ones(100)}), tmp_path / "a.parquet", store_schema=False)
    del labels
    source = ParquetSource(str(tmp_path / "a.parquet"), ReadOptions())
    before = pa.total_allocated_bytes()
    (batch,) = source.table.batches(source.layout.names, 100)
    assert pa.total_allocated_bytes() - before < 20_000_000
    assert batch.num_rows == 100
    refused(tmp_path / "a.parquet", expected="row 1: the label has more than 4,096 characters")


def test_parquet_lists_longer_than_a_line_may_be(tmp_path, refused):
    row = np.arange(5000, dtype=np.int32)
    pq.write_table(pa.table({"label": [0, 1], "indices": [row, row], "values": [row, row]}), tmp_path / "a.parquet")
    said = "a.parquet: a row has 5,000 entries, more than the 4,000 of a line of that length; raise --max-line"
    refused(tmp_path / "a.parquet", "--max-line", "16kB", expected=said)


@pytest.mark.parametrize("groups", [1, 20])
def test_the_number_of_list_entries_is_read_off_the_footer(tmp_path, groups):
    rng = np.random.default_rng(0)
    rows = [np.arange(k) for k in rng.integers(0, 300, 200)]
    table = pa.table({"a": [{"x": None}] * 200, "label": [0, 1] * 100, "indices": rows, "values": rows})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=200 // groups, data_page_version="2.0")
    metadata = pq.ParquetFile(tmp_path / "a.parquet").metadata
    with (tmp_path / "a.parquet").open("rb") as stream:
        found = list_entries(stream, "a.parquet", ("indices", "values"))
    assert found == [metadata.row_group(g).column(2).num_values for g in range(groups)]
    with pytest.raises(DataError, match="the footer is damaged"):
        list_entries(io.BytesIO(b"\x1c" * 5000 + (5000).to_bytes(4, "little") + b"PAR1"), "b", ("indices",))


def test_a_row_group_that_cannot_be_held_is_refused_in_place(tmp_path, monkeypatch):
    n = 100_000
    pq.write_table(pa.table({"label": np.arange(n) % 2, "a": np.zeros(n)}), tmp_path / "a.parquet")
    monkeypatch.setattr(parquet_dataset, "default_budget", lambda: 1_000_000)
    said = r"row group 0 may take 1,200,000 bytes in memory, more than 1,000,000; run svmsieve ingest on it"
    with pytest.raises(DataError, match=said):
        open_dataset(tmp_path / "a.parquet")


def test_an_xz_file_that_asks_for_memory(tmp_path, refused, monkeypatch):
    rows = b"1 1:1\n-1 2:1\n"
    with monkeypatch.context() as patch:
        patch.setattr(xz, "MOST_MEMORY", 1 << 20)
        path = write(tmp_path, "a.svm.xz", lzma.compress(rows))
        refused(path, expected="a.svm.xz: takes more than 268,435,456 bytes of memory to unpack; ")
    packed = lzma.compress(rows) + lzma.compress(rows, preset=1) + bytes(8) + lzma.compress(b"1 3:1\n") + bytes(4)
    assert ingest([str(write(tmp_path, "b.svm.xz", packed))], tmp_path / "out", IngestSpec()).rows == 5
    for cut, expected in ((packed[:-20], "truncated or damaged"), (packed + b"more", "truncated or damaged")):
        with pytest.raises(DataError, match=expected):
            ingest([str(write(tmp_path, "c.svm.xz", cut))], tmp_path / "other", IngestSpec())


# --- CSV quotes ---


@pytest.mark.parametrize(
    ("line", "number"),
    [('0,"1"5,2\n', 3), ('0,"1,2\n', 3), ('0,1,"2', 3), ('0,1,"2\n', 3), ('0,"1\n",2\n', 3), ('1,2,3\n0,"1"" ,2\n', 4)],
)
def test_quotes_that_do_not_fit(tmp_path, refused, line, number):
    path = write(tmp_path, "a.csv", "label,a,b\n1,2,3\n" + line)
    refused(path, expected=f"a.csv, line {number}: a quote is not closed in its line, or text follows it; correct")


def test_quotes_that_fit(tmp_path):
    text = '\ufeff"label","a ""b""",c\r\n"x,""y""","1.5",2\r\n5" pipe,"2",""3\r\n'.replace(',""3', ",3")
    ingest([str(write(tmp_path, "a.csv", text))], tmp_path / "out", IngestSpec())
    data = open_shards(tmp_path / "out")
    assert data.columns == ('a "b"', "c")
    assert contents(data).x.tolist() == [[1.5, 2], [2, 3]]


# --- what is no file ---


def special(folder: Path, kind: str, name: str) -> Path:
    path = folder / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.symlink_to("/dev/zero")
    return path


SAID = {
    "pipe": "is a pipe, not a file; name a file with rows",
    "device": "is a device, not a file; name a file with rows",
    "directory": "no input files there; name a file, a pattern or a directory of Parquet files",
    "loop": r"cannot be read \(its links go in a circle\); check the path",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.npz", "a.parquet", "a.gz"])
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path, capsys, refused, kind, name):
    path = special(tmp_path, kind, name)
    refused(path, expected=f"{name}: {SAID[kind]}")
    code, _, err = command(capsys, "datasets", "describe", path, "-q")
    assert (code, err.count("\n")) == (1, 1)
    assert re.search(SAID[kind], err), err


@pytest.mark.timeout(20)
def test_a_pipe_among_files(tmp_path, refused):
    write(tmp_path, "a.svm", "1 1:1\n-1 2:1\n")
    os.mkfifo(tmp_path / "b.svm")
    refused(f"{tmp_path}/*.svm", expected="b.svm: is a pipe, not a file")


@pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.npz", "a.parquet"])
def test_a_file_one_may_not_read(tmp_path, refused, monkeypatch, name):
    path = write(tmp_path, name, "1 1:1\n")
    plain = Path.open

    def barred(self, *args, **kwargs):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", barred)
    refused(path, expected=rf"{name}: cannot be read \(Permission denied\); check the file and its permissions")


def test_a_folder_one_may_not_look_into(tmp_path, refused, capsys, monkeypatch):
    path = tmp_path / "barred" / "a.svm"
    plain = Path.stat

    def barred(self, *args, **kwargs):
        if "barred" in self.parts:
            raise PermissionError(13, "Permission denied")
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Path, "stat", barred)
    refused(path, expected=r"a.svm: cannot be read \(Permission denied\); check the path and its permissions")
    code, _, err = command(capsys, "datasets", "describe", path, "-q")
    assert (code, err.count("\n")) == (1, 1)
    assert "Permission denied" in err


def test_a_name_with_a_nul(tmp_path):
    for attempt in (lambda: open_dataset("a\0b.svm"), lambda: ingest(["a\0b.svm"], tmp_path / "out", IngestSpec())):
        with pytest.raises(DataError, match=r"cannot be read \(embedded null byte\)"):
            attempt()


# --- Parquet of odd types ---

ODD = {
    "struct": pa.array([{"x": 1}, {"x": 2}]),
    "map": pa.array([[("k", 1)], [("k", 2)]], pa.map_(pa.string(), pa.int64())),
    "list": pa.array([[1], [2]]),
    "category": pa.array(["a", "b"]).dictionary_encode(),
    "time": pa.array([1, 2], pa.timestamp("s")),
    "duration": pa.array([1, 2], pa.duration("s")),
    "binary": pa.array([b"\xff", b"\xfe"]),
    "null": pa.nulls(2),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_columns(tmp_path, refused, what):
    pq.write_table(pa.table({"label": [0, 1], "a": ODD[what], "b": [1.0, 2.0]}), tmp_path / "a.parquet")
    refused(
        tmp_path / "a.parquet",
        expected="a.parquet: column 'a' is .*, not numeric; drop or encode it, or pass --ignore a",
    )
    spec = IngestSpec(ReadOptions(ignore=("a",)))
    assert ingest([str(tmp_path / "a.parquet")], tmp_path / "out", spec).columns == ("b",)
    if what in ("struct", "map", "list", "time", "duration"):
        pq.write_table(pa.table({"label": ODD[what], "b": [1.0, 2.0]}), tmp_path / "b.parquet")
        with pytest.raises(DataError, match=r"column 'label' is .*; labels must be numbers or text"):
            ingest([str(tmp_path / "b.parquet")], tmp_path / "other", IngestSpec())


def test_a_label_column_without_a_name(tmp_path):
    """pandas writes an index without a name: a column called nothing may be the label, too."""
    path = tmp_path / "rows.csv"
    path.write_text(",a,b\nyes,1,2\nno,3,4\n")
    data = ingest([str(path)], tmp_path / "shards", reading_spec(label_column=""))
    assert (data.rows, data.features) == (2, 2)


@pytest.mark.parametrize(
    "labels",
    [
        pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["yes", "no"]), safe=False),
        pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\x9fa")),
    ],
)
def test_labels_that_a_damaged_file_decodes_to(labels):
    batch = pa.record_batch([labels, pa.array([1.0, 2.0])], ["label", "a"])
    with pytest.raises(DataError, match=r"rows.parquet: column 'label' is damaged \(.*\); write the file again"):
        labels_of(batch, Layout("label", None, ("a",)), Origin("rows.parquet"), ReadRules())


@pytest.mark.parametrize("field", [2, 3])
def test_a_page_that_is_larger_than_its_column_is_refused_before_arrow_takes_the_memory(tmp_path, field):
    """Found by fuzzing (parquet, seed 2026, case 72506): 1,348 bytes took 629 MB."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"label": [0.0, 1.0], "f0": [1.0, 2.0]}), path, use_dictionary=False, compression="none")
    content = bytearray(path.read_bytes())
    at, size = 4, content[4:].index(0x15, 2)  # the first page's header: type, then its sizes as coded numbers
    assert content[at] == content[at + 2] == 0x15
    coded = bytes([0x80, 0x80, 0x80, 0x80, 0x05])  # 671,088,640
    spot = at + 3 if field == 2 else at + 5
    assert size == 2
    assert content[spot] < 128
    path.write_bytes(content[:spot] + coded + content[spot + 1 :])
    with path.open("rb") as stream, pytest.raises(DataError, match="a page of 671,088,640 bytes in a column of"):
        check_pages(stream, str(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="not a readable Parquet file"):
        ingest([str(path)], tmp_path / "shards", IngestSpec())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_pages_of_every_kind_are_let_pass(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"label": rng.integers(0, 2, 50_000), "text": ["x" * 1000] * 50_000, "f": rng.random(50_000)})
    for version, compression in (("1.0", "gzip"), ("2.0", "zstd"), ("2.0", "none")):
        pq.write_table(table, tmp_path / "t", data_page_version=version, compression=compression, row_group_size=9_000)
        with (tmp_path / "t").open("rb") as stream:
            check_pages(stream, "t")
            assert len(list(_pages(stream))) > 2 * 3 * 6


def test_a_footer_whose_names_are_numbers():
    """Row group 1, column 1, metadata 3: its path is a list of numbers."""
    footer = bytes([0x49, 0x1C, 0x19, 0x1C, 0x3C, 0x39, 0x15, 0x02, 0x26, 0x02, 0x00, 0x00, 0x00, 0x00])
    content = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(DataError, match=r"rows.parquet: is not a readable Parquet file"):
        list_entries(io.BytesIO(content), "rows.parquet", ("indices",))
