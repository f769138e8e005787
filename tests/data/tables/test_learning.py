"""What is learnt of columns, beside scikit-learn's scalers, encoders and hashers; and what each column is taken for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from pipeline.data.reading.gaps import NOTHING
from pipeline.data.tables import learn as learning
from pipeline.data.tables import survey, tally
from pipeline.data.tables.decide import decide
from pipeline.data.tables.features import Category, Date, Hashed, Number
from pipeline.data.tables.plan import Categorical, Dates, Numeric, TablePlan, Text
from pipeline.data.tables.survey import Question, look
from pipeline.data.tables.words import Words
from pipeline.errors import DataError
from tests.data.tables.frames import ORIGIN, dense, frame, learnt

WORDS = ("one", "two", "three words here", "", "One TWO", "été", "x", "a b c", "two")


def asked(name, how, **more):
    return TablePlan(treatments=((name, how),), **more)


def cut(n, k):
    return [n * i // k for i in range(1, k)]


@given(
    st.lists(st.floats(-1e100, 1e100).filter(lambda v: not 0 < abs(v) < 1e-9), min_size=2, max_size=40),
    st.integers(1, 5),
)
def test_means_and_scales_are_those_of_the_standard_scaler(numbers, batches):
    x = np.array(numbers)
    cuts = cut(len(numbers), min(batches, len(numbers)))
    (role,) = learnt({"x": x}, asked("x", Numeric("standard")), cuts=cuts).roles
    theirs = StandardScaler().fit(x[:, None])
    spread = np.abs(x).max() or 1.0
    assert role.mean == pytest.approx(theirs.mean_[0], rel=1e-11, abs=1e-11 * spread)
    if theirs.scale_[0] > 1e-6 * spread:  # below that the variance is mostly rounding
        assert role.scale == pytest.approx(theirs.scale_[0], rel=1e-9)
    (role,) = learnt({"x": x}, asked("x", Numeric("maxabs")), cuts=cuts).roles
    assert role.scale == MaxAbsScaler().fit(x[:, None]).scale_[0]


@pytest.mark.parametrize("value", [0.1, 1e15 / 3, -7.0, 0.0])
def test_a_number_that_is_the_same_in_every_row_but_gaps_is_zero(value):
    table = {"x": pa.array([value] * 1000 + [None]), "y": pa.array(np.arange(1001.0))}
    encoding = learnt(table, cuts=cut(1001, 7))
    found = dense(encoding, pa.table(table))
    assert not found[:, 0].any()
    assert found[:, 1].tolist() == [0.0] * 1000 + [1.0]


@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=60), st.integers(1, 6))
def test_values_are_those_of_the_one_hot_encoder(cells, least):
    plan = asked("c", Categorical("onehot", least))
    encoding = learnt({"c": cells}, plan, cuts=cut(len(cells), min(3, len(cells))))
    theirs = OneHotEncoder(min_frequency=least, handle_unknown="infrequent_if_exist", sparse_output=False)
    theirs.fit(np.array(cells)[:, None])
    rare = theirs.infrequent_categories_[0]
    often = [value for value in theirs.categories_[0] if rare is None or value not in rare]
    (role,) = encoding.roles
    assert list(role.values) == often
    found = dense(encoding, pa.table({"c": cells}))
    assert np.array_equal(found[:, : len(often)], theirs.transform(np.array(cells)[:, None])[:, : len(often)])
    assert np.array_equal(found[:, len(often)] == 1, [rare is not None and cell in rare for cell in cells])


def test_buckets_and_signs_are_those_of_the_feature_hasher():
    cells = [f"value {k % 700}" for k in range(1000)]
    encoding = learnt({"c": cells}, asked("c", Categorical("hash"), hash_bits=8))
    theirs = FeatureHasher(256, input_type="string").transform([[f"c={cell}"] for cell in cells])
    assert np.array_equal(dense(encoding, pa.table({"c": cells})), theirs.toarray())


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
def test_words_are_those_of_the_hashing_vectorizer(ngrams):
    encoding = learnt({"c": list(WORDS)}, asked("c", Text(ngrams), hash_bits=8))
    plain = HashingVectorizer(ngram_range=ngrams).build_analyzer()
    theirs = HashingVectorizer(n_features=256, analyzer=lambda text: [f"c:{word}" for word in plain(text)])
    wanted = theirs.transform(WORDS).toarray().astype(np.float32)
    assert np.array_equal(dense(encoding, pa.table({"c": list(WORDS)})), wanted)


@pytest.mark.parametrize("workers", [2, 5])
def test_any_number_of_workers_learns_the_same_bits(workers):
    rng = np.random.default_rng(0)
    table = {"x": rng.random(5000) * 1e3, "c": [f"v{k % 40}" for k in range(5000)]}
    cuts = cut(5000, 37)
    assert learnt(table, workers=workers, cuts=cuts).digest == learnt(table, workers=1, cuts=cuts).digest


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("batches", [2, 3, 37, 500])
def test_any_batches_learn_the_same_bits(size, batches, monkeypatch):
    monkeypatch.setattr(survey, "BLOCK_NUMBERS", size)
    rng = np.random.default_rng(1)
    x = pa.array(rng.random(1000) * 1e3, mask=rng.random(1000) < 0.2)
    assert learnt({"x": x}, cuts=cut(1000, batches)).digest == learnt({"x": x}).digest


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_parts_that_are_merged_learn_the_same_bits(parts):
    """As partitions of a Dask frame are; the mean is 0 but for rounding, and the last digits of that mean nothing."""
    rng = np.random.default_rng(2)
    half = rng.random(500) * 0.3
    table = frame({"x": rng.permutation(np.concatenate([half, -half])), "c": ["1,5", "inf"] * 500}).table
    wanted = {
        ("x",): Question(("x",), "number", numbers=True),
        ("c",): Question(("c",), "untyped", numbers=True, values=True),
    }
    whole = learning.Survey(wanted)
    whole.add(look(table, wanted, ORIGIN))
    merged = learning.Survey(wanted)
    for first, end in pairwise([0, *cut(1000, parts), 1000]):
        part = learning.Survey(wanted)
        part.add(look(table.slice(first, end - first), wanted, ORIGIN))
        merged.merge(part.found)
    kinds = {"x": "number", "c": "untyped"}
    plan = TablePlan(label="label", treatments=(("c", Categorical("hash")),))
    one, other = (decide(plan, kinds, survey.found, "rows") for survey in (whole, merged))
    assert one.digest == other.digest
    assert (whole.found[("c",)].comma, merged.found[("c",)].comma) == ("1,5", "1,5")


ROLES = {
    "numbers": (["1", "2.5", "-3e2", "+4", ".5", ""], Number),
    "numbers with blanks": ([" 1", "2\t", " ", "NA", "-nan", "3"], Number),
    "text with a number": (["1", "2", "x", "x", "x", "x"], Category),
    "text with inf": (["inf", "x", "Infinity", "x", "x", "x"], Category),
    "not ascii digits": (["\u0663", "1", "1", "1", "1", "2"], Category),
    "no-break blanks": (["1\u00a0", "2", "2", "2", "2", "2"], Category),
    "days": (["2013-01-01", "1999-12-31", "", "2020-02-29", "2013-01-01", "2013-01-02"], Date),
    "a day that is none": (["2013-02-30", "1999-12-31", "", "2020-02-29", "2013-01-01", "x"], Category),
    "long": (["w " * 150, "short", "", "x", "y", "z"], Words),
    "truth": (["True", "FALSE", "true", "", "false", "false"], Category),
}


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 3, 4, 5)])
def test_what_an_untyped_column_is_taken_for(name, cuts):
    cells, role = ROLES[name]
    columns = {"c": pa.array([cell or None for cell in cells]), "other": ["1", "2", "3", "4", "5", "6"]}
    encoding = learnt(columns, untyped=frozenset(columns), cuts=cuts)
    assert isinstance(encoding.roles[0], role)


def test_hour_is_a_part_only_where_there_are_times():
    columns = {"day": ["2013-01-01", "2013-01-02"], "moment": ["2013-01-01T10:00", "2013-01-02"]}
    day, moment = learnt(columns).roles
    assert day.parts == ("weekday", "month")
    assert moment.parts == ("hour", "weekday", "month")


LEFT_OUT = {
    "the same in every row": pa.array(["x"] * 30),
    "empty": pa.array([None, "NA", ""] * 10),
    "an id: different in every row": pa.array([f"r{k}" for k in range(30)]),
    "neither number, text nor date": pa.array([[1]] * 30),
}


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_what_is_left_out(reason):
    encoding = learnt({"x": np.arange(30.0) ** 2, "c": LEFT_OUT[reason]})
    assert [(each.column, each.reason) for each in encoding.left_out] == [("c", reason)]
    assert encoding.ids == (("c",) if "id" in reason else ())
    assert encoding.inputs == ("x",)


def test_numbers_are_an_id_only_if_they_are_whole_and_called_one():
    whole, parts = np.arange(30) * 7, np.arange(30) * 0.7
    columns = {"user_id": whole, "price_index": parts, "whole": whole, "rapid": whole, "key": whole.astype(float)}
    encoding = learnt(columns)
    assert encoding.ids == ("user_id", "key")
    assert encoding.inputs == ("price_index", "whole", "rapid")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(12, 3)])
def test_codes_that_stand_for_numbers_are_numbers(kind):
    plain = pa.array([1, 2, None, 4, 1], kind)
    coded = learnt({"c": plain.dictionary_encode()})
    assert coded.digest == learnt({"c": plain}).digest
    assert np.array_equal(
        dense(coded, pa.table({"c": plain.dictionary_encode()})), dense(coded, pa.table({"c": plain}))
    )


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms"), pa.date32(), pa.date64()])
def test_moments_beyond_all_calendars_are_an_error(kind):
    wide = 2**62 if kind != pa.date32() else 2**31 - 1
    with pytest.raises(DataError, match=r"column 'when' cannot be read .*out of bounds"):
        learnt({"when": pa.array([0, wide], pa.int64() if kind != pa.date32() else pa.int32()).cast(kind, safe=False)})


def test_infinite_numbers_are_an_error_where_they_are_numbers():
    with pytest.raises(DataError, match="row 3: column 'x' is infinite here"):
        learnt({"x": [1.0, 2.0, float("inf")]})
    with pytest.raises(DataError, match="row 2: column 'x' is infinite here"):
        learnt({"x": ["1", "1e999", "3"]}, untyped=frozenset(["x"]))


def test_numbers_too_large_to_average_are_an_error():
    with pytest.raises(DataError, match=r"column 'x' has numbers up to 1.7e[+]308, too large to average"):
        learnt({"x": [1.7e308, -1.7e308, 1.7e308]})


@pytest.mark.parametrize("scale", ["maxabs", "none"])
def test_numbers_whose_squares_are_too_large_can_be_scaled_otherwise(scale):
    (role,) = learnt({"x": [1e200, None, -2e200, 4e200]}, asked("x", Numeric(scale))).roles
    assert role.gap == pytest.approx(1e200) and role.scale == (4e200 if scale == "maxabs" else 1.0)


@pytest.mark.parametrize("cells", [["1,5", "2", "3,25"], ["1,234", "1.234,5"], ["7", "8", "-1,5"]])
@pytest.mark.parametrize("cuts", [(), (1,)])
def test_numbers_with_a_comma_are_named(cells, cuts):
    columns = {"c": cells, "x": np.arange(float(len(cells)))}
    with pytest.raises(DataError, match=r"column 'c' has numbers with a comma, such as -?1,"):
        learnt(columns, untyped=frozenset(["c"]), cuts=cuts)
    encoding = learnt(columns, asked("c", Categorical(min_count=1)), untyped=frozenset(["c"]), cuts=cuts)
    assert isinstance(encoding.roles[0], Category)
    with pytest.raises(DataError, match="'c' is not all numbers"):
        learnt(columns, asked("c", Numeric()), untyped=frozenset(["c"]), cuts=cuts)


@pytest.mark.parametrize("cells", [["1,5", "x"], ["1,5", "2,"], ["a,b", "c"]])
def test_other_text_with_commas_is_text(cells):
    encoding = learnt({"c": cells, "x": [1.0, 2.0]}, untyped=frozenset(["c"]), cuts=(1,))
    assert isinstance(encoding.roles[0], Category)


def test_a_column_called_as_a_cross_is_another():
    columns = {"a": ["1", "2"] * 10, "b": ["3", "3", "4", "4"] * 5, "a & b": ["x", "y"] * 10}
    roles = learnt(columns, TablePlan(crosses=(("a", "b"),))).roles
    assert [role.columns for role in roles] == [("a",), ("b",), ("a & b",), ("a", "b")]
    assert roles[2].values == ("x", "y")
    assert len(roles[3].values) == 4


def test_values_are_hashed_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(tally, "MOST_VALUES", 10)
    cells = [f"v{k % 30}" for k in range(300)]
    encoding = learnt({"c": cells}, cuts=cut(300, 20))
    assert isinstance(encoding.roles[0], Hashed)
    assert 0 < len(encoding.frequent) <= 10
    with pytest.raises(DataError, match="column 'c' has too many values"):
        learnt({"c": cells}, asked("c", Categorical("onehot")), cuts=cut(300, 20))
    numbers = learnt({"c": np.arange(300) % 30}, asked("c", Categorical()), cuts=cut(300, 20))
    assert isinstance(numbers.roles[0], Hashed)


def test_long_values_are_hashed_or_refused():
    cells = ["a" * 201, "b"] * 10
    assert isinstance(learnt({"c": cells}, asked("c", Categorical())).roles[0], Hashed)
    with pytest.raises(DataError, match="values of more than 200 characters"):
        learnt({"c": cells}, asked("c", Categorical("onehot")))


@pytest.mark.timeout(20)
def test_many_columns_of_many_values_forget_until_they_fit(monkeypatch):
    monkeypatch.setattr(learning, "MOST_TOGETHER", 100)
    columns = {f"c{k}": [f"{k} {i % 20}" for i in range(200)] for k in range(9)}
    encoding = learnt(columns, cuts=cut(200, 5))
    kinds = [type(role) for role in encoding.roles]
    assert Hashed in kinds
    assert Category in kinds


def test_dates_asked_of_a_column_that_is_none():
    with pytest.raises(DataError, match="column 'c' is not all dates"):
        learnt({"c": ["2013-01-01", "x"]}, asked("c", Dates()))


def test_columns_that_are_not_there_are_named():
    with pytest.raises(DataError, match="auto names columns that are not there: z, y; there are x"):
        learnt({"x": [1.0, 2.0]}, TablePlan(drop=("y",), ids=("z",)))


def test_files_whose_columns_differ_are_named():
    one, other = frame({"x": [1.0], "y": [1.0]}), frame({"x": [1.0]}, path="other")
    with pytest.raises(DataError, match="other: column 'y' is not in all files"):
        learning.learn([one, other], TablePlan(), 1, lambda event: None)
    text = frame({"x": [1.0], "y": ["a"]}, path="other")
    with pytest.raises(DataError, match="other: column 'y' is string here, and number in rows"):
        learning.learn([one, text], TablePlan(), 1, lambda event: None)


def test_a_table_is_gone_through_once():
    made = frame({"x": [1.0, 2.0]})
    learnt(made)
    assert made.opened == 1


def test_gaps_are_what_arrow_takes_for_them():
    import pyarrow.csv as pacsv  # noqa: PLC0415

    assert set(NOTHING) == {*pacsv.ConvertOptions().null_values, " "}
