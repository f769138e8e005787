"""Columns that tell rows apart for the user go beside predictions and verdicts, as they are, row by row."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading import csv as csv_module
from pipeline.data.reading import ids as module
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.choose import open_sources
from pipeline.data.reading.ids import IdColumns
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.path.fit import fit_path
from pipeline.scoring.models import model_of
from pipeline.scoring.rows_to_score import RowsToScore
from tests.formats import write_csv, write_svmlight
from tests.trained import command, sparse_rows

pytestmark = pytest.mark.usefixtures("tables_as_they_are")
TABLE = sparse_rows()
FEATURES = {f"f{j}": TABLE.x[:, j].tolist() for j in range(12)}
DAY = datetime.date(2026, 11, 17)
KINDS = {
    "text": pa.array([f"r{k // 2}" if k % 7 else None for k in range(60)]),  # duplicates and nulls
    "number": pa.array([2**60 + k for k in range(60)]),
    "small": pa.array(range(60), pa.uint8()),
    "real": pa.array([k / 3 for k in range(60)]),
    "flag": pa.array([k % 2 == 0 for k in range(60)]),
    "day": pa.array([DAY + datetime.timedelta(k) for k in range(60)]),
    "time": pa.array([datetime.datetime(2026, 1, 1, 0, k) for k in range(60)], pa.timestamp("us", "UTC")),
    "coded": pa.array(["x y", "z", None] * 20).dictionary_encode(),
    "bytes": pa.array([bytes([k]) for k in range(60)]),
    "nothing": pa.nulls(60),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ids")
    ingest([str(write_csv(folder / "rows.csv", TABLE))], folder / "shards", IngestSpec())
    fit_path(pipeline.open_dataset(folder / "shards"), out=folder / "run", grid=(1.0,), scheduler="inline")
    return folder


def parquet(path: Path, row_group_size: int = 13, **more) -> Path:
    pq.write_table(pa.table({**more, **FEATURES}), path, row_group_size=row_group_size)
    return path


def predicted(capsys, home, data, out, *words) -> pa.Table:
    code, _, err = command(capsys, "predict", home / "run", data, "--out", out, "-q", *words)
    assert (code, err) == (0, ""), err
    return pq.read_table(out) if out.suffix == ".parquet" else pacsv.read_csv(out)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_parquet_keep_their_types(capsys, home, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "BATCH", 7)
    monkeypatch.setattr("pipeline.use.predict.GROUP", 11)
    rows = parquet(tmp_path / "rows.parquet", key=KINDS[kind])
    found = predicted(capsys, home, rows, tmp_path / "p.parquet", "--id", "key")
    assert found.column_names == ["key", "score", "label", "truth"]
    assert found.schema.field("key").type == KINDS[kind].type
    assert found["key"].to_pylist() == KINDS[kind].to_pylist()
    plain = predicted(capsys, home, rows, tmp_path / "q.parquet", "--ignore", "key")
    assert found.drop("key") == plain
    code, _, err = command(capsys, "predict", home / "run", rows, "--out", tmp_path / "p.csv", "-q", "--id", "key")
    assert (code, err) == (0, "")
    assert len((tmp_path / "p.csv").read_bytes().splitlines()) >= 61


def test_ids_of_csv_are_the_text_that_stands_there(capsys, home, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_module, "CELL_BYTES", 2)
    monkeypatch.setattr(csv_module.CsvSource.__init__, "__defaults__", (300,))  # many small blocks
    keys = ["007", "NA", "null", "", '"quo""ted, text"', "1e5", "  blank ", "ü", '""', "NaN"] * 6
    lines = ["key,other," + ",".join(FEATURES)]
    lines += [f"{key},{k}," + ",".join(map(repr, TABLE.x[k].tolist())) for k, key in enumerate(keys)]
    text = "\n".join(lines) + "\n"
    (tmp_path / "rows.csv").write_text(text)
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    expected = ["007", "NA", "null", None, 'quo"ted, text', "1e5", "  blank ", "ü", "", "NaN"] * 6
    for name in ("rows.csv", "rows.csv.gz"):
        found = predicted(capsys, home, tmp_path / name, tmp_path / "p.parquet", "--id", "key", "--id", "other")
        assert found.column_names == ["key", "other", "score", "label", "truth"]
        assert found["key"].to_pylist() == expected
        assert found["other"].to_pylist() == [str(k) for k in range(60)]
        np.testing.assert_allclose(found["score"], TABLE.x @ pipeline.open_run(home / "run").best.w, atol=1e-12)


def test_a_feature_the_label_and_the_weight_may_be_ids(capsys, home, tmp_path):
    more = {"y": pa.array([str(y) for y in TABLE.y]), "weight": pa.array([2.0] * 60)}
    rows = parquet(tmp_path / "rows.parquet", **more)
    words = ["--label-column", "y", *(word for name in ("y", "f3", "weight") for word in ("--id", name))]
    found = predicted(capsys, home, rows, tmp_path / "p.parquet", *words)
    assert found.column_names[:3] == ["y", "f3", "weight"]
    assert found["y"].to_pylist() == [str(y) for y in found["truth"].to_pylist()]
    assert found["f3"].to_pylist() == FEATURES["f3"]


def test_several_files_and_their_folders(capsys, home, tmp_path):
    folder = tmp_path / "table"
    for day, kind in ((1, pa.int32()), (2, pa.int64())):
        (folder / f"day={day}").mkdir(parents=True)
        parquet(folder / f"day={day}" / "part.parquet", key=pa.array(range(60 * day, 60 * day + 60), kind))
    found = predicted(capsys, home, folder, tmp_path / "p.parquet", "--id", "key", "--id", "day")
    assert found.schema.field("key").type == pa.int64()
    assert found["key"].to_pylist() == list(range(60, 180))
    assert found["day"].to_pylist() == [1.0] * 60 + [2.0] * 60
    parquet(folder / "day=2" / "part.parquet", key=pa.array([[1]] * 60))
    code, _, err = command(capsys, "predict", home / "run", folder, "--out", tmp_path / "q.csv", "-q", "--id", "key")
    assert (code, "part.parquet: column 'key' is list<" in err, err.count("\n")) == (1, True, 1)
    parquet(folder / "day=2" / "part.parquet", key=pa.array([DAY] * 60))
    code, _, err = command(capsys, "predict", home / "run", folder, "--out", tmp_path / "q.csv", "-q", "--id", "key")
    assert (code, "'key' is date32[day] here and int32 in" in err, err.count("\n")) == (1, True, 1)


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        ("rows.parquet", ["--id", "kee"], "no column 'kee' for --id; there are key, f0, f1, f2, f3, f4, f5, f6, ..."),
        ("rows.csv", ["--id", "kee"], "no column 'kee' for --id; there are label, weight, f0, f1"),
        ("rows.parquet", ["--id", "key", "--id", "key"], "--id key stands twice"),
        ("rows.svm", ["--id", "key"], "svmlight files have no columns with names, and so no ids; leave --id out"),
        (
            "shards",
            ["--id", "key"],
            "is a shard directory, which keeps no ids, and no column 'key'; name the files instead, or ingest them "
            "again with --id key",
        ),
        ("score.parquet", ["--id", "score"], "the output has a column 'score' of its own beside the id"),
    ],
)
@pytest.mark.parametrize("verb", ["predict", "screen"])
def test_what_cannot_be_is_one_line(capsys, home, tmp_path, verb, data, words, message):
    parquet(home / "rows.parquet", key=range(60))
    parquet(home / "score.parquet", score=range(60), verdict=range(60), label=TABLE.y.tolist())
    write_svmlight(home / "rows.svm", TABLE)
    if verb == "screen":
        parquet(home / "rows.parquet", key=range(60), label=TABLE.y.tolist())
        words = ["verdict" if word == "score" else word for word in words]
        message = message.replace("'score'", "'verdict'").replace("f6, ...", "f6, ...")
        arguments = ["screen", home / data, "--reference", home / "run", "--c", "1"]
    else:
        arguments = ["predict", home / "run", home / data]
    if verb == "screen" and data == "rows.parquet" and "kee" in words:
        message = "no column 'kee' for --id; there are key, label, f0"
    if verb == "screen" and data == "score.parquet":
        arguments += ["--ignore", "score"]
    code, out, err = command(capsys, *arguments, *words, "--out", tmp_path / "out.parquet", "-q")
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_verdicts_have_the_ids_of_their_rows(capsys, home, tmp_path, kind):
    table = pa.table({"key": [f"k{k}" for k in range(60)], "label": TABLE.y.tolist(), **FEATURES})
    if kind == "csv":
        pacsv.write_csv(table, tmp_path / "rows.csv")
    else:
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    words = ["screen", tmp_path / f"rows.{kind}", "--reference", home / "run", "--c", "1.02", "-q"]
    code, _, err = command(capsys, *words, "--id", "key", "--out", tmp_path / "v.parquet")
    assert (code, err) == (0, "")
    found = pq.read_table(tmp_path / "v.parquet")
    assert found.column_names == ["key", "verdict", "lower", "upper"]
    assert found["key"].to_pylist() == table["key"].to_pylist()
    assert {*found["verdict"].to_pylist()} > {1}
    command(capsys, *words, "--id", "key", "--id", "label", "--id", "f3", "--out", tmp_path / "u.csv")
    again = pacsv.read_csv(tmp_path / "u.csv")
    assert again["lower"].to_pylist() == found["lower"].to_pylist(), "all digits, and all features"
    assert again.column_names[:3] == ["key", "label", "f3"]


def test_from_python(home, tmp_path):
    rows = parquet(tmp_path / "rows.parquet", key=range(60))
    with Engine("inline") as engine:
        run = pipeline.open_run(home / "run")
        parts = list(pipeline.predict(engine, run, rows, ids=["key"]))
        assert [key for part in parts for key in part.ids["key"].to_pylist()] == list(range(60))
        assert all(part.ids is None for part in pipeline.predict(engine, run, rows))
        with pytest.raises(DataError, match="keeps no ids, and no column 'key'"):
            pipeline.predict(engine, run, pipeline.open_dataset(home / "shards"), ids=["key"])


def test_a_file_that_changes_meanwhile(home, tmp_path):
    """Ids beside the scores of other rows would be worse than none."""
    rows = parquet(tmp_path / "rows.parquet", key=range(60))
    source = RowsToScore(model_of(pipeline.open_run(home / "run")), rows, ids=["key"])
    for shorter in (True, False):
        found = source.id_columns()
        if shorter:
            found.take(60)
            with pytest.raises(DataError, match=r"rows\.parquet: has other rows now than it had a moment ago"):
                found.take(1)
        else:
            found.take(59)
            with pytest.raises(DataError, match="has other rows now"):
                found.finish()


def test_rows_are_taken_in_any_pieces(home, tmp_path):
    paths = [str(parquet(tmp_path / f"{k}.parquet", key=range(60 * k, 60 * k + 60), label=TABLE.y)) for k in range(3)]
    sources = open_sources(paths, ReadOptions(ignore=("key",)))
    for piece in (1, 7, 60, 90, 180):
        found = IdColumns(sources, ["key"], "here")
        rows = [row for _ in range(180 // piece) for row in found.take(piece)["key"].to_pylist()]
        assert rows == list(range(180 // piece * piece))
