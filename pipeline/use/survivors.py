"""What screening leaves, as svmlight text for any other SVM solver.

The KEEP rows stand as z_i with label +1, and last, with label -1, the one row -z where z = sum c_i z_i / K over the
UPPER rows, K the sum of their costs. With weight K its loss K max(0, 1 - z . w) equals the UPPER rows' losses wherever
these are inside the margin, as they are proven to be at the optimum: so the optimum is the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.files import replacing
from pipeline.maths.csr import sign_rows
from pipeline.maths.verdicts import KEEP, UPPER
from pipeline.passes.gather import stream_rows
from pipeline.passes.sums import row_sum
from pipeline.use.screen import Screening


def survivors_to(out: str | Path, engine: Engine, data: Dataset, found: Screening) -> tuple[int, float, float | None]:
    """Write the KEEP rows and the folded row; return how many were kept, K (0: no folded row), and the cost they share.

    Verdicts are those that ``screen_to`` left in the state. Costs that differ from row to row (None is returned) go to
    ``out.weight``, a line each, the folded row's K last.
    """
    state = found.state
    kept = (state.verdicts == KEEP) & (state.costs > 0.0)
    upper = np.where(state.verdicts == UPPER, state.costs, 0.0)
    k = float(upper.sum())
    costs = state.costs[kept]
    shared = None if costs.size and np.ptp(costs) > 0.0 else float(costs[0]) if costs.size else 1.0
    with replacing(Path(out)) as stream:
        for indptr, indices, values, labels in stream_rows(engine, data, kept):
            sign_rows(indptr, values, labels)
            _write(stream, "+1", indptr, indices, values)
        if k > 0.0:
            folded = -row_sum(engine, data, upper) / k
            at = np.flatnonzero(folded)
            _write(stream, "-1", np.array([0, at.size]), at, folded[at])
    if shared is None:
        with replacing(Path(f"{out}.weight")) as stream:
            stream.writelines(f"{cost!r}\n".encode() for cost in [*costs.tolist(), *([k] if k > 0.0 else [])])
    return costs.size, k, shared


def _write(stream: BinaryIO, label: str, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    places, numbers = (indices + 1).tolist(), values.astype(np.float64).tolist()
    for start, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        pairs = "".join(f" {j}:{x!r}" for j, x in zip(places[start:end], numbers[start:end], strict=True))
        stream.write(f"{label}{pairs}\n".encode())
