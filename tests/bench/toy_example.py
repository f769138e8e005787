"""The paper's toy example: 1000 points from two normal laws, C_ref = 5, C = 10, which rows IT identifies.

python -m tests.bench.toy_example [--seeds 20]
"""

from __future__ import annotations

import argparse

import numpy as np

from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from tests.bench.references import optimum
from tests.in_memory.screening import MemoryRows, refer, screen


def toy(seed: int) -> np.ndarray:
    """500 points of each class from N(+-(0.5, 0.5), 1.5^2 I), as rows z_i = y_i x_i."""
    rng = np.random.default_rng(seed)
    positive = rng.normal(0.5, 1.5, (500, 2))
    negative = rng.normal(-0.5, 1.5, (500, 2))
    return np.vstack([positive, -negative])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print(f"{'seed':>4} {'ZERO':>6} {'UPPER':>6} {'both':>6} {'bt1':>6} {'bt2':>6}   reference gap")
    shares = []
    for seed in range(options.seeds):
        rows = MemoryRows.of(toy(seed))
        w, alpha = optimum(rows, 5.0)
        pair = refer(rows, 5.0, w, alpha)
        found = {rule: screen(rows, pair, 10.0, rule).verdicts for rule in ("it", "bt1", "bt2")}
        zero, upper = (float(np.mean(found["it"] == v)) for v in (ZERO, UPPER))
        one, two = (float(np.mean(found[rule] != KEEP)) for rule in ("bt1", "bt2"))
        shares.append(zero + upper)
        gap = pair.reference.certificate.relative_gap
        print(f"{seed:4d} {zero:6.3f} {upper:6.3f} {zero + upper:6.3f} {one:6.3f} {two:6.3f}   {gap:.1e}")
    print(
        f"identified by IT: {min(shares):.3f} to {max(shares):.3f}, mean {np.mean(shares):.3f} (the paper: above 0.8)"
    )


if __name__ == "__main__":
    main()
