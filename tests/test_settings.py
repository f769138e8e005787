"""Settings at their limits and beyond: one line each, before any work; equal settings are equal, however written."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pipeline.cli.grid import read_grid
from pipeline.errors import SpecError
from pipeline.maths.eps_grid import log_grid
from pipeline.sizes import bytes_of
from pipeline.spec import MOST_C, PathSpec
from tests.trained import command, shards_of, sparse_rows

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("rows"), sparse_rows())


@pytest.mark.parametrize(
    ("text", "values", "in_c_min"),
    [
        ("1", (1.0,), False),
        ("1,0.01, .5 ,1", (0.01, 0.5, 1.0), False),
        ("10x,2.5e1x", (10.0, 25.0), True),
        ("1:100:3", (1.0, 10.0, 100.0), False),
        ("1x : 100x : 3", (1.0, 10.0, 100.0), True),
    ],
)
def test_grids(text, values, in_c_min):
    found, times = read_grid(text)
    assert found == pytest.approx(values)
    assert times is in_c_min


NO_GRIDS = (
    *("0.01:10", "0.01:10:0", "0.01:10:1", "1:2:3:4", "1:2:-3", "1:2:2.5", "1,2:3:4", "2:1:3", "1:1:3", "1:2:", ":"),
    *(
        "",
        "1,",
        "1 2",
        "1;2",
        "1x,2",
        "1x:2:3",
        "x",
        "nan",
        "inf",
        "-1",
        "0",
        "1e400",
        "1e-400",
        "1_0",
        "1\n2",
        "\u0661",
    ),
    *("1:2:10001", "1:2:1000000000", "1:2:" + "9" * 400, "9" * 400, ",".join(["1"] * (MOST_C + 1))),
)


@pytest.mark.parametrize("text", NO_GRIDS, ids=lambda text: repr(text[:20]))
def test_what_is_no_grid_is_one_line_that_shows_the_right_form(capsys, text):
    code, out, err = command(capsys, "path", "nowhere", "--out", "nowhere", f"--grid={text}")
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert "is not a grid" in line
    assert "write 0.01,0.1,1 or 0.01:10:7 or 10x:1000x:5" in line
    assert len(line) < 300


def test_a_range_wider_than_float64_has_equal_ratios():
    found = log_grid(1e-300, 1e300, 5)
    assert found == pytest.approx([1e-300, 1e-150, 1.0, 1e150, 1e300], rel=1e-12)


@pytest.mark.parametrize(
    "text", ["9" * 400, "-1", "0", "nan", "inf", "1e400", "1.5.2GB", "", "1e9", "\u0661GB", "9" * 39]
)
def test_what_is_no_size_is_one_line(capsys, text):
    code, out, err = command(capsys, "path", "nowhere", "--out", "nowhere", f"--memory={text}")
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert "is not a size; write for example 64MB or 2GiB" in line
    assert len(line) < 200


@pytest.mark.parametrize("size", [-5, 0, 2**63, 10**400, True, None, 1.5])
def test_what_is_no_size_in_python(size):
    with pytest.raises(SpecError, match="is not a size"):
        bytes_of(size)


IMPOSSIBLE = {
    "--tol": "1e-320 0",
    "--epsilon": "1e-320 0",
    "--c-max": "0",
    "--holdout": "1",
}  # besides what none can be


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, own in IMPOSSIBLE.items() for value in f"{own} nan inf -inf -1 1e400".split()],
)
def test_numbers_that_cannot_be_are_one_line(capsys, rows, tmp_path, option, value):
    code, out, err = command(capsys, "path", rows.path, "--out", tmp_path / "run", f"{option}={value}", "-q")
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert option.strip("-").replace("-", "_") in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grid", "1e308"], "C = 1e+308 is out of float64's range for these rows and costs, which is from 1e-300 to"),
        (["--grid", "1,1e300"], "C = 1e+300 is out of float64's range"),
        (["--grid", "1e-310"], "C = 1e-310 is out of float64's range"),
        (["--grid", "1e308x"], "is out of float64's range"),
        (["--grid", "1e-308x"], "is out of float64's range"),
        (["--c-max", "1e308"], "C = 1e+308 is out of float64's range"),
        (["--class-weight", "1e308,1e308", "--grid", "1"], "float64 has no room for these rows and costs"),
        (["--class-weight", "1e-300,1e300", "--grid", "1"], "scale the features and the weights"),
        (["--holdout", "1e-320"], "leaves none of the 60 rows out; raise --holdout"),
        (["--cv", "1000000000"], "60 rows cannot be cut into 1,000,000,000 folds; use fewer folds"),
    ],
)
def test_what_the_rows_do_not_allow_is_one_line(capsys, rows, tmp_path, options, message):
    code, out, err = command(capsys, "path", rows.path, "--out", tmp_path / "run", "-q", *options)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert message in line


@pytest.mark.parametrize("c", ["nan", "inf", "0", "-1", "1e308", "1e-310"])
def test_one_c_that_cannot_be_is_one_line(capsys, rows, tmp_path, c):
    code, out, err = command(capsys, "train", rows.path, "--out", tmp_path / "run", f"--c={c}", "-q")
    is_positive = 0 < float(c) < np.inf  # else it is none for any rows
    assert (code, out) == (1 if is_positive else 2, "")
    (line,) = err.splitlines()
    assert ": C " in line


def test_equal_settings_are_equal_however_they_are_written():
    spec = PathSpec(
        grid=[1, 2], class_weight=[1, 2], fold=[0, 3], c_max=10, memory=np.int64(10**9), tol=np.float32(0.5)
    )
    same = PathSpec(grid=(1.0, 2.0), class_weight=(1.0, 2.0), fold=(0, 3), c_max=10.0, memory=10**9, tol=0.5)
    assert spec == same
    assert spec.difference(same) == ""
    assert json.dumps(spec.to_json()) == json.dumps(same.to_json())
    assert PathSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert PathSpec(grid=np.array([0.5, 1])) == PathSpec(grid=(c for c in (0.5, 1.0)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_weight": [1]}, "class_weight is 'balanced', a pair (negative, positive) or weights by label, not [1]"),
        ({"class_weight": (1, 2, 3)}, "or weights by label, not (1, 2, 3)"),
        ({"class_weight": 3}, "or weights by label, not 3"),
        ({"class_weight": {}}, "or weights by label, not {}"),
        ({"class_weight": {"a": 0}}, "the weight of class a must be a positive finite number, not 0"),
        ({"class_weight": [("a", 1), ("a ", 2)]}, "class_weight has a label twice"),
        ({"class_weight": [("a", 1), 2]}, "a class weight must be a positive finite number, not ("),
        ({"class_weight": (1, "2")}, "a class weight must be a positive finite number, not '2'"),
        ({"class_weight": (True, 2)}, "a class weight must be a positive finite number, not True"),
        ({"grid": 1.0}, "grid is a list of C, for example [0.01, 0.1, 1], not 1.0"),
        ({"grid": "0.1,1"}, "grid is a list of C"),
        ({"grid": np.array(1.0)}, "grid is a list of C"),
        ({"class_weight": np.array(1.0)}, "or weights by label"),
        ({"grid": [1, None]}, "C must be a positive finite number, not None"),
        ({"grid": [1, 1j]}, "C must be a positive finite number, not 1j"),
        ({"grid": [10**400]}, "C must be a positive finite number"),
        ({"grid": [[1]]}, "C must be a positive finite number, not [1]"),
        ({"grid": range(1, 10**9)}, "the grid has more than 10,000 values of C"),
        ({"grid": np.ones((2, 2))}, "C must be a positive finite number"),
        ({"grid_in_c_min": "yes"}, "grid_in_c_min must be True or False, not 'yes'"),
        ({"predict": 1}, "predict must be True or False"),
        ({"shrink": None}, "shrink must be True or False"),
        ({"memory": "2GB"}, "memory must be a whole number from 1 to"),
        ({"memory": 0}, "memory must be a whole number"),
        ({"memory": 10**400}, "memory must be a whole number"),
        ({"memory": 1e9}, "memory must be a whole number"),
        ({"rule": None}, "unknown rule None"),
        ({"solver": ["dcd"]}, "unknown solver ['dcd']"),
        ({"select": {}}, "unknown select {}"),
        ({"holdout": "0.2"}, "holdout is a share"),
        ({"holdout": math.nan}, "holdout is a share"),
        ({"fold": (1,)}, "fold is a pair"),
        ({"fold": 3}, "fold is a pair"),
        ({"fold": (0.5, 2)}, "fold must be a whole number"),
        ({"cv": 2.0}, "cv must be a whole number"),
        ({"cv": -3}, "cv must be a whole number"),
        ({"tol": 1e-16}, "tol is a relative gap below 1, and of at least 1e-15, not 1e-16"),
        ({"epsilon": 1e-13}, "epsilon is a relative gap from 1e-12 to 1e+06, not 1e-13"),
        ({"epsilon": 1e7}, "epsilon is a relative gap from"),
        ({"c_max": "9" * 500}, "c_max must be a positive finite number"),
        ({"c_max": True}, "c_max must be a positive finite number, not True"),
    ],
)
def test_settings_of_the_wrong_kind_are_refused_in_one_line(settings, message):
    with pytest.raises(SpecError) as refused:
        PathSpec(**settings)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("item", [None, [], "spec", 3, {"c_max": None}, {"grid": {}}, {"kernel": "rbf"}])
def test_settings_from_anywhere(item):
    with pytest.raises(SpecError):
        PathSpec.from_json(item)


def test_weights_by_label_have_one_form():
    """As they come from Python, from people and from run.json."""
    spec = PathSpec(class_weight={"spam": 2, 1: 0.5})
    assert spec.class_weight == (("1", 0.5), ("spam", 2.0))
    assert PathSpec(class_weight=[["spam", 2.0], ["1", 0.5]]) == spec
    assert PathSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert hash(spec) == hash(PathSpec(class_weight=spec.class_weight))
