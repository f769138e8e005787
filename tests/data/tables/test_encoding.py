"""Rows as an encoding makes them, beside a slow reader that knows only the encoding's JSON."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.plan import Categorical, Dates, Numeric, TablePlan, Text
from pipeline.data.tables.stored import from_json, to_json
from pipeline.errors import DataError
from tests.data.tables.frames import Frame, learnt, rows_of
from tests.data.tables.slow import features

ODD = (
    *("", " ", "NA", "nan", "a", "b", "A", "17", "17.0", "017", "-0", "1.50", "true", "False", "(missing)", "(other)"),
    *("a=b", "a & b", "x\x1fy", "x\u241fy", "é", "ß", "İ", "a,b", 'q"', "two words", "two two words", "x\ny", "%s"),
    *("l" * 201, "2013-01-01", "inf"),
)
TEXTS = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.sampled_from((0.0, -0.0, 1.0, 17.0, 0.1, 1e-300, 1e30, float("nan"), None)) | st.floats(-1e6, 1e6)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
STAMPS = st.sampled_from(("", "T10:05", " 23:59:59", "T00:00:00.5Z", "T07:30:00,25+02:00", "T01:00-0530"))
KINDS: dict[str, tuple[st.SearchStrategy, pa.DataType]] = {
    "text": (TEXTS | st.none(), pa.string()),
    "large": (TEXTS | st.none(), pa.large_string()),
    "codes": (TEXTS | st.none(), pa.dictionary(pa.int32(), pa.string())),
    "whole": (st.integers(-3, 20) | st.none(), pa.int64()),
    "coded": (st.integers(-3, 20) | st.none(), pa.dictionary(pa.int8(), pa.int64())),
    "float": (NUMBERS, pa.float64()),
    "flag": (st.booleans() | st.none(), pa.bool_()),
    "day": (st.dates() | st.none(), pa.date32()),
    "moment": (MOMENTS | st.none(), pa.timestamp("us")),
    "stamp": (
        st.none() | st.builds(lambda day, clock: day.isoformat() + clock, st.dates(date(1000, 1, 1)), STAMPS),
        pa.string(),
    ),
}
TREATED = {
    "number": st.builds(
        Numeric, st.sampled_from(("standard", "maxabs", "none")), st.sampled_from((None, "zero", "mean"))
    ),
    "category": st.builds(Categorical, st.sampled_from((None, "hash")), st.integers(1, 3)),
    "words": st.builds(Text, st.sampled_from(((1, 1), (1, 2), (2, 3)))),
    "date": st.builds(Dates, st.sampled_from((None, ("minute", "day"), ("month", "hour", "weekday")))),
}
ALLOWED = {
    **dict.fromkeys(("text", "large", "codes"), ("category", "words")),
    **dict.fromkeys(("whole", "coded", "float", "flag"), ("category", "number")),
    **dict.fromkeys(("day", "moment"), ("category", "date")),
    "stamp": ("category", "date", "words"),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, TablePlan]:
    """Return a table to learn from, one to encode, and what is asked."""
    kinds = {f"c{k}": kind for k, kind in enumerate(draw(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=5)))}
    drawn = []
    for rows in (draw(st.integers(1, 12)), draw(st.integers(1, 6))):
        columns = {}
        for name, kind in kinds.items():
            cells, arrow = KINDS[kind]
            plain = draw(st.lists(cells, min_size=rows, max_size=rows))
            columns[name] = (
                pa.array(plain, arrow.value_type).dictionary_encode().cast(arrow)
                if (pa.types.is_dictionary(arrow))
                else pa.array(plain, arrow)
            )
        drawn.append(pa.table(columns))
    treatments = []
    for name, kind in kinds.items():
        if draw(st.booleans()):
            treatments.append((name, draw(TREATED[draw(st.sampled_from(ALLOWED[kind]))])))
    names = draw(st.permutations([*kinds]))
    crosses = (tuple(names[: draw(st.integers(2, 3))]),) if len(names) > 2 and draw(st.booleans()) else ()
    return *drawn, TablePlan(treatments=tuple(treatments), crosses=crosses, hash_bits=draw(st.sampled_from((2, 20))))


@settings(max_examples=60)
@given(tables(), st.data())
def test_rows_are_what_the_slow_reader_says(drawn, data):
    known, new, plan = drawn
    labelled = known.append_column("label", pa.array(["a"] * known.num_rows))
    cuts = sorted(data.draw(st.sets(st.integers(1, known.num_rows - 1), max_size=3))) if known.num_rows > 1 else ()
    try:
        encoding = learnt(Frame(labelled, cuts), plan)
    except ValueError as error:
        assert "no column makes a feature" in str(error)
        return
    table = to_json(encoding)
    assert from_json(table) == encoding
    for rows in (known, new):
        plain = rows.to_pylist()
        try:
            found = rows_of(encoding, rows)
        except DataError as error:  # all texts of a column were dates, and one of the new rows says something else
            assert rows is new and "which is no date" in str(error)
            return
        for row, cells in zip(found, plain, strict=True):
            assert row == pytest.approx(features(table, cells), rel=1e-6, abs=1e-300)
            exact = {k: v for k, v in features(table, cells).items() if not isinstance(k, tuple)}
            assert {k: v for k, v in row.items() if not isinstance(k, tuple)} == exact


def test_names_are_of_the_features(names=("x", "x=(missing)", "kind=a", "kind=b", "kind=(other)", "kind=(missing)")):
    encoding = learnt(
        {"x": [1.0, None, 3.0], "kind": ["a", "b", "a"]}, TablePlan(treatments=(("kind", Categorical(min_count=1)),))
    )
    assert encoding.names(range(encoding.n_features)) == list(names)


def test_a_bucket_has_the_names_that_are_hashed_to_it():
    plan = TablePlan(treatments=(("kind", Categorical("hash")),), hash_bits=1)
    encoding = learnt({"kind": ["a", "b", "c", "d", "e", "f", "a"]}, plan)
    assert encoding.n_features == 2
    listed = [name for j in range(2) for name, _ in encoding.bucket(j)]
    assert sorted(listed) == [f"kind={c}" for c in "abcdef"]
    table = pa.table({"kind": [*"abcdef"]})
    for row, value in zip(rows_of(encoding, table), "abcdef", strict=True):
        ((place, sign),) = [(key[1], v) for key, v in row.items()]
        assert (f"kind={value}", int(sign)) in encoding.bucket(place)
    assert encoding.name(0).startswith(encoding.bucket(0)[0][0])


def test_features_stay_where_they_are_when_columns_are_shuffled_or_more():
    columns = {"x": [1.5, None, 2.0], "kind": ["a", "b", "a"], "when": ["2013-01-01", "2014-02-03", None]}
    encoding = learnt(columns)
    table = pa.table(columns)
    other = pa.table({"new": [1, 2, 3], **{name: columns[name] for name in ("when", "x", "kind")}})
    assert rows_of(encoding, table) == rows_of(encoding, other)


def test_digests_tell_encodings_apart():
    one = learnt({"x": [1.0, 2.0, 4.0]})
    assert one.digest == learnt({"x": [1.0, 2.0, 4.0]}).digest
    assert one.digest != learnt({"x": [1.0, 2.0, 5.0]}).digest
    assert isinstance(from_json(to_json(one)), Encoding)
    assert from_json(to_json(one)).digest == one.digest
