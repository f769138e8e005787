"""Which rows a run must have left out, from their hashes and its settings: written down anew, for ``verify``.

What the parts are is said in ``working.split``; here they are made by going through sets of equal rows one by one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pipeline.spec import PathSpec

_MASK = 2**64 - 1


def left_out(hashes: np.ndarray, labels: np.ndarray, spec: PathSpec) -> np.ndarray:
    """Tell which of all rows are left out."""
    if spec.seed:
        hashes = _mixed(hashes, spec.seed)
    k, parts = spec.fold or (0, 2)
    if not spec.stratified:
        place = hashes.astype(np.float64) / 2.0**64
        return place < spec.holdout if spec.fold is None else np.minimum(np.floor(place * parts), parts - 1) == k
    found = np.zeros(hashes.size, bool)
    for y in np.unique(labels):
        rows = np.flatnonzero(labels == y)
        _, number, sizes = np.unique(hashes[rows], return_inverse=True, return_counts=True)
        low, high = _sets_of_part(sizes, k, parts, spec.holdout if spec.fold is None else None)
        found[rows[(number >= low) & (number < high)]] = True
    return found


def _sets_of_part(sizes: np.ndarray, k: int, parts: int, share: float | None) -> tuple[int, int]:
    """Return the first set of equal rows in part k and the first after it, given the sizes of the sets by hash."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    total, sets = int(ends[-1]), sizes.size
    wanted = [Fraction(j * total, parts) for j in range(1, parts)]
    if share is not None:
        wanted = [Fraction(share * total)]
    at, least = [_nearest(ends, target) for target in wanted], 0
    if sets >= parts:
        for j, near in enumerate(at):
            least = max(near, least + 1)
            at[j] = min(least, sets - len(at) + j)
    bounds = [0, *at, sets]
    return bounds[k], bounds[k + 1]


def _nearest(ends: np.ndarray, target: Fraction) -> int:
    """Return the number of sets whose rows are nearest to so many; of two such numbers the smaller."""
    below = int(np.searchsorted(ends, int(target), "right")) - 1
    above = min(below + 1, ends.size - 1)
    return below if target - int(ends[below]) <= int(ends[above]) - target or above == below else above


def _mixed(hashes: np.ndarray, seed: int) -> np.ndarray:
    """Return SplitMix64's output for the states h + seed x golden ratio."""
    x = hashes + np.array(seed * 0x9E3779B97F4A7C15 & _MASK, np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x ^= x >> np.uint64(shift)
        x *= np.array(factor, np.uint64)
    return x
