"""Ids in shards: columns that tell rows apart go with their rows wherever these go, and are no part of them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.data.ids import ShardIds
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.data.shards.compact import compact
from pipeline.data.shards.cut import cut
from pipeline.data.shards.mapping import read_shard
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, DatasetError
from tests.data.hostile import edit
from tests.trained import command

KEPT = {"columns": "none", "ids": ("customer", "day"), "rows_per_shard": 17}


def table_of(n=60, seed=0, classes=2, first=0):
    rng = np.random.default_rng(seed)
    x = np.round(rng.standard_normal((n, 3)), 3)
    label = np.clip(np.round(x[:, 0] + classes / 2).astype(int), 0, classes - 1)
    customer = [None if k % 11 == 10 else f"{first + k:03d}" for k in range(n)]
    day = pa.array(range(first, first + n), pa.date32())
    return pa.table({"label": label, "customer": customer, "a": x[:, 0], "b": x[:, 1], "day": day, "c": x[:, 2]})


def written(folder, name, table):
    path = folder / name
    (pacsv.write_csv if name.endswith("csv") else pq.write_table)(table, path)
    return str(path)


def ids_of(data, *names):
    parts = [shard.load().ids for shard in data.shards]
    return [tuple(row[name] for name in names or data.ids) for part in parts for row in part.to_pylist()]


def expected(*tables):
    return [
        (row["customer"], row["day"].isoformat())
        for table in tables
        for row in table.select(["customer", "day"]).to_pylist()
    ]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_ids_are_kept_and_are_no_features(tmp_path, name):
    table = table_of()
    ingest([written(tmp_path, name, table)], tmp_path / "shards", reading_spec(**KEPT))
    data = open_shards(tmp_path / "shards")
    assert (data.ids, data.columns) == (("customer", "day"), ("a", "b", "c"))
    assert ids_of(data) == expected(table)
    plain = reading_spec(columns="none", ignore=("customer", "day"), rows_per_shard=17)
    ingest([str(tmp_path / name)], tmp_path / "plain", plain)
    assert open_shards(tmp_path / "plain").fingerprint == data.fingerprint
    assert [json.loads((tmp_path / d / "manifest.json").read_text())["version"] for d in ("shards", "plain")] == [5, 1]


def test_appends_merging_and_cutting_keep_them(tmp_path):
    tables, out = [table_of(12, seed, first=100 * seed) for seed in range(40)], tmp_path / "shards"
    for k, table in enumerate(tables):
        how = dict(KEPT, rows_per_shard=None) if not k else {"append": True}
        ingest([written(tmp_path, f"{k}.{'csv' if k % 2 else 'parquet'}", table)], out, reading_spec(**how))
    before = len(open_shards(out).shards)
    assert before < len(tables), "appends merge"
    assert ids_of(open_shards(out)) == expected(*tables)
    compact(out)
    data = open_shards(out, full_check=True)
    assert len(data.shards) < before or before == 1
    assert ids_of(data) == expected(*tables)
    (shard, *_) = data.shards
    cut(out, {shard.path.rsplit("/", 1)[1]: [(3, 8), (20, 21)]})
    wanted = expected(*tables)
    assert ids_of(open_shards(out)) == [*wanted[:3], *wanted[8:20], *wanted[21:]]


def test_a_reader_finds_them_where_rows_were_moved_to(tmp_path):
    out, tables = tmp_path / "shards", [table_of(10, 1), table_of(10, 2)]
    for k, table in enumerate(tables):
        how = dict(KEPT, rows_per_shard=None) if not k else {"append": True}
        ingest([written(tmp_path, f"{k}.csv", table)], out, reading_spec(**how))
    data = open_shards(out)
    compact(out)
    assert ids_of(data) == expected(*tables)


def test_shards_that_are_amended_keep_them(tmp_path):
    """The third class comes last, so that all shards before it are written again with codes."""
    table = pa.concat_tables([table_of(40, classes=2), table_of(20, 3, classes=4, first=40)])
    ingest([written(tmp_path, "rows.csv", table)], tmp_path / "shards", reading_spec(**KEPT, group="b"))
    data = open_shards(tmp_path / "shards")
    assert len(data.classes) == 4
    assert data.group == "b"
    assert ids_of(data) == expected(table)
    assert ids_of(data.against_rest(2)) == expected(table)


def test_columns_of_a_file_keep_their_ids(tmp_path):
    """``id:`` in a file of columns; what auto takes for an id is not kept, for nobody asked."""
    path = written(tmp_path, "rows.csv", table_of())
    (tmp_path / "columns.yaml").write_text("id: [customer]\nnumeric: {columns: [a, b, c]}\ndrop: [day]\n")
    ingest([path], tmp_path / "shards", reading_spec(columns=str(tmp_path / "columns.yaml")))
    assert ids_of(open_shards(tmp_path / "shards")) == [(row[0],) for row in expected(table_of())]
    ingest([path], tmp_path / "auto", reading_spec())
    assert open_shards(tmp_path / "auto").ids == ()


def test_predict_and_screen_carry_them(tmp_path, capsys):
    table, shards = table_of(), tmp_path / "shards"
    source = written(tmp_path, "rows.csv", table)
    words = ["--columns", "none", "--id", "customer", "--id", "day", "--rows-per-shard", "17", "-q"]
    assert command(capsys, "ingest", source, *words, "--out", shards)[0] == 0
    assert command(capsys, "path", shards, "--grid", "1", "--out", tmp_path / "run", "-q")[0] == 0
    for verb, more in (("predict", []), ("screen", ["--c", "1.01"])):
        first = [tmp_path / "run", shards] if verb == "predict" else [shards, "--reference", tmp_path / "run"]
        for ids in ([], ["day"], ["day", "customer"]):
            options = [word for name in ids for word in ("--id", name)]
            code, _, err = command(capsys, verb, *first, *more, *options, "--out", tmp_path / "out.parquet", "-q")
            assert (code, err) == (0, "")
            found = pq.read_table(tmp_path / "out.parquet")
            names = ids or ["customer", "day"]
            assert found.column_names[: len(names)] == names
            wanted = dict(zip(("customer", "day"), zip(*expected(table), strict=True), strict=True))
            assert [found[name].to_pylist() for name in names] == [list(wanted[name]) for name in names]
    run = pipeline.open_run(tmp_path / "run")
    with Engine("inline") as engine:
        parts = list(pipeline.predict(engine, run, open_shards(shards), ids=["customer"]))
    assert [each for part in parts for each in part.ids["customer"].to_pylist()] == [row[0] for row in expected(table)]


@pytest.mark.parametrize("verb", ["predict", "screen"])
def test_an_unknown_id_is_one_line(tmp_path, capsys, verb):
    shards = tmp_path / "shards"
    ingest([written(tmp_path, "rows.csv", table_of())], shards, reading_spec(**KEPT))
    command(capsys, "path", shards, "--grid", "1", "--out", tmp_path / "run", "-q")
    first = [tmp_path / "run", shards] if verb == "predict" else [shards, "--reference", tmp_path / "run", "--c", "1"]
    code, _, err = command(capsys, verb, *first, "--id", "custmer", "--out", tmp_path / "out.csv", "-q")
    said = "keeps the ids customer, day, and no column 'custmer'; name the files instead, or ingest them again"
    assert (code, err.count("\n"), said in err) == (1, 1, True)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ids": ("custmer",)}, "no column 'custmer' for --id; there are label, customer"),
        ({"ids": ("day", "day")}, "--id day stands twice"),
        ({"ids": ("tags",)}, "column 'tags' is list<.*an id is one value"),
    ],
)
def test_what_cannot_be_an_id(tmp_path, spec, message):
    table = table_of(20).append_column("tags", pa.array([[1]] * 20))
    path, asked = written(tmp_path, "rows.parquet", table), {**KEPT, "ignore": ("tags", "customer", "day"), **spec}
    with pytest.raises(DataError, match=message):
        ingest([path], tmp_path / "s", reading_spec(**asked))
    assert not (tmp_path / "s").exists()


def test_appends_must_have_the_same_ids(tmp_path):
    out = tmp_path / "shards"
    ingest([written(tmp_path, "rows.csv", table_of())], out, reading_spec(**KEPT))
    more = written(tmp_path, "more.csv", table_of(10).drop_columns(["day"]))
    with pytest.raises(DataError, match=r"more.csv: no column 'day' for --id"):
        ingest([more], out, reading_spec(append=True))
    whole = written(tmp_path, "whole.csv", table_of(10))
    with pytest.raises(DataError, match=r"--id label differs from the data set's ids \(customer, day\)"):
        ingest([whole], out, reading_spec(append=True, ids=("label",)), given=("ids",))
    assert ids_of(open_shards(out)) == expected(table_of())


def test_damaged_ids_are_one_line(tmp_path):
    out = tmp_path / "shards"
    ingest([written(tmp_path, "rows.csv", table_of())], out, reading_spec(**KEPT))
    path = out / "shard-00000.arrow"
    content = bytearray(path.read_bytes())
    place = content.index(b"000001002003")
    content[place] = 0xFF  # no text
    path.write_bytes(content)
    broken = read_shard(str(path), 3).ids
    with pytest.raises(pa.ArrowInvalid):
        broken.validate(full=True)
    with pytest.raises(DatasetError, match="altered"):
        open_shards(out)
    edit(out, lambda item: item.update(ids=["customer", "customer"]))
    with pytest.raises(DatasetError, match="ids has a name twice"):
        open_shards(out)


def test_shards_without_the_ids_that_the_manifest_names(tmp_path):
    out = tmp_path / "shards"
    ingest([written(tmp_path, "rows.csv", table_of())], out, reading_spec(**KEPT))
    edit(out, lambda item: item.update(ids=["customer", "place"]))
    ids = ShardIds(open_shards(out))
    with pytest.raises(DatasetError, match=r"shard-00000.arrow: the ids of the shard are damaged"):
        ids.take(1)
