"""The commands on a page: what makes a run again makes the same run, whatever it was asked for."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

from pipeline.report.report import page_of
from tests.formats import Table
from tests.trained import command, shards_of, sparse_rows

ALIKE = ("spec", "chain", "cv_c", "cv_scores", "c_best", "calibration", "held_out", "best_step")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    made = sparse_rows(120)
    y = np.argmax(made.x[:, :3] + 0.2 * np.random.default_rng(0).standard_normal((120, 3)), axis=1)
    two = shards_of(tmp_path_factory.mktemp("two"), made, bias=1.0)
    return {"two": two, "three": shards_of(tmp_path_factory.mktemp("three"), Table(made.x, y, made.costs))}


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("two", "path --c-max 1 --epsilon 0.1 --rule bt1 --every-row"),
        ("two", "path --grid 2x,20x --cv 3 --select auc --class-weight 1,2"),
        ("two", "train --c 0.5 --holdout 0.3"),
        ("two", "tune --cv 3"),
        ("two", "tune --grid 0.05,0.5,1 --cv 3 --select 1se --calibration none"),
        ("two", "tune --holdout 0.3 --c-max 1 --patience 2 --class-weight balanced --seed 3"),
        ("two", "tune --kernel rbf --gamma 0.1,1 --cv 2 --c-max 1 --calibration isotonic --metric balanced"),
        ("three", "tune --cv 2 --c-max 1 --metric auc"),
        ("three", "tune --grid 0.1,1 --holdout 0.3"),
    ],
)
def test_made_again_it_is_the_same(capsys, data, tmp_path, which, words):
    name, *options = words.split()
    common = ["--memory", "1GB", "-q"]
    assert command(capsys, name, data[which].path, "--out", tmp_path / "run", *options, *common)[0] == 0
    (again,) = [each for each in page_of(str(tmp_path / "run")).sections[-1].commands if each.what == "Make it again"]
    program, *line = shlex.split(again.line.replace("NEW_RUN", shlex.quote(str(tmp_path / "again"))))
    assert program == "svmsieve"
    code, _, err = command(capsys, *line, "-q")
    assert code == 0, err
    one, two = (json.loads((tmp_path / each / "run.json").read_text()) for each in ("run", "again"))
    assert [key for key in ALIKE if one.get(key) != two.get(key)] == []
