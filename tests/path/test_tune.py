"""``tune``: the curve, the choice, the model; all of it is what verify finds, and the same after any interruption."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import pipeline
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.engine.engine import Engine
from pipeline.errors import RunError, SpecError
from pipeline.events import StepProgress
from pipeline.maths.calibration import Calibration
from pipeline.path import curve
from pipeline.path.curve import AROUND, coarse_grid, fine_grid, lattice
from pipeline.path.tune import USUAL
from pipeline.runs.chain import sealed
from pipeline.runs.directory import open_run
from pipeline.verify.classes import verify_any
from pipeline.verify.said import read_said
from pipeline.verify.tuned import check_patience, searched
from pipeline.verify.verify import verify
from pipeline.working.facts import collect
from tests.trained import command
from tests.worlds import World, check_run, plain_world, write_shards


@pytest.fixture(scope="module")
def world():
    return plain_world(n=240, d=6, seed=11, noise=2.0)


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("rows"), world, cuts=[50, 120])


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    return pipeline.tune(data, out=tmp_path_factory.mktemp("tuned") / "run")


def contents(folder: Path) -> dict[str, bytes]:
    """All models, and what run.json says but for times and memory."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.npz"))}
    for path in sorted(folder.rglob("run.json")):
        item = json.loads(path.read_text())
        for name in ("seconds", "peak_memory", "seal", "chain"):
            item.pop(name, None)
        found[str(path.relative_to(folder))] = json.dumps(item).encode()
    return found


def checked(run, data, **more):
    with Engine("threads", 2) as engine:
        return verify(engine, run.path, data, **more)


class TestGrids:
    def test_the_lattice_is_the_same_for_all_data(self):
        assert coarse_grid(0.0123, 2.0) == [0.03162, 0.1, 0.3162, 1.0]
        assert coarse_grid(0.03162, 2.0)[0] == 0.03162
        assert coarse_grid(0.03163, 2.0)[0] == 0.1
        assert coarse_grid(1e-3, 1e-3) == [1e-3]
        assert len(coarse_grid(1.0, None)) == 1 + 2 * curve.MOST_DECADES

    def test_around_the_best(self):
        coarse = coarse_grid(0.01, 100.0)
        assert fine_grid(1.0, coarse) == [0.5623, 0.7499, 1.334, 1.778]
        assert fine_grid(0.01, coarse) == [0.01334, 0.01778]
        assert all(lattice(k, 8) not in coarse for k in (-2, -1, 1, 2))

    def test_an_end_below_the_start(self):
        with pytest.raises(SpecError, match=r"C_max = 0\.001 is below 0\.1"):
            coarse_grid(0.1, 0.001)


