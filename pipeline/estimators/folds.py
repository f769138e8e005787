"""How many folds some rows allow: equal rows stay together, so that a class cannot be in more folds than it has rows.

Arrays of a few rows are common (a first try, a test): they get as many folds as there can be, and a warning says so.
"""

from __future__ import annotations

import warnings

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import ARRAYS
from pipeline.data.shards.digest import row_hashes
from pipeline.errors import SieveWarning

FEWEST = 2


def possible_folds(data: Dataset, asked: int) -> int:
    """Return how many folds there are to be: as many as were asked for, or as many as arrays have different rows for.

    Fewer than two there cannot be; who makes them says why.
    """
    if data.kind != ARRAYS or asked <= FEWEST:
        return asked
    rows = [shard.load() for shard in data.shards]
    hashes, labels = (np.concatenate(parts) for parts in (list(map(row_hashes, rows)), [each.labels for each in rows]))
    most = max(np.unique(hashes[labels == label]).size for label in np.unique(labels))
    if most >= asked:
        return asked
    found = max(FEWEST, most)
    said = f"no class has more than {most} different rows, which stay together: {found} folds are made, not {asked}"
    warnings.warn(said, SieveWarning, stacklevel=5)
    return found
