"""The cache of shards: each brought once to a machine, never wrong, and bounded."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.stores import located as stores
from pipeline.data.stores import shard_cache
from pipeline.data.stores.shard_cache import brought, shard_folder
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DatasetError, SpecError
from tests.data.remotes import URL, cached, object_of, same


def test_a_damaged_download_is_tried_again(remote, local, downloads):
    downloads.fault = lambda number, path: b"half of it" if number == 1 else None
    same(remote, local)
    assert len(downloads.paths) == len(remote.shards) + 1


def broken(number: int, path: str) -> None:
    raise ConnectionResetError("the line broke")


def test_a_broken_connection_is_tried_again(remote, local, downloads):
    downloads.fault = lambda number, path: broken(number, path) if number <= 2 else None
    same(remote, local)
    assert len(downloads.paths) == len(remote.shards) + 2


def test_what_came_before_the_break_is_not_asked_for_again(remote, downloads, monkeypatch):
    monkeypatch.setattr(stores, "PIECE", 1000)
    downloads.fault = lambda number, path: broken(number, path) if number == 2 else None
    shard = remote.shards[0]
    assert shard.load().n_rows == shard.n_rows
    assert 2000 < shard.bytes <= 3000
    assert len(downloads.paths) == 4


def test_a_connection_that_stays_broken(remote, downloads):
    downloads.fault = broken
    with pytest.raises(DatasetError, match=rf"^{URL}/{remote.shards[0].name}: cannot be reached \(the line broke\)"):
        remote.shards[0].load()
    assert len(downloads.paths) == 1 + len(stores.PAUSES)
    assert cached() == []


def test_a_shard_that_went_away_is_not_asked_for_again(remote, memory, downloads):
    memory.rm(object_of(remote.shards[0]))
    with pytest.raises(DatasetError, match=r"cannot be reached \(no such file\)"):
        remote.shards[0].load()
    assert len(downloads.paths) == 1


def test_the_disk_is_full(remote, downloads, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shard_cache.os, "fsync", full)
    with pytest.raises(DatasetError, match=r"remote: cannot keep shards \(No space left on device\); make room"):
        remote.shards[0].load()
    assert len(downloads.paths) == 1
    assert cached() == []


def test_a_cache_that_cannot_be_written(remote, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SVMSIEVE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DatasetError, match=r"file/remote: cannot keep shards \(Not a directory\); make room, or name"):
        remote.shards[0].load()


def test_threads_that_ask_at_once_download_once(remote, local, downloads):
    start = threading.Barrier(8)
    downloads.fault = lambda number, path: time.sleep(0.05)

    def load(k: int) -> float:
        start.wait(60)
        return float(remote.shards[k % 2].load().values.sum())

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(load, range(8)))
    assert found == [float(local.shards[k % 2].load().values.sum()) for k in range(8)]
    assert len(downloads.paths) == 2


def test_threads_in_a_cache_that_is_too_small(remote, local, monkeypatch):
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", str(max(shard.bytes for shard in remote.shards)))
    wanted = [shard.load().values.tolist() for shard in local.shards]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda k: (k % 4, remote.shards[k % 4].load().values.tolist()), range(40)):
            assert found[1] == wanted[found[0]]


def test_the_least_recently_used_shards_give_way(remote, local, downloads, monkeypatch):
    sizes = [shard.bytes for shard in remote.shards]
    limit = sum(sorted(sizes)[-2:])
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", str(limit))
    held = [remote.shards[0].load(), remote.shards[1].load()]
    remote.shards[0].load()
    remote.shards[2].load()
    assert {path.stem for path in cached()} == {remote.shards[0].sha256, remote.shards[2].sha256}
    assert held[1].values.tolist() == local.shards[1].load().values.tolist()  # it is mapped: it stays readable
    for shard in remote.shards * 2:
        shard.load()
        assert sum(path.stat().st_size for path in cached()) <= limit
    downloads.paths.clear()
    remote.shards[-1].load()
    assert downloads.paths == []


def mapped_and_removed() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if str(shard_folder()) in line and line.endswith("(deleted)")]


def test_removed_shards_do_not_go_on_taking_up_the_disk(remote, monkeypatch):
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", str(max(shard.bytes for shard in remote.shards)))
    for shard in remote.shards * 3:
        shard.load()
        assert len(mapped_and_removed()) <= 1


def test_a_shard_larger_than_the_cache(remote, monkeypatch):
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", "1kB")
    with pytest.raises(DatasetError, match=r"remote: the cache may take 1,000 bytes, the next shard has 2,\d+; "):
        remote.shards[0].load()
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", "much")
    with pytest.raises(SpecError, match="SVMSIEVE_CACHE_SIZE: 'much' is not a size; write for example 64MB"):
        remote.shards[0].load()


def test_without_a_size_a_tenth_of_what_is_free_stays_free(remote, monkeypatch):
    room = [max(shard.bytes for shard in remote.shards) / shard_cache.DEFAULT_SHARE + 1]
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(
        shard_cache.shutil,
        "disk_usage",
        lambda path: usage._replace(free=int(room[0] - sum(file.stat().st_size for file in cached()))),
    )
    for shard in remote.shards[:2]:
        shard.load()
        assert [path.stem for path in cached()] == [shard.sha256]
    room[0] = 100
    with pytest.raises(DatasetError, match="the cache may take 90 bytes"):
        remote.shards[2].load()


def test_parts_of_killed_downloads_are_removed_and_others_counted(remote, monkeypatch):
    first, second = remote.shards[:2]
    first.load()
    dead, live = (shard_folder() / f"{name * 64}.{first.bytes}.0.part" for name in "de")
    for part in (dead, live):
        part.touch()
    os.utime(dead, (0, 0))
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", str(first.bytes + second.bytes))
    second.load()
    assert [path.name for path in cached()] == sorted([live.name, f"{second.sha256}.arrow"])


def test_a_shard_does_not_give_way_while_it_is_being_mapped(remote, monkeypatch):
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", str(max(shard.bytes for shard in remote.shards)))
    first, second = remote.shards[:2]
    with ThreadPoolExecutor(1) as pool:
        with brought(first.directory, first.name, first.bytes, first.sha256) as path:
            other = pool.submit(second.load)
            wait([other], timeout=0.3)
            assert path.stat().st_size == first.bytes
            assert not other.done()
        assert other.result(60).n_rows == second.n_rows
    assert [file.stem for file in cached()] == [second.sha256]


def test_copies_from_a_url_through_a_cache_for_one_shard(remote, local, tmp_path, monkeypatch):
    monkeypatch.setenv("SVMSIEVE_CACHE_SIZE", str(max(shard.bytes for shard in remote.shards)))
    copy_shards(URL, str(tmp_path / "back"))
    same(open_shards(tmp_path / "back"), local)
