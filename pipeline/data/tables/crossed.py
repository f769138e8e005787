"""Several columns as one: the combinations of their values that occur, a gap being a value, too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipeline.data.tables.cells import Coded

CROSS, ITS_SIGN = "\x1f", "\u241f"  # between the values of columns that count together; what it is in one of them
GAP = "(missing)"  # the value that a gap is among them


def crossed(columns: list[Coded]) -> Coded:
    """Return several columns as one whose values are the combinations that occur; a gap is a value, too."""
    first = _with_gaps(columns[0])
    for cells in map(_with_gaps, columns[1:]):
        width = len(cells.values)
        together = first.codes.astype(np.int64) * width + cells.codes
        distinct, codes = np.unique(together, return_inverse=True)
        left, right = first.texts, cells.texts
        said = [f"{left[number // width]}{CROSS}{right[number % width]}" for number in distinct.tolist()]
        first = Coded(codes.reshape(-1).astype(np.int32), pa.array(said, pa.string()))
    return first


def _with_gaps(cells: Coded) -> Coded:
    texts = [*(text.replace(CROSS, ITS_SIGN) for text in cells.texts), GAP]
    return Coded(np.where(cells.codes < 0, np.int32(len(texts) - 1), cells.codes), pa.array(texts, pa.string()))
