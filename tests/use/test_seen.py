"""Rows that are scored are known if they were trained on: in any order, with any label and weight, or with none."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import pipeline
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.errors import RunError
from pipeline.path import path as path_module
from pipeline.runs.directory import open_run
from pipeline.runs.sketch_file import SKETCH_FILE
from tests.formats import Table, write_csv, write_npz, write_svmlight
from tests.tampering import change_header, found
from tests.trained import command, sparse_rows

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

D, N = 12, 90
TABLE = sparse_rows(N, D, seed=3)
MAYBE = "or on rows with the same features: scores on new rows may be lower"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Runs on the same rows: from svmlight, from it with a bias and a hold-out, and from a CSV file with names."""
    folder = tmp_path_factory.mktemp("seen")
    assert TABLE.x.any(axis=1).all(), "rows without features are nobody's"
    bare, named = write_svmlight(folder / "rows.svm", TABLE), write_csv(folder / "rows.csv", TABLE)
    for name, source, bias, holdout in (
        ("bare", bare, 0.0, 0.0),
        ("biased", bare, 2.0, 0.0),
        ("held", bare, 0.0, 0.3),
        ("named", named, 0.0, 0.0),
    ):
        ingest([str(source)], folder / f"{name}-shards", reading_spec(columns="none", bias=bias, rows_per_shard=17))
        settings = {"grid": (0.1,), "holdout": holdout, "scheduler": "inline"}
        pipeline.fit_path(folder / f"{name}-shards", out=folder / name, **settings)
    return folder


def some(rows, labels=(0, 1), seed: int = 0) -> Table:
    """Some of the rows, with labels and weights of their own."""
    rng = np.random.default_rng(seed)
    return Table(TABLE.x[rows], np.resize(labels, len(rows)), rng.random(len(rows)) + 0.5)


def said(capsys, run: Path, rows: Path, *options, out: Path) -> str:
    """Return the line on rows that were trained on, "" if there is none."""
    words = ("predict", run, rows, "--out", out / "p.parquet", "-q", *options)
    code, text, err = command(capsys, *words)
    assert (code, err) == (0, "")
    return next((line.split(": ", 1)[1] for line in text.splitlines() if "trained on" in line), "")


SHUFFLED = np.random.default_rng(1).permutation(N)[:40]


@pytest.mark.parametrize("kind", ["file", "shards"])
@pytest.mark.parametrize("run", ["bare", "biased"])
def test_some_rows_in_another_order_with_other_labels_and_weights(capsys, home, tmp_path, run, kind):
    bias = 2.0 if run == "biased" else 0.0
    table, others = some(SHUFFLED), sparse_rows(25, D, seed=8)
    mixed = Table(np.vstack([others.x, table.x]), np.append(others.y, table.y), np.append(others.costs, table.costs))
    source = write_npz(tmp_path / "rows.npz", mixed)
    if kind == "shards":
        ingest([str(source)], tmp_path / "shards", reading_spec(columns="none", bias=bias, rows_per_shard=7))
    path, options = (source, ("--bias", bias)) if kind == "file" else (tmp_path / "shards", ())
    line = said(capsys, home / run, path, *options, out=tmp_path)
    assert line == f"the run was trained on 40 of the 65 rows, {MAYBE}"


def write_columns(path: Path, names: list[str], more: str) -> Path:
    """Some rows with their columns in another order, under these names, and one column more."""
    order = np.random.default_rng(2).permutation(D)
    lines = [",".join([more, *(names[j] for j in order)])]
    lines += [",".join([str(i % 2), *(repr(float(x)) for x in TABLE.x[i, order])]) for i in SHUFFLED]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_rows_without_labels_and_with_columns_in_another_order(capsys, home, tmp_path):
    names = [f"f{j}" for j in range(D)]
    rows = write_columns(tmp_path / "rows.csv", names, "later")
    assert said(capsys, home / "named", rows, out=tmp_path) == f"the run was trained on these rows, {MAYBE}"
    labelled = write_columns(tmp_path / "labelled.csv", names, "label")
    ingest([str(labelled)], tmp_path / "shards", reading_spec(columns="none", rows_per_shard=9))
    assert f"trained on these rows, {MAYBE}" in said(capsys, home / "named", tmp_path / "shards", out=tmp_path)
    others = write_columns(tmp_path / "others.csv", names[::-1], "label")
    assert said(capsys, home / "named", others, out=tmp_path) == ""


