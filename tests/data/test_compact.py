"""Compacting: fewer shards with the same rows, in one step, whatever happens to whoever does it or reads meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.compact import compact
from pipeline.data.shards.directory import existing_directory
from pipeline.data.shards.journal import JOURNAL
from pipeline.data.shards.manifest import MANIFEST, Manifest, read_manifest
from pipeline.data.shards.mapping import forget_maps
from pipeline.data.shards.merging import MANY, Full, mergeable
from pipeline.data.shards.retire import retire
from pipeline.data.shards.shard import ShardInfo
from pipeline.errors import DatasetError
from tests.data.hostile import snapshot
from tests.data.test_durability import FILE_EVENTS
from tests.disk import not_waited_for
from tests.forked import Server
from tests.formats import Table, contents, write_svmlight
from tests.trained import command, sparse_rows

pytestmark = pytest.mark.attack


@pytest.fixture
def out(tmp_path) -> Path:
    """Six appends of ten rows; the third has values that need 64 bits, the others do not."""
    for number in range(6):
        table = sparse_rows(10, seed=number)
        x = table.x if number == 2 else np.round(4 * table.x) / 4
        x[:, -1] = 1.0
        source = write_svmlight(tmp_path / f"{number}.svm", Table(x, np.arange(10) % 2, np.arange(1.0, 11.0)))
        ingest([str(source)], tmp_path / "out", IngestSpec(append=number > 0))
    return tmp_path / "out"


def names(out: Path) -> list[str]:
    return [shard.name for shard in read_manifest(out).shards]


def name(number: int) -> str:
    return f"shard-{number:05d}.arrow"


def same_rows(before: Manifest, rows, out: Path) -> None:
    now = open_shards(out, full_check=True)
    assert now.fingerprint == before.fingerprint
    found = contents(now)
    for one, other in zip(vars(rows).values(), vars(found).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    after = read_manifest(out)
    for key in ("features", "labels", "sources", "bias", "index_base", "columns", "rows", "nnz", "positives"):
        assert getattr(after, key) == getattr(before, key), key
    assert {path.name for path in out.iterdir()} == {*names(out), MANIFEST}


def test_small_shards_become_one(out):
    before, rows = read_manifest(out), contents(open_shards(out))
    done = compact(out)
    assert done.merged == {name(6): tuple(name(k) for k in range(6))}
    assert done.manifest == read_manifest(out)
    same_rows(before, rows, out)
    assert [shard.values for shard in done.manifest.shards] == ["float64"]
    assert compact(out).merged == {}
    ingest([str(out.parent / "0.svm")], out, IngestSpec(append=True))
    assert names(out) == [name(6), name(7)]
    retire(out, [name(6)])
    assert open_shards(out, full_check=True).n_rows == 10


def test_shards_get_no_larger_than_asked_and_large_ones_stay(out):
    before, rows = read_manifest(out), contents(open_shards(out))
    inodes = {path.name: path.stat().st_ino for path in out.iterdir()}
    size = 2 * max(shard.nnz for shard in before.shards) * 8 + 20 * 25  # room for two of the narrow ones
    done = compact(out, shard_bytes=size)
    assert done.merged == {name(6): (name(0), name(1)), name(7): (name(3), name(4))}
    assert names(out) == [name(6), name(2), name(7), name(5)]
    assert all((out / name(k)).stat().st_ino == inodes[name(k)] for k in (2, 5))
    same_rows(before, rows, out)
    assert compact(out, shard_bytes=size).merged == {}


def test_only_shards_of_one_group_are_merged(out):
    before, rows = read_manifest(out), contents(open_shards(out))
    told = []
    days = [[name(0), name(1)], [name(2), "shard-00099.arrow"], {name(3), name(5)}]
    done = compact(out, groups=days, planned=lambda merged: told.append((dict(merged), names(out))))
    assert done.merged == {name(6): (name(0), name(1))}
    assert told == [(done.merged, [shard.name for shard in before.shards])]
    assert names(out) == [name(6), *(name(k) for k in range(2, 6))]
    same_rows(before, rows, out)
    assert compact(out, groups=[]).merged == {}
    with pytest.raises(ValueError, match=r"shard-00002\.arrow is in two groups"):
        compact(out, groups=[[name(2)], [name(2)]])


def test_a_reader_of_the_old_shards_goes_on(out):
    """Rows of a shard that is gone are read from the one that took it in, and from the next one, to the bit."""
    data, rows = open_shards(out), contents(open_shards(out))
    held = [shard.load() for shard in data.shards[:3]]
    compact(out, groups=[[name(3), name(4)]])
    np.testing.assert_array_equal(contents(data).x, rows.x)
    compact(out)
    ingest([str(out.parent / "0.svm")], out, IngestSpec(append=True), merging=False)
    compact(out)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in held]), rows.labels[:30])
    for one, other in zip(vars(contents(data)).values(), vars(rows).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [shard.load().n_features for shard in data.shards] == [data.n_features] * 6
    assert len(names(out)) == 1


def test_a_reader_of_rows_that_are_gone_is_told(out):
    data = open_shards(out)
    held = [shard.load() for shard in data.shards[:3]]
    retire(out, [name(0)])
    compact(out)
    with pytest.raises(
        DatasetError, match=rf"{name(4)}: the shard is gone: the data set was changed since it was open"
    ):
        data.shards[4].load()
    kept = [line for line in Path("/proc/self/maps").read_text().splitlines() if "(deleted)" in line]
    del held
    forget_maps()
    assert len([line for line in kept if str(out) in line]) == 3


def test_a_data_set_that_changes_while_it_is_opened(out, monkeypatch):
    from pipeline.data import dataset  # noqa: PLC0415

    true, calls = dataset.is_as_written, []

    def changing(directory, info):
        calls.append(info.name)
        if len(calls) == 2:
            compact(out)
        return true(directory, info)

    monkeypatch.setattr(dataset, "is_as_written", changing)
    assert [shard.n_rows for shard in open_shards(out).shards] == [60]


def test_what_planned_raises_changes_nothing(out):
    before = snapshot(out)

    def refuse(merged):
        raise DatasetError("no")

    with pytest.raises(DatasetError, match="no"):
        compact(out, planned=refuse)
    assert snapshot(out) == before


def test_the_command(out, capsys):
    code, said, _ = command(capsys, "datasets", "compact", "-q", out)
    assert (code, said) == (0, f"{out}: 6 shards merged into 1, 1 shard of 60 rows in all\n")
    code, said, _ = command(capsys, "datasets", "compact", "-q", out)
    assert (code, said) == (0, f"{out}: nothing to merge in 1 shard\n")


# Killed


def warm_up(source: str, out: str) -> None:
    for append in (False, True):
        ingest([source], out, IngestSpec(append=append))
    compact(out)


def die_before(event: int, out: str) -> None:
    """Kill this process just before its n-th operation on files."""
    count = 0

    def watch(what: str, arguments: tuple) -> None:
        nonlocal count
        if what in FILE_EVENTS and (what != "open" or str(arguments[0]).startswith(out)):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    not_waited_for()
    sys.addaudithook(watch)


def compact_and_die(event: int, out: str) -> None:
    die_before(event, out)
    compact(out, groups=[[name(0), name(1)]])
    sys.exit(0)


def test_killed_at_every_operation_on_files(out, tmp_path):
    server = Server(warm_up, str(tmp_path / "0.svm"), str(tmp_path / "warm"))
    before, rows, whole = read_manifest(out), contents(open_shards(out)), snapshot(out)
    event, code, states = 0, -signal.SIGKILL, set()
    while code == -signal.SIGKILL:
        event += 1
        for path in out.iterdir():
            path.unlink()
        for file, content in whole.items():
            (out / file).write_bytes(content)
        server.start(compact_and_die, event, str(out))
        code = server.left()
        states.add((tuple(names(out)), (out / JOURNAL).exists()))
        with existing_directory(out):
            pass  # the next writer ends what was not ended
        same_rows(before, rows, out)
    server.close()
    assert code == 0
    assert event > 15
    old, new = tuple(name(k) for k in range(6)), (name(6), *(name(k) for k in range(2, 6)))
    assert states == {(old, False), (old, True), (new, True), (new, False)}


# Appends


def test_an_append_costs_the_same_however_many_shards_there_are(tmp_path, monkeypatch):
    """Counted, not timed: lines of the manifest that are read or made, shards that are looked at."""
    from pipeline.data.shards import manifest, mapping, shard  # noqa: PLC0415

    (tmp_path / "few.svm").write_text("1 1:1\n-1 2:1\n" * 2)
    out, counts = tmp_path / "out", {"read": 0, "made": 0, "looked at": 0}

    def counted(key, function):
        def call(*arguments, **options):
            counts[key] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(shard, "fitting", counted("read", shard.fitting))
    monkeypatch.setattr(manifest, "fitting", counted("read", manifest.fitting))
    monkeypatch.setattr(shard.ShardInfo, "to_json", counted("made", shard.ShardInfo.to_json))
    monkeypatch.setattr(mapping, "regular", counted("looked at", mapping.regular))
    costs = []
    for number in range(30):
        counts.update(dict.fromkeys(counts, 0))
        ingest([str(tmp_path / "few.svm")], out, IngestSpec(append=number > 0, rows_per_shard=2))
        costs.append(dict(counts))
    assert costs[2:] == [costs[2]] * 28
    assert costs[2] == {"read": 0, "made": 2, "looked at": 0}
    assert open_shards(out, full_check=True).n_rows == 120
    grown = read_manifest(out)
    again = Manifest.from_json(grown.to_json())
    assert grown == again
    assert (grown.summary, grown.next_number) == (again.summary, again.next_number)


def test_the_shards_of_many_appends_are_few_and_an_append_writes_little(tmp_path, monkeypatch):
    """Counted, not timed: shards, bytes of the manifest, bytes of shards written. 700 appends of two rows."""
    from pipeline.data.shards import merging  # noqa: PLC0415

    monkeypatch.setattr(merging, "KEPT_SOURCES", 100)
    out, shards, manifests, written = tmp_path / "out", [], [], 0
    for number in range(700):
        rows = tmp_path / f"{number:04}.svm"
        rows.write_text(f"1 1:1 3:{number + 1}\n-1 2:1\n")
        known = set(names(out)) if number else set()
        grown = ingest([str(rows)], out, IngestSpec(append=number > 0))
        shards.append(len(grown.shards))
        manifests.append((out / MANIFEST).stat().st_size)
        written += sum(shard.rows for shard in grown.shards if shard.name not in known)
        assert len(grown.sources) <= 101
    assert max(shards) <= 33  # 15 of one order of size, 15 of the next, 2 of the third, and the one that came
    assert max(manifests[300:]) <= max(manifests[:300]) + 2 * 320  # two shards more, of the third order
    assert written <= 3 * 1400  # a row is written when it comes, and once for each order of size
    data = open_shards(out, full_check=True)
    x = contents(data).x
    np.testing.assert_array_equal(x[::2, 2], np.arange(1, 701))
    now = read_manifest(out)
    assert {path.name for path in out.iterdir()} == {*names(out), MANIFEST}
    assert sum(source.rows for source in now.sources) == 1400
    assert sum(source.bytes for source in now.sources) == sum(path.stat().st_size for path in tmp_path.glob("*.svm"))
    assert (now.sources[0].name[:8], now.sources[0].name[-8:]) == ("0000.svm", "0255.svm")
    assert now.sources[-1].name == "0699.svm"


def test_wildly_different_appends_leave_few_shards():
    """Sizes over six orders of magnitude, in an order of chance: planned, with shards that are sizes only."""
    rng, shards, copied = np.random.default_rng(0), [], 0
    info = ShardInfo("", 1, 0, 25, "float32", 0, "0" * 64, 0, (0, 0))
    for number in range(3000):
        for run in mergeable(shards, lambda name: 0, Full(rows=10**6), sparing=True):
            first, rows = shards.index(run[0]), sum(shard.rows for shard in run)
            shards[first : first + len(run)] = [replace(info, name=f"m{number}-{first}", rows=rows)]
            copied += rows
        assert mergeable(shards, lambda name: 0, Full(rows=10**6), sparing=True) == []
        shards.append(replace(info, name=f"{number}", rows=min(2 * 10**6, int(rng.pareto(0.5)) + 1)))
        assert len(shards) <= 4 * sum(shard.rows for shard in shards) / 10**6 + MANY + 1
    assert copied < 2 * sum(shard.rows for shard in shards)


def test_shards_that_were_cut_on_purpose_stay(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n" * 40)
    (tmp_path / "few.svm").write_text("1 1:1\n-1 2:1\n")
    ingest([str(tmp_path / "rows.svm")], tmp_path / "out", IngestSpec(rows_per_shard=2))
    for _ in range(40):
        ingest([str(tmp_path / "few.svm")], tmp_path / "out", IngestSpec(append=True))
    assert names(tmp_path / "out")[:40] == [name(k) for k in range(40)]
    assert [shard.rows for shard in read_manifest(tmp_path / "out").shards[40:]] == [32, 32] + [2] * 8
    ingest([str(tmp_path / "few.svm")], tmp_path / "out", IngestSpec(append=True, rows_per_shard=40))
    assert [shard.rows for shard in read_manifest(tmp_path / "out").shards[40:]] == [32, 32] + [2] * 9


def test_an_append_that_would_merge_a_damaged_shard_says_so(tmp_path, capsys):
    (tmp_path / "few.svm").write_text("1 1:1\n-1 2:1\n")
    out = tmp_path / "out"
    for number in range(16):
        ingest([str(tmp_path / "few.svm")], out, IngestSpec(append=number > 0))
    content = bytearray((out / name(7)).read_bytes())
    content[len(content) // 2] ^= 1
    (out / name(7)).write_bytes(content)
    before = snapshot(out)
    code, said, error = command(capsys, "ingest", "-q", "--append", tmp_path / "few.svm", "--out", out)
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert f"{name(7)}: the shard" in error
    assert snapshot(out) == before


def append_and_die(event: int, source: str, out: str) -> None:
    """Append, and kill this process just before its n-th operation on files."""
    die_before(event, out)
    ingest([source], out, IngestSpec(append=True))
    sys.exit(0)


def test_an_append_that_merges_is_killed_at_every_operation_on_files(tmp_path):
    """It happened or it did not: with its rows and merged, or as before."""
    (tmp_path / "few.svm").write_text("1 1:1\n-1 2:1\n")
    out, source = tmp_path / "out", str(tmp_path / "few.svm")
    for number in range(16):
        ingest([source], out, IngestSpec(append=number > 0))
    server = Server(warm_up, source, str(tmp_path / "warm"))
    whole, event, code, states = snapshot(out), 0, -signal.SIGKILL, set()
    while code == -signal.SIGKILL:
        event += 1
        for path in out.iterdir():
            path.unlink()
        for file, content in whole.items():
            (out / file).write_bytes(content)
        server.start(append_and_die, event, source, str(out))
        code = server.left()
        with existing_directory(out):
            pass  # the next writer ends what was not ended
        data = open_shards(out, full_check=True)
        states.add((data.n_rows, len(data.shards)))
        assert {path.name for path in out.iterdir()} == {*names(out), MANIFEST}
    server.close()
    assert code == 0
    assert states == {(32, 16), (34, 2)}


def test_a_thousand_shards_are_planned_at_once(out):
    """Grouping and sizes are summed as they come: no shard is looked at more than a few times."""
    shard = read_manifest(out).shards[0]
    for sparing in (False, True):
        begun = time.process_time()
        (run,) = mergeable([shard] * 20_000, lambda name: 0, Full(2**31), sparing)
        assert len(run) == 20_000
        assert time.process_time() - begun < 2
