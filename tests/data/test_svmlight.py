"""The svmlight reader against scikit-learn's and Python's own, wherever the text is cut."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import re
import struct
from io import BytesIO

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.base import BLOCK_BYTES, ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.decimals import NUMBER, read_number
from pipeline.data.reading.files import format_of
from pipeline.data.reading.svmlight import SvmlightSource, parse
from pipeline.errors import DataError
from tests.formats import contents


def read(path, rules=ReadRules(base=1), block_bytes=BLOCK_BYTES, n_features=None):  # noqa: B008
    """Read a file with the source alone: X as CSR, the labels' texts, the line of every row."""
    blocks = [task() for task in SvmlightSource(str(path), ReadOptions(rules=rules), block_bytes).tasks()]
    width = n_features or max([block.largest for block in blocks], default=-1) + 1
    parts = [
        sp.csr_array((b.values.astype(np.float64), b.indices, b.indptr), shape=(b.n_rows, max(width, 1)))
        for b in blocks
    ]
    labels = [b.labels.values[code] for b in blocks for code in b.labels.codes]
    return sp.vstack(parts, format="csr"), labels, np.concatenate([b.origin.lines for b in blocks]).tolist()


def write(folder, text, name="rows.svm"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- numbers, against float() ---

decimals = st.from_regex(r"\A[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,6})?\Z")
finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(
    finite.map(repr),
    finite.map("{:.17g}".format),
    finite.map("{:.18e}".format),
    finite.map("{:.15E}".format),
    st.integers(-(10**40), 10**40).map(str),
    st.integers(2**53 - 4, 2**53 + 4).map(str),
    st.tuples(st.integers(1, 2**64 - 1), st.integers(-360, 330)).map("{0[0]}e{0[1]}".format),
    st.integers(1, 2**52).map(lambda bits: repr(struct.unpack("d", struct.pack("q", bits))[0])),
    st.tuples(st.integers(1, 2**60), st.integers(0, 400)).map(lambda t: "0." + "0" * t[1] + str(t[0])),
    decimals,
)
TOKEN = st.text("0123456789+-.eExXaninf_ ", max_size=12)


def bits(number):
    return struct.pack("d", number)


@settings(max_examples=3000)
@given(written=numbers)
@example(written="0.1000000000000000055511151231257827021181583404541015625")
@example(written="9007199254740993")
@example(written="1e23")
@example(written="8.5e22")
@example(written="3065338623312890808e-197")  # settled only by the carry of the second product
@example(written="2.2250738585072011e-308")
@example(written="1.7976931348623158e308")
@example(written="4.9e-324")
@example(written="-0.0")
@example(written="0e99999999")
@example(written="1e-99999999")
@example(written="00000000000000000000000000000000000001.5")
def test_numbers_are_floats_to_the_bit(written):
    text = np.frombuffer(written.encode(), np.uint8)
    value, known = read_number(text, 0, text.size)
    if known:
        assert bits(value) == bits(float(written))
    block = parse(f"1 1:{written}".encode(), "f", 1, ReadRules(base=1)) if abs(float(written)) < 1e150 else None
    if block is not None and float(written) != 0:
        assert bits(float(block.values[0])) == bits(float(written))


def test_ordinary_numbers_are_settled_without_python():
    rng = np.random.default_rng(0)
    tokens = [repr(v) for v in (rng.normal(size=300) * 10.0 ** rng.integers(-290, 290, 300)).tolist()]
    tokens += [f"{v:.6f}" for v in rng.normal(size=300)] + ["1", "-1", "+1", "0", "1.", ".5", "1e5", "2E-3", "007"]
    for token in tokens:
        text = np.frombuffer(token.encode(), np.uint8)
        assert read_number(text, 0, text.size) == (float(token), True), token


@given(written=TOKEN.filter(lambda t: " " not in t and t))
@example(written="1_0")
@example(written="0x10")
@example(written="1e5.0")
@example(written="+-1")
@example(written="1e+")
@example(written=".")
@example(written=".e1")
@example(written="infinit")
@example(written="--1")
def test_what_is_not_a_number_is_deferred_and_then_refused(written):
    try:
        is_number = "_" not in written and math.isfinite(float(written))
    except ValueError:
        is_number = False
    text = np.frombuffer(written.encode(), np.uint8)
    _, known = read_number(text, 0, text.size)
    assert is_number or not known
    line = f"1 3:1\n1 2:{written}\n".encode()
    if is_number and abs(float(written)) < 1e150:
        assert parse(line, "f", 1, ReadRules(base=1)).n_rows == 2
    else:
        with pytest.raises(DataError) as caught:
            parse(line, "f", 1, ReadRules(base=1))
        assert (caught.value.row, caught.value.unit) == (2, "line")


def test_the_number_pattern_knows_ascii_only():
    assert not re.fullmatch(NUMBER, "٣", re.IGNORECASE)
    with pytest.raises(DataError, match="'٣' is not a number"):
        parse("1 1:٣\n".encode(), "f", 1, ReadRules(base=1))


# --- files, against scikit-learn ---

values = st.one_of(st.floats(-1e100, 1e100), st.integers(-5, 5).map(float), st.sampled_from([0.1, 5e-324, 1 / 3, 1e-9]))
pairs = st.lists(st.tuples(st.integers(1, 40), values), max_size=6, unique_by=lambda pair: pair[0]).map(sorted)
rows = st.lists(st.tuples(st.sampled_from([-1, 1, 0, 2.5, -7]), pairs), min_size=1, max_size=12)
spaces = st.sampled_from([" ", "  ", "\t", " \t "])
ends = st.sampled_from(["\n", " \n", "\n\n", " # a comment: 3:4\n", "#\n", "\n# 1 1:1\n", "\n \n"])


@st.composite
def files(draw):
    """Any svmlight text that scikit-learn reads too."""
    text = draw(st.sampled_from(["", "# header 1:2\n", "\n"]))
    has_qid = draw(st.booleans())
    for label, row in draw(rows):
        form = draw(st.sampled_from(["{!r}", "{:.17g}", "{:.18e}"]))
        gap = draw(spaces)
        tokens = [str(label), *(["qid:3"] if has_qid else []), *(f"{j}:{form.format(v)}" for j, v in row)]
        text += gap.join(tokens) + draw(ends)
    return text if draw(st.booleans()) else text.rstrip("\n")


@given(text=files(), block_bytes=st.integers(1, 200))
def test_files_read_as_scikit_learn_reads_them(tmp_path_factory, text, block_bytes):
    x, y = load_svmlight_file(BytesIO(text.encode()), n_features=40, zero_based=False)
    path = write(tmp_path_factory.mktemp("svm"), text)
    for size in (BLOCK_BYTES, block_bytes):
        found, labels, lines = read(path, block_bytes=size, n_features=40)
        x.eliminate_zeros()
        np.testing.assert_array_equal(found.indptr, x.indptr)
        np.testing.assert_array_equal(found.indices, x.indices)
        np.testing.assert_array_equal(found.data, x.data)
        assert [float(label) for label in labels] == y.tolist()
        written = text.split("\n")
        assert [float(written[line - 1].split("#")[0].split()[0]) for line in lines] == y.tolist()


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["bcd", "mushrooms", "splice_scale", "dna_scale_t"])
def test_real_files_read_as_scikit_learn_reads_them(development_data, name):
    path = development_data / f"{name}.svm.gz"
    x, y = load_svmlight_file(str(path))
    found, labels, lines = read(path, block_bytes=100_000, n_features=x.shape[1])
    assert (found != x).nnz == 0
    assert [float(label) for label in labels] == y.tolist()
    assert lines == list(range(1, len(y) + 1))


