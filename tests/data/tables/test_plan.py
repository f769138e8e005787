"""``--columns FILE.yaml``: every key counts, and whatever is wrong is one line that says where."""

from __future__ import annotations

import pytest

from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.data.shards.manifest import read_manifest
from pipeline.data.tables.asked import with_columns
from pipeline.data.tables.features import Category, Date, Hashed, Number
from pipeline.data.tables.plan import Categorical, Dates, Numeric, TablePlan, Text, read_plan
from pipeline.data.tables.report import as_yaml, report, report_lines
from pipeline.data.tables.stored import to_json
from pipeline.data.tables.words import Words
from pipeline.errors import DataError, SpecError
from tests.data.tables.home import table, write

ALL = """
label: delayed
weight: w
group: g
id: [flight]
drop: [tail, gate]
numeric:
  - {columns: [distance], scale: maxabs, missing: zero}
  - {columns: [delay, x], scale: none, missing: indicator}
categorical: {columns: [carrier, origin], encode: onehot, min_count: 2}
text: {columns: title, ngrams: [1, 2], encode: hash}
dates: {columns: [time], parts: [hour, weekday, hour]}
cross: [[carrier, origin], [carrier, title]]
others: drop
hash_bits: 12
bias: 0.5
"""


def plan(tmp_path, text):
    path = tmp_path / "columns.yaml"
    path.write_text(text)
    return read_plan(path)


def test_every_key(tmp_path):
    assert plan(tmp_path, ALL) == TablePlan(
        label="delayed",
        weight="w",
        group="g",
        ids=("flight",),
        drop=("tail", "gate"),
        treatments=(
            ("distance", Numeric("maxabs", "zero")),
            ("delay", Numeric("none", "indicator")),
            ("x", Numeric("none", "indicator")),
            ("carrier", Categorical("onehot", 2)),
            ("origin", Categorical("onehot", 2)),
            ("title", Text((1, 2))),
            ("time", Dates(("hour", "weekday"))),
        ),
        crosses=(("carrier", "origin"), ("carrier", "title")),
        others="drop",
        hash_bits=12,
        bias=0.5,
        source=str(tmp_path / "columns.yaml"),
    )


WRONG = {
    "labl: x": "line 1: unknown name 'labl'; did you mean label?",
    "numeric: {columns: [a], scal: standard}": "line 1: numeric: unknown name 'scal'; did you mean scale?",
    "bias: 1\nnumeric: {columns: [a], scale: standart}": "line 2: numeric: scale: 'standart' is not one of",
    "numeric: {columns: [a], missing: median}": "missing: 'median' is not one of mean, zero, indicator",
    "numeric: {scale: none}": "line 1: numeric: columns is missing",
    "numeric: [a, b]": "numeric must be a mapping",
    "numeric: null": "numeric must be a mapping",
    "numeric: {columns: []}": "columns: the list is empty",
    "numeric: {columns: [1]}": "columns: 1 is not text",
    "categorical: {columns: [a], encode: target}": "encode: 'target' is not one of onehot, hash",
    "categorical: {columns: [a], min_count: 0}": "min_count: 0 is not a whole number from 1 on",
    "text: {columns: [a], ngrams: [2, 1]}": "from 2 to 1 words there are none",
    "text: {columns: [a], ngrams: 2}": "is not two numbers such as [1, 2]",
    "text: {columns: [a], ngrams: [1, 99]}": "ngrams: 99 is above 5",
    "text: {columns: [a], encode: onehot}": "encode: 'onehot' is not one of hash",
    "dates: {columns: [a], parts: [century]}": "parts: 'century' is not one of minute",
    "cross: [a, b]": "cross: is not a list of lists of columns",
    "cross: [[a]]": "cross: a: a cross takes two columns or more",
    "cross: [[a, a]]": "a cross takes two columns or more, each once",
    "hash_bits: 29": "hash_bits: 29 is above 28",
    "hash_bits: 0": "hash_bits: 0 is not a whole number from 1 on",
    "bias: .inf": "bias: inf is not a finite number",
    "bias: true": "bias: True is not a number",
    "others: keep": "others: 'keep' is not one of auto, drop",
    "label: [a, b]": "label: ['a', 'b'] is not text",
    "label: a\nlabel: b": "line 2: label stands here twice",
    "label: 17": "label: 17 is not text; put it in quotes",
    "numeric: {columns: [a, b]}\ncategorical: {columns: [b]}": "line 2: categorical: columns: b is named twice",
    "numeric: {columns: [a, a]}": "columns: a is named twice",
    "numeric: {columns: [a]}\ndrop: [a]": "line 2: drop: 'a' is a feature already",
    "numeric: {columns: [a]}\nid: [a]": "line 2: id: 'a' is a feature already",
    "drop: [a, a]": "drop: 'a' is named under drop already",
    "id: [a]\ndrop: [a]": "line 2: drop: 'a' is named under id already",
    "label: a\nweight: a": "line 2: weight: 'a' is named under label already",
    "label: a\ncategorical: {columns: [a]}": "line 1: label: 'a' is a feature already",
    "drop: [a]\ncross: [[a, b]]": "line 2: cross: 'a' is named under drop",
    "label: a\ncross: [[a, b]]": "line 2: cross: 'a' is named under label",
    "": "the file is empty; svmsieve datasets columns DATA prints one",
    "[a, b]": "the file must be a mapping",
    "a: [": "not valid YAML",
    "numeric: &a [*a]": "numeric must be a mapping",
    "numeric: {columns: &a [*a]}": "found unconstructable recursive node",
    "label: !!python/object/apply:os.system [ls]": "could not determine a constructor",
    "drop: ['a\tb']": "holds characters that are not printable",
    "\0": "not valid YAML",
    "x: " + "a" * (1 << 20): "is larger than 1048576 bytes",
}


