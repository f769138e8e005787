"""The same table in any format, separator, quoting, type or number of workers is the same data set."""

from __future__ import annotations

import csv
import gzip
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.data.reading import csv as reading_csv
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.csv import CsvSource
from pipeline.errors import DataError
from tests.formats import contents

COLUMNS = """
numeric: {columns: [x, n]}
categorical: {columns: [kind, flag, code], min_count: 2}
dates: {columns: [when], parts: [hour, weekday, day, month]}
text: {columns: [note], ngrams: [1, 2]}
cross: [[kind, flag]]
hash_bits: 6
"""


def rows(n=60):
    chance = random.Random(3)
    found = []
    for _ in range(n):
        found.append(
            {
                "label": chance.choice(("yes", "no")),
                "x": chance.choice((None, 0.1, -2.5, 1e-7, chance.gauss(0, 3))),
                "n": chance.choice((None, 1, 2, 300)),
                "kind": chance.choice(("a", "b;c", "d|e\tf", 'q"uote', "é", None)),
                "flag": chance.choice((True, False, None)),
                "code": chance.choice((17, 5, None)),
                "when": chance.choice((None, "2013-01-31T18:30:00", "1999-12-31", "2020-02-29 07:00")),
                "note": chance.choice((None, "some words", "some, words", "two\nlines", 'said "so"')),
            }
        )
    return found


ROWS = rows()


def write_csv(path, separator=",", quoting=csv.QUOTE_MINIMAL, opener=open, shift=0, **names):
    with opener(path, "wt", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=separator, quoting=quoting)
        keys = [*ROWS[0]][shift:] + [*ROWS[0]][:shift]
        writer.writerow(keys)
        for row in ROWS:
            writer.writerow(["" if row[key] is None else row[key] for key in keys])
    return path


def write_parquet(path, kinds=None, **options):
    arrays = {}
    for name in ROWS[0]:
        cells = pa.array([row[name] for row in ROWS])
        arrays[name] = (kinds or {}).get(name, lambda array: array)(cells)
    pq.write_table(pa.table(arrays), path, **options)
    return path


def codes(array):
    return array.dictionary_encode()


def cast(kind):
    return lambda array: array.cast(kind)


def partitioned(path):
    """Write a folder a label, rows in the order of the first folder to the last; return what to compare with."""
    for label in ("no", "yes"):
        folder = path / f"label={label}"
        folder.mkdir(parents=True)
        some = [{key: value for key, value in row.items() if key != "label"} for row in ROWS if row["label"] == label]
        pq.write_table(pa.Table.from_pylist(some), folder / "part.parquet")
    return path


WAYS = {
    "comma": lambda home: write_csv(home / "t.csv"),
    "semicolon": lambda home: write_csv(home / "t.csv", ";"),
    "tab": lambda home: write_csv(home / "t.csv", "\t"),
    "bar": lambda home: write_csv(home / "t.csv", "|"),
    "all quoted": lambda home: write_csv(home / "t.csv", ";", csv.QUOTE_ALL),
    "gz": lambda home: write_csv(home / "t.csv.gz", opener=gzip.open),
    "shuffled": lambda home: write_csv(home / "t.csv", shift=3),
    "parquet": lambda home: write_parquet(home / "t.parquet"),
    "row groups": lambda home: write_parquet(home / "t.parquet", row_group_size=7),
    "codes": lambda home: write_parquet(
        home / "t.parquet", dict.fromkeys(("kind", "code", "n", "note", "label"), codes)
    ),
    "large": lambda home: write_parquet(home / "t.parquet", dict.fromkeys(("kind", "note"), cast(pa.large_string()))),
    "views": lambda home: write_parquet(
        home / "t.parquet", dict.fromkeys(("kind", "note", "label"), cast(pa.string_view()))
    ),
    "floats": lambda home: write_parquet(home / "t.parquet", dict.fromkeys(("n", "code"), cast(pa.float64()))),
    "small ints": lambda home: write_parquet(home / "t.parquet", dict.fromkeys(("n", "code"), cast(pa.int16()))),
    "texts": lambda home: write_parquet(home / "t.parquet", dict.fromkeys(("n", "code", "x"), cast(pa.string()))),
}


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    asked = tmp_path_factory.mktemp("columns") / "columns.yaml"
    asked.write_text(COLUMNS)
    return reading_spec(columns=str(asked), workers=1)


@pytest.fixture(scope="module")
def usual(tmp_path_factory, spec):
    home = tmp_path_factory.mktemp("usual")
    return ingest([str(write_csv(home / "t.csv"))], home / "out", spec)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_table_is_the_same_data_set(way, tmp_path, spec, usual):
    path = str(WAYS[way](tmp_path))
    found = ingest([path], tmp_path / "out", spec)
    if way == "shuffled":
        assert sorted(map(repr, found.encoding.roles)) == sorted(map(repr, usual.encoding.roles))
    else:
        assert found.encoding.roles == usual.encoding.roles
        assert found.fingerprint == usual.fingerprint
    applied = replace(spec, reading=spec.reading.encoded(usual.encoding), bias=usual.bias)
    assert ingest([path], tmp_path / "again", applied).fingerprint == usual.fingerprint


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('num"r0\tcode1\tlabel', ['num"r0', "code1", "label"]),
        ('tube 5";a;b;c;tube 6";x, y, z, u;label', ['tube 5"', "a", "b", "c", 'tube 6"', "x, y, z, u", "label"]),
        ('x;"a,b,c,d";label', ["x", "a,b,c,d", "label"]),
        ('"a ""q"", b, c";x;label', ['a "q", b, c', "x", "label"]),
    ],
)
def test_a_quote_within_a_name_hides_no_separator(tmp_path, header, names):
    (tmp_path / "t.csv").write_text(header + "\n")
    assert CsvSource(str(tmp_path / "t.csv"), ReadOptions()).names == names


