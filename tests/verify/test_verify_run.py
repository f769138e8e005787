"""A run that verifies is the run that was made: steps removed, replaced or moved, and what run.json says of them.

Most tests seal the run again after changing it, as one would who knows how the chain is made: then what is left is what
the rows and the models themselves say.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pipeline.errors import RunError
from pipeline.events import Note
from pipeline.maths.score import scores
from pipeline.path.fit import fit_path
from pipeline.path.path import versions
from pipeline.runs.chain import broken
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import open_run
from pipeline.runs.writer import writing
from pipeline.verify import scores as check_scores
from tests.tampering import (
    change_header,
    change_model,
    change_step,
    found,
    lines_of,
    remove_step,
    reseal,
    write_lines,
)
from tests.worlds import World, plain_world, write_shards

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An eps-path with a hold-out, in three shards."""
    folder = tmp_path_factory.mktemp("made")
    data = write_shards(folder / "shards", plain_world(80, 5, noise=0.5), [30, 55])
    fit_path(data, out=folder / "run", c_max=3.0, epsilon=0.1, holdout=0.3)
    return data, folder / "run"


@pytest.fixture
def data(made):
    return made[0]


@pytest.fixture
def run(made, tmp_path):
    """A copy of the run to tamper with."""
    return shutil.copytree(made[1], tmp_path / "run")


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folded")
    data = write_shards(folder / "shards", plain_world(80, 5))
    fit_path(data, out=folder / "run", grid=[0.5, 2, 8], grid_in_c_min=True, cv=2)
    return data, folder / "run"


def problems(run, data):
    """Return what is wrong with which step."""
    return {finding.step: finding.problem for finding in found(run, data) if not finding.holds}


def said(run, data):
    """Return the notes of a run that holds."""
    notes = []
    assert all(finding.holds for finding in found(run, data, listen=notes.append))
    return [note.text for note in notes if isinstance(note, Note)]


# Honest runs


def test_honest_runs_hold_without_a_note(made, folded):
    for data, run in (made, folded):
        assert said(run, data) == []
    assert len(open_run(made[1]).steps) > 10


def test_a_path_that_ends_before_c_max_holds(tmp_path):
    """Two rows that are on the margin from C = 1/2 on: w no longer changes."""
    x = np.array([[1.0], [-1.0]])
    data = write_shards(tmp_path / "shards", World(x, x[:, 0], np.ones(2)))
    fit_path(data, out=tmp_path / "run", c_max=1e9, epsilon=0.1)
    for step in reversed(open_run(tmp_path / "run").steps[1:]):
        remove_step(tmp_path / "run", step.step)
    change_header(tmp_path / "run", best_step=None)
    reseal(tmp_path / "run")
    assert [line["c"] for line in lines_of(tmp_path / "run")] == [0.5]
    assert said(tmp_path / "run", data) == []


def test_rows_that_cancel_have_no_c_min(tmp_path):
    x = np.array([[1.0, 2.0], [1.0, 2.0], [-3.0, 1.0], [-3.0, 1.0]])
    data = write_shards(tmp_path / "shards", World(x, np.array([1.0, -1.0, 1.0, -1.0]), np.ones(4)))
    assert fit_path(data, out=tmp_path / "run", c_max=2.0).header.c_min is None
    assert said(tmp_path / "run", data) == []
    change_header(tmp_path / "run", c_min=0.5)
    assert problems(tmp_path / "run", data) == {0: "C_min is inf, not 0.5 as run.json says"}


def test_a_run_from_before_the_chain_is_verified_with_a_note(data, tmp_path):
    """Certificates read every row then, and were values instead of bounds."""
    run = tmp_path / "old"
    fit_path(data, out=run, c_max=3.0, epsilon=0.1, holdout=0.3, every_row=True)
    write_lines(run, [{k: v for k, v in line.items() if k not in ("chain", "model")} for line in lines_of(run)])
    header = json.loads((run / "run.json").read_text())
    del header["chain"]
    (run / "run.json").write_text(json.dumps(header | {"version": 1}))
    assert said(run, data) == [f"{run}: the run is from before steps were chained: one removed would not be missed"]


def test_a_run_of_version_2_cannot_do_without_its_chain(run, data):
    write_lines(run, [{k: v for k, v in line.items() if k not in ("chain", "model")} for line in lines_of(run)])
    header = json.loads((run / "run.json").read_text())
    del header["chain"]
    (run / "run.json").write_text(json.dumps(header | {"version": 2}))
    assert len(problems(run, data)) == len(open_run(run).steps)


