"""What decides between solvers: predictions grow as they should, and every measured constant can be measured again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.solve import dcd, timing
from pipeline.solve.reduced import ReducedProblem
from tests.bench import calibrate


def test_calibrate_measures_every_constant_of_the_machine():
    text = Path(calibrate.__file__).read_text()
    measured = [name for name in vars(timing) if name.startswith("SECONDS_")]
    assert len(measured) > 10
    for name in [*measured, "DENSE_VALUE", "NONZEROS_A_ROW", "STEP_A_ROW", "STEP_A_FEATURE"]:
        assert f'"{name}"' in text, name


def test_calibrate_prints_code_and_machine_side_by_side():
    found = list(calibrate.of_memory())
    names = ["BASE", "ROW_BYTES", "KNOWN_ROW_BYTES"]
    assert [(one.where, one.name) for one in found] == [("budget", name) for name in names]
    base, row, known = found
    assert 0.3 < base.measured / base.coded < 1.5, "where it had to compile it may have a little more"
    assert 0.7 * row.coded < row.measured <= row.coded, "what a run is promised covers what is measured"
    assert 0.3 * known.coded < known.measured <= known.coded
    more = 8  # w_alpha's products, where it is another vector than w
    assert row.measured + known.measured + more <= row.coded + known.coded
    assert str(row).split()[:2] == ["budget", "ROW_BYTES"]


@pytest.mark.parametrize("dense", [True, False])
def test_predictions_grow_with_the_work(dense):
    z = np.ones((50, 8))
    problem = ReducedProblem(z if dense else sp.csr_array(z), np.ones(50), np.zeros(8))
    assert timing.descent_seconds(problem, 2e6) == 2 * timing.descent_seconds(problem, 1e6)
    cases = ((1, 1e-3), (40, 1e-3), (40, 1.0))
    few, more, further = (timing.newton_seconds(problem, free, gap, 1e-6, 1.0) for free, gap in cases)
    assert few < more < further
    assert timing.newton_seconds(problem, 40, 1.0, 0.0, 1.0) > further


def test_a_burst_is_counted_in_nonzeros_and_what_else_a_row_costs():
    problem = ReducedProblem(np.ones((50, 8)), np.full(50, 1e-9), np.zeros(8))
    run = dcd.Descent(problem, np.zeros(50), shrink=False, seed=0)
    run.burst(0.0, 1)
    assert run.work == pytest.approx(50 * (8 * dcd.DENSE_VALUE + dcd.NONZEROS_A_ROW))
