"""Which rows a run leaves out of training: a hold-out, or fold k of K. What is in a row decides, never where it stands.

Row i has a hash h_i of 64 bits; equal rows have equal hashes and share their fate. With a ``seed`` other than 0 it is
mixed once more, for other parts. A row's place h_i/2^64 is as good as random:

    plain        the hold-out are the rows whose place is below the share, fold k those in [k/K, (k + 1)/K). A row stays
                 on its side whatever rows are added: a night's hold-out was never trained on.
    stratified   the rows of each class are ordered by hash and cut into parts of equal size, K of them or two (the
                 hold-out is the first). A cut lies at that end of a set of equal rows that is nearest to where it ought
                 to be, so that a part is off its size by no more than the largest set; a class that has enough
                 different rows for all parts has one in each. Rows that are added move the cuts by a little.

Rows of a group have the hash of their group instead, so that they stay together; as a group may have rows of any class,
all rows are then one class here, and stratified parts are equally large as a whole.

Where a cut lies is a hash, so that a handful of numbers says of any row which part it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline.data.shards.digest import row_hashes
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.spec import PathSpec

_GOLDEN, _WORD = 0x9E3779B97F4A7C15, 2**64  # SplitMix64's, whose finaliser ``seeded`` is


@dataclass(frozen=True)
class Split:
    """Tells the rows that are left out, by their seeded hashes and classes.

    ``begins`` has the hashes at which the second part of each class begins, the third, ... (but for empty parts in the
    end); None: not stratified.
    """

    spec: PathSpec
    begins: Mapping[int, np.ndarray] | None = None

    @property
    def parts(self) -> int:
        """How many parts there are: folds, or the hold-out and the rest."""
        return 2 if self.spec.fold is None else self.spec.fold[1]

    def left_out(self, hashes: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Tell which of some rows are not trained on."""
        return self.part_of(hashes, classes) == (0 if self.spec.fold is None else self.spec.fold[0])

    def part_of(self, hashes: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the part that each of some rows is in; the hold-out is the first of two."""
        if self.begins is None:
            place = hashes.astype(np.float64) / 2.0**64
            if self.spec.fold is None:
                return (place >= self.spec.holdout).astype(np.int64)
            return np.minimum((place * self.parts).astype(np.int64), self.parts - 1)
        part = np.zeros(hashes.size, np.int64)
        for y, begins in self.begins.items():
            rows = classes == y
            part[rows] = np.searchsorted(begins, hashes[rows], "right")
        return part


def split_of(
    spec: PathSpec,
    hashes: np.ndarray,
    classes: np.ndarray,
    empty: Callable[[type], np.ndarray],
    chunks: Sequence[slice],
) -> Split:
    """Return the split of rows with these seeded hashes; ``empty`` makes an array by row, which ``chunks`` cut."""
    if not spec.stratified:
        return Split(spec)
    room, begins = empty(np.uint64), dict[int, np.ndarray]()
    for y in sorted({int(y) for part in chunks for y in np.unique(classes[part])}):
        count = 0
        for part in chunks:
            some = hashes[part][classes[part] == y]
            room[count : count + some.size] = some
            count += some.size
        ranked = room[:count]
        ranked.sort()
        begins[y] = np.array([ranked[at] for at in cuts(ranked, spec) if at < count], np.uint64)
    return Split(spec, begins)


def split_keys(rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what rows are split by: their seeded hashes, or those of their groups, and their classes."""
    if rows.groups is not None:
        return seeded(rows.groups, seed), np.zeros(rows.n_rows, np.int8)
    return seeded(row_hashes(rows), seed), (rows.stored or rows).labels


def seeded(hashes: np.ndarray, seed: int) -> np.ndarray:
    """Return the hashes for a seed; those of seed 0 are the rows' own."""
    if not seed:
        return hashes
    x = hashes + np.uint64(seed * _GOLDEN % _WORD)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def cuts(ranked: np.ndarray, spec: PathSpec) -> list[int]:
    """Return where rows ordered by hash are cut: the number of rows before each cut."""
    count = ranked.size
    targets = [spec.holdout * count]
    if spec.fold is not None:
        targets = [k * count / spec.fold[1] for k in range(1, spec.fold[1])]
    found = [_nearest(ranked, target) for target in targets]
    if not _has_different(ranked, len(found) + 1):
        return found
    before, after = 0, count  # every part has a row: cuts move up behind the next set of equal rows, then down
    for k, at in enumerate(found):
        before = found[k] = max(at, _end(ranked, before))
    for k in reversed(range(len(found))):
        after = found[k] = min(found[k], _start(ranked, after - 1))
    return found


def _nearest(ranked: np.ndarray, target: float) -> int:
    """Return the end of a set of equal rows that is nearest to a target; of two the lower."""
    if int(target) >= ranked.size:
        return ranked.size
    start, end = _start(ranked, int(target)), _end(ranked, int(target))
    return start if target - start <= end - target else end


def _has_different(ranked: np.ndarray, least: int) -> bool:
    at = 0
    for _ in range(least):
        if at >= ranked.size:
            return False
        at = _end(ranked, at)
    return True


def _start(ranked: np.ndarray, row: int) -> int:
    """Return where the set of equal rows begins that a row is in."""
    return int(np.searchsorted(ranked, ranked[row], "left"))


def _end(ranked: np.ndarray, row: int) -> int:
    """Return where the set of equal rows ends that a row is in; there is none after the last."""
    return int(np.searchsorted(ranked, ranked[row], "right")) if row < ranked.size else ranked.size
