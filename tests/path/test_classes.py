"""Several classes: the models are those of one class against the rest each, and the largest score says the class."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, RunError, SpecError
from pipeline.events import Note, StepProgress
from pipeline.maths.class_scores import class_scores
from pipeline.passes.gather import gather
from pipeline.passes.products import margins
from pipeline.passes.sums import cost_sum
from pipeline.path.fit import fit_path
from pipeline.runs.classes import ClassesRun, ClassesStep, chain_of
from pipeline.runs.directory import open_run
from pipeline.verify.classes import verify_any
from pipeline.verify.split import left_out
from tests.formats import Table, contents
from tests.tampering import change_header, reseal
from tests.trained import command, shards_of, sparse_rows

GRID = (0.01, 0.1, 1.0)
QUICK = {"grid": GRID, "scheduler": "inline", "memory": 4 * 10**9}


def table(n: int = 90, names: tuple = ("0", "1", "2"), seed: int = 0, order: str = "shuffled") -> Table:
    """Rows whose class is the largest of a few noisy linear functions of them."""
    rng = np.random.default_rng(seed)
    made = sparse_rows(n, seed=seed)
    found = np.argmax(
        made.x @ rng.standard_normal((12, len(names))) + 0.3 * rng.standard_normal((n, len(names))), axis=1
    )
    found[: len(names)] = np.arange(len(names))
    rows = np.argsort(found, kind="stable")
    rows = {"shuffled": np.arange(n), "sorted": rows, "reversed": rows[::-1]}[order]
    return Table(made.x[rows], np.array(names)[found[rows]], np.round(rng.uniform(0.5, 2.0, n), 3))


def made(folder: Path, rows: Table, **spec) -> Dataset:
    folder.mkdir(parents=True)
    return shards_of(folder, rows, **spec)


def dense(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    found = contents(data)
    return found.x, found.labels


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made(tmp_path_factory.mktemp("rows") / "all", table(), bias=1.0)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    return fit_path(data, out=tmp_path_factory.mktemp("runs") / "run", holdout=0.3, **QUICK)


def note(into: list[str]):
    return lambda event: into.append(event.text) if isinstance(event, Note) else None


# --- the same models as of one class at a time ---


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    names=st.sampled_from([("0", "1", "2"), ("-1", "1", "10", "9"), ("eggs", "ham", "spam", "x"), ("2", "10", "a")]),
    order=st.sampled_from(["shuffled", "sorted", "reversed"]),
    seed=st.integers(0, 10**6),
    rows_per_shard=st.sampled_from([7, 30, 1000]),
    bias=st.sampled_from([0.0, 1.0]),
    solver=st.sampled_from(["auto", "dcd", "newton"]),
)
def test_models_are_those_of_each_class_ingested_against_the_rest(tmp_path_factory, names, order, seed, **options):
    folder, solver = tmp_path_factory.mktemp("classes"), options.pop("solver")
    rows = table(60, names, seed, order)
    data = made(folder / "all", rows, **options)
    run = fit_path(data, out=folder / "run", solver=solver, **QUICK)
    assert isinstance(run, ClassesRun)
    assert set(run.classes) == set(names)
    assert len(run.steps) == 3
    for k, name in enumerate(run.classes):
        alone = fit_path(made(folder / f"only-{k}", rows, positive=name, **options), solver=solver, **QUICK)
        assert [part.model.digest() for part in run.runs[k].steps] == [step.model.digest() for step in alone.steps]
        assert [part.relative_gap for part in run.runs[k].steps] == [step.relative_gap for step in alone.steps]


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_same_bits_wherever_it_runs(data, run, scheduler):
    other = fit_path(data, holdout=0.3, **QUICK | {"scheduler": scheduler, "workers": 2})
    for one, two in zip(run.steps, other.steps, strict=True):
        assert [part.model.digest() for part in one.parts] == [part.model.digest() for part in two.parts]
    assert other.header.scores == run.header.scores


@pytest.mark.parametrize("weights", ["balanced", {"0": 2.0, "2.0": 0.5}])
def test_weights_are_those_of_every_row_of_a_class(tmp_path, data, weights):
    """In all problems, on whichever side: the same models as of data whose rows have these weights."""
    run = fit_path(data, class_weight=weights, **QUICK)
    counts = np.bincount(dense(data)[1])
    by_class = counts.sum() / (3 * counts) if weights == "balanced" else np.array([2.0, 1.0, 0.5])
    assert run.header.class_weights == tuple(by_class.tolist())
    for k in range(3):
        view = data.against_rest(k, by_class.tolist())
        alone = fit_path(view, **QUICK)
        assert [s.model.digest() for s in run.runs[k].steps] == [s.model.digest() for s in alone.steps]
        costs = np.concatenate([shard.load().costs for shard in view.shards])
        x, y = dense(data)
        y = np.where(y == k, 1.0, -1.0)
        for step in alone.steps:
            slack = np.maximum(0.0, 1.0 - y * (x @ step.w))
            assert step.primal == pytest.approx(step.w @ step.w / 2 + step.c * (costs @ slack), rel=1e-9)
        assert costs.tolist() == (contents(data).costs * by_class[dense(data)[1]]).tolist()


def test_balanced_weights_count_the_rows_that_are_trained_on(data):
    run = fit_path(data, class_weight="balanced", holdout=0.3, **QUICK)
    kept = ~held_out(data, run.spec)
    counts = np.bincount(dense(data)[1][kept])
    assert run.header.class_weights == tuple((counts.sum() / (3 * counts)).tolist())


def test_weights_by_label_for_two_classes(tmp_path):
    two = made(tmp_path / "two", sparse_rows(labels=("ham", "spam")))
    named = fit_path(two, class_weight={"spam": 2.0}, **QUICK)
    pair = fit_path(two, class_weight=(1.0, 2.0), **QUICK)
    assert [step.model.digest() for step in named.steps] == [step.model.digest() for step in pair.steps]
    assert named.spec == pair.spec
    with pytest.raises(SpecError, match="has no class eggs to give a weight; there are ham, spam"):
        fit_path(two, class_weight={"eggs": 2.0}, **QUICK)
    rest = made(tmp_path / "rest", table(), positive="1")
    with pytest.raises(
        SpecError, match="the labels 0, 2 are one class, which has one weight; give class_weight as NEG"
    ):
        fit_path(rest, class_weight={"0": 2.0}, **QUICK)


def test_a_grid_in_multiples_of_the_smallest_c_min(data):
    run = fit_path(data, grid=(10.0, 100.0), grid_in_c_min=True, **{k: v for k, v in QUICK.items() if k != "grid"})
    alone = [fit_path(data.against_rest(k), c_max=1e-9).header.c_min for k in range(3)]
    assert run.header.c_min == min(alone)
    assert len(set(alone)) == 3
    assert [step.c for step in run.steps] == [10 * min(alone), 100 * min(alone)]


# --- scores ---


def held_out(data: Dataset, spec) -> np.ndarray:
    hashes = np.concatenate([row_hashes(shard.load()) for shard in data.shards])
    return left_out(hashes, dense(data)[1], spec)


@pytest.mark.parametrize(
    "options", [{"holdout": 0.3}, {"holdout": 0.3, "stratified": True}, {"fold": (1, 3), "seed": 7}]
)
def test_every_class_leaves_the_same_rows_out(data, options):
    run = fit_path(data, **QUICK, **options)
    out, y = held_out(data, run.spec), dense(data)[1]
    assert 0 < out.sum() < data.n_rows
    if "stratified" in options:
        assert np.bincount(y[out]) == pytest.approx(0.3 * np.bincount(y), abs=0.51)
    for part in run.runs:
        assert part.steps[0].n_rows == np.count_nonzero(~out)
        assert all(not step.alpha[out].any() for step in part.steps)


def test_scores_are_those_of_the_largest_score(data, run):
    (x, y), out = dense(data), held_out(data, run.spec)
    costs = np.concatenate([shard.load().costs for shard in data.shards])
    assert run.spec.select == "weighted_accuracy", "rows have weights, and no score was named"
    for step in run.steps:
        s = x[out] @ step.w.T
        assert step.scores["accuracy"] == np.mean(np.argmax(s, axis=1) == y[out])
        found = class_scores(s.T, y[out], run.spec.select, costs[out])
        assert step.scores == {name: pytest.approx(value, abs=1e-12) for name, value in found.items()}
        assert step.relative_gap == max(part.relative_gap for part in step.parts)
        assert step.n_free == sum(part.n_free for part in step.parts)
    accuracy = [step.scores[run.spec.select] for step in run.steps]
    assert run.best_step == run.header.best_step == int(np.argmax(accuracy))
    assert run.best is run.steps[run.best_step]
    assert run.at(0.1) is run.steps[1]


def test_few_scores_at_a_time_are_the_same(data, run, monkeypatch):
    monkeypatch.setattr("pipeline.path.class_judge.SCORE_BYTES", 1)
    monkeypatch.setattr("pipeline.scoring.classes_model.PIECE_SCORES", 7)
    assert fit_path(data, holdout=0.3, **QUICK).header.scores == run.header.scores


@pytest.mark.parametrize("kind", ["the same", "other classes", "two of them", "unknown ones, too"])
def test_validation_data_are_matched_by_the_names_of_classes(tmp_path, data, kind):
    names = {
        "the same": ("0", "1", "2"),
        "other classes": ("2", "x", "0", "1"),
        "two of them": ("2", "1"),
        "unknown ones, too": ("1", "2", "y"),
    }[kind]
    rows = table(50, names, seed=3)
    other, said = made(tmp_path / "other", rows, bias=1.0), []
    run = fit_path(data, validation=other, listen=note(said), **QUICK)
    known = np.isin(rows.y, run.classes)
    codes = np.array([run.classes.index(label) for label in rows.y[known]])
    x = np.column_stack([rows.x, np.ones(len(rows.y))])[known]
    for step in run.steps:
        assert step.scores["accuracy"] == np.mean(np.argmax(x @ step.w.T, axis=1) == codes)
    assert any("labels the run does not know" in text for text in said) == (not known.all())
    assert run.header.data.validation == other.fingerprint


def test_validation_data_that_cannot_be_are_refused_before_anything_is_trained(tmp_path, data):
    out = tmp_path / "run"
    with pytest.raises(SpecError, match="bias"):
        fit_path(data, validation=made(tmp_path / "a", table()), out=out, **QUICK)
    with pytest.raises(SpecError, match="has none of the classes of"):
        fit_path(data, validation=made(tmp_path / "b", table(names=("x", "y", "z")), bias=1.0), out=out, **QUICK)
    two = made(tmp_path / "c", sparse_rows())
    with pytest.raises(DataError, match="has 3 classes, and a run of two classes needs two"):
        fit_path(two, validation=made(tmp_path / "d", table()), out=out, **QUICK)
    assert not out.exists()


def test_cross_validation(tmp_path, data):
    run = fit_path(data, out=tmp_path / "run", cv=3, **QUICK)
    folds = [open_run(tmp_path / "run" / "folds" / str(k)) for k in range(3)]
    x, y = dense(data)
    left = np.zeros(data.n_rows, int)
    for fold in folds:
        assert isinstance(fold, ClassesRun)
        out = held_out(data, fold.spec)
        left += out
        for step in fold.steps:
            assert step.scores["accuracy"] == np.mean(np.argmax(x[out] @ step.w.T, axis=1) == y[out])
    assert (left == 1).all()
    means = [np.mean([fold.steps[k].scores["accuracy"] for fold in folds]) for k in range(3)]
    assert [scores["accuracy"] for scores in run.header.cv_scores] == pytest.approx(means, abs=1e-15)
    assert run.best_step == int(np.argmax(means))
    assert run.is_finished
    whole = fit_path(data, **QUICK)
    for one, two in zip(run.steps, whole.steps, strict=True):
        assert [part.model.digest() for part in one.parts] == [part.model.digest() for part in two.parts]


# --- starts ---


def test_a_reference_of_the_same_classes(data, run):
    near = fit_path(data, reference=run.steps[1], holdout=0.3, **QUICK | {"grid": (0.11,)})
    assert all(part.steps[0].c_ref == 0.1 for part in near.runs)
    cold = fit_path(data, holdout=0.3, **QUICK | {"grid": (0.11,)})
    for one, two in zip(near.steps[0].parts, cold.steps[0].parts, strict=True):
        assert one.primal == pytest.approx(two.primal, rel=2e-4)
    assert near.header.data.reference[0].c == 0.1


def test_references_of_other_classes_are_refused(tmp_path, data, run):
    two = made(tmp_path / "two", sparse_rows(), bias=1.0)
    single = fit_path(two, **QUICK)
    with pytest.raises(SpecError, match="the reference is a model of two classes, and the data have 3"):
        fit_path(data, reference=single.steps[0], **QUICK)
    with pytest.raises(SpecError, match="the reference is a model of several classes, and the data have two"):
        fit_path(two, reference=run.steps[0], **QUICK)
    others = made(tmp_path / "others", table(names=("0", "1", "2", "3")), bias=1.0)
    with pytest.raises(SpecError, match="the reference has no model of class 3"):
        fit_path(others, reference=run.steps[0], **QUICK)


# --- patience ---


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    rows, rng = table(120, seed=3), np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.35, rng.permutation(rows.y), rows.y)
    return made(tmp_path_factory.mktemp("noisy") / "rows", Table(rows.x, y, np.ones(120)), bias=1.0)


class TestPatience:
    GRID = tuple(float(c) for c in np.logspace(-5, 4, 19))

    def means(self, runs, count):
        """The mean of the scores of all classes, each against the rest, by step."""
        scores = [[step.scored["accuracy"] for step in run.steps[:count]] for run in runs]
        return [np.mean(each) for each in zip(*scores, strict=True)]

    @pytest.mark.parametrize("how", [{"holdout": 0.4}, {"cv": 3, "stratified": True}])
    @pytest.mark.parametrize("grid", [GRID, None])
    def test_all_end_together_after_the_peak_of_their_mean(self, noisy, tmp_path, how, grid):
        settings = {"grid": grid, "epsilon": 0.3, "scheduler": "inline", "memory": 4 * 10**9, **how}
        whole = fit_path(noisy, out=tmp_path / "whole", **settings)
        run = fit_path(noisy, out=tmp_path / "run", patience=3, **settings)
        places = [run] if "holdout" in how else [open_run(run.path / "folds" / str(k)) for k in range(3)]
        parts = [part for each in places for part in each.runs]
        found = self.means(parts, len(run.steps))
        assert 4 <= len(run.steps) < len(whole.steps)
        assert len(found) - 1 - int(np.argmax(found)) == 3
        assert {part.header.stopped for part in (*parts, *run.runs, run)} == {"patience"}
        if grid is not None or "holdout" in how:  # else folds that go along may ask for smaller steps
            assert run.scores == whole.scores[: len(run.steps)]
            for one, two in zip(run.steps, whole.steps, strict=False):
                assert [part.model.digest() for part in one.parts] == [part.model.digest() for part in two.parts]
        with Engine("threads", 2) as engine:
            assert all(finding.holds for finding in verify_any(engine, run.path, noisy))

    def test_interrupted_it_goes_on_to_the_same_run(self, noisy, tmp_path):
        settings = {"grid": self.GRID, "holdout": 0.4, "patience": 3, "scheduler": "inline", "memory": 4 * 10**9}
        whole = fit_path(noisy, out=tmp_path / "whole", **settings)

        class Enough(Exception):
            pass

        for after in (1, 5, 11):
            seen = []

            def stop(event, seen=seen, after=after):
                seen.append(event)
                if isinstance(event, StepProgress) and sum(getattr(each, "done", False) for each in seen) > after:
                    raise Enough

            with pytest.raises(Enough):
                fit_path(noisy, out=tmp_path / f"run-{after}", listen=stop, **settings)
            run = fit_path(noisy, out=tmp_path / f"run-{after}", **settings)
            assert (run.header.scores, run.header.stopped) == (whole.header.scores, "patience")
            digests = [[part.model.digest() for part in step.parts] for step in run.steps]
            assert digests == [[part.model.digest() for part in step.parts] for step in whole.steps]

    def test_verify_sees_an_end_that_was_moved(self, noisy, tmp_path):
        settings = {"grid": self.GRID, "holdout": 0.4, "scheduler": "inline", "memory": 4 * 10**9}
        run = fit_path(noisy, out=tmp_path / "run", patience=3, **settings)
        change_header(run.path, stopped=None)
        with Engine("inline") as engine, pytest.raises(RunError, match="has not the C that all classes"):
            verify_any(engine, run.path, noisy)
        fewer = run.header.scores[:-1]
        change_header(run.path, stopped="patience", n_steps=len(fewer), scores=fewer)
        with Engine("inline") as engine, pytest.raises(RunError, match="has not the C that all classes"):
            verify_any(engine, run.path, noisy)
        whole = fit_path(noisy, out=tmp_path / "whole", **settings)
        for place in (whole.path, *(part.path for part in whole.runs)):
            item = json.loads((place / "run.json").read_text())
            change_header(place, spec=item["spec"] | {"patience": 3})
            if place != whole.path:
                reseal(place)
        item = json.loads((whole.path / "run.json").read_text())
        seals = [json.loads((part.path / "run.json").read_text())["seal"] for part in whole.runs]
        change_header(whole.path, chain=chain_of(item, seals))
        with Engine("inline") as engine, pytest.raises(RunError, match="did not end where a patience of 3 ends"):
            verify_any(engine, whole.path, noisy)


# --- refusals, before anything is written ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"patience": 3},
            "patience of several classes needs rows that are left out of training; give --holdout or --cv",
        ),
        (
            {"class_weight": (1.0, 2.0)},
            "is that of a negative and a positive class, and there are 3; write LABEL=WEIGHT",
        ),
        ({"class_weight": {"7": 1.0}}, "has no class 7 to give a weight; there are 0, 1, 2"),
        ({"holdout": 1e-9}, "the hold-out has none of the 90 rows to be scored on"),
        ({"cv": 89}, "fold 1 of 89 .* has none of the 90 rows to be scored on; use fewer folds|has all rows"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, data, options, message):
    with pytest.raises((SpecError, DataError), match=message) as caught:
        fit_path(data, out=tmp_path / "run", **QUICK | options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_fold_that_has_all_rows_of_a_class(tmp_path):
    rows = table(40)
    rows = Table(np.vstack([rows.x, rows.x[:1] + 1]), np.append(rows.y, "3"), np.append(rows.costs, 1.0))
    lonely = made(tmp_path / "all", rows)
    with pytest.raises(DataError, match=r"fold \d of 3 .* has all rows of class 3, and none to train on are left"):
        fit_path(lonely, cv=3, **QUICK)


def test_a_run_in_the_place_of_another_kind(tmp_path, data, run):
    two = made(tmp_path / "two", sparse_rows(), bias=1.0)
    single = fit_path(two, out=tmp_path / "single", **QUICK)
    with pytest.raises(RunError, match="is a run of two classes, and the data have 3; remove"):
        fit_path(data, out=single.path, **QUICK)
    with pytest.raises(RunError, match="is a run of several classes, and one of two is needed"):
        fit_path(two, out=run.path, **QUICK)
    with pytest.raises(RunError, match="was made with other settings"):
        fit_path(data, out=run.path, **QUICK)
    renamed = made(tmp_path / "renamed", table(names=("0", "1", "3")), bias=1.0)
    with pytest.raises(RunError, match=r"was made from the same numbers under other names .*class '2', now '3'"):
        fit_path(renamed, out=run.path, holdout=0.3, **QUICK)


def test_passes_for_two_classes_refuse_more(data):
    w = np.zeros(data.n_features)
    with Engine("inline") as engine:
        for work in (
            lambda: margins(engine, data, w),
            lambda: cost_sum(engine, data),
            lambda: gather(engine, data, np.ones(data.n_rows, bool)),
        ):
            with pytest.raises(DataError, match=r"has 3 classes, and .* needs two"):
                work()


# --- a run without a home, and the commands ---


def test_models_live_as_long_as_a_step_does(data):
    step = fit_path(data, **QUICK).steps[0]
    assert isinstance(step, ClassesStep)
    assert step.w.shape == (3, data.n_features)


def test_the_commands(tmp_path, capsys, data):
    out = tmp_path / "run"
    words = [
        "path",
        data.path,
        "--out",
        out,
        "--grid",
        "0.1,1",
        "--holdout",
        "0.3",
        "--class-weight",
        "0=2,2=0.5",
        "-q",
    ]
    code, said, _ = command(capsys, *words)
    assert code == 0
    head, *lines, last = said.splitlines()
    assert head.split()[:6] == ["step", "C", "free", "relative", "gap", "accuracy"]
    assert [line.split()[1] for line in lines] == ["0.1", "1"]
    assert "6 certified models, 3 classes at 2 values of C, relative gap at most" in last
    assert open_run(out).header.class_weights == (2.0, 1.0, 0.5)
    code, said, _ = command(
        capsys, "train", data.path, "--c", "0.5", "--reference", out, "--out", tmp_path / "one", "-q"
    )
    assert (code, "3 classes at 1 value of C" in said) == (0, True)
    refused = {
        ("screen", data.path, "--reference", out, "--c", "1", "--out", tmp_path / "v.csv"): "rows are screened for two",
        ("path", data.path, "--out", tmp_path / "x", "--class-weight", "a"): "nor LABEL=WEIGHT",
    }
    for arguments, message in refused.items():
        code, _, error = command(capsys, *arguments)
        assert (code > 0, error.count("\n"), message in error) == (True, 1, True)


def test_screening_rows_of_several_classes(tmp_path, capsys, data):
    two = fit_path(made(tmp_path / "two", table(), bias=1.0, positive="1"), out=tmp_path / "run", **QUICK)
    code, _, error = command(
        capsys, "screen", data.path, "--reference", two.path, "--c", "1", "--out", tmp_path / "v.csv", "-q"
    )
    assert (code, error.count("\n")) == (1, 1)
    assert "has 3 classes, and screening needs two; ingest the files again with --positive LABEL" in error


# --- kernels, and scikit-learn ---


def test_kernels_with_several_classes(tmp_path, data):
    run = fit_path(data, out=tmp_path / "run", kernel="rbf", gamma=0.1, holdout=0.3, **QUICK | {"grid": (1.0,)})
    for k in range(3):
        alone = fit_path(data.against_rest(k), kernel="rbf", gamma=0.1, holdout=0.3, **QUICK | {"grid": (1.0,)})
        assert run.runs[k].steps[0].model.digest() == alone.steps[0].model.digest()
    (x, y), out = dense(data), held_out(data, run.spec)
    x = x[:, :-1]
    gram = np.exp(-0.1 * ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)) + 1.0
    signs = np.where(y[None, :] == np.arange(3)[:, None], 1.0, -1.0)
    s = gram @ (signs * np.stack([part.alpha for part in run.steps[0].parts])).T
    assert run.steps[0].scores["accuracy"] == np.mean(np.argmax(s[out], axis=1) == y[out])


@pytest.mark.slow
def test_digits_as_linear_svc_has_them(tmp_path):
    """Both are within their gap of the same optimum: scores agree as far as that says, and so do classes."""
    x, y = load_digits(return_X_y=True)
    x, c, tol = x / 16, 0.05, 1e-7
    data = made(tmp_path / "digits", Table(x, y, np.ones(y.size)), rows_per_shard=500, bias=1.0)
    step = fit_path(data, grid=(c,), tol=tol).steps[0]
    theirs = LinearSVC(loss="hinge", C=c, tol=1e-8, max_iter=10**6, intercept_scaling=1.0).fit(x, y)
    assert step.parts[0].data.negative == tuple(str(k) for k in range(1, 10))
    ours, both = np.column_stack([x, np.ones(y.size)]) @ step.w.T, theirs.decision_function(x)
    # |w - w*|^2/2 <= gap, in either: with |x| <= norm, scores are apart by norm (sqrt(2 gap) + sqrt(2 gap'))
    norm = np.sqrt((x**2).sum(axis=1) + 1)
    for k, part in enumerate(step.parts):
        w = np.append(theirs.coef_[k], theirs.intercept_[k])
        signs = np.where(y == k, 1.0, -1.0)
        slack = np.maximum(0.0, 1.0 - signs * (np.column_stack([x, np.ones(y.size)]) @ w))
        gaps = part.primal - part.dual, w @ w / 2 + c * slack.sum() - part.dual
        apart = norm * sum(np.sqrt(2 * max(gap, 0.0)) for gap in gaps)
        assert (np.abs(ours[:, k] - both[:, k]) <= apart + 1e-9).all()
        assert gaps[1] < 1e-3 * part.primal
    top = np.sort(ours, axis=1)
    sure = top[:, -1] - top[:, -2] > 2 * np.abs(ours - both).max()
    assert sure.mean() > 0.98
    assert (np.argmax(ours, axis=1) == theirs.predict(x))[sure].all()