def test_folders_of_a_partition_are_a_column(tmp_path, spec, usual):
    applied = replace(spec, reading=spec.reading.encoded(usual.encoding), bias=usual.bias)
    ingest([str(partitioned(tmp_path / "t"))], tmp_path / "out", applied)
    one = ingest([str(write_csv(tmp_path / "t.csv"))], tmp_path / "one", applied)
    x = contents(open_shards(tmp_path / "one"))
    order = sorted(range(len(ROWS)), key=lambda i: (ROWS[i]["label"], i))
    found = contents(open_shards(tmp_path / "out"))
    assert (found.x == x.x[order]).all()
    assert (found.labels == x.labels[order]).all()
    assert one.features == 1 + usual.encoding.n_features


def test_files_of_two_formats_are_one_table(tmp_path, usual):
    both = [str(write_csv(tmp_path / "t.csv")), str(write_parquet(tmp_path / "t.parquet"))]
    for order in (both, both[::-1], [both[0], str(write_csv(tmp_path / "again.csv"))]):
        found = ingest(order, tmp_path / "out", replace(reading_spec(), overwrite=True))
        assert found.rows == 2 * len(ROWS)
        assert {role.columns: type(role).__name__ for role in found.encoding.roles} == {
            **{("x",): "Number", ("n",): "Number", ("code",): "Number"},
            **{("kind",): "Category", ("flag",): "Category", ("when",): "Date", ("note",): "Category"},
        }


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_and_small_blocks_change_no_row(workers, tmp_path, spec, usual, monkeypatch):
    monkeypatch.setattr(reading_csv, "READ_BYTES", 300)
    init = reading_csv.CsvSource.__init__
    monkeypatch.setattr(
        reading_csv.CsvSource, "__init__", lambda self, path, options: init(self, path, options, block_bytes=700)
    )
    path = str(write_csv(tmp_path / "t.csv"))
    several = ingest([path], tmp_path / "several", replace(spec, workers=workers))
    alone = ingest([path], tmp_path / "alone", spec)
    assert several.encoding.digest == alone.encoding.digest
    assert several.fingerprint == alone.fingerprint
    applied = replace(spec, reading=spec.reading.encoded(usual.encoding), bias=usual.bias)
    assert ingest([path], tmp_path / "applied", applied).fingerprint == usual.fingerprint


def test_files_are_opened_twice_to_be_read_and_twice_for_their_header(tmp_path, spec, monkeypatch):
    opened = []
    plain = reading_csv.open_plain
    monkeypatch.setattr(reading_csv, "open_plain", lambda path: opened.append(path) or plain(path))
    ingest([str(write_csv(tmp_path / "t.csv"))], tmp_path / "out", spec)
    assert len(opened) == 4


@pytest.mark.parametrize("workers", [1, 3])
def test_line_breaks_in_quoted_cells(workers, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('label,note,x\na,"one\ntwo",1\nb,"\n\n""q"", ",2\n\na,plain,3\nb,"end\r\n",4\n')
    spec = reading_spec(workers=workers)
    manifest = ingest([str(path)], tmp_path / "out", spec)
    assert manifest.rows == 4
    note = manifest.encoding.roles[0]
    assert note.columns == ("note",)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('label,note,x\na,"one\ntwo",1\nb,"open,2\na,c,3\n', 4),
        ('label,note,x\na,"one\ntwo",1\nb,"two"x,2\n', 4),
        ('label,note,x\na,"one\ntwo"x,1\nb,c,2\n', 2),
        ('label,note,x\na,"one\n\ntwo",1\n\nb,c,inf\n', 6),
        ('label,note,x\na,"one\n\ntwo",1\n\n,c,2\n', 6),
        ('label,note,x\na,"one\n\ntwo",1\n\nb,c\n', 6),
    ],
)
def test_errors_name_the_line_whatever_breaks_are_before_it(text, line, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=f", line {line}: "):
        ingest([str(path)], tmp_path / "out", reading_spec(workers=1))


@pytest.mark.parametrize("header", ['label,"note,x', 'label,"no"te,x', '"label\n",x'])
def test_quotes_in_the_header_must_fit(header, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\na,b,1\nb,c,2\n")
    with pytest.raises(DataError, match="a quote in the header is not closed, or text follows it"):
        ingest([str(path)], tmp_path / "out", reading_spec(workers=1))


def test_numbers_as_they_are_have_no_line_breaks(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('label,x\na,"1\n"\nb,2\n')
    with pytest.raises(DataError, match="line 2: a quote is not closed in its line"):
        ingest([str(path)], tmp_path / "out", reading_spec(columns="none", workers=1))


def test_empty_lines_before_a_long_one_double_no_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,x\n1,1\n\n\n-1,2\n\n1," + "0" * 300 + "3\n-1,4\n")
    options = reading_spec(columns="none").reading
    source = reading_csv.CsvSource(str(path), options, block_bytes=100)
    values = [value for task in source.tasks() for value in task().values.tolist()]
    assert values == [1.0, 2.0, 3.0, 4.0]
