"""Compacting: fewer shards with the same rows, in one step, whatever happens to whoever does it or reads meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
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
from pipeline.data.shards.retire import retire
from pipeline.errors import DatasetError
from tests.data.hostile import snapshot
from tests.data.test_durability import FILE_EVENTS
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


def test_a_reader_of_the_old_shards_finishes_or_is_told(out):
    data, rows = open_shards(out), contents(open_shards(out))
    held = [shard.load() for shard in data.shards[:3]]
    compact(out)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in held]), rows.labels[:30])
    with pytest.raises(
        DatasetError, match=rf"{name(4)}: the shard is gone: the data set was changed since it was open"
    ):
        data.shards[4].load()
    kept = [line for line in Path("/proc/self/maps").read_text().splitlines() if "(deleted)" in line]
    del held
    forget_maps()
    assert len([line for line in kept if str(out) in line]) == 3


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


def compact_and_die(event: int, out: str) -> None:
    """Compact, and kill this process just before its n-th operation on files."""
    count = 0

    def watch(what: str, arguments: tuple) -> None:
        nonlocal count
        if what in FILE_EVENTS and (what != "open" or str(arguments[0]).startswith(out)):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
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


def test_a_thousand_shards_are_planned_at_once(out):
    """Grouping and sizes are summed as they come: no shard is looked at more than a few times."""
    from pipeline.data.shards.compact import _runs  # noqa: PLC0415

    shard = read_manifest(out).shards[0]
    begun = time.process_time()
    (run,) = _runs([shard] * 20_000, lambda name: 0, 2**31)
    assert len(run) == 20_000
    assert time.process_time() - begun < 2
