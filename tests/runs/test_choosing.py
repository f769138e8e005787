"""Which model is meant: the one with the best score, or the one that was asked for; never one that nobody chose."""

from __future__ import annotations

import copy
import gc
import json
import math
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import pipeline
from pipeline.errors import DataError, RunError
from pipeline.maths.score import mean_scores, scores
from pipeline.path import path as path_module
from pipeline.runs.directory import open_run
from tests.formats import Table
from tests.tampering import reseal
from tests.trained import command, shards_of, sparse_rows
from tests.worlds import World, check_optimum, plain_world, write_shards

pytestmark = pytest.mark.attack
GRID = (0.001, 0.1, 1.0, 10.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("data"), sparse_rows(120, 12))


@pytest.fixture(scope="module")
def plain(tmp_path_factory, data):
    """A run that nothing scored."""
    return pipeline.fit_path(data, out=tmp_path_factory.mktemp("plain") / "run", grid=GRID, scheduler="inline")


@pytest.fixture(scope="module")
def scored(tmp_path_factory, data):
    """A run with a hold-out, whose best step is neither the first nor the last."""
    out = tmp_path_factory.mktemp("scored") / "run"
    run = pipeline.fit_path(data, out=out, grid=GRID, holdout=0.5, select="f1", scheduler="inline")
    found = [step.scores["f1"] for step in run.steps]
    assert found.index(max(found)) not in (0, 3)
    return run


def changed(source: Path, target: Path, **items) -> Path:
    """Copy a run, with other items in its run.json."""
    shutil.copytree(source, target)
    header = json.loads((target / "run.json").read_text()) | items
    (target / "run.json").write_text(json.dumps(header))
    return target


