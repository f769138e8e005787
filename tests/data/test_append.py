"""``ingest --append``: as if all files had been ingested at once, with everything settled the first time kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.shards.manifest import Manifest, read_manifest
from pipeline.errors import DataError
from tests.formats import WRITERS, Table, contents, write_csv, write_npz, write_parquet_lists, write_svmlight

pytestmark = pytest.mark.usefixtures("tables_as_they_are")


def random_table(rows: int, features: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, features)) < 0.6, np.round(rng.standard_normal((rows, features)), 3), 0.0)
    x[:, -1] = 1.0
    return Table(x, np.where(rng.random(rows) < 0.5, "no", "yes"), np.ones(rows))


def cut(table: Table, first: int, stop: int) -> Table:
    return Table(table.x[first:stop], table.y[first:stop], table.costs[first:stop])


def write_lines(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def append(source: str | Path, out: Path, **options) -> Manifest:
    return ingest([str(source)], out, IngestSpec(append=True, **options))


@pytest.fixture
def out(tmp_path):
    """A data set of three features, labels 1 and 2, counted from 1."""
    ingest([write_lines(tmp_path / "first.svm", "2 1:1 3:2.5", "1 2:1", "2 3:1")], tmp_path / "out", IngestSpec())
    return tmp_path / "out"


@pytest.fixture
def out_with_bias(tmp_path):
    """The same with a bias column, which is the fourth."""
    source = write_lines(tmp_path / "first.svm", "2 1:1 3:2.5", "1 2:1", "2 3:1")
    ingest([source], tmp_path / "out", IngestSpec(bias=0.5))
    return tmp_path / "out"


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("kind", WRITERS)
def test_several_appends_equal_one_ingest(tmp_path, kind, bias):
    table = replace(random_table(60, 5), costs=np.arange(1.0, 61.0))
    write, name = WRITERS[kind]
    edges = [(0, 20), (20, 21), (21, 45), (45, 60)]
    parts = [str(write(tmp_path / f"{k}-{name}", cut(table, *edge))) for k, edge in enumerate(edges)]
    whole = ingest(parts, tmp_path / "whole", IngestSpec(bias=bias))
    ingest(parts[:1], tmp_path / "out", IngestSpec(bias=bias, rows_per_shard=7))
    for k, part in enumerate(parts[1:]):
        grown = append(part, tmp_path / "out", rows_per_shard=3 + k)
    assert grown.fingerprint == whole.fingerprint == open_shards(tmp_path / "out", full_check=True).fingerprint
    assert (grown.labels, grown.features, grown.bias, grown.index_base, grown.columns, grown.sources) == (
        whole.labels,
        whole.features,
        whole.bias,
        whole.index_base,
        whole.columns,
        whole.sources,
    )
    assert [shard.rows for shard in grown.shards] == [7, 7, 6] + [1] + [4] * 6 + [5] * 3
    assert [shard.name for shard in grown.shards] == [f"shard-{k:05d}.arrow" for k in range(13)]
    found, expected = contents(open_shards(tmp_path / "out")), contents(open_shards(tmp_path / "whole"))
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.costs, expected.costs)


def test_features_grow_and_old_shards_know_it(tmp_path, out):
    grown = append(write_lines(tmp_path / "b.svm", "1 7:1"), out)
    assert grown.features == 7
    data = open_shards(out)
    assert [shard.load().csr().shape for shard in data.shards] == [(3, 7), (1, 7)]
    both = ingest([str(tmp_path / "first.svm"), str(tmp_path / "b.svm")], tmp_path / "both", IngestSpec())
    assert data.fingerprint == both.fingerprint


def test_features_never_shrink(tmp_path, out):
    grown = append(write_lines(tmp_path / "b.svm", "1 1:1"), out, reading=ReadOptions(rules=ReadRules(features=2)))
    assert grown.features == 3


def test_the_bias_column_is_kept(tmp_path, out_with_bias):
    for options in ({}, {"bias": 0.5}):
        append(write_lines(tmp_path / "b.svm", "1 1:4", "2"), out_with_bias, **options)
    np.testing.assert_array_equal(contents(open_shards(out_with_bias)).x[3:5], [[4, 0, 0, 0.5], [0, 0, 0, 0.5]])
    assert read_manifest(out_with_bias).features == 4


FOUR = ReadOptions(rules=ReadRules(features=4))
# (lines, options, message) of appends to the data set without and with a bias
NEVER = {
    "an unknown label": (["1 1:1", "3 1:1"], {}, r"b\.svm: label 3 is new: this data set has 1, 2"),
    "a bias where there was none": (["1 1:1"], {"bias": 1.0}, "--bias 1 differs from the data set's 0"),
    "one against rest": (["1 1:1"], {"positive": "1"}, "--positive 1 differs from the data set's label map"),
    "index 0 where indices count from 1": (["1 0:1"], {}, "line 1: index 0 is below 1"),
}
NEVER_WITH_BIAS = {
    "the bias column's index": (["1 4:1"], {}, "line 1: index 4 is beyond the 3 features"),
    "an index beyond the bias": (["1 1:1", "2 9:1"], {}, "line 2: index 9 is beyond the 3 features"),
    "other features": (["1 1:1"], {"reading": FOUR}, "--features 4 differs from the data set's 3; leave it out"),
    "another bias": (["1 1:1"], {"bias": 1.0}, "--bias 1 differs from the data set's 0.5"),
}


@pytest.mark.parametrize("kind", NEVER)
def test_what_an_append_refuses(tmp_path, out, kind):
    check_refused(tmp_path, out, *NEVER[kind])


@pytest.mark.parametrize("kind", NEVER_WITH_BIAS)
def test_what_an_append_to_a_biased_data_set_refuses(tmp_path, out_with_bias, kind):
    check_refused(tmp_path, out_with_bias, *NEVER_WITH_BIAS[kind])


def check_refused(tmp_path: Path, out: Path, lines: list[str], options: dict, message: str) -> None:
    before = read_manifest(out)
    with pytest.raises(DataError, match=message) as caught:
        append(write_lines(tmp_path / "b.svm", *lines), out, **options)
    assert "\n" not in str(caught.value)
    assert read_manifest(out) == before


def test_the_label_map_is_kept_whatever_comes_first_or_is_missing(tmp_path, out):
    """On its own the second file would be refused (a single class) and the third would map 1 to -1 again."""
    append(write_lines(tmp_path / "b.svm", "1 1:1", "1 2:1"), out)
    grown = append(write_lines(tmp_path / "c.svm", "2 1:1", "+1.0 2:1"), out, positive="2")
    assert grown.labels == read_manifest(out).labels
    assert (grown.labels.negative, grown.labels.positive) == (("1",), ("2",))
    np.testing.assert_array_equal(contents(open_shards(out)).labels, [1, -1, 1, -1, -1, 1, -1])


def test_one_against_the_rest_takes_new_labels_into_the_rest(tmp_path):
    out = tmp_path / "out"
    ingest([write_lines(tmp_path / "a.svm", "5 1:1", "3 1:1", "4 1:1")], out, IngestSpec(positive="4"))
    grown = append(write_lines(tmp_path / "b.svm", "9 1:1", "4 1:1"), out)
    assert grown.labels.negative == ("3", "5", "9")
    assert grown.labels.positive == ("4",)
    np.testing.assert_array_equal(contents(open_shards(out)).labels, [-1, -1, 1, -1, 1])


@pytest.mark.parametrize("first", ["1 0:1 2:3", "1 1:1 2:3"])
def test_the_index_base_is_kept(tmp_path, first):
    """The second file alone would be taken to count from 1."""
    out = tmp_path / "out"
    ingest([write_lines(tmp_path / "a.svm", first, "0 1:2")], out, IngestSpec())
    append(write_lines(tmp_path / "b.svm", first.replace("0:1", "1:1"), "0 1:2"), out)
    x = contents(open_shards(out)).x
    np.testing.assert_array_equal(x[1], x[3])
    np.testing.assert_array_equal(x[:, -1], [3, 0, 3, 0])


def test_feature_columns_must_agree(tmp_path):
    out, table = tmp_path / "out", random_table(10, 3)
    ingest([str(write_csv(tmp_path / "a.csv", table))], out, IngestSpec())
    text = (tmp_path / "a.csv").read_text()
    for header, message in (
        ("label,weight,f0,f1,g2", "column 'f2' is not in all files"),
        ("label,weight,f1,f0,f2", "the columns stand in another order"),
    ):
        (tmp_path / "b.csv").write_text(text.replace("label,weight,f0,f1,f2", header))
        with pytest.raises(DataError, match=message):
            append(tmp_path / "b.csv", out)
    wider = write_csv(tmp_path / "c.csv", random_table(10, 4))
    with pytest.raises(DataError, match="column 'f3' is not in all files"):
        append(wider, out)
    assert append(tmp_path / "a.csv", out).rows == 20


FILES = {"parquet": write_parquet_lists, "npz": write_npz, "svm": write_svmlight}


@pytest.mark.parametrize("pair", [("svm", "parquet"), ("svm", "npz"), ("parquet", "svm"), ("npz", "svm")])
def test_formats_may_differ_from_append_to_append(tmp_path, pair):
    table = random_table(10, 3)
    table.x[:, 0] = 0.0
    first, second = (str(FILES[kind](tmp_path / f"rows.{kind}", table)) for kind in pair)
    ingest([first], tmp_path / "out", IngestSpec())
    append(second, tmp_path / "out")
    np.testing.assert_array_equal(contents(open_shards(tmp_path / "out")).x, np.vstack([table.x, table.x]))


@pytest.mark.attack
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_a_table_next_to_features_without_names_is_counted(tmp_path, bias):
    """Columns can only be matched by position there: as many as there are features, and names only if all have one."""
    table = random_table(10, 3)
    ingest([str(write_svmlight(tmp_path / "a.svm", table))], tmp_path / "out", IngestSpec(bias=bias))
    for columns in (2, 4):
        other = write_csv(tmp_path / "b.csv", random_table(10, columns))
        with pytest.raises(DataError, match=rf"b.csv: has {columns} feature columns, not 3; drop"):
            append(other, tmp_path / "out")
    assert append(write_csv(tmp_path / "b.csv", table), tmp_path / "out").columns == ("f0", "f1", "f2")
    spec = IngestSpec(ReadOptions(rules=ReadRules(features=7)))
    with pytest.raises(DataError, match=r"b.csv: has 3 feature columns, not 7; .* leave out --features"):
        ingest([str(tmp_path / "b.csv")], tmp_path / "other", spec)
    wide = write_svmlight(tmp_path / "wide.svm", random_table(10, 5))
    assert ingest([str(wide), str(tmp_path / "b.csv")], tmp_path / "mixed", IngestSpec()).columns is None