# Steps that are gone or others


def test_the_last_steps_removed(run, data):
    count = len(lines_of(run))
    write_lines(run, lines_of(run)[:-2])
    with pytest.raises(RunError, match=rf"says it is finished, but has {count - 2} steps of {count}; train again"):
        found(run, data)
    change_header(run, n_steps=count - 2)
    with pytest.raises(RunError, match=r"steps do not end as run\.json says"):
        found(run, data)
    reseal(run)
    last = lines_of(run)[-1]
    assert problems(run, data)[count - 3].startswith("at C = 3 its model is ")
    change_header(run, spec=open_run(run).spec.to_json() | {"c_max": last["c"]})
    reseal(run)
    assert problems(run, data) == {}, "that is another run, and a whole one"


@pytest.mark.parametrize("number", [0, 4])
def test_a_step_removed_and_the_others_renumbered(run, data, number):
    remove_step(run, number)
    with pytest.raises(RunError, match="says it is finished, but has"):
        found(run, data)
    change_header(run, n_steps=len(lines_of(run)))
    assert problems(run, data)[number].startswith("it starts from C = " if number else "the path starts at C = ")
    assert broken(open_run(run).header.to_json(), lines_of(run)).index(True) == number
    reseal(run)
    found_after_sealing = problems(run, data)
    if number:
        assert list(found_after_sealing) == [number - 1, number]
        assert found_after_sealing[number].startswith("it starts from C = ")
        assert "off the optimum, more than epsilon 0.1 allows" in found_after_sealing[number - 1]
    else:
        assert found_after_sealing == {0: f"the path starts at C = {open_run(run).header.c_min:.12g}"}
        change_header(run, c_min=lines_of(run)[0]["c"])
        assert problems(run, data)[0].startswith("C_min is ")


def test_a_line_with_another_detail(run, data):
    """A number that nothing else depends on: the chain knows."""
    change_step(run, 5, theta=1.25)
    assert problems(run, data) == {5: "its line in steps.jsonl does not follow from the one before it"}
    assert broken(open_run(run).header.to_json(), lines_of(run)).count(True) == 1


def test_what_a_step_took_is_no_part_of_it(run, data):
    change_step(run, 5, seconds={"total": 1.0}, passes=7.0)
    assert problems(run, data) == {}


def test_a_model_written_again_is_not_the_one_that_was_written(run, data):
    with zipfile.ZipFile(run / "models" / "000005.npz", "a") as archive:
        archive.comment = b"the same arrays"
    assert problems(run, data) == {5: "its model file is not the one that was written"}


@pytest.mark.parametrize("changes", [{"tol": 1e-3}, {"solver": "dcd"}])
def test_other_settings_than_the_run_was_made_with(run, data, changes):
    change_header(run, spec=open_run(run).spec.to_json() | changes)
    assert problems(run, data) == {0: "its line in steps.jsonl does not follow from the one before it"}


def test_another_rule_than_the_steps_say(run, data):
    change_header(run, spec=open_run(run).spec.to_json() | {"rule": "none"})
    reseal(run)
    assert set(problems(run, data).values()) == {"it says rule it, but the run has none"}


def test_another_epsilon_than_the_path_keeps(run, data):
    change_header(run, spec=open_run(run).spec.to_json() | {"epsilon": 0.05})
    reseal(run)
    assert len(problems(run, data)) > len(open_run(run).steps) / 2


def test_a_grid_in_multiples_of_c_min(folded, tmp_path):
    data, run = folded[0], shutil.copytree(folded[1], tmp_path / "run")
    c_min = open_run(run).header.c_min
    assert [step.c for step in open_run(run).steps] == [c_min * k for k in (0.5, 2, 8)]
    change_header(run, spec=open_run(run).spec.to_json() | {"grid": [0.5, 3, 8]})
    reseal(run)
    assert problems(run, data) == {1: f"the C of the grid is {3 * c_min:.12g}"}
    change_header(run, c_min=None)
    assert problems(run, data)[0] == f"C_min is {c_min:.12g}, not None as run.json says"


def test_one_step_is_verified_by_itself(run, data):
    change_step(run, 5, theta=1.25)
    assert [finding.holds for finding in found(run, data, step=4)] == [True]
    assert [finding.holds for finding in found(run, data, step=5)] == [False]


