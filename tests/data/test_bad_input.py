"""Every kind of bad input, in every format where it can occur: one line that says what, where and what to do."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.csv import READ_BYTES
from pipeline.errors import DataError
from tests.formats import WRITERS, Table, contents

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def ingest(tmp_path, capsys):
    """Run ``svmsieve ingest`` and return (exit code, stdout, stderr)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["ingest", "--quiet", "--out", str(tmp_path / "out"), *map(str, arguments)])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return run


@pytest.fixture
def refused(tmp_path, ingest):
    """Run ``svmsieve ingest``, which must fail in one line and leave nothing behind; return the line."""

    def run(*arguments, expected):
        code, out, err = ingest(*arguments)
        assert (code, out) == (1, "")
        assert err.startswith("svmsieve: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert "; " in err, "what to do?"
        assert re.search(expected, err), err
        assert not [path.name for path in tmp_path.iterdir() if "out" in path.name]
        return err

    return run


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def made(folder: Path, kind: str, x=None, y=None, costs=None) -> Path:
    """Write four rows of two features in a format, with one thing or another replaced."""
    x = np.array([[1.0, 2.0], [0.0, 3.0], [4.0, 0.0], [5.0, 6.0]]) if x is None else np.asarray(x, dtype=float)
    y = np.array(["-1", "1", "-1", "1"] if y is None else y)
    writer, name = WRITERS[kind]
    return writer(folder / name, Table(x, y, np.ones(y.size) if costs is None else np.asarray(costs, dtype=float)))


def place(kind: str, row: int) -> str:
    """How an error names a row (counted from 1) of a file of this format."""
    return {"svmlight": f"rows.svm, line {row}:", "csv": f"rows.csv, line {row + 1}:"}.get(kind, f", row {row}:")


# --- in every format ---


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    ("value", "expected"),
    [(NAN, "must be finite|has no number"), (INF, "inf; .*finite"), (-INF, "-inf; .*finite"), (1e200, "norm .* scale")],
)
def test_values_that_no_svm_can_use(tmp_path, refused, kind, value, expected):
    path = made(tmp_path, kind, x=[[1, 2], [3, 4], [5, value], [7, 8]])
    assert place(kind, 3) in refused(path, expected=expected)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [(kind, label) for kind in WRITERS for label in ("nan", "NaN", "inf", "") if (kind, label) != ("svmlight", "")],
)
def test_a_row_without_a_label(tmp_path, refused, kind, missing):
    path = made(tmp_path, kind, y=["1", "-1", missing, "1"])
    assert place(kind, 3) in refused(path, expected="label is missing.*; fill it or drop the row")


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "svmlight"])
@pytest.mark.parametrize(("cost", "shown"), [(0, "0"), (-2, "-2"), (NAN, "nan|has no number"), (INF, "inf")])
def test_weights_must_be_positive_and_finite(tmp_path, refused, kind, cost, shown):
    path = made(tmp_path, kind, costs=[1, 1, 1, cost])
    assert place(kind, 4) in refused(path, expected=f"weight'? ({shown})")


@pytest.mark.parametrize("kind", WRITERS)
def test_one_class_is_too_few(tmp_path, ingest, refused, kind):
    refused(made(tmp_path, kind, y=["3"] * 4), expected="a single class was found: 3; ")
    path = made(tmp_path, kind, y=["10", "9", "spam", "9.0"])
    refused(path, "--positive", "7", expected="no row is labelled 7; found: 9, 10, spam; choose")
    code, _, _ = ingest(path, "--positive", "9")
    assert code == 0
    assert contents(open_shards(tmp_path / "out")).labels.tolist() == [-1, 1, -1, 1]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_row_without_features_is_legal(tmp_path, ingest, kind):
    path = made(tmp_path, kind, x=[[0, 0], [1, 0], [0, 0], [0, 2]])
    assert ingest(path)[0] == 0
    found = contents(open_shards(tmp_path / "out"))
    assert found.x.tolist() == [[0, 0], [1, 0], [0, 0], [0, 2]]
    assert found.norms.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("kind", WRITERS)
