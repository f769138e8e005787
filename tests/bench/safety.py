"""Safety on real data: the whole eps-path with every rule, and nothing taken on trust.

Every run is verified from its stored models. At sampled steps the verdicts and both objective values are held against a
reference optimum, and against a run without screening at the same C. One line a data set and rule: steps, share of rows
screened, passes over the data for each C, seconds of training, and "ok" or what failed.

python -m tests.bench.safety [--data bcd dna_scale digit1 satimage_trn mushrooms magic a9a pcmac_asu url-like]
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.data.registry import synthetic
from pipeline.errors import SieveError
from pipeline.maths.verdicts import UPPER, ZERO
from pipeline.runs.run import Run, StepView
from pipeline.spec import RULES
from pipeline.verify.verify import verify
from tests.bench.references import load_rows, optimum
from tests.in_memory.screening import MemoryRows

DATA = ("bcd", "dna_scale", "digit1", "satimage_trn", "mushrooms", "magic", "a9a", "pcmac_asu", "url-like")
C_MAX, TOL, SAMPLES = 1e4, 1e-4, 4
URL_ROWS = 20_000
ROUNDING = 1e-12


@dataclass(frozen=True)
class Case:
    """Rows z_i in memory, and the same in shards."""

    name: str
    rows: MemoryRows
    data: Dataset


def make_case(name: str, folder: Path) -> Case:
    """Write a development data set, scaled, to shards; or make the stand-in for url."""
    out = folder / "shards"
    if name == "url-like":
        synthetic.make(name, out, scale=URL_ROWS / synthetic.RECIPES[name].rows, shard_bytes=4_000_000)
        data = pipeline.open_dataset(out)
        blocks = [shard.load() for shard in data.shards]
        z = sp.vstack([block.csr().astype(np.float64).multiply(block.labels[:, None]) for block in blocks])
        return Case(name, MemoryRows.of(sp.csr_array(z)), data)
    rows = load_rows(name)
    y = np.where(np.arange(rows.costs.size) % 2, 1.0, -1.0)  # rows are y_i x_i: any labels will do
    x = sp.csr_matrix(sp.diags_array(y) @ sp.csr_array(rows.z))
    source = folder / "rows.npz"
    np.savez(source, data=x.data, indices=x.indices, indptr=x.indptr, shape=x.shape, y=y)
    pipeline.ingest([str(source)], out, pipeline.IngestSpec(rows_per_shard=max(1, y.size // 3)))
    return Case(name, rows, pipeline.open_dataset(out))


def problems(case: Case, run: Run, folder: Path) -> Iterator[str]:
    """Yield what is wrong with a run."""
    with pipeline.Engine("threads") as engine:
        yield from (str(finding) for finding in verify(engine, run.path, case.data) if not finding.holds)
    places = np.unique(np.linspace(1, len(run.steps) - 1, SAMPLES).round().astype(int)) if len(run.steps) > 1 else [0]
    sampled = [run.steps[k] for k in places]
    for step in sampled:
        yield from _against_the_optimum(case, step)
    grid = [step.c for step in sampled]
    plain = pipeline.fit_path(case.data, out=folder / "plain", rule="none", grid=grid, tol=TOL)
    for step, other in zip(sampled, plain.steps, strict=True):
        if max(step.dual, other.dual) > min(step.primal, other.primal) * (1 + ROUNDING):
            values = f"{step.dual!r} to {step.primal!r}, without screening {other.dual!r} to {other.primal!r}"
            yield f"C = {step.c:g}: {values}"


def _against_the_optimum(case: Case, step: StepView) -> Iterator[str]:
    """Yield verdicts that contradict the optimum at the step's C, and values on the wrong side of it."""
    z, u = case.rows.z, step.c * case.rows.costs
    w, alpha = optimum(case.rows, step.c)
    f = np.asarray(z @ w)
    best = float(w @ w) / 2 + float(u @ np.maximum(0.0, 1.0 - f))
    dual = float(alpha.sum()) - float(w @ w) / 2
    slack = ROUNDING * best
    doubt = case.rows.norms * math.sqrt(2 * max(0.0, best - dual) + slack)
    verdicts = step.verdicts
    wrong = ((verdicts == ZERO) & (f < 1 - doubt)) | ((verdicts == UPPER) & (f > 1 + doubt))
    if wrong.any():
        row = int(np.argmax(wrong))
        yield f"C = {step.c:g}: {np.count_nonzero(wrong)} wrong verdicts, row {row} has margin {float(f[row])!r}"
    if step.dual > best + slack or step.primal < dual - slack:
        yield f"C = {step.c:g}: the optimum {dual!r} to {best!r} is not between {step.dual!r} and {step.primal!r}"


def examine(case: Case, rule: str) -> bool:
    """Train, check, print one line; return whether all is well."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = pipeline.fit_path(case.data, out=Path(folder) / "run", rule=rule, c_max=C_MAX, tol=TOL)
            seconds = time.perf_counter() - begun
            found = list(problems(case, run, Path(folder)))
        except (SieveError, RuntimeError) as error:
            print(f"{case.name:<14}{rule:<6}{time.perf_counter() - begun:44.1f}  {error}", flush=True)
            return False
    steps = run.steps
    screened = np.mean([1 - step.survivors / step.n_rows for step in steps])
    passes = np.mean([step.passes for step in steps])
    said = "ok" if not found else f"{len(found)} FAILED: {found[0]}"
    print(
        f"{case.name:<14}{rule:<6}{len(steps):>7}{screened:>12.1%}{passes:>12.2f}{seconds:>13.1f}  {said}", flush=True
    )
    return not found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--rules", nargs="+", default=RULES, choices=RULES)
    options = parser.parse_args()
    print(f"{'data':<14}{'rule':<6}{'steps':>7}{'screened':>12}{'passes/C':>12}{'seconds':>13}")
    failed = []
    for name in options.data:
        with tempfile.TemporaryDirectory() as folder:
            case = make_case(name, Path(folder))
            failed += [f"{name} {rule}" for rule in options.rules if not examine(case, rule)]
    count = len(options.data) * len(options.rules)
    print(f"{count} paths: {'all safe and true' if not failed else 'FAILED: ' + ', '.join(failed)}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
