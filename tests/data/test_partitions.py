"""Tables as others write them: Hive's folders are columns, a row index is none; in shards and straight from Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.partitions import partitions_of
from pipeline.data.shards.manifest import read_manifest
from pipeline.errors import DataError
from tests.formats import contents

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("tables_as_they_are")]


def hive(folder: Path, columns: dict, by: list[str], name: str = "table") -> Path:
    schema = pa.table(columns).select(by).schema
    ds.write_dataset(
        pa.table(columns), folder / name, format="parquet", partitioning=ds.partitioning(schema, flavor="hive")
    )
    return folder / name


COLUMNS = {
    "label": [0, 1] * 4,
    "a": [float(k) for k in range(8)],
    "year": [2023] * 4 + [2024] * 4,
    "month": [1, 1, 2, 2] * 2,
}


def both_ways(path, out: Path, spec: IngestSpec | None = None):
    """Open Parquet in place and by way of shards: the same rows and columns."""
    spec = spec or IngestSpec()
    in_place = open_dataset(path, spec)
    manifest = ingest([str(path)], out, spec)
    assert in_place.fingerprint == manifest.fingerprint
    assert in_place.columns == manifest.columns == read_manifest(out).columns
    return in_place


def test_folders_are_columns(tmp_path):
    data = both_ways(hive(tmp_path, COLUMNS, ["year", "month"]), tmp_path / "out")
    assert data.columns == ("a", "year", "month")
    found = contents(data)
    rows = {tuple(row) for row in zip(COLUMNS["a"], COLUMNS["year"], COLUMNS["month"], strict=True)}
    assert set(map(tuple, found.x.tolist())) == rows


def test_a_single_file_and_a_pattern_say_the_same(tmp_path):
    table = hive(tmp_path, COLUMNS, ["year", "month"])
    for path in (str(next((table / "year=2024" / "month=2").glob("*.parquet"))), f"{table}/year=2024/*/*.parquet"):
        manifest = ingest([path], tmp_path / "out", IngestSpec(overwrite=True))
        assert manifest.columns == ("a", "year", "month")
    assert open_dataset(path).columns == ("a", "year", "month")


def test_labels_may_stand_in_the_folders(tmp_path):
    columns = {"label": ["ham", "ham", "spam", "spam"], "a": [1.0, 2.0, 3.0, 4.0]}
    data = both_ways(hive(tmp_path, columns, ["label"]), tmp_path / "out")
    assert data.columns == ("a",)
    assert contents(data).labels.tolist() == [-1, -1, 1, 1]


def test_text_in_folders_is_refused_as_any_text_is(tmp_path):
    columns = COLUMNS | {"date": ["2026-11-16"] * 4 + ["2026-11-17"] * 4}
    table = hive(tmp_path, columns, ["date"])
    for attempt in (lambda: open_dataset(table), lambda: ingest([str(table)], tmp_path / "out", IngestSpec())):
        with pytest.raises(
            DataError, match=r"column 'date' is string, not numeric; drop or encode it, or pass --ignore date"
        ):
            attempt()
    spec = IngestSpec(ReadOptions(ignore=("date", "month")))
    assert both_ways(table, tmp_path / "out", spec).columns == ("a", "year")


def test_a_missing_value_in_a_folder_is_refused(tmp_path):
    columns = COLUMNS | {"year": [None] * 4 + [2024] * 4}
    with pytest.raises(DataError, match=r"row 1: column 'year' has no number here"):
        ingest([str(hive(tmp_path, columns, ["year"]))], tmp_path / "out", IngestSpec())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("year=2024/month=01/a.parquet", {"year": 2024.0, "month": 1.0}),
        ("s3://bucket/t/k=1.5/a.parquet", {"k": 1.5}),
        ("t/a%20b=c%2Fd/a.parquet", {"a b": "c/d"}),
        ("t/x=nan/y=__HIVE_DEFAULT_PARTITION__/a.parquet", {"x": "nan", "y": None}),
        ("t/own=3/a.parquet", {}),
        ("t/=3/a==b/year=2024.parquet", {"a": "=b"}),
        ("run=3/t/a.parquet", {}),
        ("run=3/t/k=1/a.parquet", {"k": 1.0}),
        ("k=1/../t/a.parquet", {}),
        ("k=1/own=2/k=3/a.parquet", {"k": 3.0}),
        ("label=01/a.parquet", {"label": "01"}),
    ],
)
def test_what_folder_names_say(path, expected):
    assert dict(partitions_of(path, ["own"], "label").values) == expected


def test_columns_do_not_depend_on_where_one_stands(tmp_path, monkeypatch):
    """A table in a folder that looks like a partition's is the same table from inside and from outside."""
    table = hive(tmp_path, COLUMNS, ["year", "month"], "run=3/table")
    for stand, path in (
        (tmp_path, "run=3/table"),
        (table, "."),
        (table / "year=2024", "../../table"),
        (table / "year=2024", "month=1"),
        (table / "year=2024" / "month=2", "."),
    ):
        monkeypatch.chdir(stand)
        assert open_dataset(path).columns == ("a", "year", "month"), path


def test_labels_in_folders_keep_every_digit(tmp_path):
    columns = {"label": [2**53, 2**53 + 1] * 2, "a": [1.0, 2.0, 3.0, 4.0]}
    data = both_ways(hive(tmp_path, columns, ["label"]), tmp_path / "out")
    assert (data.labels.negative, data.labels.positive) == (("9007199254740992",), ("9007199254740993",))


INDEXED = {
    "pandas, a named index": lambda frame: frame.set_index(pd.Index(range(10, 18), name="row_id")),
    "pandas, no name": lambda frame: frame.set_index(pd.Index([f"r{k}" for k in range(8)])),
    "pandas, two levels": lambda frame: frame.set_index([pd.Index(range(8)), pd.Index(range(8))]),
    "dask": lambda frame: frame.set_index(pd.Index(range(8), name="__null_dask_index__")),
}


@pytest.mark.parametrize("kind", INDEXED)
def test_a_row_index_is_no_feature(tmp_path, kind):
    frame = pd.DataFrame({"label": [0, 1] * 4, "a": np.arange(8.0)})
    INDEXED[kind](frame).to_parquet(tmp_path / "a.parquet")
    assert both_ways(tmp_path / "a.parquet", tmp_path / "out").columns == ("a",)


def test_dasks_index_without_metadata(tmp_path):
    columns = {"label": [0, 1], "a": [1.0, 2.0], "__null_dask_index__": [0, 1]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert both_ways(tmp_path / "a.parquet", tmp_path / "out").columns == ("a",)


@pytest.mark.parametrize(
    "metadata",
    [b"", b"[]", b"\xff", b'{"index_columns": 3}', b'{"index_columns": [{"kind": "range"}, 7]}', b"[" * 10**5],
)
def test_metadata_of_any_kind(tmp_path, metadata):
    table = pa.table({"label": [0, 1], "a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    assert both_ways(tmp_path / "a.parquet", tmp_path / "out").columns == ("a",)
