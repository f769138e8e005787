"""Nights of tables: the first learns from all its files, later ones apply what was learnt, a killed one goes on."""

from __future__ import annotations

import json
import shutil

import pytest

from pipeline.data.shards.manifest import read_manifest
from pipeline.errors import JobError
from pipeline.nightly import intake
from tests.data.tables.home import changed, table, write
from tests.nightly.nights import SETTINGS, Nightly, day

JOB = SETTINGS.replace("reading: {features: 8}\n", "")


def arrive(nightly, number, rows, name=None):
    return write(nightly.folder / "incoming" / (name or f"rows-{day(number)}.csv"), rows)


@pytest.fixture
def made(tmp_path):
    """A job whose first night finds three files, one of which is corrupt; each has values that the others have not."""
    nightly = Nightly(tmp_path / "job", JOB)
    arrive(nightly, 0, changed(table(40), carrier=["AA", "UA"] * 20))
    arrive(nightly, 0, changed(table(40, seed=1), carrier=["DL", "UA"] * 20), f"z-{day(0)}.parquet")
    (nightly.folder / "incoming" / f"m-{day(0)}.csv").write_text("x,carrier,when,flag,row_id,label\n1,2\n")
    return nightly


def shards(nightly):
    (folder,) = [path.parent for path in nightly.store.rglob("manifest.json")]
    return read_manifest(folder)


def test_the_first_night_learns_from_all_files_and_later_ones_apply(made):
    line = made.night(0)
    assert (line["status"], line["rows"]) == ("published", 80)
    assert [item["file"].rsplit("/", 1)[-1] for item in line["files"]["left_out"]] == [f"m-{day(0)}.csv"]
    learnt = shards(made).encoding
    carrier = next(role for role in learnt.roles if role.columns == ("carrier",))
    assert carrier.values == ("AA", "DL", "UA")
    new = changed(table(40, seed=2), carrier=["ZZ", "UA"] * 20, more=1)
    arrive(made, 1, new)
    arrive(made, 1, changed(new, x="abc"), f"bad-{day(1)}.csv")
    line = made.night(1)
    assert (line["status"], line["rows"]) == ("published", 120)
    assert "column 'x': invalid value 'abc'" in json.dumps(line["files"]["left_out"])
    assert shards(made).encoding == learnt
    assert shards(made).bias == 1.0


def test_a_killed_night_goes_on_to_the_same_bytes(made, tmp_path, monkeypatch):
    shutil.copytree(made.folder, tmp_path / "other")
    other = Nightly(tmp_path / "other", JOB)
    made.run(0)
    count, ingest = 0, intake.ingest

    def dying(*arguments, **options):
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return ingest(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(intake, "ingest", dying)
        with pytest.raises(KeyboardInterrupt):
            other.run(0)
    other.run(0)
    one, two = shards(made), shards(other)
    assert one.encoding.digest == two.encoding.digest
    assert one.fingerprint == two.fingerprint
    models = [{p.name: p.read_bytes() for p in job.store.rglob("*.npz")} for job in (made, other)]
    assert models[0] == models[1]
    assert models[0]


def test_columns_of_a_job(made):
    (made.folder / "columns.yaml").write_text("drop: [carrier]\nbias: 2\n")
    made.job.write_text(JOB + "reading: {columns: columns.yaml}\n")
    made.night(0)
    assert "carrier" not in shards(made).encoding.inputs
    assert shards(made).bias == 2.0
    arrive(made, 1, table(40, seed=2))
    assert made.night(1)["rows"] == 120
    (made.folder / "columns.yaml").write_text("drop: [x]\nbias: 2\n")
    arrive(made, 2, table(40, seed=3))
    with pytest.raises(JobError, match="columns: is not what the store's features were made by; put back"):
        made.run(2)
    (made.folder / "columns.yaml").write_text("bias: 2  # and a remark\ndrop: [carrier]\n")
    assert made.night(2)["rows"] == 160


def test_columns_of_a_job_that_say_nothing(made):
    (made.folder / "columns.yaml").write_text("drp: [carrier]\n")
    made.job.write_text(JOB + "reading: {columns: columns.yaml}\n")
    with pytest.raises(ValueError, match=r"job.yaml, line \d+: columns: .*did you mean drop") as raised:
        made.run(0)
    assert "\n" not in str(raised.value)
