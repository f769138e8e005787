"""Shards: zero copy, exact and no wider than needed, cut as asked, and never silently damaged."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli import main
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.assemble import Piece, ShardCutter, join
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import Origin, ReadRules, make_block
from pipeline.data.reading.labels import RawLabels
from pipeline.data.shards.digest import digest_rows, fingerprint, join_digests
from pipeline.data.shards.manifest import MANIFEST
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import write_shard
from pipeline.errors import DatasetError
from tests.formats import Table, contents, write_svmlight

ARRAYS = [field.name for field in fields(Rows) if field.name not in ("n_features", "stored", "groups", "ids")]


def random_table(rows: int, features: int, seed: int = 0, exact_float32: bool = True) -> Table:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, features)) < 0.4, rng.standard_normal((rows, features)), 0.0)
    x = x.astype(np.float32).astype(np.float64) if exact_float32 else x
    return Table(x, np.where(np.arange(rows) % 3 == 0, 1, -1), np.ones(rows))


def ingested(folder: Path, table: Table, **options) -> Path:
    out = folder / "out"
    ingest(
        [str(write_svmlight(folder / "rows.svm", table))], out, IngestSpec(ReadOptions(rules=ReadRules(1)), **options)
    )
    return out


def mapped_regions(path: Path) -> list[tuple[int, int]]:
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [line[0].split("-") for line in lines if len(line) > 5 and line[5] == str(path)]
    return [(int(start, 16), int(end, 16)) for start, end in spans]


def test_a_loaded_shard_is_the_mapped_file(tmp_path):
    out = ingested(tmp_path, random_table(50, 8))
    (shard,) = open_shards(out).shards
    rows = shard.load()
    regions = mapped_regions(out / "shard-00000.arrow")
    for name in ARRAYS:
        array = getattr(rows, name)
        assert not array.flags.writeable
        first, end = array.ctypes.data, array.ctypes.data + array.nbytes
        assert any(start <= first and end <= stop for start, stop in regions), name
    assert [getattr(rows, name).dtype.str for name in ARRAYS] == ["<i4", "<i4", "<f4", "|i1", "<f8", "<f8"]
    assert rows.csr().data.ctypes.data == rows.values.ctypes.data


@pytest.mark.parametrize(
    ("values", "bias", "stored"),
    [
        ([1.0, -0.5, 3.0], 0.0, np.float32),
        ([1.0, 2.0**24], 1.0, np.float32),
        ([2.0**-149, 2.0**127], 0.0, np.float32),
        ([1.0, 2.0**24 + 1], 0.0, np.float64),
        ([0.1], 0.0, np.float64),
        ([1e-40 / 3], 0.0, np.float64),
        ([1e39], 0.0, np.float64),
        ([1.0], 0.1, np.float64),
        ([1.0], 1e40, np.float64),
    ],
)
def test_values_are_float32_only_where_that_is_lossless(tmp_path, values, bias, stored):
    x = np.array([values, values[::-1]])
    out = ingested(tmp_path, Table(x, np.array([1, -1]), np.ones(2)), bias=bias)
    (shard,) = open_shards(out).shards
    assert shard.load().values.dtype == stored
    np.testing.assert_array_equal(contents(open_shards(out)).x[:, : len(values)], x)


@pytest.mark.parametrize("rows_per_shard", [1, 7, 99, 100, 101])
def test_shards_by_rows(tmp_path, rows_per_shard):
    table = random_table(100, 5)
    data = open_shards(ingested(tmp_path, table, rows_per_shard=rows_per_shard))
    sizes = [shard.n_rows for shard in data.shards]
    assert sizes[:-1] == [rows_per_shard] * (len(sizes) - 1)
    assert 0 < sizes[-1] <= rows_per_shard
    np.testing.assert_array_equal(contents(data).x, table.x)


@pytest.mark.parametrize("exact_float32", [True, False])
def test_shards_by_bytes(tmp_path, exact_float32):
    table, wanted = random_table(3000, 40, exact_float32=exact_float32), 50_000
    out = ingested(tmp_path, table, shard_bytes=wanted)
    sizes = [path.stat().st_size for path in sorted(out.glob("shard-*"))]
    assert len(sizes) > 5
    assert all(wanted <= size <= 1.1 * wanted for size in sizes[:-1])
    assert sizes[-1] <= 1.1 * wanted
    np.testing.assert_array_equal(contents(open_shards(out)).x, table.x)


def test_a_row_larger_than_a_shard_gets_one_of_its_own(tmp_path):
    out = ingested(tmp_path, random_table(5, 100), shard_bytes=1)
    assert [shard.n_rows for shard in open_shards(out).shards] == [1] * 5


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_the_cutter_counts_the_bias_column_and_values_that_become_wide(tmp_path, bias):
    wanted, cutter = 30_000, ShardCutter(None, 30_000, has_bias=bias != 0)
    sizes = []
    for k, value in enumerate([1.0] * 3 + [0.1] * 3):
        arrays = np.arange(1001), np.zeros(1000, np.int32), np.full(1000, value)
        block = make_block(Origin("x"), RawLabels.of(np.ones(1000)), arrays, ReadRules(0))
        for pieces in cutter.add(block, np.ones(1000, np.int8)):
            sizes.append(write_shard(tmp_path, f"shard-{k}-{len(sizes)}.arrow", join(pieces, bias, 1)).bytes)
    assert len(sizes) > 5
    assert all(0.99 * wanted <= size <= 1.1 * wanted for size in sizes), sizes


# Damage


def flip_a_byte(path: Path) -> None:
    """Alter one byte in the middle, as a program would: the time of change moves on with the clock's next tick."""
    before = path.stat().st_mtime_ns
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    while path.stat().st_mtime_ns == before:
        path.write_bytes(content)


