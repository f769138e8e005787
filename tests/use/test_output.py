"""Tables that are written as they are made: Parquet or CSV by name, whole or not at all, the same for any pieces."""

from __future__ import annotations

import csv
import gzip

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from pipeline.errors import OutputError
from pipeline.use.output import table_to

TABLE = pa.table(
    {
        "id": pa.array([f"row {k}" if k % 3 else None for k in range(20)]),
        "score": pa.array([k / 7 for k in range(20)]),
        "label": pa.array(['a "b", c' if k % 2 else "" for k in range(20)]),
    }
)


def write(path, pieces: list[int], group: int = 6) -> bytes:
    with table_to(path, TABLE.schema, group) as take:
        first = 0
        for rows in [*pieces, 20 - sum(pieces)]:
            take(TABLE.slice(first, rows))
            first += rows
    return path.read_bytes()


@pytest.mark.parametrize("name", ["t.parquet", "T.PQ", "t.csv", "t.csv.gz"])
def test_the_bytes_depend_on_the_rows_alone(tmp_path, name):
    cuts = ([], [1, 1, 1], [13], [0, 6, 6, 0, 2], [5] * 3)
    assert len({write(tmp_path / name, pieces) for pieces in cuts}) == 1


def test_row_groups(tmp_path):
    write(tmp_path / "t.parquet", [4, 15])
    found = pq.ParquetFile(tmp_path / "t.parquet").metadata
    assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [6, 6, 6, 2]
    assert pq.read_table(tmp_path / "t.parquet") == TABLE


def test_row_groups_have_fewer_rows_where_columns_may_be_long(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.use.output.LONG", 4)
    with table_to(tmp_path / "t.parquet", TABLE.schema, 6, ids=True) as take:
        take(TABLE)
    found = pq.ParquetFile(tmp_path / "t.parquet").metadata
    assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [4] * 5


def test_csv_is_what_others_read(tmp_path):
    write(tmp_path / "t.csv", [7])
    with gzip.open(tmp_path / "u.csv.gz", "wb") as packed:
        packed.write((tmp_path / "t.csv").read_bytes())
    write(tmp_path / "t.csv.gz", [7])
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == (tmp_path / "t.csv").read_bytes()
    with (tmp_path / "t.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == TABLE.column_names
    assert [float(row[1]) for row in rows] == TABLE["score"].to_pylist(), "to the last digit"
    assert [row[2] for row in rows] == TABLE["label"].to_pylist()
    convert = pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert pacsv.read_csv(tmp_path / "t.csv", convert_options=convert) == TABLE, "a null is no empty text"


def test_no_rows_at_all(tmp_path):
    for name in ("t.parquet", "t.csv"):
        with table_to(tmp_path / name, TABLE.schema, 6):
            pass
    assert pq.read_table(tmp_path / "t.parquet") == TABLE.slice(0, 0)
    assert (tmp_path / "t.csv").read_text() == '"id","score","label"\n'


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz"])
def test_a_failure_leaves_what_was_there(tmp_path, name):
    (tmp_path / name).write_text("old")

    def fail():
        with table_to(tmp_path / name, TABLE.schema, 6) as take:
            take(TABLE)
            raise KeyError("in the middle")

    with pytest.raises(KeyError):
        fail()
    assert (tmp_path / name).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["t", "t.txt", "t.csv.bz2", "t.gz", "parquet", "t.arrow"])
def test_other_names_are_one_line(tmp_path, name):
    with pytest.raises(OutputError, match=r"neither \.parquet nor \.csv nor \.csv\.gz.*choose another --out"):
        table_to(tmp_path / name, TABLE.schema, 6).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_columns_that_csv_cannot_have(tmp_path):
    schema = pa.schema([("id", pa.string_view())])
    with pytest.raises(OutputError, match=r"t\.csv: CSV cannot have these columns \(.*string_view\); write \.parquet"):
        table_to(tmp_path / "t.csv", schema, 6).__enter__()
    assert list(tmp_path.iterdir()) == []
