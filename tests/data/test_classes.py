"""Three classes or more: codes in shards, names in the manifest, and each against the rest as a view."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.labels import MOST_CLASSES, LabelMap
from pipeline.data.shards.compact import compact
from pipeline.data.shards.digest import digest_rows, digest_text, row_hashes
from pipeline.data.shards.manifest import MANIFEST, read_manifest
from pipeline.data.shards.mapping import map_shard
from pipeline.data.shards.retire import retire
from pipeline.data.shards.shard import write_shard
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DataError, DatasetError
from tests.data.hostile import edit
from tests.data.remotes import URL, same
from tests.formats import WRITERS, Table, contents
from tests.trained import command, shards_of, sparse_rows

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

SETS = [("1", "2", "3"), ("-1", "0", "1"), ("2", "10", "a", "b"), ("ham", "eggs", "spam"), ("-7.5", "0.5", "3", "x y")]


def ordered(labels) -> tuple[str, ...]:
    """Numbers by value, then text."""
    return tuple(sorted(set(labels), key=lambda t: (not t.lstrip("-").replace(".", "").isdigit(), _number(t), t)))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def lines(path: Path, labels) -> str:
    """A CSV file, whose feature is the row's number."""
    path.write_text("label,x\n" + "".join(f"{label},{k + 1}\n" for k, label in enumerate(labels)))
    return str(path)


def table(n: int = 60, classes: int = 4) -> Table:
    made = sparse_rows(n)
    return Table(made.x, np.arange(n) * 7 % classes, made.costs)


@pytest.fixture
def data(tmp_path):
    """Four shards of four classes, with a bias."""
    return shards_of(tmp_path, table(), bias=1.0)


# --- ingest ---


@given(
    labels=st.sampled_from(SETS).flatmap(lambda s: st.lists(st.sampled_from(s), min_size=2, max_size=30)),
    rows_per_shard=st.sampled_from([1, 3, 7, 100]),
    shuffled=st.sampled_from([None, False, True]),
    bias=st.sampled_from([0.0, 1.0]),
)
def test_whatever_the_order_of_rows_code_k_is_the_kth_class(tmp_path_factory, labels, rows_per_shard, shuffled, bias):
    if len(set(labels)) == 1:
        return
    labels = labels if shuffled is None else sorted(labels, reverse=shuffled)
    tmp_path = tmp_path_factory.mktemp("rows")
    files = [lines(tmp_path / f"{k}.csv", [label]) for k, label in enumerate(labels)]
    manifest = ingest(files, tmp_path / "out", IngestSpec(rows_per_shard=rows_per_shard, bias=bias))
    data, names = open_shards(tmp_path / "out", full_check=True), ordered(labels)
    found = contents(data).labels
    if len(names) == 2:
        assert (found.dtype, data.classes, data.class_counts) == (np.int8, (), ())
        assert data.labels == LabelMap(names[:1], names[1:])
        assert found.tolist() == [2 * names.index(label) - 1 for label in labels]
        return
    assert (found.dtype, data.classes) == (np.int32, names)
    assert found.tolist() == [names.index(label) for label in labels]
    assert data.class_counts == tuple(labels.count(name) for name in names)
    item = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert (item["version"], item["classes"]) == (2, list(names))
    assert item["label_counts"] == {name: labels.count(name) for name in names}
    assert read_manifest(tmp_path / "out") == manifest


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_has_the_same_classes(tmp_path, kind):
    made = table()
    write, name = WRITERS[kind]
    path = write(tmp_path / name, made)
    ingest([str(path)], tmp_path / "out", IngestSpec(rows_per_shard=13))
    stored = open_shards(tmp_path / "out", full_check=True)
    assert stored.classes == ("0", "1", "2", "3")
    assert contents(stored).labels.tolist() == made.y.tolist()
    opened = open_dataset(path)
    assert (opened.classes, opened.class_counts) == (stored.classes, stored.class_counts)
    same(opened, stored)