def test_an_empty_file(tmp_path, refused, kind):
    path = tmp_path / WRITERS[kind][1]
    path.touch()
    refused(path, expected=f"{path.name}: the file is empty; ")


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "svmlight"])
def test_a_file_without_rows(tmp_path, refused, kind):
    path = made(tmp_path, kind, x=np.zeros((0, 2)), y=np.zeros(0))
    refused(path, expected=f"{path.name}: no rows in the file; ")


@pytest.mark.parametrize("kind", WRITERS)
def test_the_second_of_several_files_is_named(tmp_path, refused, kind):
    folder = tmp_path / "second"
    folder.mkdir()
    bad = made(folder, kind, x=[[1, 2], [3, 4], [INF, 1], [1, 1]])
    assert f"{bad}, " in refused(made(tmp_path, kind), bad, expected="inf; .*finite")


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_truncated_file(tmp_path, refused, kind, share):
    path = made(tmp_path, kind, x=np.random.default_rng(0).random((400, 2)), y=np.arange(400) % 2)
    content = path.read_bytes()
    if kind in ("svmlight", "csv"):
        content = gzip.compress(content)
    path.write_bytes(content[: int(len(content) * share)])
    refused(path, expected=f"{path.name}: .*(truncated or damaged|is not a readable)")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_a_compressed_file_that_is_truncated_or_damaged(tmp_path, refused, pack, name):
    text = b"label,a\n" + b"1,2\n0,3\n" * 2000 if name == "rows.csv" else b"1 1:2\n0 1:3\n" * 2000
    packed = pack(text)
    for cut in (12, len(packed) // 2, len(packed) - 1):
        refused(write(tmp_path, name, packed[:cut]), expected=f"{name}: the compressed file is truncated or damaged")
    middle = len(packed) // 2
    changed = packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]
    refused(write(tmp_path, name, changed), expected=f"{name}: the compressed file is .*damaged.*; get it again")


# --- files that cannot be read ---


def test_a_file_that_is_named_twice(tmp_path, ingest, refused):
    one = write(tmp_path, "one.svm", "1 1:1\n-1 1:2\n")
    link = tmp_path / "two.svm"
    link.symlink_to(one)
    for again in (one, tmp_path / "." / "one.svm", link, tmp_path / "o*.svm"):
        refused(one, again, expected=r"\.svm: the file is named twice")
    link.unlink()
    link.hardlink_to(one)
    refused(one, link, expected=r"two\.svm: the file is named twice")
    link.unlink()
    write(tmp_path, "two.svm", one.read_text())  # the same rows in another file are as good as any others
    assert ingest(one, link)[0] == 0


def test_a_file_that_was_added_before(tmp_path, capsys):
    one, other = write(tmp_path, "one.svm", "1 1:1\n-1 1:2\n"), write(tmp_path, "other.svm", "1 1:1\n-1 1:2\n")

    def said(path, *options):
        with pytest.raises(SystemExit) as end:
            main(["ingest", str(path), "--out", str(tmp_path / "out"), *options])
        assert not end.value.code
        return capsys.readouterr().err

    known = "one.svm: a file of this name and size is in the data set already; if it is the same, its rows count twice"
    assert known not in said(one)
    assert known in said(one, "--append")
    assert "already" not in said(other, "--append")


@pytest.mark.parametrize("option", ["--index-base=0", "--index-base=1", "--duplicates=sum"])
@pytest.mark.parametrize("kind", ["csv", "parquet columns"])
def test_options_about_indices_where_there_are_none(tmp_path, refused, option, kind):
    path, name = made(tmp_path, kind), option.partition("=")[0]
    refused(path, option, expected=f"features are columns here, which have no indices; leave {name} out")
    with pytest.raises(DataError, match=f"leave {name} out"):
        rules = ReadRules(0 if name == "--index-base" else None, None, name == "--duplicates")
        open_dataset(path, IngestSpec(ReadOptions(rules=rules)))


