"""Groups: a column of the files whose rows stay together where rows are split, kept in shards as hashes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.columns import group_hash
from pipeline.data.shards.compact import compact
from pipeline.data.shards.cut import cut
from pipeline.data.shards.digest import digest_rows, row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, DatasetError
from pipeline.spec import PathSpec
from pipeline.working.facts import collect
from tests.data.hostile import edit
from tests.tampering import found
from tests.trained import command

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

GROUPED = reading_spec(columns="none", group="patient", rows_per_shard=70)


def rows_of(n=200, groups=23, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, groups, n)
    x = np.round(rng.standard_normal((n, 3)), 3)
    label = np.clip(np.round(x[:, 0] + rng.standard_normal(n)).astype(int) + classes // 2, 0, classes - 1)
    return x, label, patient


def write_csv(path, x, label, patient, names=("label", "patient", "a", "b", "c")):
    lines = [",".join(map(str, (y, p, *row))) for row, y, p in zip(x.tolist(), label, patient, strict=True)]
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return str(path)


def write_parquet(path, x, label, patient):
    columns = {"label": label, "patient": patient, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}
    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)
    return str(path)


def groups_of(data):
    return np.concatenate([shard.load().groups for shard in data.shards])


def hashes(patient):
    return np.array([group_hash(str(p)) for p in patient], np.uint64)


@pytest.fixture
def made(tmp_path):
    rows = rows_of()
    ingest([write_csv(tmp_path / "rows.csv", *rows)], tmp_path / "shards", GROUPED)
    return open_shards(tmp_path / "shards"), rows[2]


def left_out(data, **settings):
    with Engine("inline") as engine:
        return collect(engine, data, PathSpec(**settings), None).costs == 0


def test_the_same_groups_from_any_file(tmp_path, made):
    data, patient = made
    np.testing.assert_array_equal(groups_of(data), hashes(patient))
    x, label, _ = rows_of()
    kinds = {"ints": patient, "floats": patient.astype(float), "texts": patient.astype(str)}
    for name, column in kinds.items():
        path = write_parquet(tmp_path / f"{name}.parquet", x, label, column)
        ingest([path], tmp_path / name, GROUPED)
        for other in (open_shards(tmp_path / name), open_dataset(path, GROUPED)):
            np.testing.assert_array_equal(groups_of(other), hashes(patient))
            assert other.fingerprint == data.fingerprint
            assert other.group == "patient"
    assert data.columns == ("a", "b", "c")


def test_groups_are_part_of_the_data(tmp_path, made):
    """The same rows in other groups are other data: a run of theirs has other folds."""
    x, label, patient = rows_of()
    ingest([write_csv(tmp_path / "other.csv", x, label, patient[::-1])], tmp_path / "other", GROUPED)
    other = open_shards(tmp_path / "other")
    assert other.fingerprint != made[0].fingerprint
    one, two = (data.shards[0].load() for data in (made[0], other))
    np.testing.assert_array_equal(row_hashes(one), row_hashes(two))
    assert digest_rows(one) != digest_rows(two)


@pytest.mark.parametrize("stratified", [False, True])
def test_a_group_is_in_one_fold(made, stratified):
    data, patient = made
    out = np.stack([left_out(data, fold=(k, 4), stratified=stratified, seed=2) for k in range(4)])
    assert (out.sum(axis=0) == 1).all()
    fold = np.argmax(out, axis=0)
    assert all(len(set(fold[patient == p])) == 1 for p in set(patient.tolist()))
    sizes, largest = np.bincount(fold, minlength=4), np.bincount(patient).max()
    assert sizes.min() > 0
    if stratified:
        assert np.abs(sizes - 50).max() <= largest
    held = left_out(data, holdout=0.3, stratified=stratified)
    assert all(len(set(held[patient == p])) == 1 for p in set(patient.tolist()))


@pytest.mark.parametrize("stratified", [False, True])
def test_a_run_with_groups_verifies(made, tmp_path, stratified):
    data, _ = made
    settings = {"cv": 3, "stratified": stratified, "seed": 5, "scheduler": "inline"}
    run = pipeline.fit_path(data, out=tmp_path / "run", grid=[0.01, 1.0], **settings)
    assert all(finding.holds for finding in found(run.path, data))


def test_folds_that_groups_do_not_allow(tmp_path):
    x, label, _ = rows_of(classes=2)
    ingest([write_csv(tmp_path / "rows.csv", x, label, np.zeros(200, int))], tmp_path / "shards", GROUPED)
    for stratified in (False, True):
        with pytest.raises(DataError, match=r"all rows of a class|no row to be scored on"):
            pipeline.fit_path(tmp_path / "shards", grid=[1.0], cv=2, stratified=stratified, scheduler="inline")


def test_classes_are_split_alike_in_every_view(tmp_path):
    """Of K classes each is stratified, and a row is in the same fold whichever class is against the rest."""
    x, label, patient = rows_of(400, classes=4)
    names = ("label", "patient", "a", "b", "c")
    ingest(
        [write_csv(tmp_path / "rows.csv", x, label, patient, names)],
        tmp_path / "shards",
        reading_spec(
            columns="none",
        ),
    )
    data = open_shards(tmp_path / "shards")
    assert len(data.classes) == 4
    for fold in ((0, 3), (2, 3)):
        first, *others = (left_out(data.against_rest(k), fold=fold, stratified=True) for k in range(4))
        for other in others:
            np.testing.assert_array_equal(first, other)
        for k in range(4):
            assert np.count_nonzero(first & (label == k)) == pytest.approx(np.count_nonzero(label == k) / 3, abs=1)


def test_appends_compaction_and_cuts_keep_groups(tmp_path, made):
    data, patient = made
    more = rows_of(90, seed=1)
    path = write_csv(tmp_path / "more.csv", *more)
    ingest(
        [path], data.path, reading_spec(columns="none", rows_per_shard=70, append=True)
    )  # the data set knows its column
    together = np.concatenate([patient, more[2]])
    grown = open_shards(data.path)
    np.testing.assert_array_equal(groups_of(grown), hashes(together))
    compact(data.path)
    merged = open_shards(data.path)
    assert merged.fingerprint == grown.fingerprint
    assert len(merged.shards) < len(grown.shards)
    np.testing.assert_array_equal(groups_of(merged), hashes(together))
    name = json.loads((tmp_path / "shards" / "manifest.json").read_text())["shards"][0]["name"]
    cut(data.path, {name: [(0, 10)]})
    np.testing.assert_array_equal(groups_of(open_shards(data.path)), hashes(together[10:]))


@pytest.mark.parametrize("gap", [None, float("nan"), ""])
def test_a_row_without_a_group_is_refused(tmp_path, gap):
    x, label, patient = rows_of(20)
    patients = list(map(str, patient)) if gap == "" else patient.astype(float).tolist()
    patients[7] = gap
    path = write_parquet(tmp_path / "rows.parquet", x, label, pa.array(patients, from_pandas=False))
    with pytest.raises(DataError, match="row 8: column 'patient' has no group here; fill it or drop the row"):
        ingest([path], tmp_path / "out", GROUPED)


WRONG = {
    "no such column": (
        reading_spec(columns="none", group="doctor"),
        "no column 'doctor'; correct --group or leave it out",
    ),
    "the label": (
        reading_spec(columns="none", group="label"),
        "column 'label' is the label or the weight; correct --group",
    ),
}


@pytest.mark.parametrize(("spec", "problem"), WRONG.values(), ids=WRONG)
def test_a_column_that_cannot_be(tmp_path, spec, problem):
    with pytest.raises(DataError, match=problem):
        ingest([write_csv(tmp_path / "rows.csv", *rows_of())], tmp_path / "shards", spec)


def test_a_missing_group_is_one_line(tmp_path):
    x, label, patient = rows_of(5)
    texts = [str(p) for p in patient]
    texts[3] = ""
    with pytest.raises(DataError, match="line 5: column 'patient' has no group here; fill it or drop the row"):
        ingest([write_csv(tmp_path / "rows.csv", x, label, texts)], tmp_path / "shards", GROUPED)


def test_files_without_columns_have_no_groups(tmp_path, made):
    (tmp_path / "rows.svm").write_text("1 1:1\n0 2:1\n")
    with pytest.raises(DataError, match="svmlight files have no columns with names, and so no groups; leave --group"):
        ingest([str(tmp_path / "rows.svm")], tmp_path / "new", GROUPED)
    with pytest.raises(DataError, match="svmlight files have no columns with names, and so no groups"):
        ingest([str(tmp_path / "rows.svm")], made[0].path, reading_spec(columns="none", append=True))
    with pytest.raises(DataError, match="--group doctor differs from the data set's, which is 'patient'"):
        ingest([str(tmp_path / "rows.csv")], made[0].path, reading_spec(columns="none", group="doctor", append=True))


def test_shards_know_their_column(made):
    data, _ = made
    open_dataset(data.path, GROUPED, given=["group"])
    with pytest.raises(DataError, match="with groups from column 'patient'; --group applies when files are read"):
        open_dataset(data.path, reading_spec(columns="none", group="doctor"), given=["group"])


def test_a_manifest_of_another_version(made):
    data, _ = made
    edit(Path(data.path), lambda item: item.pop("group"))
    with pytest.raises(DatasetError, match="group is not there"):
        open_shards(data.path)


def test_from_the_shell(tmp_path, capsys):
    source = write_csv(tmp_path / "rows.csv", *rows_of())
    assert command(capsys, "ingest", source, "--group", "patient", "--out", tmp_path / "shards", "-q")[0] == 0
    run = ("path", tmp_path / "shards", "--out", tmp_path / "run", "--grid", "0.1,1", "--cv", 3, "-q")
    assert command(capsys, *run)[0] == 0
    assert command(capsys, "verify", tmp_path / "run", tmp_path / "shards")[0] == 0
    predict = ("predict", tmp_path / "run", source, "--out", tmp_path / "p.parquet", "-q")
    code, _, said = command(capsys, *predict, "--group", "patient")
    assert (code, said) == (0, "")