def test_two_labels_or_a_positive_one_are_as_ever(tmp_path):
    made = table()
    two = shards_of(tmp_path, made, positive="2")
    assert json.loads((Path(two.path) / MANIFEST).read_text())["version"] == 1
    assert two.labels == LabelMap(("0", "1", "3"), ("2",), True)
    assert contents(two).labels.dtype == np.int8


def test_a_column_of_measurements_is_no_column_of_classes(tmp_path):
    path = lines(tmp_path / "a.csv", (k / 7 for k in range(MOST_CLASSES + 1)))
    with pytest.raises(
        DataError, match=r"a\.csv: more than 10,000 labels \(0, 0\.14.* more\).*no column of classes; name"
    ):
        ingest([path], tmp_path / "out", IngestSpec())
    assert not (tmp_path / "out").exists()
    assert open_dataset(path, IngestSpec(positive="1")).n_positive == 1


def test_appending_keeps_the_classes(tmp_path, data):
    before = contents(data).labels.tolist()
    (tmp_path / "more.svm").write_text("3 1:1\n1.0 2:1\n")
    grown = ingest([str(tmp_path / "more.svm")], data.path, IngestSpec(append=True))
    assert (grown.rows, grown.class_counts) == (62, (15, 16, 15, 16))
    assert contents(open_shards(data.path, full_check=True)).labels.tolist() == [*before, 3, 1]
    (tmp_path / "new.svm").write_text("4 1:1\n")
    with pytest.raises(DataError, match="label 4 is new: this data set has 0, 1, 2, 3; correct"):
        ingest([str(tmp_path / "new.svm")], data.path, IngestSpec(append=True))
    with pytest.raises(DataError, match="--positive 3 makes two classes, and the data set has 4; leave it out"):
        ingest([str(tmp_path / "more.svm")], data.path, IngestSpec(append=True, positive="3"))


def test_a_third_label_is_refused_where_there_were_two(tmp_path):
    two = shards_of(tmp_path, sparse_rows())
    (tmp_path / "new.svm").write_text("2 1:1\n")
    with pytest.raises(DataError, match="label 2 is new: this data set has 0, 1; correct"):
        ingest([str(tmp_path / "new.svm")], two.path, IngestSpec(append=True))


def test_merging_retiring_and_copying(tmp_path, data, memory):
    copy_shards(data.path, URL)
    same(open_shards(URL, full_check=True), data)
    assert open_shards(URL).class_counts == data.class_counts
    merged = compact(data.path)
    assert len(merged.manifest.shards) == 1
    after = open_shards(data.path, full_check=True)
    same(after, open_shards(URL))
    assert data.shards[1].load().labels.tolist() == after.shards[0].load().labels[17:34].tolist(), "rows that moved"
    copy_shards(URL, str(tmp_path / "back"))
    names = [shard.name for shard in read_manifest(tmp_path / "back").shards]
    left = retire(tmp_path / "back", names[:2])
    assert left.class_counts == tuple(np.bincount(table().y[34:]).tolist())
    assert open_shards(tmp_path / "back", full_check=True).classes == data.classes


def test_the_commands_show_the_classes(tmp_path, capsys, data):
    code, out, _ = command(capsys, "datasets", "describe", data.path, "-q")
    assert (code, "classes" in out) == (0, True)
    assert "4: 0 (15), 1 (15), 2 (15), 3 (15)" in out
    code, out, _ = command(capsys, "datasets", "describe", data.path, "-q", "--json")
    assert json.loads(out)["classes"] == {"0": 15, "1": 15, "2": 15, "3": 15}
    source = tmp_path / "rows.svm"
    code, out, _ = command(capsys, "ingest", source, "--out", tmp_path / "again", "-q")
    assert (code, "4 classes" in out) == (0, True)
    code, _, error = command(capsys, "path", data.path, "--out", tmp_path / "run", "--positive", "1")
    assert (code, error.count("\n")) == (1, 1)
    assert "is a shard directory with 4 classes; --positive applies when files are read" in error


