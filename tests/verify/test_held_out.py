"""What run.json keeps of rows left out, and the counts by bt1 and bt2: what was made verifies, nothing else does."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.maths.histogram import confusion, score_histogram
from pipeline.maths.rules import RULES, rule_named
from pipeline.path.fit import fit_path, tune
from pipeline.runs.directory import open_run
from pipeline.runs.held_out import ClassesHeldOut, classes_held_out_of, held_out_of
from pipeline.verify.classes import verify_any
from pipeline.verify.held_out import wrong_histogram
from pipeline.verify.step import PARTS
from tests.formats import Table
from tests.tampering import change_header, change_step, lines_of, reseal
from tests.trained import shards_of, sparse_rows

SETTINGS = {"grid": (0.03, 0.1, 1.0), "scheduler": "inline", "memory": 10**9}
CASES = {
    "hold-out": {"holdout": 0.3},
    "folds": {"cv": 3},
    "validation": {},
    "kernel": {"holdout": 0.3, "kernel": "rbf", "gamma": 0.3},
    "tuned": {},
    "classes": {"holdout": 0.3},
    "folds of classes": {"cv": 3},
    "tuned classes": {},
}
OF_CLASSES = [case for case in CASES if "classes" in case]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("two"), sparse_rows(200), bias=1.0)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    made = sparse_rows(120)
    y = np.argmax(made.x[:, :3] + 0.2 * np.random.default_rng(0).standard_normal((120, 3)), axis=1)
    return shards_of(tmp_path_factory.mktemp("several"), Table(made.x, y, made.costs), bias=1.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory, two, several):
    known = {}

    def make(case):
        if case not in known:
            out, data = tmp_path_factory.mktemp("made") / "run", several if "classes" in case else two
            if "tuned" in case:
                tune(data, out=out, cv=3, scheduler="inline", memory=10**9)
            else:
                more = {"validation": data} if case == "validation" else {}
                fit_path(data, out=out, **SETTINGS, **CASES[case], **more)
            known[case] = out, data
        return known[case]

    return make


def holds(run, data, validation=None):
    with Engine("inline") as engine:
        return all(finding.holds for finding in verify_any(engine, run, data, validation=validation))


def judged_on(case, data):
    return data if case == "validation" else None


@pytest.mark.parametrize("case", CASES)
def test_it_is_kept_and_verifies(made, case):
    run, data = made(case)
    kept, chosen = open_run(run).header.held_out, open_run(run).best
    assert kept.c == chosen.c
    assert kept.of == {"validation": "validation"}.get(
        case, "folds" if "folds" in case or "tuned" in case else "holdout"
    )
    assert holds(run, data, judged_on(case, data))


def test_the_histogram_is_that_of_the_rows(made):
    run, data = made("validation")
    found, best = open_run(run).header.held_out.histogram, open_run(run).best
    counts = found.negative.sum() + found.positive.sum()
    above = np.searchsorted(found.edges, 0.0) + 1
    right = found.negative[:above].sum() + found.positive[above:].sum()
    assert counts == data.n_rows
    assert right / counts == best.scores["accuracy"]


def moved(item, of_class=False):
    """Return what run.json says with one row moved to another bin or cell; or to another bin of the second class."""
    item = json.loads(json.dumps(item))
    counts = item["confusion"][0] if "confusion" in item else item["negative"]
    counts = item["classes"][1]["negative"] if of_class else counts
    full = int(np.argmax(counts))
    counts[full] -= 1
    counts[full - 1 if full else full + 1] += 1
    return item


@pytest.mark.attack
@pytest.mark.parametrize("case", CASES)
def test_a_row_in_another_bin_is_found(tmp_path, made, case):
    run, data = made(case)
    shutil.copytree(run, tmp_path / "run")
    said = json.loads((run / "run.json").read_text())["held_out"]
    change_header(tmp_path / "run", held_out=moved(said))
    with pytest.raises(RunError, match=r"held_out in run\.json: it counts"):
        holds(tmp_path / "run", data, judged_on(case, data))


@pytest.mark.attack
@pytest.mark.parametrize("case", OF_CLASSES)
def test_a_row_of_a_class_in_another_bin_is_found(tmp_path, made, case):
    run, data = made(case)
    shutil.copytree(run, tmp_path / "run")
    said = json.loads((run / "run.json").read_text())["held_out"]
    change_header(tmp_path / "run", held_out=moved(said, of_class=True))
    with pytest.raises(RunError, match=r"held_out in run\.json: class 1: it counts"):
        holds(tmp_path / "run", data)


@pytest.mark.parametrize("case", OF_CLASSES)
def test_scores_of_classes_are_of_the_rows_of_the_confusion(made, case):
    kept = open_run(made(case)[0]).header.held_out
    rows = np.array(kept.confusion).sum(axis=1)
    assert [sum(each.positive) for each in kept.classes] == rows.tolist()
    assert [sum(each.negative) for each in kept.classes] == (rows.sum() - rows).tolist()


def test_runs_of_before_scores_of_classes_were_kept_verify(tmp_path, made):
    run, data = made("classes")
    shutil.copytree(run, tmp_path / "run")
    said = json.loads((run / "run.json").read_text())["held_out"]
    del said["classes"]
    change_header(tmp_path / "run", held_out=said)
    assert holds(tmp_path / "run", data)
    assert open_run(tmp_path / "run").header.held_out.classes is None


@pytest.mark.parametrize("classes", [[], {}, [None] * 3, [{"edges": [0.0]}] * 3, "all but the first"])
def test_what_is_none_of_classes_is_refused(tmp_path, made, classes):
    run, _ = made("classes")
    shutil.copytree(run, tmp_path / "run")
    header = json.loads((run / "run.json").read_text())
    header["held_out"]["classes"] = header["held_out"]["classes"][1:] if isinstance(classes, str) else classes
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    with pytest.raises(RunError, match="damaged"):
        open_run(tmp_path / "run")


def test_the_scores_of_many_classes_are_not_kept():
    codes = np.arange(13)
    found = classes_held_out_of(1.0, "holdout", np.eye(13), codes, 13)
    assert found["classes"] is None
    assert ClassesHeldOut.from_json(found, 13).to_json() == found
    few = classes_held_out_of(1.0, "holdout", np.eye(3), codes[:3], 3)
    assert ClassesHeldOut.from_json(few, 3).to_json() == few


@pytest.mark.attack
@pytest.mark.parametrize(
    ("change", "said"), [({"c": 0.03125}, "not that of the chosen model"), ({"of": "folds"}, "it is of folds")]
)
def test_that_of_another_model_is_found(tmp_path, made, change, said):
    run, data = made("hold-out")
    shutil.copytree(run, tmp_path / "run")
    change_header(tmp_path / "run", held_out=json.loads((run / "run.json").read_text())["held_out"] | change)
    with pytest.raises(RunError, match=said):
        holds(tmp_path / "run", data)


@pytest.mark.parametrize(
    "item",
    [
        [],
        {"c": 1.0, "of": "holdout"},
        {"c": 1.0, "of": "elsewhere", "edges": [0.0], "negative": [1, 1], "positive": [1, 1]},
        {"c": 1.0, "of": "holdout", "edges": [1.0], "negative": [1, 1], "positive": [1, 1]},
        {"c": 1.0, "of": "holdout", "edges": [0.0, 0.0], "negative": [1, 1, 1], "positive": [1, 1, 1]},
        {"c": 1.0, "of": "holdout", "edges": [0.0], "negative": [1, -1], "positive": [1, 1]},
        {"c": 1.0, "of": "holdout", "edges": [0.0], "negative": [1], "positive": [1, 1]},
        {"c": 10**400, "of": "holdout", "edges": [0.0], "negative": [1, 1], "positive": [1, 1]},
    ],
)
def test_what_is_none_is_refused(tmp_path, made, item):
    run, _ = made("hold-out")
    shutil.copytree(run, tmp_path / "run")
    header = json.loads((run / "run.json").read_text()) | {"held_out": item}
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    with pytest.raises(RunError, match="held_out cannot be"):
        open_run(tmp_path / "run")


def test_rows_on_an_edge_may_be_on_either_side():
    score, y = np.array([-1.0, -1e-9, 0.25, 0.5, 2.0]), np.array([-1, 1, -1, 1, 1])
    said = held_out_of(1.0, "holdout", score, y)
    assert wrong_histogram(said, score + 2e-9, np.full(5, 1e-8), y) == ""
    assert "positive rows up to" in wrong_histogram(said, score + 2e-7, np.full(5, 1e-8), y)


def test_of_equal_scores_the_first_class_counts():
    scores = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0], [0.0, 0.0, 1.0]])
    assert confusion(scores.T, np.array([1, 1, 2]), 3).tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 1]]


def test_scores_beyond_the_range_have_no_histogram():
    assert score_histogram(np.array([1.0, np.inf]), np.array([1, -1])) is None
    assert score_histogram(np.empty(0), np.empty(0)) is None


# Counts by rule


def test_verify_knows_what_every_rule_is_made_of():
    assert {name: set(parts) for name in RULES if (parts := rule_named(name).made_of)} == PARTS


def test_no_rule_proves_more_than_both_together(made):
    run, _ = made("hold-out")
    for step in open_run(run).steps:
        for zero, upper in (step.rules or {}).values():
            assert zero <= step.screened_zero
            assert upper <= step.screened_upper
    assert set(open_run(run).steps[-1].rules) == {"bt1", "bt2"}


@pytest.mark.attack
@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"bt1": [10**6, 0], "bt2": [0, 0]}, "more than"),
        ({"gap": [0, 0]}, "not made of"),
        ({"bt1": [0, 0]}, "not made of"),
    ],
)
def test_a_count_that_cannot_be_is_found(tmp_path, made, rules, said):
    run, data = made("hold-out")
    shutil.copytree(run, tmp_path / "run")
    change_step(tmp_path / "run", 1, rules=rules)
    reseal(tmp_path / "run")
    with Engine("inline") as engine:
        problems = [finding.problem for finding in verify_any(engine, tmp_path / "run", data)]
    assert said in problems[1]


@pytest.mark.attack
def test_any_other_count_breaks_the_chain(tmp_path, made):
    run, data = made("hold-out")
    shutil.copytree(run, tmp_path / "run")
    rules = lines_of(run)[1]["rules"]
    change_step(tmp_path / "run", 1, rules=rules | {"bt1": [0, 0]})
    assert not holds(tmp_path / "run", data)


def test_runs_by_one_ball_keep_no_counts_beside_their_own(tmp_path, two):
    run = fit_path(two, out=tmp_path / "run", **SETTINGS | {"rule": "bt1"})
    assert [step.rules for step in run.steps] == [None, None, None]
