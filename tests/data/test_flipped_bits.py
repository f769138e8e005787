"""One bit of a shard, size and time kept: a run says which shard, and no kernel ever indexes outside its arrays."""

from __future__ import annotations

import os
import pickle
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.shards import mapping
from pipeline.data.shards.mapping import read_shard
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import checksum, write_shard
from pipeline.data.shards.sound import fault_of
from pipeline.errors import DatasetError
from tests.data.hostile import edit
from tests.data.remotes import cached, same
from tests.trained import command, shards_of, sparse_rows, trained

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set of four shards, and a run on it."""
    return trained(tmp_path_factory.mktemp("made"))


@pytest.fixture
def data(made, tmp_path) -> Dataset:
    return open_shards(shutil.copytree(made.data.path, tmp_path / "shards"))


def flip(path: str, bit: int) -> None:
    """Flip one bit in place; size and time of change stay."""
    status = Path(path).stat()
    with Path(path).open("r+b") as stream:
        stream.seek(bit // 8)
        byte = stream.read(1)[0]
        stream.seek(bit // 8)
        stream.write(bytes([byte ^ (1 << bit % 8)]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def bits_of(path: str, count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).sample(range(8 * Path(path).stat().st_size), count)


def test_every_flip_is_found_the_first_time_a_run_reads_the_shard(data):
    shard = data.shards[1]
    for bit in bits_of(shard.path, 200):
        flip(shard.path, bit)
        with pytest.raises(DatasetError) as caught:
            open_shards(data.path).shards[1].load()
        assert str(caught.value).startswith(f"{shard.path}: the shard was replaced since")
        flip(shard.path, bit)
    assert shard.load().n_rows == 17


@pytest.mark.parametrize(
    "words", [["path", "-q", "{data}", "--out", "{new}", "--grid", "0.1"], ["verify", "-q", "{run}", "{data}"]]
)
@pytest.mark.parametrize("scheduler", ["inline", "threads"])
def test_commands_say_which_shard_in_one_line(made, data, tmp_path, capsys, words, scheduler):
    flip(data.shards[2].path, 8 * 1000)
    places = {"data": data.path, "new": tmp_path / "new", "run": made.run.path}
    code, _, error = command(capsys, *(word.format(**places) for word in words), "--scheduler", scheduler)
    assert (code, error.count("\n")) == (1, 1)
    assert f"{data.shards[2].path}: the shard was replaced since" in error


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "{run}", "{data}", "--out", "{new}.csv", "--c", "1"],
        ["screen", "{data}", "--reference", "{run}", "--c", "2", "--out", "{new}.csv"],
        ["datasets", "describe", "{data}"],
        ["datasets", "compact", "{data}"],
        ["datasets", "copy", "{data}", "{new}"],
    ],
)
def test_other_readers_say_it_too(made, data, tmp_path, capsys, words):
    flip(data.shards[0].path, 8 * 1000)
    places = {"data": data.path, "new": tmp_path / "new", "run": made.run.path}
    code, _, error = command(capsys, *(word.format(**places) for word in words), "-q")
    assert (code, error.count("\n")) == (1, 1)
    assert f"{data.shards[0].path}: the shard was" in error
    assert "its checksum differs" in error
    assert not (tmp_path / "new").exists()


def test_a_checksum_is_computed_once(data, monkeypatch):
    seen = []
    monkeypatch.setattr(mapping, "TICK", 0)
    monkeypatch.setattr(mapping, "checksum", lambda path: (seen.append(path), checksum(path))[1])
    for _ in range(3):
        for shard in open_shards(data.path).shards:
            shard.load()
    assert len(seen) == len(data.shards)


def test_what_is_proved_of_a_file_that_has_just_changed_is_not_remembered(data, monkeypatch):
    seen = []
    monkeypatch.setattr(mapping, "TICK", 10**20)
    monkeypatch.setattr(mapping, "checksum", lambda path: (seen.append(path), checksum(path))[1])
    for _ in range(3):
        data.shards[0].load()
    assert len(seen) == 3


def test_the_choice_not_to_compare_travels_with_the_shards(data, monkeypatch):
    shard = data.shards[1]
    rows = shard.load()
    offset = Path(shard.path).read_bytes().index(rows.values.tobytes())
    flip(shard.path, 8 * offset)  # the last bit of a value: only the checksum tells
    monkeypatch.setenv("SVMSIEVE_CHECKSUM", "0")
    unchecked = pickle.dumps(open_shards(data.path).shards[1])
    monkeypatch.delenv("SVMSIEVE_CHECKSUM")
    assert pickle.loads(unchecked).load().n_rows == shard.n_rows  # noqa: S301
    with pytest.raises(DatasetError, match="its checksum differs"):
        shard.load()


def test_without_checksums_no_flip_lets_a_kernel_out_of_its_arrays(data):
    """What is loaded has the shape that kernels rely on; all else is one line."""
    shard = replace(data.shards[1], sha256="")
    used = 0
    for bit in bits_of(shard.path, 600, seed=1):
        flip(shard.path, bit)
        try:
            rows = shard.load()
        except DatasetError as error:
            assert "\n" not in str(error)
        else:
            used += 1
            assert_safe(rows)
        mapping.forget_maps()
        flip(shard.path, bit)
    assert 0 < used < 600


def assert_safe(rows: Rows) -> None:
    assert rows.indptr[0] == 0
    assert rows.indptr[-1] == rows.indices.size == rows.values.size
    assert (np.diff(rows.indptr) >= 0).all()
    assert rows.indptr.size - 1 == rows.labels.size == rows.costs.size == rows.norms.size
    assert ((rows.indices >= 0) & (rows.indices < rows.n_features)).all()
    assert np.isin(rows.labels, (-1, 1)).all()
    assert (rows.costs > 0).all()
    assert all(np.isfinite(array).all() for array in (rows.values, rows.costs, rows.norms))


def with_entry(name: str, at: int, value: float):
    def change(rows: Rows) -> Rows:
        array = getattr(rows, name).copy()
        array[at] = value
        array.flags.writeable = False  # as mapped ones are
        return replace(rows, **{name: array})

    return change


UNSOUND = {
    "starts late": (with_entry("indptr", 0, 1), "row pointers"),
    "ends early": (with_entry("indptr", -1, 3), "row pointers"),
    "ends late": (with_entry("indptr", -1, 2**31 - 1), "row pointers"),
    "falls": (with_entry("indptr", 2, 2**30), "row pointers"),
    "is negative": (with_entry("indptr", 2, -(2**31)), "row pointers"),
    "index too large": (with_entry("indices", 4, 12), "an index is out of order or beyond the 12 features, row"),
    "index far too large": (with_entry("indices", -1, 2**31 - 1), "an index"),
    "index negative": (with_entry("indices", 0, -1), "an index"),
    "nan": (with_entry("values", 5, np.nan), "a value is not finite"),
    "infinite": (with_entry("values", 5, -np.inf), "a value is not finite"),
    "no sign": (with_entry("labels", 3, 0), "a label is neither -1 nor 1, row 4"),
    "another label": (with_entry("labels", 16, 127), "a label"),
    "cost 0": (with_entry("costs", 0, 0.0), "a cost is not a positive number, row 1"),
    "cost nan": (with_entry("costs", 0, np.nan), "a cost"),
    "cost infinite": (with_entry("costs", 0, np.inf), "a cost"),
    "norm negative": (with_entry("norms", 1, -1.0), "a norm"),
    "norm nan": (with_entry("norms", 1, np.nan), "a norm"),
    "norm too large": (with_entry("norms", 1, 1e200), "a norm is not a number from 0 to 1e+150"),
    "fewer costs": (lambda rows: replace(rows, costs=rows.costs[:-1]), "different lengths"),
    "fewer values": (lambda rows: replace(rows, values=rows.values[:-1]), "different lengths"),
}


@pytest.mark.parametrize("kind", UNSOUND)
@pytest.mark.parametrize("wide", [True, False])
def test_what_no_kernel_may_use(data, kind, wide):
    change, message = UNSOUND[kind]
    rows = data.shards[0].load()
    values = rows.values if wide else rows.values.astype(np.float32)
    values.flags.writeable = False
    rows = replace(rows, values=values)
    assert fault_of(rows) is None
    assert message in fault_of(change(rows))


def test_a_shard_made_to_crash_with_its_checksum_in_the_manifest(data, tmp_path):
    """The checksum proves who wrote it, not that it is sound."""
    rows = with_entry("indices", 4, 2**31 - 1)(data.shards[0].load())
    info = write_shard(Path(data.path), "shard-00000.arrow", rows).to_json()
    edit(Path(data.path), lambda item: item["shards"].__setitem__(0, info))
    with pytest.raises(DatasetError, match=r"shard-00000\.arrow: the shard is damaged \(an index"):
        open_shards(data.path).shards[0].load()


def columns(rows: Rows) -> dict[str, pa.Array]:
    lists = (pa.ListArray.from_arrays(rows.indptr, pa.array(values)) for values in (rows.indices, rows.values))
    return {"label": rows.labels, "cost": rows.costs, "norm": rows.norms} | dict(
        zip(("indices", "values"), lists, strict=True)
    )


FORMS = {
    "two batches": (lambda parts: parts, 2, "2 record batches instead of one"),
    "no batch": (lambda parts: parts, 0, "0 record batches instead of one"),
    "a column missing": (lambda parts: {k: v for k, v in parts.items() if k != "norm"}, 1, "other columns"),
    "columns exchanged": (lambda parts: dict(reversed(parts.items())), 1, "other columns"),
    "wider indices": (
        lambda parts: parts | {"indices": parts["indices"].cast(pa.list_(pa.int64()))},
        1,
        "other columns",
    ),
    "a null": (lambda parts: parts | {"cost": pa.array([None] * len(parts["cost"]), pa.float64())}, 1, "are missing"),
    "text": (lambda parts: parts | {"label": pa.array(["1"] * len(parts["cost"]))}, 1, "other columns"),
}


@pytest.mark.parametrize("kind", FORMS)
def test_an_arrow_file_that_is_no_shard(data, tmp_path, kind):
    change, batches, message = FORMS[kind]
    batch = pa.RecordBatch.from_pydict(change(columns(data.shards[0].load())))
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    with pytest.raises(DatasetError, match=message):
        read_shard(str(tmp_path / "x.arrow"), 12)


def test_a_copy_of_a_remote_shard_that_was_damaged_is_brought_anew(remote, local, downloads):
    same(remote, local)
    for path in cached():
        flip(str(path), 8 * 1500)
    mapping._facts.clear()  # as a process that has not read them yet
    mapping.forget_maps()
    downloads.paths.clear()
    same(remote, local)
    assert len(downloads.paths) == len(remote.shards)
    same(remote, local)
    assert len(downloads.paths) == len(remote.shards)


def test_many_tiny_shards_stay_mapped_and_hold_no_file_open(tmp_path):
    data = shards_of(tmp_path, sparse_rows(520), rows_per_shard=1)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    first = [shard.load() for shard in data.shards]
    assert all(a is b for a, b in zip(first, (shard.load() for shard in data.shards), strict=True))
    assert len(os.listdir("/proc/self/fd")) <= before + 5  # noqa: PTH208