def test_a_manifest_of_version_1_is_read_as_ever(tmp_path):
    """Made here, key by key, as every svmsieve before classes wrote them."""
    made = open_shards(shards_of(tmp_path, sparse_rows()).path)
    now = json.loads((Path(made.path) / MANIFEST).read_text())
    old = {key: now[key] for key in ("rows", "nnz", "fingerprint", "features", "created_by", "sources", "shards")}
    old |= {"format": "svmsieve-shards", "version": 1, "bias": 0.0, "index_base": 1, "columns": None}
    old["label_map"] = {"-1": ["0"], "+1": ["1"], "one_against_rest": False}
    old["label_counts"] = {"-1": made.n_rows - made.n_positive, "+1": made.n_positive}
    (Path(made.path) / MANIFEST).write_text(json.dumps(old))
    again = open_shards(made.path, full_check=True)
    assert (again.labels, again.classes, again.fingerprint) == (LabelMap(("0",), ("1",)), (), made.fingerprint)
    assert set(now) - set(old) == {"next_number"}


# --- views ---


@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5, 3.0)])
def test_a_class_against_the_rest(data, weights):
    stored = contents(data)
    for k in range(4):
        view = data.against_rest(k, weights)
        found = contents(view)
        assert (found.labels.dtype, view.classes) == (np.int8, ())
        assert found.labels.tolist() == np.where(stored.labels == k, 1, -1).tolist()
        assert found.costs.tolist() == (stored.costs * np.array(weights or [1.0] * 4)[stored.labels]).tolist()
        assert found.x.tolist() == stored.x.tolist()
        assert view.labels == LabelMap(tuple(str(j) for j in range(4) if j != k), (str(k),), True)
        assert view.n_positive == data.class_counts[k]
        assert [shard.digest for shard in view.shards] == [shard.digest for shard in data.shards]
        assert [(shard.base, shard.code) for shard in view.shards] == [(shard, k) for shard in data.shards]


def test_what_is_in_a_row_is_the_same_in_every_view(data):
    for shard, base in zip(data.against_rest(2, (1, 2, 3, 4)).shards, data.shards, strict=True):
        rows = shard.load()
        assert row_hashes(rows).tolist() == row_hashes(base.load()).tolist()
        assert row_hashes(rows.part(3, 9)).tolist() == row_hashes(base.load())[3:9].tolist()
        assert digest_text(digest_rows(rows)) == base.digest


def test_every_view_has_a_fingerprint_of_its_own(data):
    views = [data.against_rest(k, weights) for k in range(4) for weights in (None, (1, 1, 1, 1), (1, 1, 1, 2))]
    found = [view.fingerprint for view in views]
    assert len({*found, data.fingerprint}) == 13
    assert found == [data.against_rest(v.view.code, v.view.weights).fingerprint for v in views]
    assert all(view.fingerprint_of(data.fingerprint) == view.fingerprint for view in views)
    assert data.fingerprint_of("x") == "x"


def test_a_shard_of_a_view_is_small(data):
    shard = data.against_rest(2).shards[1]
    assert len(pickle.dumps(shard)) < 1000 + len(shard.path)
    assert pickle.loads(pickle.dumps(shard)) == shard  # noqa: S301


@pytest.mark.parametrize("k", [-1, 4])
def test_a_class_that_is_not_there(data, k):
    with pytest.raises(DataError, match=f"there is no class {k}; there are 4"):
        data.against_rest(k)
    with pytest.raises(DataError, match="2 weights for 4 classes; give one each"):
        data.against_rest(1, (1.0, 2.0))


# --- hostile ---


def names(*classes):
    return lambda item: item.update(classes=list(classes))