@pytest.mark.parametrize("n", [1, 2])
def test_one_row_is_enough(capsys, home, tmp_path, n):
    path = write_svmlight(tmp_path / "row.svm", some(SHUFFLED[:n], labels=(1,)))
    assert said(capsys, home / "bare", path, out=tmp_path).startswith("the run was trained on these rows,")


def test_rows_that_were_not_trained_on_are_not_mentioned(capsys, home, tmp_path):
    """Nor a row without features, nor one that has one feature more, or another value, or fewer."""
    other = np.vstack([sparse_rows(30, D, seed=8).x, np.zeros(D), TABLE.x[5:8]])
    other[-3:, 2] += 1.0
    table = Table(other, np.resize([0, 1], 34), np.ones(34))
    assert said(capsys, home / "bare", write_svmlight(tmp_path / "a.svm", table), out=tmp_path) == ""
    wide = np.column_stack([TABLE.x[:20], np.ones(20)])
    table = Table(wide, np.resize([0, 1], 20), np.ones(20))
    assert said(capsys, home / "bare", write_svmlight(tmp_path / "b.svm", table), out=tmp_path) == ""


def test_equal_rows_count_each(capsys, home, tmp_path):
    rows = np.append(np.repeat(SHUFFLED[:3], 4), SHUFFLED[0])
    path = write_svmlight(tmp_path / "rows.svm", some(rows))
    words = ("predict", home / "bare", path, "--out", tmp_path / "p.parquet", "--json", "-q")
    facts = json.loads(command(capsys, *words)[1])
    assert (facts["rows"], facts["rows_seen_in_training"], facts["rows_seen_exactly"]) == (13, 13, True)


def test_float32_and_dense_spellings_are_the_same_rows(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (60, 5)).astype(np.float32) / 4
    x[:, 0] = np.arange(1, 61)
    y = rng.integers(0, 2, 60)
    csr = sp.csr_matrix(x)
    narrow = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "y": y}
    np.savez(tmp_path / "narrow.npz", **narrow)
    pipeline.fit_path(tmp_path / "narrow.npz", out=tmp_path / "run", grid=(0.1,), scheduler="inline")
    wide = Table(x[::-1].astype(np.float64), y[::-1], np.ones(60))
    wide.x[0, 1] = 0.1  # a value that only float64 has, so that the shard is wide
    for path in (write_svmlight(tmp_path / "wide.svm", wide), write_npz(tmp_path / "wide.npz", wide)):
        assert "trained on 59 of the 60 rows" in said(capsys, tmp_path / "run", path, out=tmp_path)


def test_rows_left_out_were_not_trained_on(capsys, home, tmp_path):
    """All rows as a whole, and each by itself."""
    with pipeline.Engine("inline") as engine:
        data = pipeline.open_dataset(home / "held-shards")
        state = path_module.collect(engine, data, path_module.PathSpec(holdout=0.3), None)
    left_out = state.held_out()
    assert 0 < left_out.size < N
    line = said(capsys, home / "held", home / "rows.svm", out=tmp_path)
    assert "trained on these rows but for a hold-out of 0.3 of them: scores on new rows will be lower" in line
    path = write_svmlight(tmp_path / "rows.svm", some(left_out[::-1]))
    assert said(capsys, home / "held", path, out=tmp_path) == ""
    path = write_svmlight(tmp_path / "rows.svm", some(np.arange(N)[::-1]))
    assert f"trained on {N - left_out.size} of the {N} rows, or" in said(capsys, home / "held", path, out=tmp_path)


def test_validation_rows_are_known_as_well(capsys, home, tmp_path):
    path = write_svmlight(tmp_path / "rows.svm", some(SHUFFLED))
    words = ("path", home / "bare-shards", "--grid", 1, "--out", tmp_path / "run", "--validation", path)
    for _ in range(2):  # all at once, and again from what a killed run left
        code, _, err = command(capsys, *words)
        assert code == 0
        assert f": the run was trained on these rows, {MAYBE}" in err
        change_header(tmp_path / "run", status="running")