DAMAGE = {
    "missing": (Path.unlink, "is missing"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of"),
    "emptied": (lambda path: path.write_bytes(b""), "bytes instead of"),
    "enlarged": (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "bytes instead of"),
    "altered": (flip_a_byte, "was altered"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "is not a file"),
}


def check_command(out: Path, capsys) -> str:
    with pytest.raises(SystemExit) as left:
        main(["datasets", "check", str(out)])
    said = capsys.readouterr()
    assert left.value.code == (1 if said.err else 0)
    assert (said.out + said.err).count("\n") == 1
    return said.err or said.out


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_shard_is_found_by_opening_and_by_the_check(tmp_path, capsys, kind):
    out = ingested(tmp_path, random_table(30, 5), rows_per_shard=10)
    assert "3 shards" in check_command(out, capsys)
    damage, message = DAMAGE[kind]
    damage(out / "shard-00001.arrow")
    with pytest.raises(DatasetError, match=message) as caught:
        open_shards(out)
    assert f"{out / 'shard-00001.arrow'}: " in str(caught.value)
    assert f"{out / 'shard-00001.arrow'}: " in check_command(out, capsys)


def test_the_full_check_reads_what_the_cheap_one_trusts(tmp_path, capsys):
    out = ingested(tmp_path, random_table(30, 5), rows_per_shard=10)
    shard = out / "shard-00002.arrow"
    before = shard.stat()
    flip_a_byte(shard)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    open_shards(out)
    assert "shard-00002.arrow: the shard was altered" in check_command(out, capsys)


def test_a_copied_directory_opens_and_its_damage_is_found(tmp_path):
    out = ingested(tmp_path, random_table(30, 5), rows_per_shard=10)
    copied = shutil.copytree(out, tmp_path / "copy", copy_function=shutil.copyfile)
    assert (
        copied.joinpath("shard-00000.arrow").stat().st_mtime_ns != out.joinpath("shard-00000.arrow").stat().st_mtime_ns
    )
    assert open_shards(copied).fingerprint == open_shards(out).fingerprint
    flip_a_byte(copied / "shard-00000.arrow")
    with pytest.raises(DatasetError, match=r"shard-00000\.arrow: the shard was altered"):
        open_shards(copied)


def test_a_shard_replaced_after_opening_is_not_taken_for_the_old_one(tmp_path):
    out = ingested(tmp_path, random_table(30, 5), rows_per_shard=10)
    data = open_shards(out)
    data.shards[0].load()
    ingest([str(tmp_path / "rows.svm")], out, IngestSpec(rows_per_shard=11, overwrite=True))
    with pytest.raises(DatasetError, match=r"shard-00000\.arrow: the shard was replaced"):
        data.shards[0].load()
    shutil.rmtree(out)
    with pytest.raises(DatasetError, match=r"shard-00001\.arrow: the shard is gone: the data set was changed since"):
        data.shards[1].load()


def test_amended_shards_do_not_keep_their_first_version_on_the_disk(tmp_path):
    table = random_table(30, 5)
    table = replace(table, y=np.sort(table.y)[::-1])  # the first label seen is the larger one, and the bias moves
    out = ingested(tmp_path, table, rows_per_shard=10, bias=1.0)
    np.testing.assert_array_equal(contents(open_shards(out)).labels, table.y)
    kept = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    assert not [line for line in kept if "(deleted)" in line]


def without(key):
    return lambda item: item.pop(key)


def changed(key, value):
    return lambda item: item.update({key: value})


EDITS = {
    "features": (changed("features", 6), "contradicts itself"),
    "rows": (changed("rows", 29), "contradicts itself"),
    "nonzeros": (changed("nnz", 1), "contradicts itself"),
    "label counts": (changed("label_counts", {"-1": 0, "+1": 30}), "contradicts itself"),
    "a shard dropped": (lambda item: item["shards"].pop(), "contradicts itself"),
    "shards exchanged": (lambda item: item["shards"].reverse(), "contradicts itself"),
    "no shards": (changed("shards", []), "damaged (shards is [], not a list that is not empty)"),
    "version": (changed("version", 6), "version 6, but this svmsieve reads versions 1 to 5"),
    "format": (changed("format", "other"), "not a manifest of svmsieve shards"),
    "no fingerprint": (without("fingerprint"), "damaged"),
    "no shards key": (without("shards"), "damaged"),
    "no rows key": (without("rows"), "damaged"),
    "text for a number": (changed("features", "many"), "damaged"),
    "infinity": (changed("features", float("inf")), "damaged"),
    "a shard's rows as text": (lambda item: item["shards"][0].update(rows="10"), "damaged"),
    "a shard's digest cut": (lambda item: item["shards"][0].update(digest="0"), "damaged"),
    "shards null": (changed("shards", None), "damaged"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edited_manifest_is_one_line(tmp_path, capsys, kind):
    out = ingested(tmp_path, random_table(30, 5), rows_per_shard=10)
    edit, message = EDITS[kind]
    item = json.loads((out / MANIFEST).read_text())
    edit(item)
    (out / MANIFEST).write_text(json.dumps(item))
    line = check_command(out, capsys)
    assert f"{out / MANIFEST}: " in line
    assert message in line


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"3", b"\xff\xfe", b"[" * 100_000, b'{"format": "svmsieve-shards", "version": 1}'],
)
def test_a_manifest_that_is_not_one_is_one_line(tmp_path, capsys, content):
    out = ingested(tmp_path, random_table(30, 5))
    whole = (out / MANIFEST).read_bytes()
    for damaged in (content, whole[: len(whole) // 2]):
        (out / MANIFEST).write_bytes(damaged)
        assert "the manifest is damaged" in check_command(out, capsys)


@pytest.mark.parametrize("kind", ["nothing", "a file", "an empty directory"])
def test_what_is_no_data_set_is_one_line(tmp_path, capsys, kind):
    out = tmp_path / "out"
    if kind == "a file":
        out.write_text("1 1:1\n")
    elif kind == "an empty directory":
        out.mkdir()
    assert str(out) in check_command(out, capsys)


# The digest


@st.composite
def some_rows(draw):
    n, d = draw(st.integers(1, 12)), 4
    cells = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, -2.5, 0.1, 3e-310]), min_size=n * d, max_size=n * d))
    x = sp.csr_array(np.array(cells).reshape(n, d))
    labels = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)), np.int8)
    costs = np.array(draw(st.lists(st.sampled_from([1.0, 0.5, 7.0]), min_size=n, max_size=n)))
    return Rows(x.indptr.astype(np.int32), x.indices.astype(np.int32), x.data, labels, costs, np.ones(n), d)