def test_a_step_removed_from_a_grid(tmp_path):
    """And the grid with it: the next step says where it started."""
    data, run = write_shards(tmp_path / "shards", plain_world(40, 3)), tmp_path / "run"
    fit_path(data, out=run, grid=[0.01, 0.1, 1.0])
    remove_step(run, 1)
    change_header(run, spec=open_run(run).spec.to_json() | {"grid": [0.01, 1.0]})
    reseal(run)
    assert problems(run, data) == {1: "it starts from C = 0.1, which is not that of the step before it"}


@pytest.mark.parametrize(
    ("drift", "message"),
    [(0.0, r"the stored w or w_alpha is .* apart from"), (1e3, r"the stored drift 1000 is more than its gap allows")],
)
def test_a_drift_that_is_none(run, data, drift, message):
    change_step(run, 5, drift=drift)
    reseal(run)
    (wrong,) = problems(run, data).items()
    assert wrong[0] == 5
    assert re.match(message, wrong[1])


def test_a_long_way_to_c_is_no_finding(tmp_path):
    """Rows of 1e9 have C_min = 1e-20: on the way to C = 1 w_alpha has been rounded by more than its own last bits."""
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 4))
    data = write_shards(tmp_path / "shards", World(1e9 * x, np.where(x @ np.ones(4) > 0, 1.0, -1.0), np.ones(40)))
    fit_path(data, out=tmp_path / "run", grid=[1.0])
    assert said(tmp_path / "run", data) == []


# Models


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("w_value", lambda w: w + 0j, "w_value is complex128 in 1 dimensions, not float64 in 1 dimensions"),
        ("w_value", lambda w: w.astype(np.float32), "w_value is float32 in 1 dimensions"),
        ("w_value", lambda w: w[:, None], "w_value is float64 in 2 dimensions"),
        ("w_value", lambda w: w.astype("U9"), "w_value is str"),
        ("alpha_index", lambda i: i.astype(np.float64), "alpha_index is float64 in 1 dimensions, not int64"),
        ("alpha_value", lambda a: a.astype(np.longdouble), "alpha_value is "),
        ("c", lambda c: c + 0j, "c is complex128 in 0 dimensions"),
        ("n_rows", lambda n: n.astype(np.float64), "n_rows is float64"),
        ("zero_bits", lambda b: b[:-1], "zero_bits are not 80 bits"),
        ("upper_bits", lambda b: b.astype(np.int64), "upper_bits is int64"),
        # found by fuzzing (runs, seed 2026, case 21966): a difference of int64 can wrap
        ("alpha_index", lambda i: np.concatenate([[5, -(2**63)], i[2:]]), "the indices of alpha do not ascend"),
    ],
)
def test_arrays_of_another_type(run, data, name, change, message):
    change_model(run, 3, **{name: change})
    reseal(run)
    assert message in problems(run, data)[3]


@pytest.mark.attack
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"}", b"("),  # a literal that does not end
        (b"\x93NUMPY", b"\x93NUMPX"),
        (b"'shape': (", b"'shape':0("),
        (b"'<f8'", b"'<U0'"),
    ],
)
def test_headers_that_are_none(run, data, old, new):
    path = run / "models" / "000003.npz"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).replace(old, new) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    reseal(run)
    assert "the model is missing or damaged" in problems(run, data)[3]


def screened(run, step, row, name):
    """Give a row a verdict, and have the counts say so."""
    bit = 0x80 >> (row & 7)

    def with_bit(bits):
        bits[row >> 3] |= bit
        return bits

    change_model(run, step, **{f"{name}_bits": with_bit})
    facts = lines_of(run)[step]
    changed = {f"screened_{name}": facts[f"screened_{name}"] + 1, "survivors": facts["survivors"] - 1}
    change_step(run, step, **changed)
    reseal(run)


@pytest.mark.parametrize(("name", "above"), [("zero", False), ("upper", True)])
def test_a_false_verdict(run, data, name, above):
    """A row that is far on one side of its margin is said to be proven on the other."""
    step = open_run(run).steps[1]
    trained = open_run(run).steps[0].alpha > 0
    f = np.concatenate([s.load().labels * (s.load().csr() @ step.w) for s in data.shards])
    rows = np.flatnonzero(trained & (step.verdicts == 0))
    row = int(rows[np.argmax(f[rows])] if above else rows[np.argmin(f[rows])])
    assert bool(f[row] > 1) is above
    screened(run, 1, row, name)
    assert problems(run, data)[1] == f"row {row} was screened as {name.upper()}, but is on the other side of its margin"