HOSTILE = {
    "a name twice": (names("0", "1", "1", "3"), "classes has a name twice"),
    "a name in two spellings": (names("0", "1", "1.0", "3"), "classes has a name twice"),
    "no label": (names("0", "", "2", "3"), "classes has a name that is no label"),
    "a number": (names("0", 1, "2", "3"), "classes is"),
    "half a character": (names("0", "\ud800", "2", "3"), "classes is"),
    "two classes": (names("0", "1"), "classes has 2 names"),
    "too many": (lambda item: item.update(classes=[f"c{k}" for k in range(MOST_CLASSES + 1)]), "classes has 10,001"),
    "none": (lambda item: item.update(classes=[]), "classes is"),
    "another number": (names("0", "1", "2", "3", "4"), "counts are not those of its rows in 5 classes"),
    "fewer": (names("0", "1", "2"), "counts are not those of its rows in 3 classes"),
    "version 1": (lambda item: item.update(version=1), "label_map is not there"),
    "no counts": (lambda item: item["shards"][0].pop("counts"), "counts is not there"),
    "other counts": (lambda item: item["shards"][0].update(counts=[17, 1, 0, 0]), "counts are not those"),
    "a negative count": (lambda item: item["shards"][0].update(counts=[18, -1, 0, 0]), "counts is"),
    "counts as text": (lambda item: item["shards"][0].update(counts="abcd"), "counts is"),
    "positives": (lambda item: item["shards"][0].update(positives=1), "positives has no meaning"),
    "too small": (lambda item: item["shards"][0].update(bytes=17 * 25), "other numbers than a shard can have"),
}


@pytest.mark.attack
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_manifest_that_cannot_be(data, kind):
    change, message = HOSTILE[kind]
    edit(Path(data.path), change)
    with pytest.raises(DatasetError) as caught:
        open_shards(data.path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.attack
@pytest.mark.parametrize("code", [-1, 4, 2**31 - 1, -(2**31)])
def test_codes_that_are_no_classes(data, code):
    """The manifest vouches for the shard: nothing but a look at its labels is between them and the kernels."""
    out = Path(data.path)
    rows = map_shard(str(out / "shard-00001.arrow"), data.n_features)
    labels = rows.labels.copy()
    labels[5] = code
    write_again(out, rows, labels)
    opened = open_shards(out)
    for each in (opened, opened.against_rest(1, (1, 2, 3, 4))):
        with pytest.raises(DatasetError, match="a label is none of the 4 classes, row 6"):
            each.shards[1].load()


@pytest.mark.attack
def test_a_shard_of_signs_among_codes_and_the_other_way_round(tmp_path, data):
    out = Path(data.path)
    rows = map_shard(str(out / "shard-00001.arrow"), data.n_features)
    write_again(out, rows, np.ones(17, np.int8))
    with pytest.raises(DatasetError, match="its labels are int8"):
        open_shards(out).shards[1].load()
    (tmp_path / "two").mkdir()
    two = shards_of(tmp_path / "two", sparse_rows())
    rows = map_shard(f"{two.path}/shard-00001.arrow", two.n_features)
    write_again(Path(two.path), rows, np.ones(17, np.int32))
    with pytest.raises(DatasetError, match="its labels are int32"):
        open_shards(two.path).shards[1].load()


def write_again(out: Path, rows, labels) -> None:
    """Write the second shard with other labels, and let the manifest say what is true of the file."""
    spare = out.with_name("spare")
    spare.mkdir()
    changed = type(rows)(rows.indptr, rows.indices, rows.values, labels, rows.costs, rows.norms, rows.n_features)
    new = write_shard(spare, "shard-00001.arrow", changed).to_json()
    shutil.copy2(spare / "shard-00001.arrow", out / "shard-00001.arrow")
    facts = {key: new[key] for key in ("bytes", "sha256", "modified")}
    edit(out, lambda item: item["shards"][1].update(facts))


def test_labels_of_a_parquet_file_by_dictionary(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, 1]), pa.array(["b", "c", "a", "never used"]))
    pq.write_table(pa.table({"label": column, "x": [1.0, 2.0, 3.0, 4.0]}), tmp_path / "a.parquet", row_group_size=2)
    found = open_dataset(tmp_path / "a.parquet")
    assert (found.classes, found.class_counts) == (("a", "b", "c"), (1, 1, 2))
    assert contents(found).labels.tolist() == [2, 1, 0, 2]