@pytest.mark.parametrize("name", ["gone.svm", "gone.csv", "gone.npz", "gone.parquet", "folder/gone.svm.gz", "gone"])
def test_a_file_that_is_not_there(tmp_path, refused, name):
    refused(tmp_path / name, expected=f"{name}: no such file; check the path")


def test_other_things_that_are_not_files(tmp_path, refused):
    (tmp_path / "dangling.svm").symlink_to(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "dangling.svm", expected="dangling.svm: no such file; ")
    refused(tmp_path / "empty", expected="empty: no input files there; ")
    refused(tmp_path / "*.libsvm", expected=r"\*\.libsvm: no input files there; ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_without_permission(tmp_path, refused, kind):
    path = made(tmp_path, kind)
    path.chmod(0)
    refused(path, expected=f"{path.name}: cannot be read .*Permission denied.*; check")


# --- svmlight ---

PAIRS = {
    "1": "'1' is not a pair; write index:value",
    "1:": "'1:' is not a pair",
    ":1": "':1' is not a pair",
    "a:1": "'a:1' is not a pair",
    "1.5:1": "'1.5:1' is not a pair",
    "+1:1": r"'\+1:1' is not a pair",
    "-:1": "'-:1' is not a pair",
    "0x1:1": "'0x1:1' is not a pair",
    "1 :2": "'1' is not a pair",
    "1: 2": "'1:' is not a pair",
    "1;2": "'1;2' is not a pair",
    "1:x": "'x' is not a number; write pairs as index:value",
    "1:2:3": "'2:3' is not a number",
    "1::2": "':2' is not a number",
    "1:1,5": "'1,5' is not a number",
    "1:1_0": "'1_0' is not a number",
    "1:--1": "'--1' is not a number",
    "1:1e": "'1e' is not a number",
    "1:0x10": "'0x10' is not a number",
    "1:" + "y" * 100: r"'y{37}\.\.\.' is not a number",
    "1:nan": "the value of index 1 is nan; values must be finite",
    "1:-Infinity": "the value of index 1 is -inf",
    "1:1e400": "the value of index 1 is inf",
    "-1:1": "index -1 is below 0; ",
    "2:1 1:3 2:1": "index 2 stands twice in the row; merge the two, or pass --duplicates sum",
    "2147483647:1": "index '2147483647' is beyond 2147483646, the most there can be; renumber",
    "99999999999999999999:1": "index '9{20}' is beyond 2147483646",
    "\x01:1": r"'\?' is not a pair",
}


@pytest.mark.parametrize(("pair", "expected"), PAIRS.items())
def test_svmlight_pairs(tmp_path, refused, pair, expected):
    path = write(tmp_path, "a.svm", f"# comment\n1 1:1\n\n-1 5:1 {pair}\n1 1:1\n")
    refused(path, expected=f"a.svm, line 4: {expected}")


@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        ("1 0:1", ["--index-base", "1"], "index 0 is below 1; pass --index-base 0 if indices count from 0"),
        ("1 -2:1", ["--index-base", "1"], "index -2 is below 1; "),
        ("1 -1:1", ["--index-base", "0"], "index -1 is below 0; "),
        ("1 9:1", ["--features", "8"], "index 9 is beyond the 8 features; raise --features or drop the entry"),
        ("1 8:1", ["--features", "8", "--index-base", "0"], "index 8 is beyond the 8 features; "),
        ("1:1 2:1", [], "'1:1' stands where the label belongs; write label index:value"),
        ("qid:1 2:1", [], "'qid:1' stands where the label belongs"),
        ("\xa0\xff 2:1", [], "is no label; "),
    ],
)
def test_svmlight_rows(tmp_path, refused, row, options, expected):
    path = write(tmp_path, "a.svm", b"1 1:1\n-1 2:1\n" + row.encode("latin-1") + b"\n")
    refused(path, *options, expected=f"a.svm, line 3: .*{expected}")


