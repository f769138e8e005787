"""Screening rates of BT1, BT2 and IT at C = 10 for references at C_ref = 0.5 C ... 0.99 C, on the paper's kind of data.

The rate is the paper's: decided rows over all rows that are not on the margin at the optimum. IT must be at least as
good as the better ball, and every rule better with a closer reference.

python -m tests.bench.screening_rates [--data bcd dna_scale digit1 satimage_trn]
"""

from __future__ import annotations

import argparse

import numpy as np

from pipeline.maths.verdicts import UPPER, ZERO
from tests.bench.references import load_rows, optimum
from tests.in_memory.screening import MemoryRows, refer, screen, screening_rate

C = 10.0
RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
RULES = ("bt1", "bt2", "it")


def rates(rows: MemoryRows, ratios: tuple[float, ...] = RATIOS) -> dict[str, list[float]]:
    """Return the rate of each rule at each ratio; a verdict that contradicts the optimum is an error."""
    w, _ = optimum(rows, C)
    f = np.asarray(rows.z @ w)
    on_margin = np.abs(f - 1) < 1e-6
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for ratio in ratios:
        w_ref, alpha = optimum(rows, ratio * C)
        pair = refer(rows, ratio * C, w_ref, np.minimum(alpha, ratio * C * rows.costs), w_alpha=w_ref)
        for rule in RULES:
            v = screen(rows, pair, C, rule).verdicts
            if np.any((v == ZERO) & (f < 1 - 1e-6)) or np.any((v == UPPER) & (f > 1 + 1e-6)):
                raise AssertionError(f"{rule} at {ratio} contradicts the optimum")
            found[rule].append(screening_rate(v, on_margin))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["bcd", "dna_scale", "digit1", "satimage_trn"])
    options = parser.parse_args()
    never_looser, exceptions = True, []
    print("C_ref/C" + " " * 12 + "".join(f"{ratio:8.2f}" for ratio in RATIOS))
    for name in options.data:
        found = rates(load_rows(name))
        for rule in RULES:
            print(f"{name:<14}{rule:<5}" + "".join(f"{rate:8.3f}" for rate in found[rule]))
        best = np.maximum(found["bt1"], found["bt2"])
        never_looser &= bool(np.all(np.array(found["it"]) >= best))
        for rule in RULES:
            for k in np.flatnonzero(np.diff(found[rule]) < 0):
                before, after = found[rule][k], found[rule][k + 1]
                exceptions.append(f"{name} {rule} {RATIOS[k]} -> {RATIOS[k + 1]}: {before:.3f} -> {after:.3f}")
    print("IT >= max(BT1, BT2) everywhere:", "yes" if never_looser else "NO")
    print("rates rise with C_ref/C:", "everywhere" if not exceptions else "but for " + "; ".join(exceptions))


if __name__ == "__main__":
    main()