# --- what the text may look like ---

ROWS = b"+1 1:0.5 3:2\n-1 2:1e-3\n1\n"


@pytest.mark.parametrize(
    ("what", "text"),
    {
        "no newline at the end": ROWS.rstrip(b"\n"),
        "CRLF": ROWS.replace(b"\n", b"\r\n"),
        "tabs": ROWS.replace(b" ", b"\t"),
        "many spaces": ROWS.replace(b" ", b"   ").replace(b"\n", b"  \n"),
        "leading spaces": ROWS.replace(b"+1 ", b"  +1 "),
        "blank lines": b"\n\r\n" + ROWS.replace(b"\n", b"\n \t\n\n"),
        "comments": b"# 5 6:7\n" + ROWS.replace(b"\n", b" # 5 6:7 \xff\n") + b"#",
        "comment without a space": ROWS.replace(b"\n", b"#x\n"),
        "qid": ROWS.replace(b"1 1:", b"1 qid:4 1:").replace(b"-1 ", b"-1 qid:5 "),
        "byte order mark": b"\xef\xbb\xbf" + ROWS,
        "unsorted": ROWS.replace(b"1:0.5 3:2", b"3:2 1:0.5"),
        "explicit zeros": ROWS.replace(b"2:1e-3", b"1:0 2:1e-3 3:-0.0"),
        "other spellings": b"1.0 1:5e-1 3:+2.000\n-1e0 2:.001\n1. \n",
        "leading zeros": ROWS.replace(b"1:0.5", b"001:00.5"),
        "gzip": gzip.compress(ROWS, mtime=0),
        "bzip2": bz2.compress(ROWS),
        "xz": lzma.compress(ROWS),
        "gzip of two members": gzip.compress(ROWS[:15], mtime=0) + gzip.compress(ROWS[15:], mtime=0),
        "bzip2 of two streams": bz2.compress(ROWS[:15]) + bz2.compress(ROWS[15:]),
        "xz of two streams": lzma.compress(ROWS[:15]) + lzma.compress(ROWS[15:]),
    }.items(),
)
@pytest.mark.parametrize("block_bytes", [1, 7, 20, BLOCK_BYTES])
def test_every_dress_of_the_same_rows(tmp_path, what, text, block_bytes):
    x, labels, _ = read(write(tmp_path, text), block_bytes=block_bytes)
    assert labels == ["1", "-1", "1"]
    np.testing.assert_array_equal(x.toarray(), [[0.5, 0, 2], [0, 1e-3, 0], [0, 0, 0]])


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".txt"])
def test_compression_is_known_by_content_not_by_name(tmp_path, suffix):
    for packed in (ROWS, gzip.compress(ROWS), bz2.compress(ROWS), lzma.compress(ROWS)):
        ingest([str(write(tmp_path, packed, f"a.svm{suffix}"))], tmp_path / "out", IngestSpec(overwrite=True))
        assert open_shards(tmp_path / "out").n_rows == 3


