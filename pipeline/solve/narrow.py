"""A reduced problem in fewer columns, with the same alphas: what many sweeps over rows with many features are made on.

Of millions of features the rows that are solved for have some, and of these most in one row alone. Only inner products
matter to the dual (see ``reduced``),

    D(alpha) = sum alpha - |w_alpha|^2/2,    w_alpha = v + sum alpha_i z_i,

and they stay what they are, but for a constant, if

- columns without an entry are left out;
- the columns that row i has to itself are turned into one: an entry q_i = |their part of z_i|, and in v (or the w_alpha
  that is known) what that part has in common with it, (their part of z_i) . v / q_i.

So the rows have fewer entries, and w fits into the cache sooner. Where values are float32, q_i is rounded down, and a
second column takes what is missing: squares are right to 1e-13 of themselves.

Measured, CPU seconds of all solves of a path: news20 (1.6 million features, of which its solves keep 0.15 to 0.38) 7.6
and 3.7 up to C = 1, 4.2 and 2.7 at twelve C from 10 to 17; kdda-like at 0.1, where a solve is three to six sweeps, 3.8
and 3.8; url-like at 0.1, whose rows share their columns, 3.0 and 2.7 (nothing is made there: that is the noise).
Numbering the columns by how many rows they have as well gained nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import inline, kernel, prefetch
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.solve.sparse_rows import SparseRows
from pipeline.solve.timing import FAR_FEATURES

WORTH = 0.4  # of the columns: with more of them left sweeps are hardly quicker
_AHEAD = np.uint64(32)  # entries: a column's number is asked for so early, as in ``maths.csr`` (kdda-like: 12 and 7 ns)
SMALLEST, LARGEST = 1e-250, 1e76  # squares in between are exact enough, and their roots fit into a float32


@dataclass(frozen=True)
class Narrowed:
    """``problem`` in fewer columns is ``narrow``; ``places`` are where columns of several rows went, -1: nowhere."""

    problem: ReducedProblem
    narrow: ReducedProblem
    places: np.ndarray
    shared: int

    def widened(self, found: Solution) -> Solution:
        """Return a solution in all columns. Its gap is the same, but for rounding."""
        if found.at_w_alpha:
            return replace(found, w=self.problem.combine(found.alpha))
        w = np.where(self.places >= 0, found.w[self.places], self.problem.known)
        _widen(self.problem.z.parts, self.narrow.z.parts, self.places, self.shared, found.w - self.narrow.known, w)
        return replace(found, w=w, gap=self.problem.gap(w, found.alpha))


def may_be_narrowed(problem: ReducedProblem) -> bool:
    """Tell whether there might be something to gain."""
    return problem.is_sparse and problem.z.shape[1] > FAR_FEATURES


def narrowed(problem: ReducedProblem) -> Narrowed | None:
    """Return the problem in fewer columns; None where they would be hardly fewer, or squares are out of range."""
    if not may_be_narrowed(problem):
        return None
    (indptr, indices, values), (n, d) = problem.z.parts, problem.z.shape
    counts = np.zeros(d, np.uint8)
    most = WORTH * d - n
    shared = _count(indices, counts, most)
    if shared > most:
        return None
    places, known = np.full(d, -1, np.int32), np.empty(shared + 2 * n)
    _number(counts, problem.known, places, known)
    del counts
    new_indices = np.empty(indices.size, np.int32 if indices.dtype == np.uint32 else np.int64)
    parts = np.zeros_like(indptr), new_indices, np.empty_like(values)
    columns = _fill(problem.z.parts, problem.known, places, shared, parts, known)
    if columns < 0:
        return None
    end = int(parts[0][-1])
    rows = SparseRows(parts[0], parts[1][:end], parts[2][:end], columns)
    narrow = ReducedProblem(rows, problem.u, known[:columns].copy(), problem.at)
    return Narrowed(problem, narrow, places, shared)


@kernel
def _count(indices, counts, most):  # type: ignore[no-untyped-def]
    """Write whether columns have no entry, one, or more (2); return how many have more, once these are too many."""
    several = 0
    for k in range(indices.size):
        j = indices[k]
        if counts[j] < 2:
            counts[j] += np.uint8(1)
            several += counts[j] == 2
            if several > most:
                break
    return several


@kernel
def _number(counts, known, places, new_known):  # type: ignore[no-untyped-def]
    """Number the columns of several rows, in their order, and take their part of what is known along."""
    found = 0
    for j in range(counts.size):
        if counts[j] == 2:
            places[j] = found
            new_known[found] = known[j]
            found += 1


@kernel
def _fill(rows, known, places, shared, new_rows, new_known):  # type: ignore[no-untyped-def]
    """Write the rows in new columns, and what is known in those of single rows; return how many there are then.

    Returns -1 where squares are out of range.
    """
    indptr, indices, values = rows
    new_indptr, new_indices, new_values = new_rows
    columns, at, last = shared, np.uint64(0), np.uint64(max(0, indices.size - np.int64(_AHEAD)))
    own = np.empty(_longest(indptr), np.int64)  # where this row's entries are that no other row has in their columns
    for i in range(indptr.size - 1):
        count, begin, end = 0, np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for k in range(begin, end):  # without branches: whose column it is cannot be guessed
            if k < last:
                prefetch(places, np.uint64(indices[k + _AHEAD]))
            place = places[indices[k]]
            new_indices[at], new_values[at], own[count] = place, values[k], k
            at += np.uint64(place >= 0)
            count += place < 0
        square = along = 0.0
        for m in range(count):
            value = np.float64(values[own[m]])
            square += value * value
            along += value * known[indices[own[m]]]
            if value != 0.0 and not SMALLEST < value * value < LARGEST:
                return -1
        if not square < LARGEST:
            return -1
        if square > 0.0:
            new_values[at] = np.sqrt(square)
            if np.float64(new_values[at]) ** 2 > square:
                new_values[at] = np.sqrt(square) * (1 - 2.0**-23)
            size = np.float64(new_values[at])
            new_indices[at], new_known[columns] = columns, along / size
            columns, at = columns + 1, at + np.uint64(1)
            if size * size < square:
                new_values[at] = np.sqrt(square - size * size)
                new_indices[at], new_known[columns] = columns, 0.0
                columns, at = columns + 1, at + np.uint64(1)
        new_indptr[i + 1] = at
    return columns


@inline
def _longest(indptr):  # type: ignore[no-untyped-def]
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


@kernel
def _widen(rows, new_rows, places, shared, move, w):  # type: ignore[no-untyped-def]
    """Add to w what it moved by in the columns of single rows, ``move`` being that in the new ones."""
    (indptr, indices, values), (new_indptr, new_indices, new_values) = rows, new_rows
    for i in range(indptr.size - 1):
        along = square = 0.0
        for k in range(new_indptr[i], new_indptr[i + 1]):
            if new_indices[k] >= shared:
                value = np.float64(new_values[k])
                square += value * value
                along += value * move[new_indices[k]]
        for k in range(indptr[i], indptr[i + 1]):
            if places[indices[k]] < 0 and values[k] != 0.0:
                w[indices[k]] += along / square * values[k]