def cut(rows: Rows, first: int, stop: int) -> Rows:
    a, b = rows.indptr[first], rows.indptr[stop]
    per_row = {name: getattr(rows, name)[first:stop] for name in ("labels", "costs", "norms")}
    return Rows(rows.indptr[first : stop + 1] - a, rows.indices[a:b], rows.values[a:b], **per_row, n_features=4)


@given(rows=some_rows(), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_the_digest_does_not_depend_on_the_cuts(rows, cuts):
    edges = sorted({0, rows.n_rows, *(c for c in cuts if c <= rows.n_rows)})
    parts = [(digest_rows(cut(rows, a, b)), b - a) for a, b in pairwise(edges)]
    assert join_digests(parts) == digest_rows(rows)
    assert fingerprint(parts, 4) == fingerprint([(digest_rows(rows), rows.n_rows)], 4)
    assert fingerprint(parts, 4) != fingerprint(parts, 5)


words = st.tuples(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), st.integers(0, 2**33))


@given(parts=st.lists(words, min_size=1, max_size=6), at=st.integers(0, 6))
def test_joining_digests_is_associative(parts, at):
    left, right = parts[: at % len(parts)], parts[at % len(parts) :]
    halves = [(join_digests(half), sum(rows for _, rows in half)) for half in (left, right)]
    assert join_digests(halves) == join_digests(parts)


@given(rows=some_rows())
def test_the_digest_is_of_values_not_of_their_width(rows):
    narrow = replace(rows, values=rows.values.astype(np.float32))
    wide = replace(rows, values=narrow.values.astype(np.float64))
    assert digest_rows(narrow) == digest_rows(wide)
    exact = bool((wide.values == rows.values).all())
    assert (digest_rows(wide) == digest_rows(rows)) == exact


def test_the_cutter_refuses_more_nonzeros_than_32_bits_count():
    block = make_block(
        Origin("x"), RawLabels.of(np.ones(2)), (np.arange(3), np.zeros(2, np.int32), np.ones(2)), ReadRules(0)
    )
    huge = replace(block, indptr=np.array([0, 2**30, 2**31]))
    assert Piece(huge, np.ones(2, np.int8), 0, 2).nnz == 2**31
    for cutter in (ShardCutter(10), ShardCutter(None, 2**40)):
        with pytest.raises(ValueError, match="more than 2\\^31 nonzeros"):
            list(cutter.add(huge, np.ones(2, np.int8)))