def test_counts_that_are_not_those_of_the_verdicts(run, data):
    facts = lines_of(run)[6]
    for name in ("screened_zero", "screened_upper", "survivors"):
        change_step(run, 6, **{name: facts[name] + 1})
        reseal(run)
        assert problems(run, data) == {6: f"the stored {name} {facts[name] + 1} is not {facts[name]}"}
        change_step(run, 6, **{name: facts[name]})


# Scores, the best step, status


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "auc", "f1"])
def test_scores_are_those_of_the_rows_left_out(run, data, name):
    stored = lines_of(run)[4]["scores"]
    change_step(run, 4, scores=stored | {name: stored[name] + 0.01})
    reseal(run)
    assert problems(run, data)[4].startswith(f"the stored {name} ")
    change_step(run, 4, scores=stored | {name: None})
    reseal(run)
    assert problems(run, data)[4].startswith(f"the stored {name} None is not ")
    change_step(run, 4, scores=None)
    reseal(run)
    assert problems(run, data)[4].endswith("rows were left out, but there are no scores")


def test_scores_without_rows_to_score(folded, tmp_path):
    data, run = folded[0], shutil.copytree(folded[1], tmp_path / "run")
    change_step(run, 1, scores={"accuracy": 1.0})
    reseal(run)
    assert problems(run, data) == {1: "scores without rows to score"}


@pytest.mark.parametrize("select", ["accuracy", "log_loss"])
def test_scores_in_their_ranges(select):
    random = np.random.default_rng(0)
    for _ in range(50):
        labels = np.where(random.random(20) < 0.5, 1, -1).astype(np.int8)
        labels[:2] = 1, -1
        f = np.round(random.standard_normal(20), 1)
        assert check_scores.wrong_score(scores(f, labels, select), f, np.zeros(20), labels, select) == ""
        nearly = f + random.uniform(-0.1, 0.1, 20)
        assert check_scores.wrong_score(scores(nearly, labels, select), f, np.full(20, 0.1), labels, select) == ""
    one = np.ones(3, np.int8)
    undefined = {"accuracy": 1.0, "balanced_accuracy": None, "auc": None, "f1": 1.0}
    assert check_scores.wrong_score(undefined, np.ones(3), np.zeros(3), one, select) == ""
    assert "auc" in check_scores.wrong_score(undefined | {"auc": 0.5}, np.ones(3), np.zeros(3), one, select)
    nothing_said = {"accuracy": 1.0, "balanced_accuracy": None, "auc": float("nan"), "f1": None}
    assert check_scores.wrong_score(nothing_said, np.ones(3), np.zeros(3), -one, select) == ""


def test_a_log_loss_that_is_not_the_models():
    random = np.random.default_rng(1)
    labels = np.where(random.random(300) < 0.5, 1, -1).astype(np.int8)
    f, doubt = random.standard_normal(300) + 0.5, np.full(300, 1e-14)
    said = scores(f, labels, "log_loss")
    assert check_scores.wrong_score(said, f, doubt, labels, "log_loss") == ""
    better = said | {"log_loss": said["log_loss"] * (1 - 1e-5)}
    for select in ("log_loss", "auc"):
        assert check_scores.wrong_score(better, f, doubt, labels, select).startswith("the stored log_loss ")
    for missing in (said | {"log_loss": None}, scores(f, labels)):
        assert check_scores.wrong_score(missing, f, doubt, labels, "log_loss").startswith("the stored log_loss None is")


def test_the_best_log_loss_is_the_smallest():
    found = [{"log_loss": 0.5, "auc": 0.5}, {"log_loss": 0.3, "auc": 0.6}, {"log_loss": 0.4, "auc": 0.7}]
    assert check_scores.best_steps(found, "log_loss") == {1}
    assert check_scores.best_steps(found, "auc") == {2}


def test_another_best_step(run, data):
    best = open_run(run).header.best_step
    for wrong in (best + 1, None):
        change_header(run, best_step=wrong)
        with pytest.raises(RunError, match=rf"run.json calls step {wrong} the best, but by the scores it is {best};"):
            found(run, data)


