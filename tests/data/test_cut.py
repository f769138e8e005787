"""Cutting rows out of shards: those go and no others, all at once, and nothing is lost where it cannot be done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.compact import compact
from pipeline.data.shards.cut import cut
from pipeline.data.shards.manifest import read_manifest
from pipeline.errors import DatasetError
from tests.data.hostile import snapshot
from tests.formats import contents, write_svmlight
from tests.trained import sparse_rows

pytestmark = pytest.mark.attack
NAME = "shard-00003.arrow"  # the three that it was made of had the numbers before


@pytest.fixture
def out(tmp_path) -> Path:
    """Three files of ten rows in one shard."""
    for number in range(3):
        source = write_svmlight(tmp_path / f"{number}.svm", sparse_rows(10, seed=number))
        ingest([str(source)], tmp_path / "out", IngestSpec(append=number > 0))
    compact(tmp_path / "out")
    return tmp_path / "out"


def test_rows_go_and_no_others(out):
    before, told = contents(open_shards(out)), []
    manifest = cut(out, {NAME: [(0, 3), (10, 20)], "shard-00099.arrow": [(0, 1)]}, told.append)
    assert told == [{"shard-00004.arrow": (NAME,)}]
    assert [source.rows for source in manifest.sources] == [7, 10]
    assert manifest == read_manifest(out)
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "shard-00004.arrow"]
    kept = np.r_[3:10, 20:30]
    after = contents(open_shards(out, full_check=True))
    for name, value in vars(before).items():
        np.testing.assert_array_equal(getattr(after, name), value[kept])


def test_nothing_to_cut_changes_nothing(out):
    before = snapshot(out)
    assert cut(out, {NAME: [], "shard-00099.arrow": [(0, 1)]}) == read_manifest(out)
    assert snapshot(out) == before


def test_all_rows_cannot_be_cut(out):
    before = snapshot(out)
    with pytest.raises(DatasetError, match="would be cut out; retire it instead"):
        cut(out, {NAME: [(0, 30)]})
    assert snapshot(out) == before


def test_killed_before_it_is_visible_nothing_has_happened(out):
    before = snapshot(out)

    def killed(names):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut(out, {NAME: [(0, 3)]}, killed)
    assert snapshot(out) == before
