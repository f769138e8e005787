"""Many tiny files a day: few shards, from which each file can still leave, alone or with its day."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest, reading_spec
from pipeline.data.shards.digest import row_hashes
from pipeline.data.shards.manifest import read_manifest
from pipeline.nightly import intake
from tests.nightly.nights import SETTINGS, Nightly, day, rows

pytestmark = pytest.mark.attack


def several(nightly: Nightly, number: int, count: int = 5) -> list[Path]:
    """Let several files of a day arrive."""
    return [nightly.arrive(number, rows(10 * number + k, 20), f"part{k}-{day(number)}.svm") for k in range(count)]


def shards(nightly: Nightly) -> list[tuple[str, int]]:
    return [(shard.name, shard.rows) for shard in read_manifest(nightly.store / "shards").shards]


def same_rows(nightly: Nightly, *files: Path) -> bool:
    """Whether the data set holds the rows of these files and no others."""
    ingest([str(path) for path in files], nightly.folder / "afresh", _spec())
    found = []
    for folder in (nightly.store / "shards", nightly.folder / "afresh"):
        data = open_shards(folder, full_check=True)
        found.append(np.sort(np.concatenate([row_hashes(shard.load()) for shard in data.shards])))
    return np.array_equal(*found)


def _spec() -> IngestSpec:
    return reading_spec(features=8, overwrite=True)


def test_a_day_is_a_shard(nightly):
    first = several(nightly, 0)
    second = several(nightly, 1, 3)
    assert nightly.night(1)["rows"] == 160
    assert [rows for _, rows in shards(nightly)] == [100, 60]
    assert same_rows(nightly, *first, *second)
    third = several(nightly, 11, 2)
    line = nightly.night(11)
    assert (line["rows"], line["files"]["rows_retired"], len(line["files"]["retired"])) == (100, 100, 5)
    assert same_rows(nightly, *second, *third)


def test_a_night_of_many_files_has_few_shards_all_along(nightly, monkeypatch):
    """Every append costs what the shards there are cost, so they are merged meanwhile."""
    true, counts = intake.ingest, []

    def counted(*arguments, **options):
        done = true(*arguments, **options)
        counts.append(len(done.shards))
        return done

    monkeypatch.setattr(intake, "ingest", counted)
    files = [nightly.arrive(0, rows(k, 2), f"part{k:03}-{day(0)}.svm") for k in range(150)]
    assert nightly.night(0)["rows"] == 300
    assert len(counts) == 150
    assert max(counts) == 65
    assert [rows for _, rows in shards(nightly)] == [300]
    assert same_rows(nightly, *files)
    nightly.arrive(0, rows(99, 9), files[70].name)
    assert nightly.night(1)["rows"] == 307
    assert same_rows(nightly, *files)


def test_a_day_that_retires_while_many_files_come(nightly):
    """Its shards are not merged before they go: they would go on under another name."""
    nightly.job.write_text(SETTINGS.replace("{features: 8}", "{features: 8, rows_per_shard: 20}"))
    several(nightly, 0, 3)
    nightly.night(0)
    nightly.job.write_text(SETTINGS)
    files = [nightly.arrive(11, rows(k, 2), f"part{k:03}-{day(11)}.svm") for k in range(80)]
    line = nightly.night(11)
    assert (line["rows"], line["files"]["rows_retired"]) == (160, 60)
    assert same_rows(nightly, *files)


def test_a_file_that_comes_again_leaves_its_day_alone(nightly):
    files = several(nightly, 0)
    nightly.night(0)
    nightly.arrive(0, rows(77, 7), files[2].name)
    line = nightly.night(1)
    assert (line["status"], line["rows"]) == ("published", 87)
    assert [rows for _, rows in shards(nightly)] == [87]
    assert same_rows(nightly, *files)
    for k, path in enumerate(files[:2]):
        nightly.arrive(0, rows(80 + k, 3), path.name)
    assert nightly.night(2)["rows"] == 53
    assert same_rows(nightly, *files)
    assert nightly.run(2) == []


def test_all_files_of_a_shard_come_again(nightly):
    files = several(nightly, 0, 3)
    nightly.night(0)
    for k, path in enumerate(files):
        nightly.arrive(0, rows(80 + k, 12), path.name)
    assert nightly.night(1)["rows"] == 36
    assert same_rows(nightly, *files)


def test_a_file_that_comes_again_damaged_or_old_takes_no_other_with_it(nightly):
    files = several(nightly, 0, 3)
    nightly.night(0)
    files[1].write_text("1 1:oops\n")
    nightly.failed(1)
    several(nightly, 11, 1)
    line = nightly.night(11)
    assert (line["rows"], len(line["files"]["retired"])) == (20, 3)


def test_who_says_how_many_rows_a_shard_has_gets_that(nightly):
    nightly.job.write_text(SETTINGS.replace("{features: 8}", "{features: 8, rows_per_shard: 5}"))
    several(nightly, 0, 2)
    nightly.night(0)
    assert [rows for _, rows in shards(nightly)] == [5] * 8


def test_a_store_of_before_is_compacted(nightly):
    files = several(nightly, 0, 3)
    nightly.job.write_text(SETTINGS.replace("{features: 8}", "{features: 8, rows_per_shard: 20}"))
    nightly.night(0)
    path = nightly.store / "files.json"
    ledger = json.loads(path.read_text())
    del ledger["shared"]
    path.write_text(json.dumps(ledger | {"version": 1}))
    nightly.job.write_text(SETTINGS)
    assert nightly.night(1)["status"] == "nothing new"
    assert [rows for _, rows in shards(nightly)] == [60]
    assert same_rows(nightly, *files)


@pytest.mark.parametrize("what", ["compact", "cut"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_around_a_change_of_shards(nightly, monkeypatch, what, after):
    files = several(nightly, 0, 3)
    nightly.night(0)
    files += several(nightly, 1, 3)
    nightly.arrive(0, rows(99, 9), files[0].name)
    true = getattr(intake, what)

    def killed(*arguments):
        if after:
            true(*arguments)
        elif what == "compact":
            arguments[3]({"shard-99999.arrow": tuple(name for name, _ in shards(nightly))[-2:]})
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(intake, what, killed)
        nightly.run(1)
    assert nightly.night(1)["rows"] == 109
    assert same_rows(nightly, *files)
    assert sorted(rows for _, rows in shards(nightly)) == [49, 60]
    assert nightly.run(1) == []