def test_other_scores_of_a_cross_validation(folded, tmp_path):
    data, run = folded[0], shutil.copytree(folded[1], tmp_path / "run")
    header = open_run(run).header.to_json()
    for wrong in (header["cv_scores"][:2], [], header["cv_scores"][::-1]):
        change_header(run, cv_scores=wrong)
        with pytest.raises(RunError, match=r"cv_scores in run\.json are not the means of the folds' scores"):
            found(run, data)
    change_header(run, **header | {"best_step": header["best_step"] + 1})
    with pytest.raises(RunError, match="the best, but by the scores it is"):
        found(run, data)


def test_folds_are_sealed_too(folded, tmp_path):
    data, run = folded[0], shutil.copytree(folded[1], tmp_path / "run")
    change_step(run / "folds" / "1", 1, theta=1.25)
    assert [f.run for f in found(run, data) if not f.holds] == [str(run / "folds" / "1")]


def test_nothing_scored_has_no_best_step_or_the_last(tmp_path):
    data = write_shards(tmp_path / "shards", plain_world(40, 3))
    fit_path(data, out=tmp_path / "run", grid=[0.1, 1.0])
    for best in (None, 1):
        change_header(tmp_path / "run", best_step=best)
        assert said(tmp_path / "run", data) == []
    change_header(tmp_path / "run", best_step=0)
    with pytest.raises(RunError, match="calls step 0 the best, but by the scores it is 1 or None"):
        found(tmp_path / "run", data)


def test_scores_on_validation_data(made, tmp_path):
    data, run = made[0], tmp_path / "run"
    other = write_shards(tmp_path / "other", plain_world(50, 5, seed=1), [20])
    fit_path(data, out=run, grid=[0.1, 1.0], validation=other)
    assert said(run, data) == [f"{run}: scores on validation data are not checked; give them with --validation"]
    assert all(finding.holds for finding in found(run, data, validation=other))
    with pytest.raises(RunError, match="was not scored on"):
        found(run, data, validation=data)
    stored = lines_of(run)[1]["scores"]
    change_step(run, 1, scores=stored | {"accuracy": stored["accuracy"] - 0.02})
    reseal(run)
    assert [f.problem[:19] for f in found(run, data, validation=other)] == ["", "the stored accuracy"]
    change_step(run, 0, theta=1.25)
    assert found(run, data, validation=other)[0].problem.startswith("its line in steps.jsonl does not follow")


def unsealed(run, **changes):
    """Change run.json by hand; None removes a key."""
    header = json.loads((run / "run.json").read_text()) | changes
    (run / "run.json").write_text(json.dumps({k: v for k, v in header.items() if k not in changes or v is not None}))


@pytest.mark.parametrize(
    "changes",
    [{"status": "running"}, {"class_weights": None}, {"versions_again": {}}, {"seal": None}, {"seal": "0" * 64}],
)
@pytest.mark.parametrize("step", [None, 3])
def test_a_run_json_that_was_changed_by_hand(run, data, changes, step):
    unsealed(run, **changes)
    with pytest.raises(RunError, match=r"run\.json is not as it was written; train again"):
        found(run, data, step=step)


def test_a_finished_run_cut_short_and_called_running(run, data):
    write_lines(run, lines_of(run)[:-2])
    unsealed(run, status="running")
    with pytest.raises(RunError, match=r"run\.json is not as it was written; train again"):
        found(run, data)


def test_another_c_min_than_a_grid_has_no_use_for(tmp_path):
    data, run = write_shards(tmp_path / "shards", plain_world(40, 3)), tmp_path / "run"
    fit_path(data, out=run, grid=[1e-6, 1e-5])  # below C_min: in closed form
    unsealed(run, c_min=1e-4)
    with pytest.raises(RunError, match=r"run\.json is not as it was written; train again"):
        found(run, data)


def test_what_a_run_took_and_where_its_data_lay_is_no_part_of_it(run, data):
    unsealed(run, seconds=1.0, peak_memory=1, data=open_run(run).header.to_json()["data"] | {"path": "elsewhere"})
    assert said(run, data) == []


def test_other_class_weights(run, data):
    change_header(run, class_weights=[3.0, 1.0])
    assert problems(run, data) == {0: "class_weights in run.json are (3.0, 1.0), not (1.0, 1.0)"}


def test_scores_of_folds_that_there_are_none_of(run, data):
    change_header(run, cv_scores=[line["scores"] for line in lines_of(run)][::-1])
    with pytest.raises(RunError, match=r"cv_scores in run\.json, but the run has no folds"):
        found(run, data)


