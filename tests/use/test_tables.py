"""Names and ids of tables whose columns were made features of: weights, exports, predictions, verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.runs.feature_names import feature_names
from pipeline.use import export_names
from tests.trained import command

ROWS = 400
KINDS = [f"k{k % 10}" for k in range(ROWS)]
TABLE = pa.table(
    {
        "key": [f"row {k}" for k in range(ROWS)],
        "size": [float(k * k % 17) if k % 9 else None for k in range(ROWS)],
        "kind": KINDS,
        "day": [f"2026-01-{1 + k % 28:02d}" for k in range(ROWS)],
        "late": ["yes" if k % 2 == 0 else "no" for k in range(ROWS)],  # as the kind says
    }
)
COLUMNS = """
label: late
id: [key]
categorical: {{columns: [kind], encode: {encode}, min_count: 1}}
hash_bits: {bits}
"""


def trained(folder: Path, capsys, encode: str = "onehot", bits: int = 20) -> Path:
    pq.write_table(TABLE, folder / "rows.parquet", row_group_size=90)
    (folder / "columns.yaml").write_text(COLUMNS.format(encode=encode, bits=bits))
    words = ["train", folder / "rows.parquet", "--columns", folder / "columns.yaml", "--c", 0.1, "-q"]
    code, _, err = command(capsys, *words, "--out", folder / "run")
    assert code == 0, err
    return folder / "run"


def test_weights_have_the_names_of_what_they_are_made_of(tmp_path, capsys):
    run = pipeline.open_run(trained(tmp_path, capsys))
    weights = {each.name: each.weight for each in run.weights(1000).largest}
    assert {f"kind=k{k}" for k in range(10)} < set(weights)
    assert all((weights[f"kind=k{k}"] > 0) == (k % 2 == 0) for k in range(10))
    names = feature_names(run.header.data)
    assert names.every() == [names.of(j) for j in range(names.own)]
    assert {"size", "size=(missing)", "day.weekday=Monday"} < set(names.every())
    code, out, _ = command(capsys, "weights", run.path, "--top", 3)
    assert code == 0
    assert " kind=k" in out
    code, _, _ = command(capsys, "export", run.path, "--out", tmp_path / "svm.npz")
    with np.load(tmp_path / "svm.npz", allow_pickle=False) as stored:
        assert stored["columns"].tolist() == names.every()


def test_a_hashed_name_has_its_own_sign(tmp_path, capsys):
    """A hash may turn the sign of a value: the weight that is shown is that of the name, whatever its hash."""
    run = pipeline.open_run(trained(tmp_path, capsys, "hash"))
    found = [each for each in run.weights(1000).largest if each.name.startswith("kind=")]
    assert len(found) == 10
    w = run.best.w
    assert {np.sign(w[each.feature]) == np.sign(each.weight) for each in found} == {True, False}
    assert all((each.weight > 0) == (int(each.name[-1]) % 2 == 0) for each in found)
    assert all(each.colliding == 0 for each in found)


def test_names_that_share_a_bucket(tmp_path, capsys):
    run = pipeline.open_run(trained(tmp_path, capsys, "hash", bits=1))
    names = feature_names(run.header.data)
    found = [each for each in run.weights(1000).largest if "kind=" in each.name]
    assert found
    for each in found:
        inside = names.in_bucket(each.feature)
        assert each.colliding == len(inside) > 3
        words = each.name.split(" or ")
        assert words[3] == f"{len(inside) - 3} more"
        signs = [-1 if word.startswith("-") else 1 for word in words[:3]]
        assert [sign * inside[0][1] for sign in signs] == [sign for _, sign in inside[:3]]
        assert each.weight == inside[0][1] * run.best.w[each.feature]
    code, out, _ = command(capsys, "weights", run.path)
    assert (code, "(collide)" in out) == (0, True)
    assert all(len(line) <= 80 for line in out.splitlines()[1:])


def test_names_that_would_take_too_much_are_not_exported(tmp_path, capsys, monkeypatch):
    run = trained(tmp_path, capsys)
    monkeypatch.setattr(export_names, "MOST_BYTES", 1000)
    code, _, err = command(capsys, "export", run, "--out", tmp_path / "svm.npz")
    assert (code, "features would take" in err, "they are not written" in err) == (0, True, True)
    with np.load(tmp_path / "svm.npz", allow_pickle=False) as stored:
        assert "columns" not in stored


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ids_of_the_file_of_columns_go_with_predictions_and_verdicts(tmp_path, capsys, kind):
    run, new = trained(tmp_path, capsys), TABLE.select(["day", "kind", "key", "size"])
    data = tmp_path / f"new.{kind}"
    pq.write_table(new, data) if kind == "parquet" else pacsv.write_csv(new, data)
    code, _, err = command(capsys, "predict", run, data, "--out", tmp_path / "p.parquet", "-q")
    assert (code, err) == (0, "")
    found = pq.read_table(tmp_path / "p.parquet")
    assert found.column_names == ["key", "score", "label", "truth"]
    assert found["key"] == TABLE["key"]
    code, _, err = command(capsys, "predict", run, data, "--id", "kind", "--out", tmp_path / "p.csv", "-q")
    again = pacsv.read_csv(tmp_path / "p.csv")
    assert (code, again.column_names[:2], again["kind"].to_pylist()) == (0, ["kind", "score"], KINDS)
    words = ["screen", tmp_path / "rows.parquet", "--reference", run, "--c", 0.101, "--out", tmp_path / "v.parquet"]
    for ids in ([], ["--id", "key"]):
        code, _, err = command(capsys, *words, *ids, "-q")
        assert (code, err) == (0, "")
        assert pq.read_table(tmp_path / "v.parquet")["key"] == TABLE["key"]


def test_an_id_that_is_not_there_is_mentioned(tmp_path, capsys):
    run = trained(tmp_path, capsys)
    pq.write_table(TABLE.drop("key"), tmp_path / "new.parquet")
    code, _, err = command(capsys, "predict", run, tmp_path / "new.parquet", "--out", tmp_path / "p.parquet")
    assert code == 0
    assert "has no column key, an id in training; the output is without it" in err
    assert pq.read_table(tmp_path / "p.parquet").column_names == ["score", "label", "truth"]
    code, _, err = command(
        capsys, "predict", run, tmp_path / "new.parquet", "--id", "key", "--out", tmp_path / "p.parquet", "-q"
    )
    assert (code, "no column 'key' for --id" in err) == (1, True)