class TestRun:
    def test_the_curve_is_that_of_the_folds(self, run):
        header = run.header
        cs = header.cv_c
        assert cs == sorted(cs)
        folds = [
            {
                step.c: step.scored["accuracy"]
                for stage in ("coarse", "fine")
                for step in open_run(run.path / "search" / stage / str(k)).steps
            }
            for k in range(5)
        ]
        table = np.array([[fold[c] for c in cs] for fold in folds])
        assert [scores["accuracy"] for scores in header.cv_scores] == pytest.approx(table.mean(axis=0))
        assert [scores["accuracy"] for scores in header.cv_se] == pytest.approx(
            table.std(axis=0, ddof=1) / math.sqrt(5)
        )

    def test_the_choice(self, run):
        means, errors = ([scores["accuracy"] for scores in each] for each in (run.header.cv_scores, run.header.cv_se))
        top = means.index(max(means))
        assert run.header.c_best == run.header.cv_c[top] == run.steps[0].c == run.best.c
        least = means[top] - errors[top]
        assert run.header.c_1se == next(c for c, mean in zip(run.header.cv_c, means, strict=True) if mean >= least)
        assert run.scores == [run.header.cv_scores[top]]

    def test_scores_fell_behind_the_peak(self, run):
        coarse = open_run(run.path / "search" / "coarse" / "0")
        assert coarse.header.stopped == "patience"
        assert coarse.spec.patience == 4

    def test_the_model_is_certified_on_all_rows(self, world, run):
        assert run.steps[0].n_rows == world.y.size
        check_run(world, run)

    def test_one_standard_error(self, data, run, tmp_path):
        other = pipeline.tune(data, out=tmp_path / "run", select="1se")
        assert other.steps[0].c == run.header.c_1se == other.header.c_1se
        assert other.header.cv_scores == run.header.cv_scores
        checked(other, data)

    def test_a_hold_out(self, data, tmp_path):
        run = pipeline.tune(data, out=tmp_path / "run", holdout=0.3, metric="auc")
        assert [scores["auc"] for scores in run.header.cv_se] == [None] * len(run.header.cv_c)
        assert run.header.c_1se <= run.header.c_best
        assert run.steps[0].n_rows == data.n_rows
        assert all(finding.holds for finding in checked(run, data))

    def test_seeds_make_other_folds(self, data, run):
        other = pipeline.tune(data, seed=1)
        assert other.header.cv_scores != run.header.cv_scores

    def test_every_metric(self, data):
        for metric in ("balanced_accuracy", "auc", "f1", "log_loss"):
            found = pipeline.tune(data, metric=metric, cv=2, calibration=None)
            values = [scores[metric] for scores in found.header.cv_scores]
            top = min(values) if metric == "log_loss" else max(values)
            assert values[found.header.cv_c.index(found.header.c_best)] == top

    def test_kernels(self, data, tmp_path):
        run = pipeline.tune(data, out=tmp_path / "run", kernel="rbf", gamma="1/d", cv=3)
        assert run.spec.kernel == "rbf"
        assert all(finding.holds for finding in checked(run, data))

    def test_a_grid(self, data, tmp_path):
        run = pipeline.tune(data, out=tmp_path / "run", grid=[1.0, 0.01, 0.1], cv=3)
        assert run.header.cv_c == [0.01, 0.1, 1.0]
        assert not (tmp_path / "run" / "search" / "fine").exists()
        assert all(finding.holds for finding in checked(run, data))
        c_min = pipeline.fit_path(data, grid=[0.1], scheduler="inline").header.c_min
        scaled = pipeline.tune(data, out=tmp_path / "scaled", grid=[10.0, 100.0], grid_in_c_min=True, cv=3)
        assert scaled.header.cv_c == pytest.approx([10 * c_min, 100 * c_min])
        assert pipeline.tune(data, out=tmp_path / "scaled", grid=[10.0, 100.0], grid_in_c_min=True, cv=3).header == (
            scaled.header
        )

    def test_gammas_to_choose_from(self, data, tmp_path):
        run = pipeline.tune(data, out=tmp_path / "run", kernel="rbf", gamma=["0.01/d", "1/d", 3.0], cv=3)
        best = [_best(tmp_path / "run" / "search" / f"gamma-{k}") for k in range(3)]
        gammas = [0.01 / data.n_features, 1 / data.n_features, 3.0]
        assert run.spec.gamma == pytest.approx(gammas[int(np.argmax(best))])
        assert max(scores["accuracy"] for scores in run.header.cv_scores) == pytest.approx(max(best))
        assert all(finding.holds for finding in checked(run, data))
        worse = int(np.argmin(best))
        other = json.loads((tmp_path / "run" / "search" / f"gamma-{worse}" / "coarse" / "0" / "run.json").read_text())
        assert other["spec"]["gamma"] == pytest.approx(gammas[worse])

    def test_progress_never_goes_beyond_the_end(self, data):
        heard = []
        pipeline.tune(data, cv=3, listen=heard.append)
        shares = [event.share for event in heard if isinstance(event, StepProgress)]
        assert min(shares) >= 0
        assert max(shares) <= 1

    @pytest.mark.parametrize("settings", [{}, {"grid": [0.01, 0.1, 1.0]}])
    def test_the_steps_of_the_last_stage_are_counted(self, data, settings):
        heard = []
        run = pipeline.tune(data, cv=3, listen=heard.append, **settings)
        left = [event.steps_left for event in heard if isinstance(event, StepProgress) and event.done]
        assert left[-1] == 0  # on all rows: as three folds until it is done
        assert len(left) == 3 * len(run.header.cv_c) + 1
        assert left[-10:-1] == [11, 10, 9, 8, 7, 6, 5, 4, 3]

    @pytest.mark.parametrize("patience", [5, 30])
    def test_while_c_are_tried_there_are_as_many_as_usual_or_the_last_is_taken_to_be_the_best(self, data, patience):
        heard = []
        pipeline.tune(data, cv=3, listen=heard.append, patience=patience, c_max=100.0)
        left = [event.steps_left for event in heard if isinstance(event, StepProgress) and event.done]
        tried = len(left) - 3 * len(AROUND) - 1
        coarse = [max(3 * max(USUAL, patience + 1) - k, 3 * (patience + 1)) for k in range(1, tried + 1)]
        assert left[:tried] == pytest.approx([count + 3 * (len(AROUND) + 1) for count in coarse])