@pytest.mark.parametrize("content", ["# nothing\n", "\n\n  \n", "#", "\ufeff", "\t\r\n# 1 1:1\n"])
def test_svmlight_without_rows(tmp_path, refused, content):
    refused(write(tmp_path, "a.svm", content), expected="a.svm: no rows in the file; ")


@pytest.mark.parametrize("content", [bytes(range(256)) * 9, np.random.default_rng(0).bytes(5000), b"\x00" * 99])
def test_binary_garbage_as_svmlight(tmp_path, refused, content):
    refused(write(tmp_path, "a.svm", content), expected="a.svm, line 1: ")


@pytest.mark.parametrize("pairs", ["1:1 1:2", "3:5 1:1 2:7 1:2"])
def test_duplicates_are_added_up_on_request(tmp_path, ingest, pairs):
    assert ingest(write(tmp_path, "a.svm", f"1 {pairs}\n-1 3:1\n"), "--duplicates", "sum")[0] == 0
    found = contents(open_shards(tmp_path / "out")).x
    assert found[0].tolist() == [3, *([7, 5] if "3:5" in pairs else [0, 0])]


def test_unsorted_indices_just_work(tmp_path, ingest):
    assert ingest(write(tmp_path, "a.svm", "1 4:4 1:1 3:3\n-1 2:1\n"))[0] == 0
    assert contents(open_shards(tmp_path / "out")).x[0].tolist() == [1, 0, 3, 4]


# --- npz ---


