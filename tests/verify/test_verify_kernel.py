"""``verify`` of kernel runs: P and D enclosed whatever the magnitudes, honest runs hold, changed ones do not."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.maths.score import scores
from pipeline.runs.directory import open_run
from pipeline.spec import PathSpec
from pipeline.verify import kernel_rows, recompute_kernel
from pipeline.verify.rbf import rbf_values, row_squares, share_of
from pipeline.verify.stored_model import Model
from pipeline.verify.tally import Worth
from pipeline.verify.trained_rows import TrainedRows
from tests.kernel_runs import DenseKernel, stored_run
from tests.kernel_worlds import DIGITS, KernelWorld
from tests.tampering import at, change_header, change_model, change_step, found, lines_of, reseal
from tests.trained import command, shards_of, sparse_rows
from tests.worlds import write_shards

UNIT = 2.0**-53


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([1e-3, 1.0, 30.0, 1e5]),
    near=st.sampled_from([1.0, 1e-4, 1e-9]),
    gamma=st.sampled_from([1e-3, 0.4, 7.0, 1e3]),
)
def test_values_are_within_their_share(seed, size, near, gamma):
    """Rows far from 0 and near each other: |x|^2 + |x'|^2 - 2 x . x' of plain float64 has no digit of the distance."""
    rng = np.random.default_rng(seed)
    x = size * (1 + near * rng.standard_normal((6, 3)))
    high, low = np.zeros((6, 6)), np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x[i], x[j], strict=True))
            high[i, j] = float(exact)
            low[i, j] = float(exact - Fraction(high[i, j]))
    squares = row_squares(np.arange(7) * 3, x.ravel())
    rbf_values(squares, squares, high, low, gamma)
    norms = np.linalg.norm(x, axis=1) * (1 + 1e-12)
    share = share_of(gamma, 3, norms, float(norms.max()))
    with localcontext() as context:
        context.prec = DIGITS
        for i in range(6):
            for j in range(6):
                far = sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(x[i], x[j], strict=True))
                true = (-Decimal(gamma) * far).exp()
                off = abs(Decimal(float(high[i, j])) - true)
                assert off <= Decimal(float(share[i])) * true + Decimal(2) ** -998


def test_a_share_is_small_on_plain_rows_and_infinite_where_nothing_is_known():
    assert share_of(0.5, 20, np.array([3.0]), 3.0)[0] < 4.01 * UNIT
    assert np.isinf(share_of(1.0, 100, np.array([1e16]), 1e16)[0])


def worth(data: Dataset, gamma: float, costs: np.ndarray, alpha: np.ndarray, c: float) -> Worth:
    """What ``verify`` makes of an alpha."""
    bits = np.zeros(-(-alpha.size // 8), np.uint8)
    used = np.flatnonzero(alpha)
    entries, nothing = (used, alpha[used]), (np.empty(0, np.int64), np.empty(0))
    labels = np.concatenate([np.array(shard.load().labels) for shard in data.shards])
    rows, spec = TrainedRows(costs, labels, (1.0, 1.0)), PathSpec(kernel="rbf", gamma=gamma)
    with Engine("inline") as engine:
        models = [Model(c, nothing, entries, nothing, bits, bits)] * 2
        return recompute_kernel.recompute_kernel(engine, data, spec, rows, models, lambda _: None)[1]


def exact(world: KernelWorld, c: float, alpha: np.ndarray) -> tuple[Decimal, Decimal]:
    """P of alpha, and D of alpha cut to the exact box, with 60 digits."""
    with localcontext() as context:
        context.prec = DIGITS
        y, costs = ([Decimal(float(v)) for v in values] for values in (world.y, world.costs))
        x = [[Decimal(float(v)) for v in row] for row in world.x]
        n, big = len(y), Decimal(c)
        q = [
            [
                y[i]
                * y[j]
                * ((-Decimal(world.gamma) * sum((p - r) ** 2 for p, r in zip(x[i], x[j], strict=True))).exp())
                + y[i] * y[j] * Decimal(world.bias) ** 2
                for j in range(n)
            ]
            for i in range(n)
        ]
        a = [Decimal(float(v)) for v in alpha]
        cut = [min(v, big * cost) for v, cost in zip(a, costs, strict=True)]
        f = [sum(p * v for p, v in zip(row, a, strict=True)) for row in q]
        square = sum(v * m for v, m in zip(a, f, strict=True))
        small = sum(cut[i] * cut[j] * q[i][j] for i in range(n) for j in range(n))
        loss = sum(cost * max(Decimal(0), 1 - m) for cost, m in zip(costs, f, strict=True))
        return square / 2 + big * loss, sum(cut) - small / 2


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([1e-2, 1.0, 1.0, 1e4]),
    gamma=st.sampled_from([1e-8, 0.1, 2.0]),
    bias=st.sampled_from([0.0, 1.0, -1e3, 0.1]),
    c=st.sampled_from([1e-6, 1.0, 3.7, 1e6]),
    cuts=st.lists(st.integers(0, 9), max_size=2),
)
def test_the_enclosure_holds_exact_values_and_is_narrow(tmp_path_factory, seed, size, gamma, bias, c, cuts):
    rng = np.random.default_rng(seed)
    n = 9
    x = size * (rng.standard_normal((n, 3)) * (rng.random((n, 3)) < 0.7) + rng.integers(0, 2))
    x[5] = x[4]
    x = np.column_stack([x, np.full(n, bias)]) if bias else x
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    world = KernelWorld(x, y, np.exp(rng.standard_normal(n)), bias, gamma=gamma)
    data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, cuts)
    u = c * world.costs
    alpha = np.where(rng.random(n) < 0.4, u, u * rng.random(n) * (rng.random(n) < 0.7))
    enclosure = worth(data, gamma, world.costs, alpha, c).enclosure
    primal, dual = (Fraction(value) for value in exact(world, c, alpha))
    assert enclosure.primal.lower <= primal <= enclosure.primal.upper
    assert enclosure.dual.lower <= dual <= enclosure.dual.upper
    reach = Fraction(float(alpha.sum())) ** 2 * Fraction(1 + bias * bias) + Fraction(c * world.costs.sum()) * (
        1 + Fraction(float(alpha.sum())) * Fraction(1 + bias * bias)
    )
    allowed = Fraction(16 * UNIT * (1 + gamma * 1e-8 * size**2)) * reach
    assert enclosure.primal.upper - enclosure.primal.lower <= allowed
    assert enclosure.dual.upper - enclosure.dual.lower <= allowed


def test_an_alpha_beyond_float64_is_no_number(tmp_path):
    data = shards_of(tmp_path, sparse_rows())
    found_worth = worth(data, 0.4, np.ones(60), np.full(60, 1e308), 1e308)
    assert found_worth.enclosure is None


@pytest.mark.parametrize("scheduler", ["inline", "threads", "processes"])
def test_honest_runs_hold_on_every_scheduler(honest, scheduler):
    whole = found(honest.run, honest.data, scheduler)
    assert all(finding.holds for finding in whole)
    assert whole == found(honest.run, honest.data)
    for finding, step in zip(whole, open_run(honest.run).steps, strict=True):
        assert finding.primal == pytest.approx(step.primal, rel=1e-11)
        assert finding.dual == pytest.approx(step.dual, rel=1e-11)
        assert finding.relative_gap <= 1e-3


def test_neither_blocks_nor_batches_matter(honest, monkeypatch):
    whole = found(honest.run, honest.data)
    monkeypatch.setattr(kernel_rows, "BLOCK", 7)
    monkeypatch.setattr(kernel_rows, "DENSE", 40)
    monkeypatch.setattr(kernel_rows, "PIECE_ROWS", 11)
    monkeypatch.setattr(recompute_kernel, "BATCH_BYTES", 1)
    for one, other in zip(whole, found(honest.run, honest.data), strict=True):
        assert other.holds
        assert one.primal == pytest.approx(other.primal, rel=1e-14)
        assert one.dual == pytest.approx(other.dual, rel=1e-14)


class Honest:
    """A run on rows with a bias, some left out; its grid is in multiples of C_min, so that this is checked, too."""

    def __init__(self, folder: Path, bias: float = -1.5) -> None:
        self.data = shards_of(folder, sparse_rows(), bias=bias)
        self.spec = PathSpec(kernel="rbf", gamma=0.4, grid=(0.5, 5.0, 50.0), holdout=0.3, tol=1e-3)
        self.run = stored_run(folder / "run", self.data, self.spec).path
        self.dense = DenseKernel.of(self.data, self.spec)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return Honest(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def run(honest, tmp_path):
    return Path(shutil.copytree(honest.run, tmp_path / "run"))


def problem(run: Path, data: Dataset, step: int = 1) -> str:
    """Seal a changed run again, as one would who knows how, and return what is found of a step."""
    reseal(run)
    findings = found(run, data)
    assert [f.step for f in findings if not f.holds][:1] == [step]
    return findings[step].problem


class TestTampering:
    """Each way of changing a run is found, and named."""

    def test_the_seal(self, run, honest):
        change_model(run, 1, alpha_value=at(3, lambda a: a * 0.99))
        assert not found(run, honest.data)[1].holds

    @pytest.mark.parametrize("scale", [0.9, 0.999])
    def test_alpha(self, run, honest, scale):
        change_model(run, 1, alpha_value=lambda a: a * scale)
        assert "is" in problem(run, honest.data)

    def test_a_primal_that_is_too_good(self, run, honest):
        primal = lines_of(run)[1]["primal"]
        change_step(run, 1, primal=primal * (1 - 1e-11))
        assert f"the stored primal {primal * (1 - 1e-11):.17g} is below P" in problem(run, honest.data)

    def test_a_dual_that_is_too_good(self, run, honest):
        dual = lines_of(run)[1]["dual"]
        change_step(run, 1, dual=dual * (1 + 1e-11))
        assert "is above D" in problem(run, honest.data)

    def test_a_gap_that_is_too_good(self, run, honest):
        change_step(run, 1, relative_gap=lines_of(run)[1]["relative_gap"] * 0.99)
        assert "relative_gap" in problem(run, honest.data)

    def test_another_gamma(self, run, honest):
        """The number of run.json is what every value depends on."""
        spec = json.loads((run / "run.json").read_text())["spec"]
        change_header(run, spec=spec | {"gamma": 0.4001})
        assert "stored" in problem(run, honest.data, step=0)

    def test_a_box(self, run, honest):
        change_model(run, 1, alpha_value=at(0, lambda a: 5.1))
        assert "outside its box from 0 to 5" in problem(run, honest.data)

    def test_a_row_that_was_left_out(self, run, honest):
        row = int(np.flatnonzero(honest.dense.costs == 0)[0])
        index = open_run(run).steps[1].model["alpha_index"]
        place = int(np.searchsorted(index, row))
        change_model(
            run, 1, alpha_index=lambda a: np.insert(a, place, row), alpha_value=lambda a: np.insert(a, place, 1.0)
        )
        assert f"alpha of row {row} is 1, but the row was not trained on" in problem(run, honest.data)

    @pytest.mark.parametrize("name", ["n_rows", "n_free", "n_upper", "screened_zero", "screened_upper", "survivors"])
    def test_counts(self, run, honest, name):
        change_step(run, 1, **{name: lines_of(run)[1][name] + 1})
        assert f"the stored {name}" in problem(run, honest.data)

    @pytest.mark.parametrize("kind", ["zero", "upper"])
    def test_verdicts(self, run, honest, kind):
        """A row that is far on the other side is called ZERO or UPPER; counts are made to fit."""
        step = open_run(run).steps[0]
        f = honest.dense.margins(step.alpha)
        wrong = (f < 0.9) if kind == "zero" else (f > 1.1)
        row = int(np.flatnonzero(wrong & (step.verdicts == 0) & (honest.dense.costs > 0))[0])
        change_model(run, 0, **{f"{kind}_bits": at(row >> 3, lambda byte: byte | (128 >> (row & 7)))})
        line = lines_of(run)[0]
        more = {f"screened_{kind}": line[f"screened_{kind}"] + 1, "survivors": line["survivors"] - 1}
        change_step(run, 0, **more)
        assert f"row {row} was screened as {kind.upper()}" in problem(run, honest.data, step=0)

    @pytest.mark.parametrize("name", ["accuracy", "auc"])
    def test_scores(self, run, honest, name):
        held = lines_of(run)[1]["scores"]
        change_step(run, 1, scores=held | {name: held[name] - 0.01})
        assert f"the stored {name}" in problem(run, honest.data)

    def test_weights(self, run, honest):
        change_model(run, 1, w_index=lambda w: np.array([2]), w_value=lambda w: np.array([0.5]))
        assert "its model has weights, but a model of kernel rbf has none" in problem(run, honest.data)

    @pytest.mark.attack
    def test_an_infinite_c_is_a_finding_not_a_warning(self, run, honest):
        """C times the cost 0 of a row that was left out is no number."""
        change_model(run, 1, c=lambda c: np.array(np.inf))
        assert "the model is for C = inf" in problem(run, honest.data)

    def test_other_data(self, run, tmp_path):
        with pytest.raises(RunError, match="was made from other data"):
            found(run, shards_of(tmp_path, sparse_rows(seed=1), bias=-1.5))


def test_c_min(tmp_path):
    """A grid in multiples of C_min, with the right one and with one that is off by 1e-9."""
    data = shards_of(tmp_path, sparse_rows())
    c_min = DenseKernel.of(data, PathSpec(kernel="rbf", gamma=0.4)).c_min()
    spec = PathSpec(kernel="rbf", gamma=0.4, grid=(2.0 * c_min,), tol=1e-3)
    run = stored_run(tmp_path / "run", data, spec).path
    change_header(run, spec=PathSpec(kernel="rbf", gamma=0.4, grid=(2.0,), grid_in_c_min=True, tol=1e-3).to_json())
    reseal(run)
    assert found(run, data)[0].holds
    change_header(run, c_min=c_min * (1 + 1e-9))
    change_step(run, 0, c_ref=c_min * (1 + 1e-9))
    assert f"C_min is {c_min:.9g}"[:18] in problem(run, data, step=0)


class TestValidation:
    """Scores on validation data whose columns stand in another order, some of them unknown."""

    @pytest.fixture
    def judged(self, tmp_path):
        data = shards_of(tmp_path, sparse_rows(labels=("ham", "spam")), bias=0.5)
        spec = PathSpec(kernel="rbf", gamma=0.4, grid=(0.5, 5.0), tol=1e-3)
        run = stored_run(tmp_path / "run", data, spec)
        other = sparse_rows(n=30, seed=9, labels=("ham", "spam"))
        frame = pd.DataFrame(other.x, columns=[f"f{j}" for j in range(12)])
        frame = frame[frame.columns[::-1]].assign(more=5.0, label=other.y)
        frame.to_csv(tmp_path / "other.csv", index=False)
        pipeline.ingest([str(tmp_path / "other.csv")], tmp_path / "other", pipeline.IngestSpec(bias=0.5))
        validation = pipeline.open_dataset(tmp_path / "other")
        header = json.loads((run.path / "run.json").read_text())
        change_header(run.path, data=header["data"] | {"validation": validation.fingerprint})
        signs = np.where(other.y == "spam", 1, -1)
        dense = DenseKernel.of(data, spec)
        for step in run.steps:
            change_step(run.path, step.step, scores=scores(dense.scores(step.alpha, other.x) * signs, signs))
        best = max(range(2), key=lambda k: (lines_of(run.path)[k]["scores"]["accuracy"], -k))
        change_header(run.path, best_step=best)
        reseal(run.path)
        return run.path, data, validation

    def test_they_hold(self, judged):
        run, data, validation = judged
        assert all(finding.holds for finding in found(run, data, validation=validation))

    def test_a_wrong_score_is_found(self, judged):
        run, data, validation = judged
        held = lines_of(run)[0]["scores"]
        change_step(run, 0, scores=held | {"f1": held["f1"] / 2})
        reseal(run)
        assert "the stored f1" in found(run, data, validation=validation)[0].problem


def test_the_command(capsys, honest, run):
    code, out, err = command(capsys, "verify", honest.run, honest.data.path, "-q")
    assert (code, err) == (0, "")
    assert "3 certificates hold" in out
    change_step(run, 2, primal=lines_of(run)[2]["primal"] * (1 - 1e-10))
    code, out, err = command(capsys, "verify", run, honest.data.path, "-q")
    assert (code, out) == (1, "")
    assert "step 2 (C = 50): the stored primal" in err
    assert len(err.splitlines()) == 1


@pytest.mark.attack
def test_scores_that_are_nothing_beside_the_largest_alpha_have_no_order(tmp_path):
    """Rows far apart: what a kernel leaves of their scores is lost in training's sums, and so is the area under."""
    rng = np.random.default_rng(0)
    x, y = 30.0 * rng.standard_normal((60, 2)), np.where(np.arange(60) % 3, 1, -1)
    data, other = pipeline.dataset_of(x, y), pipeline.dataset_of(x + 5.0, y)
    settings = {"kernel": "rbf", "gamma": 1.0, "grid": [0.3, 30.0], "scheduler": "inline"}
    run = pipeline.fit_path(data, out=tmp_path / "run", holdout=0.4, **settings)
    assert all(finding.holds for finding in found(run.path, data))
    run = pipeline.fit_path(data, out=tmp_path / "other", validation=other, **settings)
    assert all(finding.holds for finding in found(run.path, data, validation=other))
