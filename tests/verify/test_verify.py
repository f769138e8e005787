"""``verify`` believes nothing: honest runs hold, and every way of changing one that we could think of is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import pipeline
from pipeline.cli import main
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.shards.digest import row_hashes
from pipeline.errors import DatasetError, RunError
from pipeline.events import Note
from pipeline.path.fit import fit_path
from pipeline.runs.chain import sealed
from pipeline.runs.directory import open_run
from pipeline.verify import recompute
from pipeline.working.split import Split
from tests import oracle
from tests.formats import Table, write_parquet_lists
from tests.tampering import at, change_header, change_model, change_step, found, reseal


@dataclass(frozen=True)
class Trained:
    """A data set, the run on it, and both once more as dense arrays: z_i and c_i, in extended precision."""

    data: Dataset
    run: Path
    z: np.ndarray
    costs: np.ndarray


def rows(seed: int = 0) -> Table:
    """Sparse rows with costs, two empty ones among them, in classes that overlap."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(90, 25)) * (random.random((90, 25)) < 0.3)
    x[[4, 50]] = 0.0
    y = np.where(x[:, :6].sum(axis=1) + random.normal(size=90) > 0.3, 1, -1)
    return Table(x, y, random.uniform(0.2, 3.0, 90))


def shards(folder: Path, table: Table) -> Dataset:
    source = write_parquet_lists(folder / "rows.parquet", table)
    reading = ReadOptions(rules=ReadRules(features=25))
    ingest([str(source)], folder / "shards", IngestSpec(reading, bias=0.5, rows_per_shard=11))
    return open_shards(folder / "shards")