def test_steps_that_are_chained_in_a_run_that_says_nothing_of_it(run, data):
    unsealed(run, version=1, chain=None)
    with pytest.raises(RunError, match=r"its steps are chained, but run\.json says nothing of it"):
        found(run, data)


# Continuing


def test_a_continued_run_follows_the_chain(made, run, data):
    """A changed line sends a continued run back to the step before it, and it ends as it was."""
    change_step(run, 6, theta=1.25)
    spec = open_run(run).spec
    with writing(run, spec, DataRecord.of(data), versions()) as writer:
        assert len(writer.steps) == 6
    fit_path(data, out=run, c_max=3.0, epsilon=0.1, holdout=0.3)
    expected = open_run(made[1])
    assert open_run(run).header.chain == expected.header.chain
    assert [step.model_digest for step in open_run(run).steps] == [step.model_digest for step in expected.steps]
    assert said(run, data) == []


def test_a_run_json_of_other_steps_is_refused(run, data):
    lines = lines_of(run)
    change_step(run, len(lines) - 1, theta=1.25)
    end = open_run(run).header.chain
    reseal(run)
    change_header(run, chain=end)
    with (
        pytest.raises(RunError, match=r"run\.json is not that of steps\.jsonl; remove"),
        writing(run, open_run(run).spec, DataRecord.of(data), versions()),
    ):
        pass


def test_every_step_seals_the_one_before(run):
    header, lines = open_run(run).header.to_json(), lines_of(run)
    assert not any(broken(header, lines))
    assert len({line["chain"] for line in lines}) == len(lines)
    assert header["chain"] == lines[-1]["chain"]
    for first, second in pairwise(range(len(lines))):
        swapped = list(lines)
        swapped[first], swapped[second] = lines[second], lines[first]
        assert any(broken(header, swapped))


# What run.json says of the data


CHANGED_DATA = {
    "labels": ({"labels": {"negative": ["1"], "positive": ["-1"]}}, "calls the negative class 1, but the data -1"),
    "one label": (
        {"labels": {"negative": ["-1"], "positive": ["yes"]}},
        "calls the positive class yes, but the data 1",
    ),
    "one against the rest": (
        {"labels": {"negative": ["-1"], "positive": ["1"], "one_against_rest": True}},
        "says otherwise than the data whether the negative class is all that is not positive",
    ),
    "bias": ({"bias": 1.0}, "says bias 1.0, but the data have 0.0"),
    "columns": ({"columns": list("abced")}, "has other names of columns than the data"),
    "no columns": ({"columns": None}, "has other names of columns than the data"),
    "index base": ({"index_base": 0}, "says that indices counted from 0, but the data from 1"),
    "nonzeros": ({"nnz": 7}, "says nnz 7, but the data have 400"),
}


@pytest.mark.parametrize("what", CHANGED_DATA)
def test_what_is_said_of_the_data_must_be_so(run, data, what):
    data = replace(data, columns=tuple("abcde"), index_base=1)
    changes, problem = CHANGED_DATA[what]
    about = json.loads((run / "run.json").read_text())["data"] | {"columns": list("abcde"), "index_base": 1}
    for facts in (about, about | changes):
        change_header(run, data=facts)
        reseal(run)
        if facts is about:
            assert said(run, data) == []
            continue
        with pytest.raises(RunError, match=rf"run: run\.json {re.escape(problem)}; verify it with the data that it"):
            found(run, data)


def test_shards_that_are_not_those_of_the_data(run, data):
    about = json.loads((run / "run.json").read_text())["data"]
    about["shards"][0][1] -= 1
    about["shards"][1][1] += 1
    change_header(run, data=about)
    reseal(run)
    with pytest.raises(RunError, match=r"the shards in run\.json are not those of its data"):
        found(run, data)


def test_data_without_names_cannot_tell(run, data):
    about = json.loads((run / "run.json").read_text())["data"] | {"columns": list("abcde")}
    change_header(run, data=about)
    reseal(run)
    assert said(run, data) == [f"{run}: {data.path} has no column names; those in run.json are not checked"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rule": "bt1"}, "it says rule bt1, but the run has it"),
        ({"working_set": 81}, "it says a working set of 81 rows, and 55 were trained on"),
    ],
)
def test_rule_and_working_set_are_those_that_can_be(run, data, changes, problem):
    change_step(run, 3, **changes)
    reseal(run)
    assert problems(run, data) == {3: problem}
