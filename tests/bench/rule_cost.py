"""What evaluating a rule costs: time per nonzero from 10^5 to 10^7 nonzeros, against a plain CSR product.

A rule's evaluation is everything from the vectors to the verdicts: products of all rows, bounds, verdicts; for bt2
and it also the sum of s_i z_i and the products with it. Certifying the reference is not part of it.

python -m tests.bench.rule_cost [--rounds 9]
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp

from pipeline.maths import csr
from pipeline.maths.ball import ball_bounds
from pipeline.maths.rules import bt1
from pipeline.maths.verdicts import verdicts
from tests.bench.measure import take_turns, verdict
from tests.in_memory.screening import MemoryPair, MemoryRows, refer, screen

A_ROW = 50


def problem(nonzeros: int) -> tuple[MemoryRows, MemoryPair]:
    """Rows of ``A_ROW`` nonzeros, and a reference with every alpha at half its bound."""
    rng = np.random.default_rng(0)
    n, d = nonzeros // A_ROW, max(1000, nonzeros // 200)
    indices = np.sort(rng.integers(0, d, (n, A_ROW)), axis=1).reshape(-1).astype(np.int32)
    indptr = np.arange(0, nonzeros + 1, A_ROW, dtype=np.int32)
    z = sp.csr_array((rng.standard_normal(nonzeros) / np.sqrt(A_ROW), indices, indptr), shape=(n, d))
    rows = MemoryRows.of(z)
    alpha = np.full(n, 0.5 / n)
    w = np.asarray(z.T @ alpha)
    return rows, refer(rows, 1.0 / n, w, alpha, w_alpha=w)


def evaluate_bt1(rows: MemoryRows, pair: MemoryPair, w: np.ndarray, c: float) -> np.ndarray:
    f = csr.row_margins((rows.z.indptr, rows.z.indices, rows.z.data, np.ones(rows.costs.size)), w)
    return verdicts(*ball_bounds(bt1.ball(pair.reference, c), (f,), rows.norms, rows.lengths, pair.reference.span.unit))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{'nonzeros':>10} {'product':>9} {'bt1':>9} {'bt2':>9} {'it':>9}   ns a nonzero;  bt1/product")
    ratios = []
    for nonzeros in (10**5, 10**6, 10**7):
        rows, pair = problem(nonzeros)
        w, c = pair.vectors[0], 1.1 * pair.reference.c
        rivals = {
            "product": lambda rows=rows, w=w: rows.z @ w,
            "bt1": lambda rows=rows, pair=pair, w=w, c=c: evaluate_bt1(rows, pair, w, c),
            "bt2": lambda rows=rows, pair=pair, c=c: screen(rows, pair, c, "bt2"),
            "it": lambda rows=rows, pair=pair, c=c: screen(rows, pair, c, "it"),
        }
        calls = max(1, 2 * 10**6 // nonzeros)  # a turn of a small problem is many calls, as a pass over shards is
        turns = {name: lambda run=run, calls=calls: [run() for _ in range(calls)] for name, run in rivals.items()}
        seconds = {name: s / calls for name, s in take_turns(turns, options.rounds).items()}
        found = {name: s / nonzeros * 1e9 for name, s in seconds.items()}
        ratios.append(found["bt1"] / found["product"])
        print(f"{nonzeros:10,d} " + " ".join(f"{found[n]:9.2f}" for n in rivals) + f"{ratios[-1]:26.2f}")
    print(verdict("bt1 against a plain CSR product, worst", max(ratios), 1.3, at_least=False))
    spread = max(ratios) / min(ratios)
    print(verdict("bt1 over product, largest over smallest (flat: 1)", spread, 1.5, at_least=False))


if __name__ == "__main__":
    main()