def test_of_many_rows_a_sample_is_kept(capsys, tmp_path):
    """200,000 rows, each one number; 30,000 of them again, upside down, among 60,000."""
    x, own, again = np.arange(1, 230_001, dtype=np.float64), 200_000, 60_000
    y = np.where(x % 2, 1, -1)
    for name, rows in (("train", slice(0, own)), ("test", slice(own - 30_000, own + 30_000))):
        count = rows.stop - rows.start
        values = x[rows][::-1] if name == "test" else x[rows]
        arrays = {"data": values, "indices": np.zeros(count, np.int32), "indptr": np.arange(count + 1)}
        np.savez(tmp_path / f"{name}.npz", **arrays, shape=(count, 1), y=y[rows])
    ingest([str(tmp_path / "train.npz")], tmp_path / "train", reading_spec(columns="none", rows_per_shard=33_000))
    run = pipeline.fit_path(tmp_path / "train", out=tmp_path / "run", grid=(1e-12,), tol=0.5)
    assert (run.header.sketch.count, run.header.sketch.complete) == (65_536, False)
    assert (run.path / SKETCH_FILE).stat().st_size < 525_000
    line = said(capsys, run.path, tmp_path / "test.npz", out=tmp_path)
    about = int(line.removeprefix("the run was trained on about ").split()[0].replace(",", ""))
    assert line.endswith(f" of the 60,000 rows, {MAYBE}")
    assert abs(about - 30_000) < 5 * again * 0.5 / np.sqrt(again * 65_536 / own)
    words = ("predict", run.path, tmp_path / "test.npz", "--out", tmp_path / "p.parquet", "--json", "-q")
    facts = json.loads(command(capsys, *words)[1])
    assert (facts["rows_seen_in_training"], facts["rows_seen_exactly"]) == (about, False)


# The file


def test_it_is_the_same_for_any_cut_and_on_any_backend(home, tmp_path):
    made = {(home / "bare" / SKETCH_FILE).read_bytes()}
    for number, (cut, scheduler) in enumerate(((90, "threads"), (5, "threads"), (7, "processes"))):
        source = write_svmlight(tmp_path / "rows.svm", some(np.random.default_rng(number).permutation(N)))
        ingest(
            [str(source)],
            tmp_path / "shards",
            reading_spec(columns="none", rows_per_shard=cut, bias=1.0, overwrite=True),
        )
        run = pipeline.fit_path(
            tmp_path / "shards", out=tmp_path / str(number), grid=(0.1,), scheduler=scheduler, workers=2
        )
        made.add((run.path / SKETCH_FILE).read_bytes())
    assert len(made) == 1


def test_folds_have_none_of_their_own(home, tmp_path):
    run = pipeline.fit_path(home / "bare-shards", out=tmp_path / "run", grid=(0.1,), cv=2, scheduler="inline")
    assert [str(path.relative_to(run.path)) for path in run.path.rglob(SKETCH_FILE)] == [SKETCH_FILE]
    assert open_run(run.path / "folds" / "0").header.sketch is None
    assert all(finding.holds for finding in found(run.path, pipeline.open_dataset(home / "bare-shards")))


def test_a_tuned_run_has_one_and_its_search_none(home, tmp_path):
    run = pipeline.tune(home / "bare-shards", out=tmp_path / "run", cv=2, patience=1, c_max=1.0)
    assert [str(path.relative_to(run.path)) for path in run.path.rglob(SKETCH_FILE)] == [SKETCH_FILE]
    assert run.header.sketch.count == N


def test_several_classes_know_their_rows_by_the_first_one(capsys, home, tmp_path):
    """A shuffled part with other labels, as a file, as shards and as validation rows; nothing of other rows."""
    source = write_npz(tmp_path / "rows.npz", some(np.arange(N), labels=(1, 2, 3)))
    ingest([str(source)], tmp_path / "shards", reading_spec(columns="none", rows_per_shard=17))
    part = write_npz(tmp_path / "part.npz", some(SHUFFLED, labels=(3, 1)))
    words = ("path", tmp_path / "shards", "--grid", "0.1,1", "--holdout", 0.3, "--out")
    code, _, err = command(capsys, *words[:4], *words[6:], tmp_path / "run", "--validation", part)
    assert (code, f": the run was trained on these rows, {MAYBE}" in err) == (0, True)
    run = tmp_path / "run"
    assert [str(path.relative_to(run)) for path in run.rglob(SKETCH_FILE)] == [f"classes/0/{SKETCH_FILE}"]
    ingest([str(part)], tmp_path / "part", reading_spec(columns="none", rows_per_shard=7))
    for rows in (part, tmp_path / "part"):
        line = said(capsys, run, rows, "--c", 0.1, out=tmp_path)
        assert line == f"the run was trained on these rows, {MAYBE}"
    other = write_svmlight(tmp_path / "other.svm", sparse_rows(30, D, seed=8, labels=(1, 2)))
    assert said(capsys, run, other, "--c", 0.1, out=tmp_path) == ""
    assert command(capsys, "verify", run, tmp_path / "shards")[0] == 0
    (run / "classes" / "0" / SKETCH_FILE).unlink()
    code, _, err = command(capsys, "verify", run, tmp_path / "shards")
    assert (code != 0, f"{SKETCH_FILE}: missing, or not the file that was written" in err) == (True, True)