def test_a_line_longer_than_a_block(tmp_path):
    long = " ".join(f"{j}:{j}" for j in range(1, 3000))
    path = write(tmp_path, f"-1 1:1\n1 {long}\n-1 2:2\n")
    x, labels, lines = read(path, block_bytes=100)
    assert (labels, lines) == (["-1", "1", "-1"], [1, 2, 3])
    np.testing.assert_array_equal(x[[1]].toarray()[0], np.arange(1, 3000))


@pytest.mark.parametrize("block_bytes", [1, 5, 33, 64, 1000, BLOCK_BYTES])
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("1 2", "'2' is not a pair"),
        ("1 2:x", "'x' is not a number"),
        ("1:1", "stands where the label belongs"),
        ("1 1:1 1:1", "twice"),
        ("1 1:nan", "finite"),
        ("nan 1:1", "label is missing"),
    ],
)
def test_the_error_names_the_line_wherever_the_text_is_cut(tmp_path, block_bytes, bad, problem):
    text = "# header\n" + "1 1:1 2:0.25\n\n" * 50 + f"{bad}\n" + "1 1:1\n" * 20 + "1 x\n"
    with pytest.raises(DataError, match=problem) as caught:
        read(write(tmp_path, text), block_bytes=block_bytes)
    assert (caught.value.row, caught.value.unit) == (102, "line")


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (["+1", "1.0", "-1", "1e0", "-1.000"], ["1", "1", "-1", "1", "-1"]),
        (["spam", "ham", "spam", "été", "a,b"], ["spam", "ham", "spam", "été", "a,b"]),
        (["1", "one", "2.50", "-0", "inf_"], ["1", "one", "2.5", "0", "inf_"]),
        (["1_0", "10", "0x1", "1e", "--1"], ["1_0", "10", "0x1", "1e", "--1"]),
    ],
)
def test_labels_may_be_numbers_or_text(tmp_path, labels, texts):
    path = write(tmp_path, "".join(f"{label} 1:1\n" for label in labels))
    assert read(path)[1] == texts
    assert read(path, block_bytes=1)[1] == texts


