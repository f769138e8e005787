"""Labels of any kind become -1 and +1, whatever order they come in."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.labels import LabelCoder, LabelMap, RawLabels, label_text
from pipeline.errors import DataError
from pipeline.events import Note
from tests.formats import contents

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

PAIRS = [("-1", "1"), ("0", "1"), ("1", "2"), ("2", "10"), ("-7.5", "-2"), ("ham", "spam"), ("9", "a"), ("B", "a")]


@pytest.mark.parametrize(
    ("text", "spellings"),
    {
        "1": [1, 1.0, True, "1", "+1", "1.0", " 1 ", "1e0", "01", b"1", np.float32(1), np.int8(1), Decimal("1.00")],
        "-1": [-1, "-1", "-1.", "-10e-1"],
        "0": [0, -0.0, "-0", "0.000", False],
        "2.5": [2.5, "2.50", "+2.5"],
        "0.1": [0.1, "0.10", "1e-1"],
        "nan": [float("nan"), "NaN", "-nan", "nan"],
        "inf": [float("inf"), "Infinity", "1e400"],
        "spam": ["spam", " spam\n", b"spam"],
        "1_0": ["1_0"],
        "١": ["١"],
        "0x1": ["0x1"],
        "été": ["été", "été".encode()],
        "": ["", "  ", b""],
    }.items(),
)
def test_every_label_has_one_spelling(text, spellings):
    assert [label_text(spelling) for spelling in spellings] == [text] * len(spellings)


@pytest.mark.attack
def test_labels_that_are_no_text_stay_distinct(tmp_path):
    assert [label_text(label) for label in (b"\xfe", b"\xff", b"a\xff")] == ["\\xfe", "\\xff", "a\\xff"]
    pq.write_table(pa.table({"label": [b"\xfe", b"\xff"], "a": [1.0, 2.0]}), tmp_path / "a.parquet")
    assert open_dataset(tmp_path / "a.parquet").labels.positive == ("\\xff",)
    (tmp_path / "a.svm").write_bytes(b"l\xfe 1:1\nl\xff 1:2\n")
    with pytest.raises(DataError, match="is no label"):
        open_dataset(tmp_path / "a.svm")


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, -1, 1]),
        np.array([1.0, -1.0, 1.0], dtype=np.float32),
        np.array([1, -1, 1], dtype=">i2"),
        np.array(["1", "-1", "+1"]),
        np.array([b"1.0", b"-1", b"1"]),
    ],
)
def test_raw_labels_of_any_array(array):
    raw = RawLabels.of(array)
    assert raw.values == ("-1", "1")
    assert raw.codes.tolist() == [1, 0, 1]
    assert raw.first_missing() is None


def test_raw_labels_leave_out_what_no_row_has():
    raw = RawLabels.coded(np.array([2, 0, 2]), ["a", "unused", "b", "nan"])
    assert raw.values == ("a", "b")
    assert [raw.values[code] for code in raw.codes] == ["b", "a", "b"]


@pytest.mark.parametrize("missing", ["", "nan", "inf", "-inf"])
def test_the_first_row_without_a_label_is_found(missing):
    assert RawLabels.of(np.array(["1", "x", missing, "1", missing])).first_missing() == 2


def signs_of(labels, positive=None, block=1, only_two=True):
    """Number labels in blocks; return what they mean in the end, the map, and how many rows were taken for another."""
    coder, numbers, taken = LabelCoder(positive, only_two=only_two), [], []
    for k in range(0, len(labels), block):
        numbers.append(coder.numbered(RawLabels.of(np.array(labels[k : k + block])), "f"))
        taken += coder.values[numbers[-1]].tolist()
    found = coder.values[np.concatenate(numbers)].tolist()
    return found, coder.finish(), sum(one != other for one, other in zip(found, taken, strict=True))


@given(pair=st.sampled_from(PAIRS), which=st.lists(st.booleans(), min_size=2, max_size=30), block=st.integers(1, 31))
def test_the_larger_of_two_labels_is_positive(pair, which, block):
    if len(set(which)) == 1:
        which[0] = not which[0]
    signs, labels, flipped = signs_of([pair[w] for w in which], block=block)
    assert signs == [1 if w else -1 for w in which]
    assert (labels.negative, labels.positive, labels.one_against_rest) == ((pair[0],), (pair[1],), False)
    assert flipped % block == 0
    assert len(set(which[:flipped])) <= 1, "only rows of the first label can have been wrong"


@pytest.mark.parametrize(
    ("first", "second", "flipped"),
    [
        *[("-1", "1", 0), ("1", "-1", 0), ("0", "1", 0), ("1", "0", 0), ("1", "2", 3), ("2", "1", 0)],
        *[("-2", "-1", 0), ("-1", "-2", 3), ("ham", "spam", 3), ("spam", "ham", 0), ("9", "a", 3), ("a", "9", 0)],
    ],
)
def test_the_provisional_sign_is_wrong_only_where_it_cannot_be_known(first, second, flipped):
    assert signs_of([first] * 3 + [second] * 2)[2] == flipped


@pytest.mark.parametrize("order", list(permutations(["1", "2", "3"])))
def test_one_against_the_rest(order):
    signs, labels, flipped = signs_of([*order, "2.0"], positive="+2")
    assert signs == [1 if label == "2" else -1 for label in [*order, "2"]]
    assert labels == LabelMap(("1", "3"), ("2",), True)
    assert flipped == 0


@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        (["1", "1"], None, "a single class was found: 1; an SVM needs rows of two classes"),
        (["1", "1"], "1", "a single class was found: 1; "),
        (["1", "2"], "3", "no row is labelled 3; found: 1, 2; choose --positive from these"),
        (["10", "9", "b", "a"], None, "f: more than two labels: 9, 10, b; pass --positive LABEL"),
        ([str(k) for k in range(20)], "x", r"found: 0, 1, .*, 11 and 8 more; choose"),
    ],
)
def test_labels_that_cannot_be_mapped(labels, positive, expected):
    with pytest.raises(DataError, match=expected):
        signs_of(labels, positive)


@pytest.mark.attack
@pytest.mark.parametrize("strange", ["nan", "inf", "1e99999", "1e-99999999999999999999"])
def test_labels_of_a_damaged_map_are_listed(strange):
    coder = LabelCoder(fixed=LabelMap(("1", "9007199254740993", "9007199254740992"), (strange,)))
    with pytest.raises(DataError, match=r"label x is new: this data set has .*1, .*9007199254740992, 9007199254740993"):
        coder.admit(("x",), "f")


def test_the_map_survives_json():
    for labels in (LabelMap(("0",), ("1",)), LabelMap(("a", "c"), ("b",), True)):
        assert LabelMap.from_json(labels.to_json()) == labels


@pytest.mark.parametrize(
    ("labels", "positive", "said"),
    [
        (["Yes", "yes", "no"], None, "labels Yes, yes differ only in case, and are classes of their own"),
        (["Yes", "yes"], None, "labels Yes, yes differ only in case"),
        (["Yes", "yes", "no"], "yes", "labels Yes, yes differ only in case"),
        (["Yes", "yes", "no"], "no", ""),
        ([f"{k}.5" for k in range(25)], None, ""),
        ([f"{k}.5" for k in range(26)], None, "26 classes in 50 rows; is the label a measurement, or an id?"),
        (["a", "b", "c"], None, ""),
    ],
)
def test_labels_that_may_not_be_what_they_seem_get_a_line(tmp_path, labels, positive, said):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{labels[k % len(labels)]} 1:{k + 1}\n" for k in range(50)))
    told = []
    ingest([str(path)], tmp_path / "out", IngestSpec(positive=positive), told.append)
    notes = [event.text for event in told if isinstance(event, Note)]
    assert len(notes) == (1 if said else 0)
    assert all(said in note for note in notes)


@pytest.mark.parametrize("positive", [None, "2"])
def test_a_fixed_map_admits_no_new_label(positive):
    coder = LabelCoder(positive, LabelMap(("1",), ("2",)))
    assert coder.encode(RawLabels.of(np.array([2, 2])), "f").tolist() == [1, 1]
    with pytest.raises(DataError, match="f: label 3 is new: this data set has 1, 2; correct"):
        coder.encode(RawLabels.of(np.array([2, 3])), "f")


def test_a_fixed_map_of_one_against_the_rest_admits_more_of_the_rest():
    coder = LabelCoder(fixed=LabelMap(("1",), ("2",), True))
    assert coder.encode(RawLabels.of(np.array([3, 2, 1])), "f").tolist() == [-1, 1, -1]
    assert coder.finish() == LabelMap(("1", "3"), ("2",), True)


# --- through ingest: files sorted by class, where the second label turns up late ---


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("larger_first", [True, False])
@pytest.mark.parametrize("rows_per_shard", [1, 4, 7, 100])
def test_files_sorted_by_class(tmp_path, pair, larger_first, rows_per_shard):
    runs = [(pair[1], 9), (pair[0], 5)] if larger_first else [(pair[0], 9), (pair[1], 5)]
    for k, (label, count) in enumerate(runs):
        (tmp_path / f"{k}.svm").write_text(f"{label} 1:1\n" * count)
    spec = IngestSpec(rows_per_shard=rows_per_shard, bias=1.0)
    manifest = ingest([str(tmp_path / "0.svm"), str(tmp_path / "1.svm")], tmp_path / "out", spec)
    data = open_shards(tmp_path / "out", full_check=True)
    assert contents(data).labels.tolist() == [1 if label == pair[1] else -1 for label, n in runs for _ in range(n)]
    assert manifest.labels == LabelMap((pair[0],), (pair[1],))
    assert manifest.positives == (9 if larger_first else 5)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("larger_first", [True, False])
def test_parquet_sorted_by_class_in_place_and_ingested(tmp_path, pair, larger_first):
    order = pair[::-1] if larger_first else pair
    labels = [order[0]] * 6 + [order[1]] * 3
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": labels, "x": np.arange(1.0, 10.0)}), path, row_group_size=2)
    ingest([str(path)], tmp_path / "out", IngestSpec(rows_per_shard=4))
    wanted = [1 if label == pair[1] else -1 for label in labels]
    for data in (open_dataset(path), open_shards(tmp_path / "out")):
        assert contents(data).labels.tolist() == wanted
        assert data.labels == LabelMap((pair[0],), (pair[1],))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False, True]),
        pa.array([1, 0, 1], pa.uint8()),
        pa.array([1.0, 0.0, 1.0]),
        pa.array(["1", "0", "+1"]),
        pa.array(["1", "0", "1"]).dictionary_encode(),
        pa.array([Decimal("1.0"), Decimal("0.0"), Decimal("1.0")]),
        pa.array([b"1", b"0", b"1"]),
        pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array(["0", "1", "never used"])),
    ],
    ids=lambda column: str(column.type),
)
def test_label_columns_of_every_type(tmp_path, column):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": column, "x": [1.0, 2.0, 3.0]}), path)
    ingest([str(path)], tmp_path / "out", IngestSpec())
    for data in (open_dataset(path), open_shards(tmp_path / "out")):
        assert contents(data).labels.tolist() == [1, -1, 1]
        assert data.labels == LabelMap(("0",), ("1",))
