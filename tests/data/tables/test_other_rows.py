"""Rows that differ from those that were learnt from: a rule or one line each, never a shift, never a traceback."""

from __future__ import annotations

import shutil

import pyarrow.parquet as pq
import pytest

from tests.data.tables.home import changed, table, without, write
from tests.trained import command

ROWS = table()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run trained on a CSV file, and a data set of the same rows."""
    folder = tmp_path_factory.mktemp("table")
    write(folder / "rows.csv", ROWS)
    return folder


@pytest.fixture(scope="module")
def run(home):
    from pipeline.cli import main  # noqa: PLC0415

    for words in (["ingest", "rows.csv", "--out", "data"], ["train", "data", "--c", "1", "--out", "run"]):
        full = [str(home / word) if word in ("rows.csv", "data", "run") else word for word in words]
        with pytest.raises(SystemExit) as stop:
            main([*full, "--quiet"])
        assert not stop.value.code
    return home / "run"


def scores(capsys, run, path, *more):
    """Return what is predicted, and what was said."""
    out = path.parent / f"{path.name}.out.parquet"
    code, said, err = command(capsys, "predict", run, path, "--out", out, *more)
    assert "Traceback" not in err
    assert code == 0, err
    return pq.read_table(out).column("score").to_pylist(), said + err


def refused(capsys, *words):
    code, _, err = command(capsys, *words)
    lines = [line for line in err.splitlines() if line.startswith("svmsieve")]
    assert code in (1, 2)
    assert "Traceback" not in err
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def usual(capsys, run, tmp_path):
    return scores(capsys, run, write(tmp_path / "usual.csv", ROWS))[0]


def test_predictions_are_the_same_to_the_bit_in_any_order_and_format(capsys, run, tmp_path, usual):
    names = ["flag", "when", "x", "carrier"]
    for name, columns, separator in (
        ("a.csv", names, ","),
        ("b.csv", names[::-1], ";"),
        ("c.parquet", [*names, "label"], ","),
        ("d.parquet", names[::-1], ","),
    ):
        assert scores(capsys, run, write(tmp_path / name, ROWS, columns, separator))[0] == usual


def test_a_row_is_scored_alone_as_among_others(capsys, run, tmp_path, usual):
    assert scores(capsys, run, write(tmp_path / "one.csv", ROWS[7:8]))[0] == usual[7:8]


def test_more_columns_are_named_and_ignored(capsys, run, tmp_path, usual):
    more = changed(ROWS, extra=1, other="x")
    for path in (write(tmp_path / "t.csv", more), write(tmp_path / "t.parquet", more)):
        found, said = scores(capsys, run, path)
        assert found == usual
        assert "extra, other" in said


def test_missing_columns_are_all_named(capsys, run, tmp_path):
    path = write(tmp_path / "t.csv", without(ROWS, "x", "when"))
    said = refused(capsys, "predict", run, path, "--out", tmp_path / "out.parquet")
    assert "no columns x, when, which the model needs" in said


def test_new_values_and_gaps_are_the_features_they_have(capsys, run, tmp_path):
    new = scores(capsys, run, write(tmp_path / "new.csv", changed(ROWS, carrier="ZZ")))[0]
    rare = scores(capsys, run, write(tmp_path / "rare.csv", changed(ROWS, carrier="only one")))[0]
    gaps = scores(capsys, run, write(tmp_path / "gaps.csv", changed(ROWS, carrier=None)))[0]
    assert new == rare
    assert new != gaps


def test_values_that_most_rows_have_and_nobody_had_are_mentioned(capsys, run, tmp_path):
    odd = "column 'carrier': {} of {} rows have a value that was rare in training, or not there"
    new = ["ZZ" if k % 3 else "UA" for k in range(len(ROWS))]
    told = scores(capsys, run, write(tmp_path / "new.csv", changed(ROWS, carrier=new)))[1]
    assert odd.format(new.count("ZZ"), len(ROWS)) in told
    assert "or not there" not in scores(capsys, run, write(tmp_path / "usual.csv", ROWS))[1]
    path = write(tmp_path / "more.csv", changed(ROWS, carrier="ZZ"))
    shutil.copytree(run.parent / "data", tmp_path / "data")
    err = command(capsys, "ingest", path, "--append", "--out", tmp_path / "data")[2]
    assert odd.format(len(ROWS), len(ROWS)) in err


def test_weights_come_and_go_not_in_silence(capsys, run, tmp_path):
    shutil.copytree(run.parent / "data", tmp_path / "data")
    gained = write(tmp_path / "gained.csv", changed(ROWS, weight=3.0))
    err = command(capsys, "ingest", gained, "--append", "--out", tmp_path / "data")[2]
    assert "columns that were not there before are ignored: weight" in err
    assert command(capsys, "ingest", gained, "--out", tmp_path / "weighted", "-q")[0] == 0
    lost = write(tmp_path / "lost.csv", ROWS)
    assert "no column 'weight'" in refused(capsys, "ingest", lost, "--append", "--out", tmp_path / "weighted")


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("x", "abc", "line 2: column 'x': invalid value 'abc'"),
        ("x", "inf", "line 2: column 'x' is infinite here"),
        ("x", "1,5", "line 2: column 'x': invalid value '1,5'"),
        ("x", "1e999", "line 2: column 'x' is infinite here"),
        ("when", "soon", "line 2: column 'when' (string) says 'soon', which is no date"),
        ("when", "2013-02-30", "line 2: column 'when' (string) says '2013-02-30', which is no date"),
        ("when", "17", "line 2: column 'when' (string) says '17', which is no date"),
    ],
)
def test_cells_that_are_not_what_their_column_was(capsys, run, tmp_path, column, cells, said):
    path = write(tmp_path / "t.csv", changed(ROWS, **{column: cells}))
    assert said in refused(capsys, "predict", run, path, "--out", tmp_path / "out.parquet")
    data = run.parent / "data"
    assert said in refused(capsys, "ingest", path, "--out", data, "--append")


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("x", "abc", "row 1: column 'x' (string) says 'abc', which is no number"),
        ("x", [[1]] * 60, "column"),
        ("when", 17, "row 1: column 'when' (int64) says '17', which is no date"),
    ],
)
def test_types_that_changed(capsys, run, tmp_path, column, cells, said):
    path = write(tmp_path / "t.parquet", changed(ROWS, **{column: cells}))
    assert said in refused(capsys, "predict", run, path, "--out", tmp_path / "out.parquet")


def test_text_that_is_numbers_and_values_that_are_no_text(capsys, run, tmp_path, usual):
    texts = [None if row["x"] is None else repr(row["x"]) for row in ROWS]
    assert scores(capsys, run, write(tmp_path / "a.parquet", changed(ROWS, x=texts)))[0] == usual
    assert (
        scores(capsys, run, write(tmp_path / "b.parquet", changed(ROWS, flag=[str(r["flag"]) for r in ROWS])))[0]
        == usual
    )
    numbers = scores(capsys, run, write(tmp_path / "c.parquet", changed(ROWS, carrier=17)))[0]
    assert numbers == scores(capsys, run, write(tmp_path / "d.parquet", changed(ROWS, carrier="ZZ")))[0]


def test_gaps_where_there_were_none(capsys, run, tmp_path):
    rows = changed(ROWS, when=[None] * 60, flag=None)
    path = write(tmp_path / "t.csv", rows)
    found, said = scores(capsys, run, path)
    assert len(found) == 60
    for name in ("when", "flag"):
        assert f"column '{name}' is empty in all 60 rows, and was not in training" in said
    assert "'x'" not in said
    assert "is empty" not in scores(capsys, run, write(tmp_path / "few.csv", rows[:10]))[1], "of so few that is usual"


def test_numbers_that_are_all_gone_where_gaps_are_the_mean(capsys, tmp_path):
    whole = [row for row in ROWS if row["x"] is not None]
    train, gone = write(tmp_path / "t.csv", whole), write(tmp_path / "gone.csv", changed(whole, x=None))
    assert command(capsys, "train", train, "--c", "1", "--out", tmp_path / "run")[0] == 0
    assert "as empty cells do" not in scores(capsys, tmp_path / "run", train)[1]
    said = f"column 'x': all {len(whole)} rows count as its mean, as empty cells do"
    assert said in scores(capsys, tmp_path / "run", gone)[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("x,carrier,when,flag\n", "no rows in the file"),
        ("x,x,carrier,when,flag\n1,1,UA,2013-01-01,true\n", "column 'x' stands twice in the header"),
        ("x,carrier,when,flag\n1,UA,2013-01-01\n", "line 2: Expected 4 columns, got 3"),
        ("x,carrier,when,flag\nx,carrier,when,flag\n", "line 2: column 'x': invalid value 'x'"),
    ],
)
def test_files_without_rows_or_with_odd_ones(capsys, run, tmp_path, text, said):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert said in refused(capsys, "predict", run, path, "--out", tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("label,x\n", "no rows in the file"),
        ("label,x\na,1\n", "no column makes a feature (x: the same in every row)"),
        ("label,x,x\na,1,1\nb,2,2\n", "column 'x' stands twice in the header"),
        ("label,x\na,1\n,2\n", "line 3: the label is missing"),
        ("label,x\na,1\nb,1\n", "no column makes a feature (x: the same in every row)"),
        ("label\na\nb\n", "no feature columns"),
        ("x,y\n1,2\n", "no column 'label' for the labels"),
        ("label,,x\na,1,2\nb,1,3\n", "column 2 has no name"),
        ("label,x\na,1\n\nb,2\nlabel,x\na,3\n", "line 5: the header stands here again; remove the line"),
        ("label,x\na,1\nb,2\n\ufefflabel,x\na,3\n", "line 4: the header stands here again; remove the line"),
    ],
)
def test_tables_that_nothing_can_be_learnt_from(capsys, tmp_path, text, said):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert said in refused(capsys, "ingest", path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


NAMES = (
    "role",
    "number",
    "a b",
    "it's",
    '"q"',
    "50%",
    "{x}",
    "a\nb",
    "a\x1b[1mb",
    "a=b",
    "a & b",
    "(missing)",
    "é",
    "columns",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_are_only_names(capsys, tmp_path, name):
    rows = [{"label": row["label"], name: row["x"], f"{name}2": row["carrier"]} for row in ROWS]
    train, shuffled = write(tmp_path / "t.parquet", rows), write(tmp_path / "s.parquet", rows, [*rows[0]][::-1])
    code, _, err = command(capsys, "train", train, "--c", "1", "--out", tmp_path / "run")
    assert (code, "Traceback" in err) == (0, False)
    assert all(line.isprintable() for line in err.split("\n"))
    assert len([line for line in err.splitlines() if line.endswith((" 1", " 2", " 4"))]) == 2
    there = scores(capsys, tmp_path / "run", train)[0]
    assert there == scores(capsys, tmp_path / "run", shuffled)[0]
    said = refused(
        capsys, "predict", tmp_path / "run", write(tmp_path / "w.parquet", without(rows, name)), "--out", "x.csv"
    )
    assert "which the model needs" in said


def test_a_label_column_that_features_are_made_of(capsys, run, tmp_path):
    path = write(tmp_path / "t.csv", ROWS)
    for option in ("--label-column", "--weight-column", "--group"):
        said = refused(capsys, "ingest", path, "--out", tmp_path / "out", "--columns", run, option, "carrier")
        assert "column 'carrier' is one that features are made of" in said
    said = refused(capsys, "ingest", path, "--out", run.parent / "data", "--append", "--ignore", "carrier")
    assert "column carrier is one that the model needs" in said


def test_numbers_as_they_are_are_scored_as_they_are(capsys, tmp_path):
    rows = [{"label": k % 2, "a": k * 0.5, "b": (k * 7) % 5} for k in range(20)]
    path = write(tmp_path / "t.csv", rows)
    code, _, err = command(capsys, "train", path, "--columns", "none", "--c", "1", "--out", tmp_path / "run")
    assert code == 0, err
    shuffled = write(tmp_path / "s.csv", rows, ["b", "a"])
    assert scores(capsys, tmp_path / "run", path)[0] == scores(capsys, tmp_path / "run", shuffled)[0]


def test_options_about_indices_do_not_apply_to_what_is_scored(capsys, run, tmp_path):
    path = write(tmp_path / "t.csv", ROWS)
    for option in ("--index-base=1", "--duplicates=sum"):
        said = refused(capsys, "predict", run, path, "--out", tmp_path / "o.parquet", option)
        assert f"leave {option.partition('=')[0]} out" in said


def test_a_run_says_itself_what_becomes_of_columns(capsys, run, tmp_path):
    path = write(tmp_path / "t.csv", ROWS)
    said = refused(capsys, "predict", run, path, "--out", tmp_path / "o.parquet", "--columns", "none")
    assert "--columns is settled by the run; leave it out" in said
