"""The k smallest hashes of a set: what they say of other rows, exactly and by estimate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.maths.row_sketch import RowSketch, SketchMaker, SketchTally


def hashes(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 2**64, n, np.uint64)


def sketch_of(*parts: np.ndarray, most: int = 50) -> RowSketch:
    maker = SketchMaker(most)
    for part in parts:
        maker.add(part)
    return maker.sketch()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.integers(1, 30), st.data())
def test_the_smallest_hashes_are_kept_once_each_whatever_the_cut(values, most, chance):
    """Against sorting all of them; small numbers so that some are equal."""
    values = [value % 40 if value % 3 else value for value in values]
    cuts = sorted(chance.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = np.split(np.array(values, np.uint64), cuts)
    found = sketch_of(*parts, most=most)
    distinct = sorted({value for value in values if value})
    assert found.hashes.tolist() == distinct[:most]
    assert found.complete == (len(distinct) <= most)


def test_a_set_that_is_kept_whole_is_known_row_by_row():
    own = hashes(50)
    found = sketch_of(own).tally(np.concatenate([own[:7], own[:2], hashes(30, 1)]))
    assert found == SketchTally(39, 39, 9)
    assert (found.estimate, found.is_exact) == (9, True)
    assert sketch_of(np.empty(0, np.uint64)).tally(own) == SketchTally(50, 50, 0)


def test_rows_without_features_are_nobody_s():
    nothing = np.zeros(5, np.uint64)
    assert sketch_of(nothing, hashes(3)).hashes.size == 3
    assert sketch_of(nothing, hashes(3)).tally(np.concatenate([nothing, hashes(1)])) == SketchTally(1, 1, 1)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_a_sample_says_about_how_many_rows_are_in_the_set(share):
    own, rows = hashes(100_000), 40_000
    known = int(share * rows)
    other = np.concatenate([own[:known], hashes(rows - known, 1)])
    found = sketch_of(own, most=5000).tally(other)
    error = rows * np.sqrt(share * (1 - share) / found.below)
    assert not found.is_exact
    assert 0.9 < found.below / (rows * 0.05) < 1.1
    assert abs(found.estimate - known) <= 5 * error


def test_tallies_add_up_and_nothing_looked_up_is_nothing_found():
    own = hashes(1000)
    sketch = sketch_of(own)
    parts = [sketch.tally(part) for part in np.array_split(own, 7)]
    assert sum(parts, SketchTally()) == sketch.tally(own)
    above = own[own > sketch.limit][:3]
    assert sketch.tally(above) == SketchTally(3, 0, 0)
    assert sketch.tally(above).estimate == 0
