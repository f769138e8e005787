"""Columns of ever new strings: what is remembered of them does not grow with the rows.

A column may have fewer values here than elsewhere, so that 8,000 rows show what millions would.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from pipeline.data.tables import learn as learning
from pipeline.data.tables import survey, tally
from pipeline.data.tables.features import Hashed
from tests.data.tables.frames import Frame, frame, learnt

BATCH = 500


def some(first):
    """Return rows of which no other batch has a value: one that comes twice, one that is an id, words, a number."""
    number = np.arange(first, first + BATCH)
    return frame(
        {
            "twice": np.char.add("a longer value ", (number // 2).astype(str)),
            "row": np.char.add("r", number.astype(str)),
            "note": np.char.add("w" * 210, number.astype(str)),
            "x": number % 1000,
        }
    ).table


@dataclass
class Stream(Frame):
    """Rows that are made when they are asked for."""

    batches_made: int = 0

    def batches(self):
        for k in range(self.batches_made):
            (found,) = Frame(some(k * BATCH)).batches()
            yield found


def peak(batches):
    """Return the most bytes that learning from so many batches takes, and what was learnt."""
    tracemalloc.start()
    try:
        encoding = learnt(Stream(some(0), batches_made=batches))
        return tracemalloc.get_traced_memory()[1], encoding
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("together", [False, True])
def test_what_is_remembered_does_not_grow_with_the_rows(monkeypatch, together):
    if together:
        monkeypatch.setattr(learning, "MOST_TOGETHER", 600)
    else:
        monkeypatch.setattr(tally, "MOST_VALUES", 200)
    monkeypatch.setattr(survey, "MOST_VALUES", 200)
    monkeypatch.setattr(survey, "BLOCK_NUMBERS", 100)
    learnt(Stream(some(0), batches_made=2))  # what is imported and compiled on the way
    few, _ = peak(3)
    many, encoding = peak(16)
    assert many < 2.5 * few, f"{few:,} bytes for {3 * BATCH:,} rows, {many:,} for {16 * BATCH:,}"
    assert isinstance(encoding.roles[0], Hashed)
    assert encoding.ids == ("row",)


def test_arrays_of_rows_are_of_the_batch_alone():
    encoding = learnt({"kind": pa.array([f"v{k}" for k in range(100)] * 6), "x": np.arange(600.0)})
    indptr, indices, values = encoding.csr(some(0).rename_columns(["kind", "row", "note", "x", "label"]), None)
    assert indptr.size == BATCH + 1
    assert indices.size == values.size <= 2 * BATCH
