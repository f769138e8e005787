"""Retiring shards: what stays is what a data set of the remaining rows would be, and names are never used twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.manifest import read_manifest
from pipeline.data.shards.retire import retire
from pipeline.errors import DatasetError
from tests.data.hostile import edit
from tests.formats import Table, contents, write_svmlight
from tests.trained import sparse_rows


def part(table: Table, first: int, stop: int) -> Table:
    return Table(table.x[first:stop], table.y[first:stop], table.costs[first:stop])


@pytest.fixture
def table():
    found = sparse_rows(90, 12)
    found.x[:, -1] = 1.0
    return found


@pytest.fixture
def out(tmp_path, table) -> Path:
    """Three files of 30 rows, appended one by one, in shards of at most 20 rows."""
    for number in range(3):
        source = write_svmlight(tmp_path / f"{number}.svm", part(table, 30 * number, 30 * number + 30))
        ingest([str(source)], tmp_path / "out", IngestSpec(rows_per_shard=20, append=number > 0))
    return tmp_path / "out"


def names(out: Path) -> list[str]:
    return [shard.name for shard in read_manifest(out).shards]


def test_what_stays_is_a_data_set_of_the_rest(tmp_path, table, out):
    old = names(out)
    manifest = retire(out, old[:2])
    assert names(out) == old[2:] == sorted(path.name for path in out.glob("*.arrow"))
    assert [(source.name, source.rows) for source in manifest.sources] == [("1.svm", 30), ("2.svm", 30)]
    source = write_svmlight(tmp_path / "rest.svm", part(table, 30, 90))
    alone = ingest([str(source)], tmp_path / "alone", IngestSpec())
    assert manifest.fingerprint == alone.fingerprint
    np.testing.assert_array_equal(contents(open_shards(out)).x, contents(open_shards(tmp_path / "alone")).x)


def test_half_a_source_is_counted(out):
    manifest = retire(out, [names(out)[0], names(out)[3]])
    assert [(source.name, source.rows) for source in manifest.sources] == [("0.svm", 10), ("1.svm", 20), ("2.svm", 30)]


def test_an_append_takes_new_names(tmp_path, table, out):
    before = names(out)
    retire(out, before[:4])
    source = write_svmlight(tmp_path / "more.svm", part(table, 0, 10))
    ingest([str(source)], out, IngestSpec(append=True))
    assert names(out) == [*before[4:], "shard-00006.arrow"]
    assert open_shards(out, full_check=True).n_rows == 40


def test_the_name_of_the_last_shard_is_not_used_again(tmp_path, table, out):
    retire(out, names(out)[4:])
    source = write_svmlight(tmp_path / "more.svm", part(table, 0, 10))
    ingest([str(source)], out, IngestSpec(append=True))
    retire(out, names(out)[-1:])
    assert read_manifest(out).next_number == 7
    edit(out, lambda item: item.pop("next_number"))  # as manifests were before it was kept
    assert read_manifest(out).next_number == 4


def test_twice_is_once(out):
    first = names(out)[:1]
    manifest = retire(out, first)
    status = (out / "manifest.json").stat()
    assert retire(out, first) == manifest
    assert (out / "manifest.json").stat().st_mtime_ns == status.st_mtime_ns


def test_the_last_shard_stays(out):
    with pytest.raises(DatasetError, match="all 6 shards would be retired"):
        retire(out, names(out))
    assert len(names(out)) == 6
    open_shards(out, full_check=True)