class TestCalibration:
    def test_it_is_fitted_on_rows_left_out(self, data, run):
        c, scores, labels = run.steps[0].c, [], []
        x, y = _rows(data)
        with Engine("inline") as engine:
            for k in range(5):
                stages = [open_run(run.path / "search" / stage / str(k)) for stage in ("coarse", "fine")]
                step = next(step for stage in stages for step in stage.steps if step.c == c)
                left = collect(engine, data, step.spec, None).costs == 0
                scores.append(x[left] @ step.w)
                labels.append(y[left])
        scores, labels = np.concatenate(scores), np.concatenate(labels)
        assert labels.size == data.n_rows
        exact = LogisticRegression(C=math.inf, tol=1e-10).fit(scores[:, None], labels)
        found = run.header.calibration
        assert found.c == c
        assert found.probabilities(scores) == pytest.approx(exact.predict_proba(scores[:, None])[:, 1], abs=0.02)

    @pytest.mark.parametrize("kind", ["isotonic", None])
    def test_kinds(self, data, kind):
        found = pipeline.tune(data, cv=2, calibration=kind).header.calibration
        assert isinstance(found, Calibration) if kind else found is None


def _rows(data):
    parts = [shard.load() for shard in data.shards]
    return np.concatenate([part.csr().toarray() for part in parts]), np.concatenate([part.labels for part in parts])


class TestInterrupted:
    def test_it_goes_on_to_the_same_run(self, data, run, tmp_path):
        class StoppedError(Exception):
            pass

        steps = sum(len(open_run(path.parent).steps) for path in run.path.rglob("run.json"))
        for after in (1, 7, 20, 33, steps - 2, steps - 1):
            seen = 0

            def stop(event, after=after):
                nonlocal seen
                seen += isinstance(event, StepProgress) and event.done
                if seen == after:
                    raise StoppedError

            with pytest.raises(StoppedError):
                pipeline.tune(data, out=tmp_path / str(after), listen=stop)
            pipeline.tune(data, out=tmp_path / str(after))
            assert contents(tmp_path / str(after)) == contents(run.path)

    def test_nothing_is_written_again(self, data, run):
        before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()}
        pipeline.tune(data, out=run.path)
        assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()} == before

    def test_other_settings_are_refused(self, data, run):
        for other in ({"tol": 1e-3}, {"cv": 4}, {"seed": 3}, {"metric": "auc"}, {"class_weight": "balanced"}):
            with pytest.raises(RunError, match="was made with other settings") as refused:
                pipeline.tune(data, out=run.path, **other)
            assert f"remove {run.path} to start afresh" in str(refused.value)