def strictly(text: str):
    """Read JSON that has neither NaN nor Infinity."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


# The best step


def test_without_scores_no_step_is_the_best(plain):
    assert plain.header.best_step is None
    assert plain.best_step is None
    with pytest.raises(RunError, match=r"nothing was scored, .* name one with --c C: 0\.001, 0\.1, 1, 10$"):
        _ = plain.best
    assert plain.at(0.1).step == 1


def test_older_runs_named_the_last_step_where_nothing_was_scored(plain, tmp_path):
    old = open_run(changed(plain.path, tmp_path / "run", best_step=3))
    with pytest.raises(RunError, match="nothing was scored"):
        _ = old.best


def test_the_best_score_counts(scored):
    found = [step.scores["f1"] for step in scored.steps]
    assert scored.best.step == scored.best_step == scored.header.best_step == found.index(max(found))


def test_the_only_step_is_the_best(data, capsys, tmp_path):
    assert command(capsys, "train", data.path, "--c", 0.5, "--out", tmp_path / "run", "-q")[0] == 0
    assert open_run(tmp_path / "run").best.c == 0.5
    assert command(capsys, "export", tmp_path / "run", "--out", tmp_path / "svm.model")[0] == 0


def unfinished(run, target: Path, steps: int) -> Path:
    """Copy what is there of a run after so many steps."""
    out = changed(run.path, target, status="running")
    lines = (out / "steps.jsonl").read_text().splitlines(keepends=True)
    (out / "steps.jsonl").write_text("".join(lines[:steps]))
    return out


def test_an_unfinished_run_has_the_best_so_far_and_says_so(scored, data, capsys, tmp_path):
    out, best = unfinished(scored, tmp_path / "run", 3), scored.best_step
    assert open_run(out).best.step == best < 3
    code, said, err = command(capsys, "export", out, "--out", tmp_path / "svm.npz")
    assert code == 0
    assert f"step {best} " in said
    assert err == f"{out}: the run is not finished; it has 3 steps so far\n"
    code, said, err = command(capsys, "predict", out, data.path, "--out", tmp_path / "p.parquet")
    assert (code, "the run is not finished; it has 3 steps so far" in err) == (0, True)
    assert f"by step {best} " in said


def test_an_unfinished_run_of_one_step_has_no_best(plain, tmp_path):
    with pytest.raises(RunError, match=r"name one with --c C: 0\.001$"):
        _ = open_run(unfinished(plain, tmp_path / "run", 1)).best


@pytest.mark.parametrize("verb", ["predict", "export"])
def test_the_commands_ask_for_c(plain, data, capsys, tmp_path, verb):
    out = tmp_path / ("out.parquet" if verb == "predict" else "out.npz")
    words = [plain.path, *([data.path] if verb == "predict" else []), "--out", out]
    code, said, err = command(capsys, verb, *words, *(["-q"] if verb == "predict" else []))
    assert (code, said) == (1, "")
    (line,) = err.splitlines()
    assert "nothing was scored, so that no step is the best; name one with --c C: 0.001, 0.1, 1, 10" in line
    assert not out.exists()
    assert command(capsys, verb, *words, "--c", 0.1)[0] == 0


@pytest.mark.parametrize("c", ["1", 1j, 0, float("nan")])
def test_a_c_that_is_no_number(plain, c):
    with pytest.raises(RunError, match="C is a positive finite number, not "):
        plain.at(c)


@pytest.mark.parametrize("c", ["nan", "inf", "-1", "0"])
def test_a_c_that_cannot_be(plain, capsys, tmp_path, c):
    code, _, err = command(capsys, "export", plain.path, "--out", tmp_path / "svm.npz", f"--c={c}")
    assert code == 2
    assert "C must be a positive finite number" in err


def test_a_c_that_was_read_off_is_that_step(data, capsys, tmp_path):
    """Tables show four digits and lists six: rounded down, C would belong to the step before."""
    run = pipeline.fit_path(data, out=tmp_path / "run", epsilon=0.03, c_max=10, scheduler="inline")
    notes = []
    for step in run.steps:
        for digits in (4, 6, 17):
            assert run.at(float(f"{step.c:.{digits}g}"), notes.append).step == step.step
    assert notes == []
    assert sum(float(f"{step.c:.6g}") < step.c for step in run.steps) > 5


def test_steps_that_look_alike_are_told_apart(data):
    run = pipeline.fit_path(data, grid=(1.00001, 1.00002, 1.00004), scheduler="inline")
    assert [run.at(c).step for c in (1.00001, 1.00002, 1.00004, 1.0)] == [0, 1, 2, 0]


@pytest.mark.parametrize(("c", "before"), [(0.5, 0.1), (9.99, 1), (1e9, 10)])
@pytest.mark.parametrize("verb", ["predict", "export"])
def test_a_c_that_no_step_has_is_mentioned(plain, data, capsys, tmp_path, verb, c, before):
    out = tmp_path / ("out.parquet" if verb == "predict" else "out.npz")
    words = [plain.path, *([data.path] if verb == "predict" else []), "--out", out, "--c", c]
    code, out, err = command(capsys, verb, *words)
    assert code == 0
    assert f"no step has C = {float(c)!r}; the one before it has {before:g}" in err.splitlines()[0]
    assert f"(C = {before:g})" in out


def test_many_c_are_listed_in_a_few_words(data):
    run = pipeline.fit_path(data, grid=np.geomspace(1e-3, 1, 20), scheduler="inline")
    with pytest.raises(RunError, match=r"\.\.\., 1 \(20 in all\)$") as caught:
        _ = run.best
    assert len(str(caught.value)) < 300


def test_steps_that_are_gone_are_missed(scored, tmp_path):
    out = changed(scored.path, tmp_path / "run")
    lines = (out / "steps.jsonl").read_text().splitlines(keepends=True)
    (out / "steps.jsonl").write_text("".join(lines[:3]))
    for ask in (lambda run: run.best, lambda run: run.at(0.1)):
        with pytest.raises(RunError, match="has 3 steps of 4; run the same svmsieve path again"):
            ask(open_run(out))


def test_a_run_opened_by_a_link_stays_the_one_it_was(plain, scored, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(plain.path)
    run = open_run(link)
    link.unlink()
    link.symlink_to(scored.path)
    np.testing.assert_array_equal(run.steps[1].w, plain.steps[1].w)
    assert not np.array_equal(run.steps[1].w, scored.steps[1].w)


# Rows that were trained on


@pytest.mark.parametrize(
    ("run", "said"), [("plain", "these rows: "), ("scored", "these rows but for a hold-out of 0.5")]
)
def test_scores_on_rows_that_were_trained_on_are_marked(request, data, capsys, tmp_path, run, said):
    words = ["predict", request.getfixturevalue(run).path, data.path, "--out", tmp_path / "p.parquet", "--c", 0.1, "-q"]
    _, out, _ = command(capsys, *words)
    assert f"the run was trained on {said}" in out.splitlines()[1]
    _, out, _ = command(capsys, *words, "--json")
    assert strictly(out)["rows_seen_in_training"] == 120


def test_shards_that_were_trained_on_are_known_among_others(plain, data, capsys, tmp_path):
    table, more = sparse_rows(120, 12), sparse_rows(30, 12, seed=9)
    both = Table(
        *(np.concatenate([getattr(t, key)[:n] for t, n in ((table, 51), (more, 30))]) for key in ("x", "y", "costs"))
    )
    words = ["predict", plain.path, shards_of(tmp_path, both).path, "--out", tmp_path / "p.parquet", "--c", 1, "-q"]
    assert "was trained on 51 of the 81 rows" in command(capsys, *words)[1]
    words[2] = shards_of(tmp_path, more).path
    assert "trained on" not in command(capsys, *words)[1]


# Scores that are not defined


def one_class_out(tmp_path, share: float = 0.5):
    """Rows of which the hold-out has one class only."""
    for seed in range(50):
        world = plain_world(12, 3, seed=seed)
        data = write_shards(tmp_path / str(seed), world)
        with pipeline.Engine("inline") as engine:
            rows = path_module.collect(engine, data, path_module.PathSpec(holdout=share), None)
            if len(set(rows.labels[rows.held_out()])) == 1:
                return data
    raise AssertionError("no such rows")


def test_scores_that_are_not_defined_are_null_on_disk(tmp_path, capsys):
    data = one_class_out(tmp_path, 0.1)
    words = ["path", data.path, "--out", tmp_path / "run", "--grid", "0.1,1", "--holdout", 0.1, "--select", "auc"]
    code, out, err = command(capsys, *words)
    assert code == 0
    assert "not defined" in out
    assert "auc is not defined on the rows that were scored (a class is missing): no best step" in err
    lines = [strictly(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    assert [line["scores"]["auc"] for line in lines] == [None, None]
    assert strictly((tmp_path / "run" / "run.json").read_text())["best_step"] is None
    with pytest.raises(RunError, match=r"no step has a score \(auc\), so that no step is the best; name one"):
        _ = open_run(tmp_path / "run").best
    assert strictly(command(capsys, *words, "--json", "-q")[1])["steps"][0]["scores"]["auc"] is None
    words = ["predict", tmp_path / "run", data.path, "--out", tmp_path / "p.parquet", "--c", 1, "--json", "-q"]
    assert strictly(command(capsys, *words)[1])["rows"] == 12


def test_the_nan_of_older_runs_is_no_score(scored, tmp_path):
    out = changed(scored.path, tmp_path / "run")
    lines = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    best = scored.best_step
    lines[best]["scores"]["f1"] = math.nan
    (out / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = open_run(out)
    assert run.steps[best].scores["f1"] is None
    assert run.best_step not in (None, best)


def test_a_fold_counts_where_it_has_the_score_at_every_step():
    good, one = scores(np.array([1.0, -1.0]), np.array([1, -1])), scores(np.array([1.0]), np.array([1]))
    means = mean_scores([[good, good], [one, one]])
    assert [mean["accuracy"] for mean in means] == [0.75, 0.75]
    assert [mean["auc"] for mean in means] == [good["auc"], good["auc"]]
    assert mean_scores([[one], [one]])[0]["auc"] is None


# Folds


def test_folds_that_cannot_be_scored_are_refused_before_training(tmp_path, monkeypatch, capsys):
    data = write_shards(tmp_path / "data", plain_world(12, 3), [5])
    monkeypatch.setattr("pipeline.path.train.run_path", None)
    code, out, err = command(capsys, "path", data.path, "--out", tmp_path / "run", "--cv", 10, "-q")
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert "of 10 (rows are assigned by what is in them) has no row to be scored on; use fewer folds" in line
    assert not (tmp_path / "run").exists()


def test_folds_that_have_all_rows_of_a_class(tmp_path):
    world = plain_world(40, 3)
    y = np.where(np.arange(40) == 7, 1.0, -1.0)
    data = write_shards(tmp_path / "data", World(world.x, y, world.costs), [5])
    with pytest.raises(DataError, match=r"fold \d of 2 .* has all rows of a class"):
        pipeline.fit_path(data, cv=2, grid=[1.0], scheduler="inline")


def test_folds_without_a_class_among_those_scored(tmp_path):
    world = plain_world(40, 3)
    y = np.where(np.arange(40) % 20 == 7, 1.0, -1.0)
    data = write_shards(tmp_path / "data", World(world.x, y, world.costs), [5])
    notes = []
    for folds in (5, 7, 9):
        try:
            run = pipeline.fit_path(data, cv=folds, grid=[1.0], select="auc", scheduler="inline", listen=notes.append)
        except DataError:
            continue
        assert run.best.step == 0
        assert any("auc is not defined in" in getattr(note, "text", "") for note in notes)
        return
    raise AssertionError("no number of folds that works")


# Versions


def test_a_run_begun_with_other_versions_is_not_continued(plain, data, capsys, tmp_path):
    words = ["path", data.path, "--grid", ",".join(map(str, GRID)), "--memory", plain.spec.memory, "-q"]
    other = plain.header.versions | {"numpy": "1.0", "scipy": "1.0"}
    finished = changed(plain.path, tmp_path / "finished", versions=other)
    reseal(finished)
    assert command(capsys, *words, "--out", finished)[::2] == (0, "")
    half = unfinished(plain, tmp_path / "half", 2)
    half = changed(half, tmp_path / "other", versions=other)
    reseal(half)
    code, out, err = command(capsys, *words, "--out", half)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert f"was begun with numpy 1.0 (now {np.__version__}), scipy 1.0 (now " in line
    assert f"remove {half} to start afresh, or choose another --out" in line
    assert len((half / "steps.jsonl").read_text().splitlines()) == 2
    (finished / "models" / "000003.npz").unlink()
    assert "was begun with numpy 1.0" in command(capsys, *words, "--out", finished)[2]
    assert command(capsys, *words, "--out", tmp_path / "half")[0] == 0


# Names


@pytest.mark.parametrize(
    ("header", "bias", "said"),
    [
        ("label,a,b", 0, ""),
        ("label,b,a", 0, "(column 'a', now 'b')"),
        ("label,a,c", 0, "(column 'b', now 'c')"),
        ("label,a", 1, "(bias 0, now 1)"),
    ],
)
def test_the_same_numbers_under_other_names_are_another_run(capsys, tmp_path, header, bias, said):
    """A fingerprint is of numbers; who asks for the same run on a table with other names would get the old names."""
    rows = [f"{k % 2},{k % 7}.5,1" for k in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["label,a,b", *rows]) + "\n")
    width = header.count(",") + 1
    (tmp_path / "b.csv").write_text("\n".join([header, *(",".join(row.split(",")[:width]) for row in rows)]) + "\n")
    words = ["--out", tmp_path / "run", "--grid", 1, "--memory", "1GB", "--columns", "none", "-q"]
    assert command(capsys, "path", tmp_path / "a.csv", *words)[0] == 0
    code, _, err = command(capsys, "path", tmp_path / "b.csv", "--bias", bias, *words)
    assert (code, said in err) == (1 if said else 0, True)
    assert not said or "was made from the same numbers under other names" in err
    relabelled = (tmp_path / "a.csv").read_text().replace("\n1,", "\nspam,")
    (tmp_path / "c.csv").write_text(relabelled)
    assert "(positive label '1', now 'spam')" in command(capsys, "path", tmp_path / "c.csv", *words)[2]


def test_the_same_numbers_of_other_columns_are_another_run(capsys, tmp_path):
    rows = [f"{k % 2},{'xyz'[k % 3]}" for k in range(60)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("\n".join([f"label,{name}", *rows]) + "\n")
    words = ["--out", tmp_path / "run", "--grid", 1, "--memory", "1GB", "-q"]
    assert command(capsys, "path", tmp_path / "a.csv", *words)[0] == 0
    assert command(capsys, "path", tmp_path / "a.csv", *words)[0] == 0
    code, _, err = command(capsys, "path", tmp_path / "b.csv", *words)
    assert (code, "(features were made of its columns in another way)" in err) == (1, True)


# A step as an object


def test_steps_can_be_copied_pickled_and_asked(data, plain):
    step = plain.steps[1]
    for twin in (copy.copy(step), copy.deepcopy(step), pickle.loads(pickle.dumps(step))):  # noqa: S301
        assert (twin.c, twin.step, twin.spec, twin.fingerprint) == (step.c, step.step, step.spec, step.fingerprint)
        np.testing.assert_array_equal(twin.w, step.w)
    assert pickle.loads(pickle.dumps(plain)).steps[1].c == step.c  # noqa: S301
    assert hasattr(step, "relative_gap")
    assert not hasattr(step, "nosuch")
    assert getattr(step, "__wrapped__", None) is None
    assert {"w", "alpha", "c", "relative_gap", "seconds"} <= set(dir(step))
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        _ = step.nosuch
    assert len({step, step, plain.steps[0]}) == 2, "a step is itself, as it was: sets and dicts may hold it"


def test_copies_keep_a_temporary_run_alive(data):
    run = pipeline.fit_path(data, grid=[0.1], scheduler="inline")
    twins, folder = [copy.deepcopy(run.steps[0]), copy.copy(run.steps[0])], run.path
    stored = pickle.dumps(run.steps[0])
    del run
    gc.collect()
    while twins:
        assert twins.pop().w.shape == (12,)
        gc.collect()
    assert not folder.exists()
    with pytest.raises(RunError, match="the model is missing or damaged"):
        pickle.loads(stored).w  # noqa: B018, S301


# Promises


def test_another_cut_into_shards_has_the_same_fingerprint_and_true_certificates(tmp_path):
    world = plain_world()
    one, two = (write_shards(tmp_path / str(k), world, cuts) for k, cuts in enumerate(([], [7, 50, 51])))
    assert one.fingerprint == two.fingerprint
    runs = [pipeline.fit_path(each, grid=[0.01, 1.0], tol=1e-6, scheduler="inline") for each in (one, two)]
    for step in (step for run in runs for step in run.steps):
        check_optimum(world, step)
        assert step.relative_gap <= 1e-6
    for a, b in zip(*(run.steps for run in runs), strict=True):
        assert max(a.dual, b.dual) <= min(a.primal, b.primal)
