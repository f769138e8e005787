"""Rows to be scored: columns by name wherever they stand, labels or none, in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import pipeline
from pipeline.data.ingest.ingest import IngestSpec, ingest, reading_spec
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError, SpecError
from pipeline.path.fit import fit_path
from pipeline.runs.directory import HEADER, open_run
from pipeline.runs.run import Run
from pipeline.scoring.models import model_of
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.use.predict import predict, rows_for, write_predictions
from tests.formats import Table, write_csv, write_npz, write_parquet_columns, write_parquet_lists, write_svmlight
from tests.trained import command, sparse_rows

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("tables_as_they_are")]
TABLE = sparse_rows()
NAMES = [f"f{j}" for j in range(12)]


def named_columns(order=NAMES, **more) -> dict[str, list]:
    columns = {name: TABLE.x[:, NAMES.index(name)].tolist() for name in order}
    return columns | {name: list(values) for name, values in more.items()}


def write_table(path: Path, columns: dict[str, list]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        lines = [
            ",".join(columns),
            *(
                ",".join("" if v is None else f'"{v}"' if "," in str(v) else str(v) for v in row)
                for row in zip(*columns.values(), strict=True)
            ),
        ]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def inline():
    with Engine("inline") as engine:
        yield engine


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Two runs on the same rows: one trained on a CSV file, whose features have names, one on svmlight text."""
    folder = tmp_path_factory.mktemp("scoring")
    for kind, source in (
        ("named", write_csv(folder / "rows.csv", TABLE)),
        ("bare", write_svmlight(folder / "rows.svm", TABLE)),
    ):
        ingest([str(source)], folder / f"{kind}-shards", IngestSpec())
        data = pipeline.open_dataset(folder / f"{kind}-shards")
        fit_path(data, out=folder / kind, grid=(1.0,), scheduler="inline")
    return folder


@pytest.fixture
def named(home) -> Run:
    return open_run(home / "named")


@pytest.fixture
def bare(home) -> Run:
    return open_run(home / "bare")


def scored(inline, run, path, listen=lambda event: None, spec=None) -> tuple[np.ndarray, list]:
    parts = list(predict(inline, run, RowsToScore(model_of(run), path, spec, listen)))
    return np.concatenate([p.score for p in parts]), np.concatenate([p.truth for p in parts]).tolist()