class TestVerify:
    def test_all_of_it_holds(self, data, run):
        found = checked(run, data)
        assert all(finding.holds for finding in found)
        assert len(found) == 1 + 5 * len(run.header.cv_c)

    @pytest.mark.parametrize(
        ("changed", "problem"),
        [
            ({"c_best": 0.1234}, "by the scores the best C is"),
            ({"c_1se": 0.1234}, "with one standard error"),
            ({"cv_c": [0.1]}, "are not what the search found"),
            ({"cv_se": "scaled"}, "are not what the search found"),
            ({"cv_scores": "scaled"}, "are not what the search found"),
        ],
    )
    def test_a_curve_that_was_changed(self, data, run, tmp_path, changed, problem):
        copy = _copied(run.path, tmp_path / "run")
        item = json.loads((copy / "run.json").read_text())
        for name, value in changed.items():
            scaled = [{k: v and v * 1.001 for k, v in scores.items()} for scores in item["cv_se"]]
            item[name] = scaled if value == "scaled" else value
        (copy / "run.json").write_text(json.dumps(sealed(item)))
        with Engine("threads", 2) as engine, pytest.raises(RunError, match=problem):
            verify(engine, copy, data)

    def test_patience_that_was_longer(self, data, run, tmp_path):
        copy = _copied(run.path, tmp_path / "run")
        for path in (copy / "search" / "coarse").glob("*/run.json"):
            item = json.loads(path.read_text())
            item["spec"]["patience"] = 3
            path.write_text(json.dumps(sealed(item)))
        with Engine("threads", 2) as engine:
            assert not all(finding.holds for finding in verify(engine, copy, data))

    def test_runs_that_did_not_end_together(self, data, run, tmp_path):
        copy = _copied(run.path, tmp_path / "run")
        last = read_said(copy / "search" / "coarse" / "1")
        check_patience([read_said(copy / "search" / "coarse" / str(k)) for k in range(5)])
        with pytest.raises(RunError, match="different numbers of steps"):
            check_patience([read_said(copy / "search" / "coarse" / "0"), replace(last, steps=last.steps[:-1])])
        shorter = [replace(each, steps=each.steps[:-1]) for each in searched(read_said(copy))[0].stages[0]]
        with pytest.raises(RunError, match="did not end where a patience of 4 ends"):
            check_patience(shorter)


def _best(search: Path) -> float:
    """The best mean accuracy of a search's folds."""
    folds = [
        {
            step.c: step.scored["accuracy"]
            for stage in ("coarse", "fine")
            for step in open_run(search / stage / str(k)).steps
        }
        for k in range(3)
    ]
    return max(np.mean([fold[c] for fold in folds]) for c in folds[0])


def _copied(folder: Path, to: Path) -> Path:
    for path in folder.rglob("*"):
        if path.is_file():
            target = to / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return to


class TestCommand:
    def test_the_table(self, data, tmp_path, capsys):
        code, said, _ = command(capsys, "tune", data.path, "--out", tmp_path / "run", "--cv", 3, "-q")
        assert code == 0
        run = open_run(tmp_path / "run")
        lines = said.splitlines()
        assert len(lines) == 1 + len(run.header.cv_c) + 1
        (chosen,) = [line for line in lines if line.endswith("<")]
        assert chosen.split()[0] == f"{run.header.c_best:.4g}"
        assert "best" in chosen
        assert f"C = {run.steps[0].c:.4g} on all {data.n_rows} rows" in lines[-1]
        assert all(len(line) <= 80 for line in lines[:-1])

    def test_json(self, data, tmp_path, capsys):
        code, said, _ = command(capsys, "tune", data.path, "--out", tmp_path / "run", "--cv", 2, "-q", "--json")
        assert code == 0
        assert json.loads(said)["c_best"] == open_run(tmp_path / "run").header.c_best

    @pytest.mark.parametrize(
        ("options", "code", "problem"),
        [
            (["--cv", "5", "--holdout", "0.2"], 2, "give one of them"),
            (["--cv", "1"], 2, "--cv"),
            (["--holdout", "0"], 1, "tuning needs rows to score on"),
            (["--holdout", "2"], 2, "holdout is a share"),
            (["--metric", "loss"], 2, "--metric"),
            (["--c-max", "1e-9"], 1, "raise --c-max"),
            (["--cv", "1000"], 1, "cannot be cut into 1,000 folds"),
        ],
    )
    def test_wrong_words(self, data, tmp_path, capsys, options, code, problem):
        found, _, said = command(capsys, "tune", data.path, "--out", tmp_path / "run", "-q", *options)
        assert found == code
        assert problem in said
        assert len(said.splitlines()) == 1

    def test_predict_probabilities(self, data, run, tmp_path, capsys):
        out = tmp_path / "p.parquet"
        code, _, said = command(capsys, "predict", run.path, data.path, "--out", out, "--probability", "-q")
        assert code == 0, said