class Bomb:
    """An object that, once unpickled, leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def npz(folder: Path, **changes) -> Path:
    arrays = {
        "data": np.array([1.0, 2.0, 3.0]),
        "indices": np.array([0, 1, 0]),
        "indptr": np.array([0, 2, 3]),
        "shape": np.array([2, 2]),
        "y": np.array([0, 1]),
    } | changes
    np.savez(folder / "a.npz", **{name: array for name, array in arrays.items() if array is not None})
    return folder / "a.npz"


NPZ = {
    "no y": ({"y": None}, "no array 'y'; "),
    "no indptr": ({"indptr": None}, "no array 'indptr'; "),
    "y too long": ({"y": [0, 1, 1]}, "'y' has 3 entries, not 2; "),
    "weight too short": ({"weight": [1.0]}, "'weight' has 1 entries, not 2; "),
    "indptr too short": ({"indptr": [0, 3]}, "'indptr' has 2 entries, not 3; "),
    "data too short": ({"data": [1.0, 2.0]}, "'indices' has 3 entries, not 2; "),
    "data too long": ({"data": [1.0, 2.0, 3.0, 4.0]}, "'indices' has 3 entries, not 4; "),
    "indptr decreases": ({"indptr": [0, 3, 2]}, ", row 2: 'indptr' decreases or goes beyond the 3 stored values; "),
    "indptr negative": ({"indptr": [0, -1, 3]}, ", row 1: 'indptr' decreases"),
    "indptr beyond data": ({"indptr": [0, 2, 9]}, ", row 2: 'indptr' decreases or goes beyond"),
    "indptr starts late": ({"indptr": [1, 2, 3]}, "'indptr' starts with 1, not 0; "),
    "indptr of floats": (
        {"indptr": [0.0, 2.0, 3.0]},
        "'indptr' is an array of float64 .*; it must be .* whole numbers",
    ),
    "shape of three": ({"shape": [2, 2, 1]}, "'shape' has 3 entries, not 2; "),
    "shape negative": ({"shape": [-2, 2]}, "the shape -2 x 2 cannot be; "),
    "shape too wide": ({"shape": [2, 2**40]}, "the shape 2 x 1099511627776 cannot be; "),
    "not CSR": ({"format": np.array(b"csc")}, "the matrix is csc; convert it to CSR"),
    "y of two dimensions": ({"y": [[0], [1]]}, r"'y' is an array of int64 with shape \(2, 1\); it must be one-dim"),
    "text values": ({"data": ["a", "b", "c"]}, "'data' is an array of <U1 .*; it must be .* of numbers"),
    "complex values": ({"data": [1j, 2, 3]}, "'data' is an array of complex128"),
    "dates as labels": ({"y": np.array(["2020", "2021"], "M8[Y]")}, r"'y' is an array of datetime64\[Y\]"),
    "index of floats": ({"indices": [0, 1.5, 0]}, "'indices' is an array of float64"),
    "index below 0": ({"indices": [0, 1, -1]}, ", row 2: index -1 is below 0; "),
    "index beyond the shape": ({"indices": [0, 2, 0]}, ", row 1: index 2 is beyond the 2 features; "),
    "index beyond 32 bits": ({"indices": [0, 2**40, 0]}, ", row 1: index 1099511627776 is not within 32 bits; "),
    "index beyond 63 bits": (
        {"indices": np.array([0, 2**64 - 1, 0], np.uint64)},
        ", row 1: index 18446744073709551615",
    ),
    "duplicate index": ({"indices": [1, 1, 0]}, ", row 1: index 1 stands twice in the row; "),
}


@pytest.mark.parametrize("what", NPZ)
def test_npz_arrays(tmp_path, refused, what):
    changes, expected = NPZ[what]
    changes = {name: array if array is None else np.asarray(array) for name, array in changes.items()}
    refused(npz(tmp_path, **changes), expected=f"a.npz(: )?{expected}")


@pytest.mark.parametrize("name", ["data", "indices", "indptr", "shape", "y", "weight", "format"])
def test_pickled_objects_are_never_unpickled(tmp_path, refused, name):
    bomb = tmp_path / "bomb"
    path = npz(tmp_path, **{name: np.array([Bomb(bomb), 1], dtype=object)})
    refused(path, expected=f"a.npz: '{name}' is an array of object")
    assert not bomb.exists()
    np.load(path, allow_pickle=True)[name]
    assert bomb.exists(), "the bomb works, where it is let off"


def test_npz_archives_that_are_none(tmp_path, refused):
    names = ("data", "indices", "indptr", "shape", "y")
    for suffix, expected in (("", "no array 'data'; "), (".npy", "'shape' is damaged .*; write the file again")):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            for name in names:
                archive.writestr(name + suffix, b"text")
        refused(tmp_path / "a.npz", expected=f"a.npz: {expected}")
    content = npz(tmp_path, data=np.full(3, 7.25)).read_bytes()
    damaged = content.replace(np.full(3, 7.25).tobytes(), np.full(3, 7.5).tobytes())
    refused(write(tmp_path, "a.npz", damaged), expected="a.npz: 'data' is damaged .*; write the file again")


# --- Parquet ---


def parquet(folder: Path, **columns) -> Path:
    table = pa.table({name: column for name, column in columns.items() if column is not None})
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


LISTS = {
    "unequal lengths": ({"values": [[1.0], [3.0], [4.0]]}, ", row 1: 2 indices but 1 values; "),
    "null index": ({"indices": [[0, 1], [None], [0]]}, r", row 2: an index is missing \(null\); "),
    "null value": ({"values": [[1.0, 2.0], [3.0], [None]]}, ", row 3: the value of index 0 is nan; "),
    "null lists": ({"indices": [[0, 1], None, [0]]}, ", row 2: column 'indices' has no list here; "),
    "null values": ({"values": [[1.0, 2.0], [3.0], None]}, ", row 3: column 'values' has no list here; "),
    "fractional index": ({"indices": [[0, 1.5], [1], [0]]}, ": column 'indices' is list.*double.*; .*whole numbers"),
    "text index": ({"indices": [["a", "b"], ["c"], ["d"]]}, ": column 'indices' is list.*string.*; "),
    "text value": ({"values": [["a", "b"], ["c"], ["d"]]}, ": column 'values' is list.*string.*; .*lists of numbers"),
    "values not lists": ({"values": [1.0, 2.0, 3.0]}, ": column 'values' is double; "),
    "indices not lists": ({"indices": [1, 2, 3]}, ": column 'indices' is int64; "),
    "no values": ({"values": None}, ": no column 'values'; "),
    "no indices": ({"indices": None}, ": no column 'indices'; "),
    "no label": ({"label": None}, ": no column 'label' .* there are indices, values; pass --label-column"),
    "null label": ({"label": [0, None, 1]}, ", row 2: the label is missing; "),
    "date label": ({"label": pa.array([1, 2, 3], pa.date32())}, r": column 'label' is date32\[day\]; "),
    "list label": ({"label": [[0], [1], [1]]}, ": column 'label' is list.*; "),
    "text weight": ({"weight": ["a", "b", "c"]}, ": column 'weight' is string, not numeric; "),
    "null weight": ({"weight": [1.0, None, 1.0]}, ", row 2: column 'weight' has no number here; "),
    "index below 0": ({"indices": [[0, 1], [1], [-1]]}, ", row 3: index -1 is below 0; "),
    "index beyond 32 bits": ({"indices": [[0, 2**40], [1], [0]]}, ", row 1: index 1099511627776 is not within 32"),
    "index 2^31 - 1": ({"indices": [[0, 2**31 - 1], [1], [0]]}, ", row 1: index 2147483647 is beyond 2147483646, "),
    "index -2^63": ({"indices": [[0, -(2**63)], [1], [0]]}, ", row 1: index -9223372036854775808 is not within"),
    "duplicate index": ({"indices": [[1, 1], [1], [0]]}, ", row 1: index 1 stands twice in the row; "),
}


@pytest.mark.parametrize("what", LISTS)
def test_parquet_lists(tmp_path, refused, what):
    changes, expected = LISTS[what]
    columns = {"label": [0, 1, 1], "indices": [[0, 1], [1], [0]], "values": [[1.0, 2.0], [3.0], [4.0]]}
    refused(parquet(tmp_path, **columns | changes), expected=f"a.parquet{expected}")


@pytest.mark.parametrize("base", ["0", "1"])
def test_parquet_indices_count_from_zero_unless_told(tmp_path, ingest, refused, base):
    path = parquet(tmp_path, label=[0, 1], indices=[[1, 2], [2]], values=[[1.0, 2.0], [3.0]])
    assert ingest(path, "--index-base", base)[0] == 0
    assert open_shards(tmp_path / "out").n_features == 3 - int(base)


def test_parquet_index_below_one_and_beyond_features(tmp_path, refused):
    path = parquet(tmp_path, label=[0, 1], indices=[[1], [0, 2]], values=[[1.0], [1.0, 2.0]])
    refused(path, "--index-base", "1", expected="a.parquet, row 2: index 0 is below 1; pass --index-base 0")
    refused(path, "--features", "2", expected="a.parquet, row 2: index 2 is beyond the 2 features; ")


COLUMNS = {
    "null": ({"a": [1.0, None, 3.0]}, ", row 2: column 'a' has no number here; fill it or drop the row"),
    "text": ({"a": ["x", "y", "z"]}, ": column 'a' is string, not numeric; drop or encode it"),
    "dates": ({"a": pa.array([1, 2, 3], pa.date32())}, r": column 'a' is date32\[day\], not numeric; "),
    "no features": ({"a": None}, ": no feature columns; "),
    "no label": ({"label": None}, ": no column 'label' for the labels; there are a; pass --label-column NAME"),
    "no name": ({"": [1, 2, 3]}, ": column 3 has no name; "),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_parquet_columns(tmp_path, refused, what):
    changes, expected = COLUMNS[what]
    refused(parquet(tmp_path, **{"label": [0, 1, 1], "a": [1.0, 2.0, 3.0]} | changes), expected=f"a.parquet{expected}")


def test_parquet_columns_of_the_same_name(tmp_path, refused):
    pq.write_table(pa.table([[0, 1], [1, 2], [3, 4]], names=["label", "a", "a"]), tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", expected="a.parquet: column 'a' stands twice in the header; rename one")


def test_the_row_index_of_pandas_is_no_feature(tmp_path, ingest):
    assert ingest(parquet(tmp_path, label=[0, 1], a=[1.0, 2.0], __index_level_0__=[7, 8]))[0] == 0
    assert contents(open_shards(tmp_path / "out")).x.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("name", ["a.parquet", "a.pq"])
def test_what_only_looks_like_parquet(tmp_path, refused, name):
    refused(write(tmp_path, name, "1 1:1\n-1 2:1\n"), expected=f"{name}: is not a readable Parquet file")
    refused(write(tmp_path, name, b"PAR1" * 10), expected=f"{name}: is not a readable Parquet file .*; write it again")


def test_a_damaged_column_name(tmp_path, refused):
    path = parquet(tmp_path, label=[0, 1], somewhat=[1.0, 2.0])
    path.write_bytes(path.read_bytes().replace(b"somewhat", b"some\xbb\xbb\xbb\xbb"))
    refused(path, expected="a.parquet: is not a readable Parquet file .*; write it again")


# --- CSV ---

CSV = {
    "text": ("1,x,2\n", ", line 4: column 'a': invalid value 'x'; correct the line"),
    "empty cell": ("1,,2\n", ", line 4: column 'a' has no number here; "),
    "NA": ("1,2,NA\n", ", line 4: column 'b' has no number here; "),
    "1e400": ("1,1e400,2\n", ", line 4: the value of column 'a' is inf; "),
    "too short": ("1,2\n", ", line 4: Expected 3 columns, got 2.*; correct the line"),
    "too long": ("1,2,3,4\n", ", line 4: Expected 3 columns, got 4.*; correct the line"),
    "no label": (",1,2\n", ", line 4: the label is missing; "),
    "not UTF-8": (b"\xe9,1,2\n", ", line 4: column 'label': invalid UTF8 data; write the file as UTF-8 text"),
    "true": ("1,true,2\n", ", line 4: column 'a': invalid value 'true'; "),
}


@pytest.mark.parametrize("what", CSV)
@pytest.mark.parametrize(("dress", "lines"), [("{}", 0), ("\n\r\n{}", 2)])
def test_csv_lines(tmp_path, refused, what, dress, lines):
    bad, expected = CSV[what]
    good = dress.format("label,a,b\n0,1,2\n1,3,4\n").encode()
    path = write(tmp_path, "a.csv", good + (bad if isinstance(bad, bytes) else bad.encode()) + b"1,5,6\n")
    refused(path, expected="a.csv" + expected.replace("line 4", f"line {4 + lines}"))


def test_csv_empty_lines_count_as_lines(tmp_path, refused):
    for bad, expected in (("1,x\n", "invalid value"), ("1,\n", "no number"), ("1\n", "Expected 2 columns")):
        path = write(tmp_path, "a.csv", "label,a\n\n0,1\r\n\r\n\n1,1\n" + bad)
        refused(path, expected=f"a.csv, line 7: .*{expected}")


@pytest.mark.attack
@pytest.mark.parametrize("name", [r"C:\x", r"\1", r"\g<0>"])
def test_csv_a_column_has_any_name(tmp_path, refused, name):
    path = write(tmp_path, "a.csv", f"label,{name}\n0,1\n1,x\n")
    refused(path, expected=f"a.csv, line 3: column '{re.escape(name)}': invalid value 'x'; correct the line")


HEADERS = {
    "no label": ("y,a\n0,1\n", "no column 'label' for the labels; there are y, a; pass --label-column NAME"),
    "spaces": ("label a\n0 1\n", "no column 'label' for the labels; there are label a; "),
    "same name": ("label,a,a\n0,1,2\n", "column 'a' stands twice in the header; "),
    "no name": (",label,a\n0,1,2\n1,0,2\n", "column 1 has no name; name it, or drop it if it numbers the rows"),
    "no features": ("label,weight\n0,1\n", "no feature columns; "),
    "not UTF-8": (b"label,\xe9\n0,1\n", "the header cannot be read .*; write the file as UTF-8 text"),
    "broken name": ('label,"a\nb"\n0,1\n', "; "),
    "header only": ("label,a\n", "no rows in the file; "),
    "header only, no newline": ("label,a", "no rows in the file; "),
    "newlines only": ("\n\n", "no rows in the file; a CSV file starts with a header line"),
    "garbage": (bytes(range(128, 256)) * 9, "the header cannot be read"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_csv_headers(tmp_path, refused, what):
    content, expected = HEADERS[what]
    refused(write(tmp_path, "a.csv", content), expected=rf"a.csv(, line 1)?: .*{expected}")


def test_csv_lines_longer_than_a_block(tmp_path, ingest):
    """Wide files: the header is longer than what Arrow reads at a time, the lines than what we do."""
    width = 40_000
    header = ",".join(["label", *(f"a_name_of_some_length_{j:08}" for j in range(width))])
    lines = [f"{y}," + ",".join(["0." + "3" * 58] * width) for y in (0, 1)]
    assert len(header) > 2**20
    assert len(lines[0]) > READ_BYTES
    assert ingest(write(tmp_path, "wide.csv", "\n".join([header, *lines])))[0] == 0
    assert open_shards(tmp_path / "out").n_features == width


# --- several files, options ---


@pytest.mark.parametrize("kind", ["csv", "parquet columns"])
@pytest.mark.parametrize(
    ("names", "expected"),
    [(["a", "c"], "column 'b' is not in all files; "), (["b", "a"], "the columns stand in another order; ")],
)
def test_dense_files_with_different_columns(tmp_path, refused, kind, names, expected):
    paths = []
    for k, features in enumerate((["a", "b"], names)):
        path = tmp_path / f"{k}.{kind}"
        if kind == "csv":
            path.write_text(",".join(["label", *features]) + "\n0,1,2\n1,3,4\n")
        else:
            pq.write_table(pa.table({"label": [0, 1]} | {name: [1.0, 2.0] for name in features}), path)
        paths.append(path)
    refused(*paths, expected=f"1.{kind}: {expected}")


@pytest.mark.parametrize("kind", ["csv", "parquet lists", "parquet columns"])
def test_a_named_weight_column_must_be_there(tmp_path, refused, kind):
    path = made(tmp_path, kind)
    refused(path, "--weight-column", "cost", expected=f"{path.name}: no column 'cost'; correct --weight-column")


def test_a_failed_append_changes_nothing(tmp_path, ingest):
    assert ingest(write(tmp_path, "a.svm", "1 1:1\n-1 2:1\n"))[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    code, _, err = ingest(write(tmp_path, "b.svm", "1 1:1\n-1 2:x\n"), "--append")
    assert code == 1
    assert "b.svm, line 2: 'x' is not a number" in err
    code, _, err = ingest(write(tmp_path, "c.svm", "1 1:1\n3 2:1\n"), "--append")
    assert code == 1
    assert "c.svm: label 3 is new: this data set has -1, 1; " in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_shells_variable_that_is_not_set_is_not_the_folder_one_is_in(ingest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"label": [1, -1], "x": [1.0, 2.0]}), "rows.parquet")
    assert ingest("") == (1, "", "svmsieve: the name of the data is empty; name a file or a folder (this one is .)\n")
    assert ingest(".", "--label-column", "label")[0] == 0