def expected(run) -> np.ndarray:
    return TABLE.x @ run.best.w


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_in_another_order_give_the_same_scores(tmp_path, inline, named, suffix):
    order = [NAMES[j] for j in np.random.default_rng(1).permutation(12)]
    path = write_table(tmp_path / f"rows{suffix}", named_columns(order, label=TABLE.y))
    score, truth = scored(inline, named, path)
    np.testing.assert_allclose(score, expected(named), rtol=1e-12, atol=1e-14)
    assert truth == TABLE.y.astype(str).tolist()
    data = pipeline.open_dataset(path)
    by_shards = np.concatenate([p.score for p in predict(inline, named, data)])
    np.testing.assert_allclose(by_shards, expected(named), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_missing_column_is_named_and_others_are_reported(tmp_path, inline, named, suffix):
    path = write_table(tmp_path / f"rows{suffix}", named_columns(NAMES[:3] + NAMES[4:], label=TABLE.y))
    with pytest.raises(DataError, match=r"no column f3, which the model needs; add"):
        scored(inline, named, path)
    with pytest.raises(SpecError, match=r"no column f3, which the run .* needs; add"):
        predict(inline, named, pipeline.open_dataset(path))
    write_table(path, named_columns(NAMES[10:], label=TABLE.y))
    with pytest.raises(DataError, match=r"no columns f0, f1, .*, f7 and 2 more, which"):
        scored(inline, named, path)
    write_table(path, named_columns(label=TABLE.y, comment=["a"] * 60, weight=[2.0] * 60))
    notes = []
    score, _ = scored(inline, named, path, notes.append)
    np.testing.assert_allclose(score, expected(named), rtol=1e-12, atol=1e-14)
    assert [note.text for note in notes] == [f"{path}: columns the model does not know are ignored: comment"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_options_that_speak_of_the_models_own_columns(tmp_path, inline, named, suffix):
    path = write_table(tmp_path / f"rows{suffix}", named_columns())
    with pytest.raises(DataError, match=r"column f3 is one that the model needs; leave --ignore f3 out"):
        scored(inline, named, path, spec=reading_spec(ignore=["f3"]))
    for spec in (reading_spec(label_column="f3"), reading_spec(weight_column="f3")):
        score, truth = scored(inline, named, path, spec=spec)
        np.testing.assert_allclose(score, expected(named), rtol=1e-12, atol=1e-14)
        assert set(truth) == {None}


def test_names_are_kept_in_the_run_and_taken_from_the_data_of_older_runs(home, tmp_path, named, bare, inline):
    assert named.header.data.columns == tuple(NAMES)
    assert bare.header.data.columns is None
    assert bare.header.data.index_base == 1
    about = {k: v for k, v in named.header.to_json()["data"].items() if k not in ("columns", "index_base")}
    older = replace(named, header=named.header.changed(data=about))
    assert model_of(older).columns == tuple(NAMES)
    gone = replace(named, header=named.header.changed(data=about | {"path": str(tmp_path)}))
    assert model_of(gone).columns is None
    changed = replace(named, header=named.header.changed(data=about | {"fingerprint": "0" * 64}))
    assert model_of(changed).columns is None
    for model in (model_of(gone), model_of(bare)):
        with pytest.raises(DataError, match=r"has named columns, but the run does not say .*; train again"):
            RowsToScore(model, home / "rows.csv")
        with pytest.raises(SpecError, match=r"has named columns, but the run .* does not say .*; train again"):
            model.weights_on(pipeline.open_dataset(home / "named-shards"))


def test_a_run_that_names_other_features_than_its_model_has(named):
    data = named.header.to_json()["data"] | {"columns": NAMES[:3]}
    with pytest.raises(RunError, match=r"run.json does not name the model's 12 features; train again"):
        model_of(replace(named, header=named.header.changed(data=data)))


@pytest.mark.parametrize("changes", [{"columns": 5}, {"columns": [1] * 12}, {"columns": {}}, {"index_base": "1"}])
def test_names_of_features_that_are_none(named, changes):
    (name,) = changes
    with pytest.raises(ValueError, match=f"{name} cannot be"):
        named.header.changed(data=named.header.to_json()["data"] | changes)


UNLABELLED = {
    "csv": lambda path: write_table(path, named_columns()),
    "parquet": lambda path: write_table(path, named_columns()),
    "null.parquet": lambda path: write_table(path, named_columns(label=[None] * 60)),
    "empty.csv": lambda path: write_table(path, named_columns(label=[None] * 60)),
    "svm": lambda path: path.write_text("".join(line.partition(" ")[2] + "\n" for line in _lines() if ":" in line)),
    "marked.svm": lambda path: path.write_text("".join("? " + line.partition(" ")[2] + "\n" for line in _lines())),
    "lists.parquet": lambda path: pq.write_table(pq.read_table(write_parquet_lists(path, TABLE)).drop(["label"]), path),
    "npz": lambda path: np.savez(
        path, **{k: getattr(sp.csr_array(TABLE.x), k) for k in ("data", "indices", "indptr", "shape")}
    ),
}


def _lines() -> list[str]:
    return [
        " ".join([str(y), *(f"{j + 1}:{x[j]!r}" for j in np.flatnonzero(x))])
        for x, y in zip(TABLE.x.tolist(), TABLE.y, strict=True)
    ]


@pytest.mark.parametrize("name", UNLABELLED)
def test_rows_without_a_label(tmp_path, inline, named, bare, name):
    path = tmp_path / f"rows.{name}"
    UNLABELLED[name](path)
    run = bare if name.endswith(("svm", "npz")) or "lists" in name else named
    score, truth = scored(inline, run, path)
    kept = [j for j, line in enumerate(_lines()) if name != "svm" or ":" in line]
    np.testing.assert_allclose(score, expected(run)[kept], rtol=1e-12, atol=1e-14)
    assert set(truth) == {None}
    if name == "svm":
        with pytest.raises(DataError, match="stands where the label belongs"):
            pipeline.open_dataset(path)


@pytest.mark.parametrize("write", [write_csv, write_svmlight, write_npz, write_parquet_columns, write_parquet_lists])
@pytest.mark.parametrize("labels", [["1"] * 60, ["7"] * 60, ["0", "1", "2"] * 20])
def test_labels_of_one_class_or_unknown_ones(tmp_path, inline, named, bare, write, labels):
    suffix = {write_svmlight: "svm", write_csv: "csv", write_npz: "npz"}.get(write, "parquet")
    path = write(tmp_path / f"rows.{suffix}", Table(TABLE.x, np.array(labels), TABLE.costs))
    run, notes = (named if write in (write_csv, write_parquet_columns) else bare), []
    score, truth = scored(inline, run, path, notes.append)
    np.testing.assert_allclose(score, expected(run), rtol=1e-12, atol=1e-14)
    assert truth == [label if label in "01" else None for label in labels]
    unknown = sum(label not in "01" for label in labels)
    said = [note.text for note in notes if "does not know" in note.text]
    assert len(said) == bool(unknown)
    assert not unknown or f"{max(labels)}; {unknown} rows are not judged" in said[0]


def test_one_against_the_rest_knows_every_other_label(tmp_path, inline):
    table = Table(TABLE.x, np.where(TABLE.y == 1, 2, np.arange(60) % 2 * 2 + 1), TABLE.costs)
    ingest([str(write_svmlight(tmp_path / "rows.svm", table))], tmp_path / "shards", IngestSpec(positive="2"))
    run = fit_path(tmp_path / "shards", out=tmp_path / "run", grid=(0.1,), scheduler="inline")
    assert run.header.data.one_against_rest is True
    path = write_svmlight(tmp_path / "new.svm", Table(TABLE.x, np.array([2, 9, 3] * 20), TABLE.costs))
    assert scored(inline, run, path)[1] == ["2", "-1", "-1"] * 20


def test_another_positive_class_is_refused(home, bare):
    with pytest.raises(SpecError, match=r"--positive 0 is not 1, the run's positive class; leave it out"):
        RowsToScore(model_of(bare), home / "rows.svm", IngestSpec(positive="0"))


def test_rows_without_names_are_matched_by_position_and_counted(tmp_path, inline, named, bare):
    notes = []
    score, _ = scored(inline, named, write_svmlight(tmp_path / "rows.svm", TABLE), notes.append)
    np.testing.assert_allclose(score, expected(named), rtol=1e-12, atol=1e-14)
    assert ["no column names; its features are taken by position" in note.text for note in notes] == [True]
    wide = Table(np.column_stack([TABLE.x, np.ones(60)]), TABLE.y, TABLE.costs)
    for path in (write_svmlight(tmp_path / "wide.svm", wide), write_npz(tmp_path / "wide.npz", wide)):
        with pytest.raises(SpecError, match=r"has 13 features without names, the run .* 12; write the same features"):
            scored(inline, named, path)
        notes.clear()
        score, _ = scored(inline, bare, path, notes.append)
        np.testing.assert_allclose(score, expected(bare), rtol=1e-12, atol=1e-14)
        assert "has 13 features, the model 12; those beyond have weight 0" in notes[0].text
    notes.clear()
    few = Table(TABLE.x[:, :7], TABLE.y, TABLE.costs)
    scored(inline, bare, write_npz(tmp_path / "few.npz", few), notes.append)
    assert "has 7 features, the model 12; the missing ones are 0" in notes[0].text


def test_shards_without_names_that_are_narrower_than_a_named_model(tmp_path, inline, named):
    few = write_npz(tmp_path / "few.npz", Table(TABLE.x[:, :7], TABLE.y, TABLE.costs))
    notes = []
    list(predict(inline, named, pipeline.open_dataset(few), notes.append))
    assert "its features are taken by position, and the model's last 5 are 0" in notes[0].text


def test_indices_count_from_what_they_counted_from_in_training(tmp_path, inline):
    """A file without index 0 does not say that its indices count from 0: the run does."""
    ingest([str(write_svmlight(tmp_path / "zero.svm", TABLE, base=0))], tmp_path / "shards", IngestSpec())
    run = fit_path(tmp_path / "shards", out=tmp_path / "run", grid=(1.0,), scheduler="inline")
    later = np.array([x[0] == 0 for x in TABLE.x])
    path = write_svmlight(tmp_path / "new.svm", Table(TABLE.x[later], TABLE.y[later], TABLE.costs[later]), base=0)
    score, _ = scored(inline, run, path)
    np.testing.assert_allclose(score, expected(run)[later], rtol=1e-12, atol=1e-14)


def test_an_index_0_that_the_run_does_not_expect(tmp_path, inline, bare):
    with pytest.raises(DataError, match=r"line \d+: index 0 is below 1; pass --index-base 0"):
        scored(inline, bare, write_svmlight(tmp_path / "zero.svm", TABLE, base=0))


def test_files_and_shards_of_the_same_rows_give_the_same_bytes(home, tmp_path, bare):
    found = set()
    paths = [home / "rows.svm", home / "bare-shards", write_npz(tmp_path / "rows.npz", TABLE)]
    paths.append(write_parquet_lists(tmp_path / "rows.parquet", TABLE, row_group_size=7))
    with Engine("threads", 2) as engine:
        for path in paths:
            source = rows_for(model_of(bare), str(path), IngestSpec())
            judged = write_predictions(engine, model_of(bare), source, tmp_path / "p.parquet")
            assert (judged.rows, judged.labelled) == (60, 60)
            found.add((tmp_path / "p.parquet").read_bytes())
    assert len(found) == 1


def test_rows_that_were_trained_on_are_known_by_their_fingerprint(home, tmp_path, named, bare, inline):
    for run, name in ((named, "rows.csv"), (bare, "rows.svm")):
        data = RowsToScore(model_of(run), home / name)
        assert len(list(predict(inline, run, data))) == 1
        assert (data.n_rows, data.fingerprint) == (60, run.header.data.fingerprint)
    data = RowsToScore(model_of(bare), write_svmlight(tmp_path / "new.svm", sparse_rows(seed=1)))
    list(predict(inline, bare, data))
    assert data.fingerprint != bare.header.data.fingerprint


WEIGHTED = {
    "csv": write_csv,
    "npz": write_npz,
    "columns.parquet": write_parquet_columns,
    "parquet": write_parquet_lists,
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_with_weights_that_were_trained_on_are_known(capsys, tmp_path, name):
    table = Table(TABLE.x, TABLE.y, np.arange(60) % 3 + 0.5)
    path = WEIGHTED[name](tmp_path / f"rows.{name}", table)
    ingest([str(path)], tmp_path / "shards", IngestSpec())
    fit_path(tmp_path / "shards", out=tmp_path / "run", grid=(1.0,), scheduler="inline")
    code, out, _ = command(capsys, "predict", tmp_path / "run", path, "--out", tmp_path / "p.parquet", "-q")
    assert code == 0
    assert "the run was trained on these rows: scores on new rows will be lower" in out
    WEIGHTED[name](path, Table(TABLE.x, TABLE.y, np.ones(60)))
    _, out, _ = command(capsys, "predict", tmp_path / "run", path, "--out", tmp_path / "p.parquet")
    assert (
        "the run was trained on these rows, or on rows with the same features: scores on new rows may be lower" in out
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_weights_that_none_can_have_do_not_matter_to_rows_to_be_scored(tmp_path, inline, named, suffix):
    path = write_table(tmp_path / f"rows{suffix}", named_columns(weight=[None, 0.0, -1.0, 1e200] * 15))
    np.testing.assert_allclose(scored(inline, named, path)[0], expected(named), rtol=1e-12, atol=1e-14)
    write_table(path, named_columns(weight=["heavy", "1,5", "", "2x", " 1", "-", "nan", "1e400", "1\u0661", "."] * 6))
    np.testing.assert_allclose(scored(inline, named, path)[0], expected(named), rtol=1e-12, atol=1e-14)


def test_files_that_were_appended_are_known_among_others(capsys, tmp_path):
    """Each became shards of its own, one or several."""
    tables = [sparse_rows(n, seed=n) for n in (20, 50, 30)]
    paths = [write_svmlight(tmp_path / f"rows-{k}.svm", table) for k, table in enumerate(tables)]
    for path in paths[:2]:
        spec = reading_spec(features=12, append=path != paths[0], rows_per_shard=20)
        ingest([str(path)], tmp_path / "shards", spec)
    fit_path(tmp_path / "shards", out=tmp_path / "run", grid=(1.0,), scheduler="inline")
    words = ["predict", tmp_path / "run", "--out", tmp_path / "p.parquet", "-q"]
    for path, known in (
        (paths[0], "these rows"),
        (paths[1], "these rows"),
        (f"{tmp_path}/*.svm", "70 of the 100 rows"),
    ):
        assert f"the run was trained on {known}: " in command(capsys, *words, path)[1]
    assert "trained on" not in command(capsys, *words, paths[2])[1]


def test_rows_that_were_trained_on_are_known_after_appends_merged_their_shards(capsys, tmp_path):
    path = tmp_path / "rows.svm"
    for number in range(40):
        path.write_text(f"1 1:1 3:{number + 1}\n-1 2:{number + 1}\n")
        manifest = ingest([str(path)], tmp_path / "shards", reading_spec(features=3, append=number > 0))
        if number == 31:
            run = fit_path(tmp_path / "shards", out=tmp_path / "run", grid=(1.0,), scheduler="inline")
    assert [rows for _, rows in run.header.data.shards] == [32] + [2] * 16
    assert [shard.rows for shard in manifest.shards] == [32, 32] + [2] * 8
    _, out, _ = command(capsys, "predict", tmp_path / "run", tmp_path / "shards", "--out", tmp_path / "p.parquet", "-q")
    assert "the run was trained on 64 of the 80 rows: " in out


def test_validation_data_that_were_trained_on_are_mentioned(capsys, home, tmp_path):
    words = ["path", home / "bare-shards", "--grid", 1, "--out"]
    said = "the run was trained on these rows: scores on new rows will be lower"
    assert said in command(capsys, *words, tmp_path / "a", "--validation", home / "rows.svm")[2]
    other = write_svmlight(tmp_path / "other.svm", sparse_rows(seed=5))
    code, _, err = command(capsys, *words, tmp_path / "b", "--validation", other)
    assert (code, "trained on" in err) == (0, False)


def test_the_command_judges_what_it_can(capsys, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half = [int(y) if j < 30 else None for j, y in enumerate(TABLE.y)]
    write_table(Path("half.csv"), named_columns(NAMES[::-1], label=half))
    write_table(Path("none.csv"), named_columns(NAMES[::-1]))
    code, out, err = command(capsys, "predict", home / "named", "half.csv", "--out", "p.parquet", "-q", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    columns = pq.read_table("p.parquet").to_pydict()
    assert columns["truth"] == half
    assert (found["rows"], found["labelled"]) == (60, 30)
    assert found["scores"]["accuracy"] == np.mean(np.array(columns["label"][:30]) == half[:30])
    code, out, _ = command(capsys, "predict", home / "named", "half.csv", "--out", "p.parquet", "-q")
    assert "(on the 30 rows with a label that the run knows)" in out
    code, out, _ = command(capsys, "predict", home / "named", "none.csv", "--out", "p.parquet", "-q")
    assert code == 0
    assert out.splitlines()[0].endswith("no row has a label that the run knows")
    code, out, _ = command(capsys, "predict", home / "named", "none.csv", "--out", "p.parquet", "-q", "--json")
    assert json.loads(out)["scores"] is None
    assert pq.read_table("p.parquet")["truth"].null_count == 60
    write_table(Path("one.csv"), named_columns(label=["1"] * 60))
    code, out, _ = command(capsys, "predict", home / "named", "one.csv", "--out", "p.parquet", "-q", "--json")
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"JSON has no {word}"))["scores"]
    assert [name for name, value in found.items() if value is None] == ["balanced_accuracy", "auc"]


def test_validation_data_by_name(home, tmp_path, named):
    path = write_table(tmp_path / "other.csv", named_columns(NAMES[::-1], label=TABLE.y))
    data = pipeline.open_dataset(home / "named-shards")
    runs = [
        fit_path(data, out=tmp_path / name, validation=judge, grid=(1.0,), scheduler="inline")
        for name, judge in (("same", data), ("turned", pipeline.open_dataset(path)))
    ]
    assert runs[0].steps[0].scores == runs[1].steps[0].scores
    assert runs[0].steps[0].scores["accuracy"] > 0.7
    write_table(path, named_columns(NAMES[1:], label=TABLE.y))
    with pytest.raises(SpecError, match="no column f0, which"):
        fit_path(data, out=tmp_path / "less", validation=pipeline.open_dataset(path), grid=(1.0,), scheduler="inline")
    assert not (tmp_path / "less" / HEADER).exists()


ONE_ROW = {
    "rows.svm": lambda path: path.write_text("1:0.5 2:1\n"),
    "rows.npz": lambda path: np.savez(path, **npz_arrays(sp.csr_array([[0.5, 1.0]]))),
    "rows.csv": lambda path: write_table(path, {name: [1.0] for name in NAMES}),
    "rows.parquet": lambda path: write_table(path, {name: [1.0] for name in NAMES}),
    "empty.csv": lambda path: write_table(path, {name: [1.0] for name in NAMES} | {"label": [None]}),
    "empty.parquet": lambda path: pq.write_table(pa.table({n: [1.0] for n in NAMES} | {"label": pa.nulls(1)}), path),
}


def npz_arrays(x) -> dict[str, np.ndarray]:
    return {"data": x.data, "indices": x.indices, "indptr": x.indptr, "shape": np.array(x.shape)}


@pytest.mark.parametrize("kind", ONE_ROW)
@pytest.mark.parametrize("out", ["p.parquet", "p.csv", "p.csv.gz"])
def test_one_row_without_a_label(capsys, home, tmp_path, kind, out):
    ONE_ROW[kind](tmp_path / kind)
    run = home / ("bare" if kind in ("rows.svm", "rows.npz") else "named")
    code, said, err = command(capsys, "predict", run, tmp_path / kind, "--out", tmp_path / out, "-q")
    assert (code, err) == (0, "")
    assert said == f"{tmp_path / out}: 1 row by step 0 (C = 1): no row has a label that the run knows\n"
    found = pq.read_table(tmp_path / out) if out == "p.parquet" else pacsv.read_csv(tmp_path / out)
    assert found.column_names == ["score", "label", "truth"]
    w = open_run(run).best.w
    assert found["score"].to_pylist() == pytest.approx([w[:2] @ [0.5, 1.0] if run.name == "bare" else w.sum()])
    assert found["label"].to_pylist() == [int(found["score"][0].as_py() > 0)]
    assert found["truth"].to_pylist() == [None]


@pytest.mark.parametrize("kind", ONE_ROW)
@pytest.mark.parametrize("verb", ["path", "screen", "ingest", "tune", "verify"])
def test_without_labels_there_is_only_scoring(capsys, home, tmp_path, kind, verb):
    ONE_ROW[kind](tmp_path / kind)
    words = {
        "path": ["path", tmp_path / kind, "--out", tmp_path / "new", "-q"],
        "screen": [
            "screen",
            tmp_path / kind,
            "--reference",
            home / "named",
            "--c",
            1,
            "--out",
            tmp_path / "v.csv",
            "-q",
        ],
        "ingest": ["ingest", tmp_path / kind, "--out", tmp_path / "new", "-q"],
        "tune": ["tune", tmp_path / kind, "--out", tmp_path / "new", "-q"],
        "verify": ["verify", home / "named", tmp_path / kind, "-q"],
    }[verb]
    code, _, err = command(capsys, *words)
    (line,) = err.splitlines()
    assert code == 1
    cure = {"svm": "write label index:value", "npz": "needs data, indices, indptr, shape and y, the labels"}
    assert cure.get(kind.rpartition(".")[2], "--label-column") in line


def test_standard_input_is_not_read(capsys, home, tmp_path):
    code, _, err = command(capsys, "predict", home / "named", "-", "--out", tmp_path / "p.csv")
    assert (code, err) == (1, "svmsieve: DATA -: standard input is not read; write the rows to a file, and name that\n")
