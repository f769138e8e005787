"""Tables through every command: what was learnt goes with the data and the run, and is applied by name."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from pipeline.data.shards.manifest import read_manifest
from pipeline.runs.directory import open_run
from tests.data.tables.home import changed, table, without, write
from tests.trained import command

ROWS, MORE = table(60), table(30, seed=1)
NAMES = [*ROWS[0]]


def do(capsys, *words):
    """Run a command that succeeds."""
    code, out, err = command(capsys, *words)
    assert code == 0, err
    return out + err


@pytest.fixture
def rows(tmp_path):
    return write(tmp_path / "rows.csv", ROWS)


@pytest.fixture
def more(tmp_path):
    """Other rows, their columns shuffled, in another format."""
    return write(tmp_path / "more.parquet", MORE, NAMES[::-1])


def test_append_compact_copy(capsys, tmp_path, rows, more):
    data = tmp_path / "data"
    do(capsys, "ingest", rows, "--out", data)
    learnt = read_manifest(data).encoding
    do(capsys, "ingest", more, "--out", data, "--append")
    do(capsys, "ingest", write(tmp_path / "more.csv", MORE), "--out", tmp_path / "other", "--columns", data)
    do(capsys, "datasets", "compact", data)
    do(capsys, "datasets", "copy", data, tmp_path / "copy")
    for folder, count in ((data, 90), (tmp_path / "copy", 90), (tmp_path / "other", 30)):
        manifest = read_manifest(folder)
        assert (manifest.rows, manifest.encoding, manifest.bias) == (count, learnt, 1.0)
    code, _, err = command(capsys, "ingest", more, "--out", data, "--append", "--columns", "auto")
    assert (code, "--columns is settled by the data set" in err) == (1, True)
    code, _, err = command(
        capsys, "ingest", write(tmp_path / "less.csv", without(MORE, "x")), "--out", data, "--append"
    )
    assert (code, "no column x, which the model needs" in err) == (1, True)
    assert read_manifest(data).rows == 90
    said = do(capsys, "ingest", write(tmp_path / "new.csv", changed(MORE, new=1)), "--out", data, "--append")
    assert "columns that were not there before are ignored: new" in said


def test_path_with_validation_then_verify_predict_and_screen(capsys, tmp_path, rows, more):
    run = tmp_path / "run"
    do(capsys, "path", rows, "--grid", "0.1,1", "--out", run, "--validation", more)
    do(capsys, "verify", run, rows, "--validation", more)
    do(capsys, "predict", run, more, "--out", tmp_path / "p.parquet")
    best = open_run(run).best
    scores = pq.read_table(tmp_path / "p.parquet")
    right = sum(a == b for a, b in zip(scores["label"].to_pylist(), [row["label"] for row in MORE], strict=True))
    assert right / 30 == pytest.approx(best.scores["accuracy"])
    shuffled = write(tmp_path / "rows.parquet", ROWS, NAMES[::-1])
    do(capsys, "verify", run, shuffled, "--validation", write(tmp_path / "more.csv", MORE))
    do(capsys, "screen", shuffled, "--reference", run, "--c", "1.05", "--out", tmp_path / "v.parquet")
    do(capsys, "train", shuffled, "--c", "2", "--reference", run, "--out", tmp_path / "next")
    assert open_run(tmp_path / "next").header.data.encoding == open_run(run).header.data.encoding
    code, _, err = command(capsys, "verify", run, write(tmp_path / "o.csv", changed(ROWS, carrier="UA")))
    assert (code, "was made from other data" in err) == (1, True)


def test_a_data_set_that_was_encoded_otherwise_is_not_scored(capsys, tmp_path, rows, more):
    do(capsys, "train", rows, "--c", "1", "--out", tmp_path / "run")
    do(capsys, "ingest", more, "--out", tmp_path / "more")
    code, _, err = command(capsys, "predict", tmp_path / "run", tmp_path / "more", "--out", tmp_path / "p.parquet")
    assert (code, "made of its columns in another way" in err) == (1, True)
    do(capsys, "ingest", more, "--out", tmp_path / "again", "--columns", tmp_path / "run")
    do(capsys, "predict", tmp_path / "run", tmp_path / "again", "--out", tmp_path / "p.parquet")
    do(capsys, "predict", tmp_path / "run", more, "--out", tmp_path / "q.parquet")
    assert pq.read_table(tmp_path / "p.parquet")["score"] == pq.read_table(tmp_path / "q.parquet")["score"]


def test_several_classes(capsys, tmp_path, more):
    kinds = [("a", "b", "c")[k % 3] for k in range(60)]
    rows = write(tmp_path / "k.csv", changed(ROWS, label=kinds))
    do(capsys, "train", rows, "--c", "1", "--out", tmp_path / "run")
    do(capsys, "verify", tmp_path / "run", rows)
    for name in ("p", "q"):
        source = more if name == "p" else write(tmp_path / "more.csv", MORE, NAMES[:-1])
        do(capsys, "predict", tmp_path / "run", source, "--out", tmp_path / f"{name}.parquet")
    one, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in "pq")
    assert [name for name in one.column_names if name.startswith("score")] == ["score_a", "score_b", "score_c"]
    assert all(one[name] == other[name] for name in one.column_names if name.startswith("score"))


def test_a_kernel_finds_its_training_data_again(capsys, tmp_path, rows, more):
    do(capsys, "train", rows, "--kernel", "rbf", "--c", "1", "--out", tmp_path / "run")
    do(capsys, "verify", tmp_path / "run", rows)
    do(capsys, "predict", tmp_path / "run", more, "--out", tmp_path / "p.parquet")
    moved = write(tmp_path / "moved.parquet", ROWS, NAMES[::-1])
    do(capsys, "predict", tmp_path / "run", more, "--training-data", moved, "--out", tmp_path / "q.parquet")
    assert pq.read_table(tmp_path / "p.parquet")["score"] == pq.read_table(tmp_path / "q.parquet")["score"]


def test_weights_and_groups(capsys, tmp_path):
    rows = changed(ROWS, w=[1 + k % 3 for k in range(60)], g=[f"g{k % 7}" for k in range(60)])
    path = write(tmp_path / "t.csv", rows)
    do(capsys, "ingest", path, "--out", tmp_path / "data", "--weight-column", "w", "--group", "g")
    manifest = read_manifest(tmp_path / "data")
    assert (manifest.encoding.weight, manifest.encoding.group, manifest.group) == ("w", "g", "g")
    assert not {"w", "g"} & {*manifest.encoding.inputs}
    do(capsys, "ingest", write(tmp_path / "s.parquet", rows, [*rows[0]][::-1]), "--out", tmp_path / "data", "--append")
    do(capsys, "tune", tmp_path / "data", "--out", tmp_path / "run", "--grid", "0.1,1")
    do(
        capsys,
        "predict",
        tmp_path / "run",
        write(tmp_path / "bare.csv", ROWS, NAMES[:-1]),
        "--out",
        tmp_path / "p.parquet",
    )
    code, _, err = command(capsys, "ingest", write(tmp_path / "less.csv", ROWS), "--out", tmp_path / "data", "--append")
    assert (code, "no column 'w'" in err) == (1, True)


def test_groups_that_were_not_learnt(capsys, tmp_path, rows):
    do(capsys, "ingest", rows, "--out", tmp_path / "data")
    grouped = write(tmp_path / "g.csv", changed(MORE, g=[f"g{k % 7}" for k in range(30)]))
    do(capsys, "ingest", grouped, "--out", tmp_path / "grouped", "--columns", tmp_path / "data", "--group", "g")
    item = json.loads((tmp_path / "grouped" / "manifest.json").read_text())
    assert (item["group"], item["table"]["group"]) == ("g", None)
    (tmp_path / "grouped" / "manifest.json").write_text(json.dumps(item))  # another file, which is read anew
    assert read_manifest(tmp_path / "grouped").group == "g"


def test_what_a_run_says_of_its_table_is_what_the_data_say(capsys, tmp_path, rows):
    do(capsys, "train", rows, "--c", "1", "--out", tmp_path / "run")
    do(capsys, "ingest", rows, "--out", tmp_path / "data")
    item = json.loads((tmp_path / "run" / "run.json").read_text())["data"]["table"]
    assert item == json.loads((tmp_path / "data" / "manifest.json").read_text())["table"]
    assert item["label"] == "label"
    assert {role["role"] for role in item["roles"]} == {"number", "category", "date"}