def copied(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / "bare", tmp_path / "run"))


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x" * 8),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "another header": lambda path: path.write_bytes(path.read_bytes().replace(b"<u8", b"<i8")),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_one_line_and_whole_files_are_still_known(capsys, home, tmp_path, how):
    run = copied(home, tmp_path)
    DAMAGE[how](run / SKETCH_FILE)
    path = write_svmlight(tmp_path / "rows.svm", some(SHUFFLED))
    code, out, err = command(capsys, "predict", run, path, "--out", tmp_path / "p.parquet")
    assert (code, "trained on" in out) == (0, False)
    line = next(line for line in err.splitlines() if SKETCH_FILE in line)
    assert "missing or damaged" in line
    assert "train again; until then only whole files and shards that were trained on are known" in line
    assert said(capsys, run, home / "rows.svm", out=tmp_path).startswith("the run was trained on these rows: ")
    with pytest.raises(RunError, match=rf"{SKETCH_FILE}: missing, or not the file that was written; train again"):
        found(run, pipeline.open_dataset(home / "bare-shards"))


@pytest.mark.parametrize("changes", [{"version": 2}, {"count": 2**40}, {"count": 89}, {"complete": False, "count": 0}])
def test_what_run_json_says_of_it_is_not_believed_either(capsys, home, tmp_path, changes):
    run = copied(home, tmp_path)
    change_header(run, sketch=vars(open_run(run).header.sketch) | changes)
    path = write_svmlight(tmp_path / "rows.svm", some(SHUFFLED))
    code, out, err = command(capsys, "predict", run, path, "--out", tmp_path / "p.parquet")
    assert (code, "trained on" in out, SKETCH_FILE in err) == (0, False, True)


def test_runs_of_before_it_was_kept_know_whole_files(capsys, home, tmp_path):
    run = copied(home, tmp_path)
    (run / SKETCH_FILE).unlink()
    header = json.loads((run / "run.json").read_text())
    del header["sketch"], header["seal"]
    (run / "run.json").write_text(json.dumps(header))
    change_header(run)
    path = write_svmlight(tmp_path / "rows.svm", some(SHUFFLED))
    assert said(capsys, run, path, out=tmp_path) == ""
    assert said(capsys, run, home / "rows.svm", out=tmp_path).startswith("the run was trained on these rows: ")
    assert all(finding.holds for finding in found(run, pipeline.open_dataset(home / "bare-shards")))


def test_a_run_that_goes_on_writes_it_again(home, tmp_path):
    run = copied(home, tmp_path)
    whole = (run / SKETCH_FILE).read_bytes()
    (run / SKETCH_FILE).write_bytes(whole[:50])
    (run / "models" / "000000.npz").unlink()
    pipeline.fit_path(home / "bare-shards", out=run, grid=(0.1,), scheduler="inline")
    assert (run / SKETCH_FILE).read_bytes() == whole


def test_another_sketch_with_a_seal_of_its_own_is_what_the_run_says(home, tmp_path):
    """The file is covered by the seal: changed together with run.json but not sealed, it is found."""
    run = copied(home, tmp_path)
    header = json.loads((run / "run.json").read_text())
    header["sketch"] = vars(replace(open_run(run).header.sketch, count=1))
    (run / "run.json").write_text(json.dumps(header))
    with pytest.raises(RunError, match=r"run\.json is not as it was written"):
        found(run, pipeline.open_dataset(home / "bare-shards"))