@pytest.mark.parametrize("text", WRONG, ids=[text[:30] for text in WRONG])
def test_what_is_wrong_is_one_line_with_its_place(tmp_path, text):
    with pytest.raises(SpecError) as raised:
        plan(tmp_path, text)
    said = str(raised.value)
    assert WRONG[text] in said
    assert said.startswith(str(tmp_path / "columns.yaml"))
    assert "\n" not in said


@pytest.mark.parametrize("name", ["nowhere.yaml", "a" * 5000, "a\0b"])
def test_a_file_that_is_not_there(name):
    with pytest.raises((SpecError, DataError), match="cannot be read"):
        reading_spec(columns=name)


def test_a_folder_that_knows_nothing_of_columns(tmp_path):
    with pytest.raises(SpecError, match="is neither a data set nor a run whose table was encoded"):
        reading_spec(columns=str(tmp_path))
    (tmp_path / "run.json").write_text('{"data": {"table": {"roles": 1}, "bias": 1}}')
    with pytest.raises(SpecError, match=r"run.json: cannot be read \(table\."):
        reading_spec(columns=str(tmp_path))


def test_options_beside_a_file_must_say_the_same(tmp_path):
    path = tmp_path / "columns.yaml"
    path.write_text("{label: y, weight: w, group: g}")
    spec = reading_spec(columns=str(path), label_column="y", group="g")
    assert (spec.reading.label_column, spec.reading.weight_column, spec.reading.group_column) == ("y", "w", "g")
    for name, option in (("label_column", "label-column"), ("weight_column", "weight-column"), ("group", "group")):
        with pytest.raises(SpecError, match=f"--{option} z is not what .*columns.yaml says, [ywg]; leave one"):
            reading_spec(columns=str(path), **{name: "z"})


@pytest.mark.parametrize(
    ("asked", "beside", "bias"), [("bias: 3", None, 3), ("bias: 3", 2, 2), ("{}", None, 1), ("{}", 0, 0)]
)
def test_which_bias_counts(tmp_path, asked, beside, bias):
    path = tmp_path / "columns.yaml"
    path.write_text(asked)
    rows = write(tmp_path / "t.csv", table(30))
    assert ingest([str(rows)], tmp_path / "out", reading_spec(columns=str(path), bias=beside)).bias == bias


