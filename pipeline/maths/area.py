"""The area under the ROC curve of scores that stream by: exact for many rows, within a stated bound for any number.

    AUC = (pairs in the right order + half of those with equal scores) / (positives x negatives)

Up to ``held`` scores are kept, 8 bytes each: those of positives from the front of one array, of negatives from its end.
One more, and all become counts in bins, which is all there is from then on. Between the edges e_1 < e_2 < ... of the
bins a score equals an edge, and pairs of the same edge are ties indeed; or it lies between two, and nobody knows the
order of the pairs there: they count half, and half of them all is the most that the AUC can be off by. Edges are
quantiles of the scores that were kept, and numbers all over float64's range, so that scores of rows in any order (all
the small ones first, say) fall into small bins.
"""

from __future__ import annotations

import numpy as np

MOST_HELD = 1 << 24  # scores: 128 MB
A_QUANTILE = 16  # scores that were kept between two quantiles
CHUNK = 1 << 20  # scores that are looked up at a time


class Area:
    """Takes in scores, finite ones, and says their AUC; empty, it needs no memory."""

    def __init__(self, held: int = MOST_HELD) -> None:
        self.held = max(1, held)
        self.positives = self.negatives = 0
        self._kept = np.empty(0)
        self._bins: _Bins | None = None

    def add(self, score: np.ndarray, positive: np.ndarray) -> None:
        """Take in the scores of some rows, and which of them are positive."""
        room = self.held - self.positives - self.negatives
        if self._bins is None and score.size > room:
            self._keep(score[:room][positive[:room]], score[:room][~positive[:room]])
            self._bins = _Bins.of(*self._sorted(), self.held)
            self._kept = np.empty(0)
            score, positive = score[room:], positive[room:]
        if self._bins is None:
            self._keep(score[positive], score[~positive])
            return
        above, below = score[positive], score[~positive]
        self._bins.add(0, above)
        self._bins.add(1, below)
        self.positives += above.size
        self.negatives += below.size

    def _keep(self, above: np.ndarray, below: np.ndarray) -> None:
        if not self._kept.size and above.size + below.size:
            self._kept = np.empty(self.held)  # the system gives memory for what is written to
        self._kept[self.positives : self.positives + above.size] = above
        last = self._kept.size - self.negatives
        self._kept[last - below.size : last] = below
        self.positives += above.size
        self.negatives += below.size

    def found(self) -> tuple[float | None, float]:
        """Return the AUC, None where a class is missing, and how much it can be off."""
        if not (self.positives and self.negatives):
            return None, 0.0
        pairs = self.positives * self.negatives
        if self._bins is not None:
            right, unknown = self._bins.pairs()
            return right / pairs, unknown / 2 / pairs
        above, below = self._sorted()
        twice = 0
        for first in range(0, above.size, CHUNK):
            part = above[first : first + CHUNK]
            twice += sum(int(np.searchsorted(below, part, side).sum()) for side in ("left", "right"))
        return twice / (2 * pairs), 0.0

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores that are kept, of positives and of negatives, in ascending order."""
        above, below = self._kept[: self.positives], self._kept[self._kept.size - self.negatives :]
        above.sort()
        below.sort()
        return above, below


class _Bins:
    """Counts of positives and negatives: bin 2k has the scores below ``edges[k]``, bin 2k + 1 those equal to it."""

    def __init__(self, edges: np.ndarray) -> None:
        self.edges, self.counts = edges, np.zeros((2, 2 * edges.size + 1), np.int64)

    @classmethod
    def of(cls, above: np.ndarray, below: np.ndarray, held: int) -> _Bins:
        """Return the bins for scores of which these ones, in ascending order, are known; they are counted."""
        found = cls(np.unique(np.concatenate([_quantiles(above), _quantiles(below), _everywhere(held)])))
        found.add(0, above)
        found.add(1, below)
        return found

    def add(self, which: int, scores: np.ndarray) -> None:
        """Count scores of positives (0) or negatives (1); they are sorted, and found in a third of the time then."""
        scores.sort()
        last = self.edges.size - 1
        for first in range(0, scores.size, CHUNK):
            part = scores[first : first + CHUNK]
            at = np.searchsorted(self.edges, part)
            at = 2 * at + (self.edges[np.minimum(at, last)] == part)
            np.add.at(self.counts[which], at, 1)

    def pairs(self) -> tuple[float, float]:
        """Return the pairs in the right order, those in one bin counting half, and how many have no known order."""
        above, below = self.counts.astype(np.float64)
        under = np.cumsum(below) - below
        same = above * below
        return float(above @ under + same.sum() / 2), float(same[::2].sum())


def _quantiles(scores: np.ndarray) -> np.ndarray:
    """Return some of ascending scores, or where they are that few all different ones."""
    new = np.concatenate([scores[:1] == scores[:1], scores[1:] != scores[:-1]])
    return scores[new] if np.count_nonzero(new) * A_QUANTILE <= scores.size else scores[::A_QUANTILE]


def _everywhere(held: int) -> np.ndarray:
    """Return numbers all over float64's range, equally many from each power of 2 to the next: 16 where much is held."""
    bits = max(12, min(16, held.bit_length() - 9))
    numbers = (np.arange(1 << (bits - 1), dtype=np.uint64) << np.uint64(64 - bits)).view(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return np.concatenate([-numbers, numbers])