@pytest.mark.parametrize("line", ["5.1,3.5,setosa", "1,2,3", "x;y", "a|b"])
def test_a_line_of_a_table_is_no_label(tmp_path, line):
    path = write(tmp_path, f"1 1:1\n{line} # a name that does not end with .csv\n")
    with pytest.raises(DataError, match=re.escape(f"line 2: '{line}' stands where the label belongs; is this a table")):
        read(path)


@pytest.mark.parametrize(
    ("head", "what"),
    [(b"ARROW1", "Arrow"), (b"\x28\xb5\x2f\xfd", "zstandard"), (b"ORC", "ORC"), (b"\xff\xfe1\0", "UTF-16")],
)
def test_files_that_are_not_read_are_called_by_their_name(tmp_path, head, what):
    (tmp_path / "rows.csv.zst").write_bytes(head + b"\0\1\n")
    with pytest.raises(DataError, match=rf"rows.csv.zst: is .*{what}.*; "):
        format_of(str(tmp_path / "rows.csv.zst"))


# --- where indices count from ---


def zero_in_the_last_line(rows):
    return "".join(f"{(-1) ** i} 1:{i} 4:2\n" for i in range(1, rows)) + "1 0:9 2:3\n"


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_a_zero_in_the_last_line_makes_all_indices_count_from_zero(tmp_path, monkeypatch, bias):
    monkeypatch.setattr("pipeline.data.reading.choose.SvmlightSource", lambda p, o: SvmlightSource(p, o, 64))
    path = write(tmp_path, zero_in_the_last_line(500))
    manifest = ingest([str(path)], tmp_path / "out", IngestSpec(rows_per_shard=30, bias=bias))
    x, y = load_svmlight_file(str(path), zero_based=True)
    found = contents(open_shards(tmp_path / "out"))
    assert (manifest.index_base, manifest.features) == (0, 5 + (bias != 0))
    np.testing.assert_array_equal(found.x[:, :5], x.toarray())
    np.testing.assert_array_equal(found.x[:, 5:], np.full((500, int(bias != 0)), bias))
    np.testing.assert_array_equal(found.labels, y)


@pytest.mark.parametrize(("base", "columns"), [(0, [0, 1, 0]), (1, [1, 0]), (None, [1, 0])])
def test_a_given_index_base_is_kept(tmp_path, base, columns):
    path = write(tmp_path, "1 1:1\n-1 2:0\n")
    manifest = ingest([str(path)], tmp_path / "out", IngestSpec(ReadOptions(rules=ReadRules(base=base))))
    assert manifest.index_base == (1 if base is None else base)
    assert contents(open_shards(tmp_path / "out")).x[0].tolist() == columns


def test_index_base_one_refuses_a_zero(tmp_path):
    with pytest.raises(DataError, match="index 0 is below 1; pass --index-base 0") as caught:
        read(write(tmp_path, zero_in_the_last_line(500)), ReadRules(base=1), block_bytes=64)
    assert caught.value.row == 500