def test_rows_that_sum_to_zero(tmp_path):
    x = np.array([[1.0, 2.0], [1.0, 2.0]] * 10) * np.repeat(np.arange(1.0, 11.0), 2)[:, None]
    y = np.array([1, -1] * 10)
    data = write_shards(tmp_path, World(x, y, np.ones(20)))
    with pytest.raises(SpecError, match="nothing to tune"):
        pipeline.tune(data, cv=2)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    x, y = load_iris(return_X_y=True)
    lines = (",".join([f"kind{label}", *map(repr, map(float, row))]) for row, label in zip(x, y, strict=True))
    (folder / "rows.csv").write_text("\n".join(["label,a,b,c,d", *lines]))
    ingest([str(folder / "rows.csv")], folder / "shards", reading_spec(bias=1.0))
    return pipeline.open_dataset(folder / "shards")


class TestClasses:
    def test_the_curve_and_the_model(self, several, tmp_path):
        run = pipeline.tune(several, out=tmp_path / "run", cv=3)
        header = run.header
        assert header.data.classes == ("kind0", "kind1", "kind2")
        values = [scores["accuracy"] for scores in header.cv_scores]
        assert run.steps[0].c == header.c_best == header.cv_c[values.index(max(values))]
        assert max(values) > 0.9
        assert len(header.calibration) == 3
        folds = [
            {
                step.c: step.scores["accuracy"]
                for stage in sorted((tmp_path / "run" / "search").iterdir())
                for step in open_run(stage / str(k)).steps
            }
            for k in range(3)
        ]
        assert values == pytest.approx([np.mean([fold[c] for fold in folds]) for c in header.cv_c])
        with Engine("threads", 2) as engine:
            assert all(finding.holds for finding in verify_any(engine, run.path, several))
        again = pipeline.tune(several, out=tmp_path / "run", cv=3)
        assert again.header == header
        item = json.loads((run.path / "run.json").read_text())
        (run.path / "run.json").write_text(json.dumps(sealed(item | {"c_best": header.cv_c[0]})))
        with Engine("threads", 2) as engine, pytest.raises(RunError, match="by the scores the best C is"):
            verify_any(engine, run.path, several)

    @pytest.mark.attack
    def test_a_finished_run_with_step_functions_is_left_as_it_is(self, several, tmp_path):
        settings = {"cv": 3, "calibration": "isotonic", "grid": (0.1, 1.0)}
        run = pipeline.tune(several, out=tmp_path / "run", **settings)
        before = (run.path / "run.json").read_bytes()
        assert pipeline.tune(several, out=tmp_path / "run", **settings).header == run.header
        assert (run.path / "run.json").read_bytes() == before

    @pytest.mark.attack
    def test_a_hold_out_holds_though_every_stage_has_a_best_c_of_its_own(self, several, tmp_path):
        run = pipeline.tune(several, out=tmp_path / "run", holdout=0.3)
        stages = [open_run(stage / "0").header for stage in (tmp_path / "run" / "search").iterdir()]
        assert len({stage.held_out.c for stage in stages}) > 1
        with Engine("inline") as engine:
            assert all(finding.holds for finding in verify_any(engine, run.path, several))
        item = json.loads((run.path / "run.json").read_text())
        item["held_out"]["confusion"][0][0] -= 1
        (run.path / "run.json").write_text(json.dumps(sealed(item)))
        with Engine("inline") as engine, pytest.raises(RunError, match=r"held_out in run\.json: it counts"):
            verify_any(engine, run.path, several)

    def test_probabilities_sum_to_one(self, several, tmp_path, capsys):
        assert command(capsys, "tune", several.path, "--out", tmp_path / "run", "--holdout", 0.3, "-q")[0] == 0
        out = tmp_path / "p.parquet"
        code, _, said = command(capsys, "predict", tmp_path / "run", several.path, "--out", out, "--probability", "-q")
        assert code == 0, said
        table = pq.read_table(out)
        found = np.stack([table[f"probability_kind{k}"].to_numpy() for k in range(3)])
        assert found.sum(axis=0) == pytest.approx(np.ones(150))
        assert np.mean(found.argmax(axis=0) == np.repeat(range(3), 50)) > 0.9