def test_as_in_a_data_set_is_with_its_bias(tmp_path):
    rows = write(tmp_path / "t.csv", table(30))
    made = ingest([str(rows)], tmp_path / "one", reading_spec(bias=2.5))
    again = ingest([str(rows)], tmp_path / "two", reading_spec(columns=str(tmp_path / "one")))
    assert (again.bias, again.encoding.digest, again.fingerprint) == (2.5, made.encoding.digest, made.fingerprint)
    assert read_manifest(tmp_path / "two").features == made.features
    other = ingest([str(rows)], tmp_path / "three", reading_spec(columns=str(tmp_path / "one"), bias=1.0))
    assert other.bias == 1.0


def test_a_bias_that_is_too_large(tmp_path):
    path = tmp_path / "columns.yaml"
    path.write_text("bias: 1e300")
    with pytest.raises(DataError, match=r"--bias 1e[+]300 is too large"):
        ingest([str(write(tmp_path / "t.csv", table(30)))], tmp_path / "out", reading_spec(columns=str(path)))


def test_columns_beside_rows_that_have_none(tmp_path):
    path, rows = tmp_path / "columns.yaml", tmp_path / "rows.svm"
    path.write_text("drop: [a]")
    rows.write_text("1 1:1\n-1 2:1\n")
    with pytest.raises(DataError, match=r"rows.svm: has no columns with names .*leave --columns out"):
        ingest([str(rows)], tmp_path / "out", reading_spec(columns=str(path)))
    assert ingest([str(rows)], tmp_path / "out", reading_spec()).bias == 0


@pytest.mark.parametrize("features", [3, 1000])
def test_a_number_of_features_that_columns_do_not_make(tmp_path, features):
    rows = str(write(tmp_path / "t.csv", table(30)))
    made = ingest([rows], tmp_path / "out", reading_spec())
    with pytest.raises(
        DataError, match=f"--features {features:,}, but the columns make {made.features - 1}; leave it out"
    ):
        ingest([rows], tmp_path / "other", reading_spec(features=features))
    again = ingest([rows], tmp_path / "other", reading_spec(features=made.features - 1))
    assert again.fingerprint == made.fingerprint
    assert read_manifest(tmp_path / "other").encoding == made.encoding


@pytest.mark.parametrize("name", ["none", "auto"])
def test_words_for_the_usual(name):
    reading, bias = with_columns(reading_spec(columns="none").reading, name, None)
    assert (reading.table is None) == (name == "none")
    assert bias == 0


COLUMNS = """
numeric: {columns: [x], scale: maxabs, missing: zero}
categorical: {columns: [carrier], encode: hash}
dates: {columns: [when], parts: [minute, day]}
text: {columns: [row_id], ngrams: [1, 3]}
cross: [[carrier, flag]]
hash_bits: 9
"""


def test_a_plan_is_followed_and_printed_again(tmp_path):
    path, rows = tmp_path / "columns.yaml", str(write(tmp_path / "t.csv", table(40)))
    path.write_text(COLUMNS)
    made = ingest([rows], tmp_path / "one", reading_spec(columns=str(path)))
    kinds = {role.columns: type(role) for role in made.encoding.roles}
    assert kinds == {
        ("x",): Number,
        ("carrier",): Hashed,
        ("when",): Date,
        ("flag",): Category,
        ("row_id",): Words,
        ("carrier", "flag"): Category,
    }
    printed = tmp_path / "printed.yaml"
    printed.write_text(as_yaml(made.encoding, made.bias))
    again = ingest([rows], tmp_path / "two", reading_spec(columns=str(printed)))
    facts = [to_json(each.encoding) | {"asked": ""} for each in (again, made)]
    assert facts[0] == facts[1]
    assert again.fingerprint == made.fingerprint


def test_the_report_has_every_column(tmp_path):
    made = ingest([str(write(tmp_path / "t.csv", table(40)))], tmp_path / "out", reading_spec())
    lines = report(made.encoding)
    assert {line[0] for line in lines} == {*table(1)[0]}
    said = "\n".join(report_lines(made.encoding))
    for part in ("standardised; gaps: mean, and a feature", "one-hot: 2 values", "an id: different in every row"):
        assert part in said
    assert f"{made.encoding.n_features:,} features" in said