def dense(data: Dataset, run: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return z_i and c_i as the definitions say, one row after the other."""
    spec, z, costs, labels = open_run(run).spec, [], [], []
    for shard in data.shards:
        part = shard.load()
        z.append(part.labels[:, None] * part.csr().toarray().astype(np.longdouble))
        unused = (
            Split(spec).left_out(row_hashes(part), part.labels)
            if spec.holdout or spec.fold
            else np.zeros(part.n_rows, bool)
        )
        costs += [0.0 if out else float(cost) for out, cost in zip(unused, part.costs, strict=True)]
        labels += part.labels.tolist()
    used = [y for y, cost in zip(labels, costs, strict=True) if cost]
    weights = {-1: 1.0, 1: 1.0}
    if spec.class_weight == "balanced":
        weights = {y: len(used) / (2 * used.count(y)) for y in (-1, 1)}
    elif spec.class_weight:
        weights = dict(zip((-1, 1), spec.class_weight, strict=True))
    return np.concatenate(z), np.array([weights[y] * cost for y, cost in zip(labels, costs, strict=True)])


@pytest.fixture(scope="module")
def cancer(tmp_path_factory):
    """Breast cancer up to a C where the solver's w is not w_alpha."""
    folder = tmp_path_factory.mktemp("cancer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SVMSIEVE_CACHE", str(folder / "cache"))
        data = pipeline.open_dataset("breast_cancer")
    fit_path(data, out=folder / "run", grid=[1e-3, 1e-1, 1e1, 1e3, 1e7], tol=1e-8, solver="newton")
    return Trained(data, folder / "run", *dense(data, folder / "run"))


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """Nine shards with costs, class weights, a bias and a hold-out."""
    folder = tmp_path_factory.mktemp("weighted")
    data = shards(folder, rows())
    settings = {"class_weight": (0.7, 2.0), "holdout": 0.25}
    fit_path(data, out=folder / "run", grid=[1e-3, 0.01, 0.1, 1, 30], tol=1e-5, **settings)
    return Trained(data, folder / "run", *dense(data, folder / "run"))


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    """Balanced classes and three folds."""
    folder = tmp_path_factory.mktemp("folded")
    data = shards(folder, rows(1))
    fit_path(data, out=folder / "run", grid=[0.01, 0.1, 1], cv=3, class_weight="balanced")
    return Trained(data, folder / "run", *dense(data, folder / "run"))


@pytest.fixture(params=["cancer", "weighted", "folded"])
def trained(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def copy(weighted, tmp_path):
    """A run to tamper with."""
    return shutil.copytree(weighted.run, tmp_path / "run")


def problem(run, data, step):
    """Return what is wrong with one step, and check that nothing is wrong with the others."""
    findings = found(run, data)
    assert [f.step for f in findings if not f.holds] == [step]
    return findings[step].problem


# Honest runs


def test_honest_runs_hold(trained):
    findings = found(trained.run, trained.data)
    steps = len(open_run(trained.run).steps)
    runs = [str(trained.run), *(str(trained.run / "folds" / str(k)) for k in range(open_run(trained.run).spec.cv))]
    assert [(f.run, f.step) for f in findings] == [(run, k) for run in runs for k in range(steps)]
    assert [f.problem for f in findings] == [""] * len(findings)


def test_the_cases_are_what_they_are_for(cancer, weighted, folded):
    assert any(step.model.w_alpha() is not None for step in open_run(cancer.run).steps)
    assert len(weighted.data.shards) == 9
    assert 10 < np.count_nonzero(weighted.costs == 0) < 40
    assert open_run(weighted.run).steps[0].n_rows == np.count_nonzero(weighted.costs)
    assert len(np.unique(weighted.costs)) > 50
    assert not np.isin(folded.costs, rows(1).costs).any()


def test_agrees_with_the_run_to_ten_digits(trained):
    run = open_run(trained.run)
    for finding, step in zip(found(trained.run, trained.data), run.steps, strict=False):
        assert finding.primal == pytest.approx(step.primal, rel=1e-10)
        assert finding.dual == pytest.approx(step.dual, rel=1e-10)
        assert finding.relative_gap == pytest.approx(step.relative_gap, abs=1e-10)
        assert finding.relative_gap <= run.spec.tol


def test_agrees_with_dense_formulas_and_holds_the_optimum(trained):
    used = trained.costs > 0
    for finding, step in zip(found(trained.run, trained.data), open_run(trained.run).steps, strict=False):
        w, alpha, c = step.w.astype(np.longdouble), step.alpha.astype(np.longdouble), step.c
        primal = w @ w / 2 + c * (trained.costs @ np.maximum(0, 1 - trained.z @ w))
        dual = alpha.sum() - (alpha @ trained.z) @ (alpha @ trained.z) / 2
        assert finding.primal == pytest.approx(float(primal), rel=1e-12)
        assert finding.dual == pytest.approx(float(dual), rel=1e-12)
        if used.sum() < 200:
            optimum = oracle.solve(trained.z[used], c, trained.costs[used])
            assert optimum.relative_gap < 1e-9
            assert finding.dual <= float(optimum.primal) * (1 + 1e-12)
            assert float(optimum.dual) * (1 - 1e-12) <= finding.primal


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_same_on_every_scheduler(weighted, scheduler):
    assert found(weighted.run, weighted.data, scheduler) == found(weighted.run, weighted.data)


def test_the_same_model_by_model(weighted, monkeypatch):
    together = found(weighted.run, weighted.data)
    assert recompute.batch_size(weighted.data, 2) > len(together)
    monkeypatch.setattr(recompute, "BATCH_BYTES", 1)
    assert recompute.batch_size(weighted.data, 2) == 1
    alone = found(weighted.run, weighted.data)
    assert [f.problem for f in alone] == [""] * 5
    assert [f.primal for f in alone] == pytest.approx([f.primal for f in together], rel=1e-14)
    assert [f.dual for f in alone] == pytest.approx([f.dual for f in together], rel=1e-13)


def test_a_batch_stays_within_its_bytes(weighted):
    wide = replace(weighted.data, n_features=30_000_000)
    assert recompute.batch_size(wide, 2) == 1
    wide = replace(weighted.data, n_features=100_000)
    assert 3 * 8 * 100_000 * recompute.batch_size(wide, 2) <= recompute.BATCH_BYTES


def test_one_step(weighted, folded):
    (only,), every = found(weighted.run, weighted.data, step=3), found(weighted.run, weighted.data)
    assert (only.step, only.c, only.problem) == (3, 1.0, "")
    assert (only.primal, only.dual) == pytest.approx((every[3].primal, every[3].dual), rel=1e-13)
    assert [f.step for f in found(folded.run, folded.data, step=2)] == [2] * 4
    with pytest.raises(RunError, match="no step 5; the run has 5 finished steps"):
        found(weighted.run, weighted.data, step=5)


def test_rounding_at_a_huge_c_is_no_finding(tmp_path):
    """Separable rows on the margin, times C = 10^8: two honest sums of the same hinges are far apart."""
    random = np.random.default_rng(3)
    x = random.integers(1, 9, size=(60, 12)) / 7.0
    y = np.where(x @ random.normal(size=12) > 0, 1, -1)
    data = shards(tmp_path, Table(np.pad(x, ((0, 0), (0, 13))), y, np.ones(60)))
    fit_path(data, out=tmp_path / "run", grid=[1.0, 1e4, 1e8], solver="newton")
    assert [f.problem for f in found(tmp_path / "run", data)] == [""] * 3


# Tampering

MODEL_CHANGES = [
    ({"alpha_value": at(7, lambda a: a / 2)}, "the stored dual"),
    ({"w_value": at(2, lambda w: w + 1e-7)}, "apart from sum alpha_i z_i|is below P"),  # which depends on the bits
    ({"w_value": at(2, lambda w: 1e200)}, "no finite primal"),
    ({"w_value": at(2, lambda w: np.nan)}, "damaged (w is not a list of finite numbers)"),
    ({"alpha_value": at(7, lambda a: a * 1e3)}, "outside its box from 0 to"),
    ({"alpha_value": at(7, lambda a: -a)}, "outside its box from 0 to"),
    ({"alpha_index": at(-1, lambda i: 90)}, "indices of alpha do not ascend from 0 to at most 89"),
    ({"alpha_index": at(slice(0, 2), lambda i: i[::-1])}, "indices of alpha do not ascend"),
    ({"n_rows": lambda n: n + 1}, "91 rows and 26 features, the data 90 and 26"),
    ({"c": lambda c: c * 2}, "the model is for C = 0.2"),
]


@pytest.mark.parametrize(("changes", "message"), MODEL_CHANGES, ids=[message for _, message in MODEL_CHANGES])
def test_a_changed_model_is_found(weighted, copy, changes, message):
    change_model(copy, 2, **changes)
    said = problem(copy, weighted.data, 2)
    assert any(each in said for each in message.split("|"))


def test_a_tiny_change_of_a_free_alpha_is_found(weighted, copy):
    """D is flat there, so that its value says nothing; w_alpha does."""
    step = open_run(copy).steps[3]
    free = np.flatnonzero((step.alpha > 0) & (step.alpha < step.c * weighted.costs))[0]
    place = np.searchsorted(np.flatnonzero(step.alpha), free)
    change_model(copy, 3, alpha_value=at(place, lambda a: a * (1 - 1e-9)))
    assert "apart from sum alpha_i z_i" in problem(copy, weighted.data, 3)


def test_a_w_that_is_stored_apart_from_w_alpha_has_the_primal_value(cancer, tmp_path):
    run = shutil.copytree(cancer.run, tmp_path / "run")
    step = next(step.step for step in open_run(run).steps if step.model.w_alpha() is not None)
    change_model(run, step, w_value=at(2, lambda w: w + 1e-3))
    assert "the stored primal" in problem(run, cancer.data, step)


def test_a_w_alpha_that_is_stored_apart_is_compared(cancer, tmp_path):
    run = shutil.copytree(cancer.run, tmp_path / "run")
    step = next(step.step for step in open_run(run).steps if step.model.w_alpha() is not None)
    change_model(run, step, w_alpha_value=at(0, lambda w: w + 1e-6))
    assert "apart from sum alpha_i z_i" in problem(run, cancer.data, step)


def test_alpha_on_a_row_that_was_left_out_is_found(weighted, copy):
    row = int(np.flatnonzero(weighted.costs == 0)[3])
    alpha = open_run(copy).steps[2].alpha
    alpha[row] = 0.01
    index = np.flatnonzero(alpha)
    change_model(copy, 2, alpha_index=lambda _: index, alpha_value=lambda _: alpha[index])
    assert problem(copy, weighted.data, 2) == f"alpha of row {row} is 0.01, but the row was not trained on"


CHANGED = {
    "primal": "is not that of the stored primal and dual",  # the bound is true, but no longer what the gap is from
    "dual": " is above D, ",
    "relative_gap": "its line in steps.jsonl does not follow from the one before it",  # as before
    "n_rows": "the stored n_rows ",
    "n_free": "the stored n_free ",
    "n_upper": "the stored n_upper ",
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_number_in_steps_is_found(weighted, copy, name):
    stored = open_run(copy).steps[3].to_json()[name]
    change = stored + 1 if isinstance(stored, int) else stored * (1 + (1e-3 if name == "relative_gap" else 1e-9))
    change_step(copy, 3, **{name: change})
    assert CHANGED[name] in problem(copy, weighted.data, 3)
    for nothing in (None, float("nan"), "1.0", [1.0], 10**400):
        change_step(copy, 3, **{name: nothing})
        assert problem(copy, weighted.data, 3) == f"steps.jsonl does not say its {name}"


def test_a_swapped_model_is_found(weighted, copy):
    shutil.copy(copy / "models" / "000001.npz", copy / "models" / "000002.npz")
    assert problem(copy, weighted.data, 2) == "the model is for C = 0.01"
    change_model(copy, 2, c=lambda c: np.array(0.1))
    assert "the stored" in problem(copy, weighted.data, 2)


def test_steps_out_of_order_are_found(weighted, copy):
    first, second = (copy / "models" / f"{k:06d}.npz" for k in (1, 2))
    first.rename(copy / "kept")
    second.rename(first)
    (copy / "kept").rename(second)
    facts = [open_run(copy).steps[k].to_json() for k in (1, 2)]
    change_step(copy, 1, **facts[1] | {"step": 1})
    change_step(copy, 2, **facts[0] | {"step": 2})
    reseal(copy)
    said = {f.step: f.problem for f in found(copy, weighted.data) if not f.holds}
    assert said.pop(3).startswith("it starts from C = 0.1, ")
    assert said == {1: "the C of the grid is 0.01", 2: "C does not ascend: the step before has C = 0.1"}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_model_is_found(weighted, copy, share):
    path = copy / "models" / "000002.npz"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "the model is missing or damaged" in problem(copy, weighted.data, 2)


def test_a_flipped_bit_in_a_model_is_found(weighted, copy):
    path = copy / "models" / "000002.npz"
    whole = path.read_bytes()
    with np.load(path) as stored:
        place = whole.index(stored["alpha_value"].tobytes()) + 8 * 4
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    assert "Bad CRC-32" in problem(copy, weighted.data, 2)


def test_a_missing_model_is_an_error_that_names_it(weighted, copy):
    (copy / "models" / "000002.npz").unlink()
    with pytest.raises(RunError, match=r"000002\.npz: the model is missing"):
        found(copy, weighted.data)


def test_other_data_are_refused(weighted, tmp_path):
    table = rows()
    table.x[70, np.flatnonzero(table.x[70])[0]] *= 1 + 1e-6
    other = shards(tmp_path, table)
    assert (other.n_rows, other.n_features, other.nnz) == (90, 26, weighted.data.nnz)
    with pytest.raises(RunError, match="was made from other data"):
        found(weighted.run, other)
    pretending = replace(other, fingerprint=weighted.data.fingerprint)
    with pytest.raises(DatasetError, match="the rows are not those of its fingerprint"):
        found(weighted.run, pretending)


def test_other_weights_than_the_run_had_are_found(weighted, copy):
    spec = json.loads((copy / "run.json").read_text())["spec"]
    for changed in ({"class_weight": [0.7, 2.1]}, {"class_weight": None}, {"holdout": 0.2}, {"holdout": 0.0}):
        change_header(copy, spec=spec | changed)
        assert all(not finding.holds for finding in found(copy, weighted.data))


def test_a_tol_that_is_not_met_is_found(weighted, copy):
    run = open_run(copy)
    gaps = sorted(step.relative_gap for step in run.steps)
    tol = (gaps[-1] + gaps[-2]) / 2
    change_header(copy, spec=run.spec.to_json() | {"tol": tol})
    reseal(copy)
    worst = max(run.steps, key=lambda step: step.relative_gap)
    assert f"is above the run's tol {tol:g}" in problem(copy, weighted.data, worst.step)


def test_steps_that_are_gone_are_missed(weighted, copy):
    path = copy / "steps.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(RunError, match="says it is finished, but has 3 steps of 5"):
        found(copy, weighted.data)
    change_header(copy, status="running")
    notes = []
    assert [f.holds for f in found(copy, weighted.data, listen=notes.append)] == [True] * 3
    assert any(isinstance(note, Note) and "not finished; it has 3 steps" in note.text for note in notes)
    path.write_text("")
    with pytest.raises(RunError, match="there is no step 0; the run has 0 finished steps"):
        found(copy, weighted.data)


def test_folds_are_verified_too(folded, tmp_path):
    run = shutil.copytree(folded.run, tmp_path / "run")
    change_model(run / "folds" / "1", 2, w_value=at(0, lambda w: w + 0.01))
    failed = [f for f in found(run, folded.data) if not f.holds]
    assert [(f.run, f.step) for f in failed] == [(str(run / "folds" / "1"), 2)]
    shutil.rmtree(run / "folds" / "1")
    shutil.copytree(run / "folds" / "2", run / "folds" / "1")
    with pytest.raises(RunError, match=r"folds/1: the fold has other settings than its run \(fold was \(2, 3\)"):
        found(run, folded.data)
    shutil.rmtree(run / "folds" / "1")
    with pytest.raises(RunError, match=r"folds/1: no run\.json"):
        found(run, folded.data)


def test_folds_in_the_making(folded, tmp_path):
    run = shutil.copytree(folded.run, tmp_path / "run")
    header = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(
        json.dumps(sealed({k: v for k, v in header.items() if k not in ("cv_scores", "held_out")}))
    )
    shutil.rmtree(run / "folds" / "1")
    assert {f.run for f in found(run, folded.data)} == {str(run), str(run / "folds" / "0")}


# The command


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["verify", *map(str, arguments)])
    return stop.value.code or 0, *capsys.readouterr()


def test_the_command_says_that_all_hold(capsys, weighted, folded):
    code, out, err = command(capsys, weighted.run, weighted.data.path, "-q", "--scheduler", "inline")
    worst = max(step.relative_gap for step in open_run(weighted.run).steps)
    assert (code, err) == (0, "")
    assert out == f"{weighted.run}: 5 certificates hold (largest relative gap {worst:.1e})\n"
    code, out, err = command(capsys, folded.run, folded.data.path, "--step", "1")
    assert [line.split(": ")[1][:19] for line in out.splitlines()] == ["1 certificate holds"] * 4
    assert "verify: 90 rows" in err


def test_the_command_names_the_step_that_does_not_hold(capsys, weighted, copy):
    change_step(copy, 2, dual=1250.0)
    code, out, err = command(capsys, copy, weighted.data.path, "-q")
    assert (code, out) == (1, "")
    assert err.startswith(f"svmsieve: {copy}: step 2 (C = 0.1): the stored dual 1250 is above D, ")
    assert err.count("\n") == 1
    change_step(copy, 4, n_free=0)
    code, out, err = command(capsys, copy, weighted.data.path, "-q", "--json")
    assert code == 1
    assert "(and 1 more step)" in err
    said = json.loads(out)
    assert said["holds"] is False
    assert [f["holds"] for f in said["findings"]] == [True, True, False, True, False]
    change_model(copy, 1, w_value=at(0, lambda w: np.nan))
    assert json.loads(command(capsys, copy, weighted.data.path, "-q", "--json")[1])["findings"][1]["primal"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["RUN"], 2, "Missing argument 'DATA'"),
        (["RUN", "DATA", "--step", "some"], 2, "'some' is neither the number of a step nor all"),
        (["RUN", "DATA", "--step", "-1"], 2, "'-1' is neither the number of a step nor all"),
        (["RUN", "DATA", "--step", "99"], 1, "there is no step 99"),
        (["DATA", "DATA"], 1, "no run.json: not a run directory"),
        (["RUN", "nowhere.svm"], 1, "no such file"),
    ],
)
def test_wrong_usage_is_one_line(capsys, weighted, arguments, code, message):
    names = {"RUN": weighted.run, "DATA": weighted.data.path}
    found_code, out, err = command(capsys, *(names.get(word, word) for word in arguments), "-q")
    assert (found_code, out, err.count("\n")) == (code, "", 1)
    assert message in err
