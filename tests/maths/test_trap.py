"""The trap that makes naive implementations unsafe: trusting a reference that has not converged.

Breast cancer, standardised, LIBLINEAR (-s 3, its cap of 300 sweeps) at C_ref = 1000. The paper's BT1 formula takes its
w for the optimum and screens true support vectors away; the ball of (w, alpha) knows the gap and screens none of them.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train
from sklearn.datasets import load_breast_cancer

from pipeline.maths.verdicts import UPPER, ZERO
from tests.in_memory.problem import signed
from tests.in_memory.screening import MemoryRows, refer, screen
from tests.oracle import solve

C_REF, DELTA = 1000.0, 1e-6
C = C_REF / 0.99


@pytest.fixture(scope="module")
def cancer():
    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(0)) / x.std(0), 2 * y - 1


@pytest.fixture(scope="module")
def unconverged(cancer):
    """LIBLINEAR's w at C_ref, and its alpha, read back from a private feature of value DELTA in every row."""
    x, y = cancer
    marked = sp.csr_matrix(sp.hstack([sp.csr_matrix(x), DELTA * sp.eye(len(y))]))
    model = train(problem(y.astype(float), marked), parameter(f"-s 3 -c {C_REF} -q"))
    w = np.array(model.w[: marked.shape[1]]) * (1 if model.get_labels()[0] == 1 else -1)
    alpha = np.clip(y * w[30:] / DELTA, 0.0, C_REF)
    return w[:30], alpha


@pytest.fixture(scope="module")
def truth(cancer):
    """The optimum at C = C_ref / 0.9 by the oracle."""
    x, y = cancer
    found = solve(signed(x, y), C)
    assert found.relative_gap < 1e-10
    return found


def test_the_reference_is_far_from_optimal(cancer, unconverged):
    x, y = cancer
    w, alpha = unconverged
    rows = MemoryRows.of(signed(x, y))
    assert refer(rows, C_REF, w, alpha).reference.certificate.relative_gap > 0.1


def test_the_paper_s_formula_screens_support_vectors_away(cancer, unconverged, truth):
    x, y = cancer
    w, _ = unconverged
    z = signed(x, y)
    scale, radius = (C + C_REF) / (2 * C_REF), (C - C_REF) / (2 * C_REF) * np.linalg.norm(w)
    lower = scale * (z @ w) - radius * np.linalg.norm(z, axis=1)
    upper = scale * (z @ w) + radius * np.linalg.norm(z, axis=1)
    margins = truth.margins.astype(float)
    assert np.count_nonzero((lower > 1) & (margins <= 1 + 1e-7)) > 0, "support vectors that it calls ZERO"
    assert np.count_nonzero((upper < 1) & (margins > 1 + 1e-7)) > 0, "rows that it calls UPPER and that do not matter"


@pytest.mark.parametrize("rule", ["bt1", "bt2", "it"])
def test_ours_screens_none_of_them(cancer, unconverged, truth, rule):
    x, y = cancer
    w, alpha = unconverged
    rows = MemoryRows.of(signed(x, y))
    found = screen(rows, refer(rows, C_REF, w, alpha), C, rule)
    margins = truth.margins.astype(float)
    assert not np.any((found.verdicts == ZERO) & (margins < 1))
    assert not np.any((found.verdicts == UPPER) & (margins > 1))
