"""Counting, among rows that are being read, those that a run was trained on, by the sketch that the run kept of them.

Rows are put into the model's own numbers first: a column is the one of its name wherever it stands, one that the model
does not know does not count, and neither does the bias. So a row is known with any label and any weight, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.reading.block import Block
from pipeline.data.shards.digest import feature_hashes, placed_hashes
from pipeline.engine.engine import Engine
from pipeline.maths.row_sketch import RowSketch, SketchTally

Piece = tuple[Shard, int, int]  # of a shard the rows from one to another


class Watch:
    """Counts the rows that it is shown; ``tally`` is what was found so far."""

    def __init__(self, sketch: RowSketch) -> None:
        self.sketch, self.tally = sketch, SketchTally()

    def over(
        self,
        engine: Engine,
        items: Sequence[Shard | Piece],
        places: np.ndarray,
        task: Callable[..., Any],
        needed: tuple[Any, ...],
    ) -> Iterator[Any]:
        """Yield task(item, *needed) of all shards or pieces of them, and count their rows while they are read.

        ``places`` are the model's numbers of the data's features, those below 0 not known to it.
        """
        sketch = self.sketch.hashes, self.sketch.complete
        for found, tally in engine.stream(_watched, items, *sketch, places.astype(np.int64), task, *needed):
            self.tally += tally
            yield found

    def count(self, engine: Engine, data: Dataset, places: np.ndarray) -> None:
        """Count the rows of a data set."""
        for _ in self.over(engine, data.shards, places, _nothing, ()):
            pass


def block_tally(block: Block, sketch: RowSketch) -> SketchTally:
    """Look up the rows of a block, which is in the model's numbers and has no bias column."""
    return sketch.tally(feature_hashes((block.indptr, block.indices, block.values), block.largest + 1))


def _watched(
    item: Shard | Piece, hashes: np.ndarray, complete: bool, places: np.ndarray, task: Callable[..., Any], *needed: Any
) -> tuple[Any, SketchTally]:
    rows = item[0].load().part(*item[1:]) if isinstance(item, tuple) else item.load()
    found = placed_hashes((rows.indptr, rows.indices, rows.values), places)
    return task(item, *needed), RowSketch(hashes, complete).tally(found)


def _nothing(_: Shard | Piece) -> None:
    """What there is to do beside counting."""
