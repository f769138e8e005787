"""Isotonic regression: the probabilities that ascend with the score and are nearest to the labels.

    minimise sum_i (p_i - y_i)^2  subject to  p_i <= p_j where s_i <= s_j

Pool adjacent violators finds it in one sweep over sorted scores: blocks whose means do not ascend are one block.
Between blocks probabilities are interpolated, beyond the first and the last they stay. A large fit is kept as
MOST_POINTS of its points, evenly among them: that still ascends.
"""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import alike, kernel

MOST_POINTS = 1000  # a tenth of a percent apart on average; some 40 kB of run.json


@dataclass(frozen=True, eq=False)
class Steps:
    """Probabilities at some scores: both ascend, the scores strictly. Those with the same bits are equal."""

    at: np.ndarray
    probability: np.ndarray

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def _bits(self) -> tuple[bytes, bytes]:
        return self.at.tobytes(), self.probability.tobytes()

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of the positive class for each score; it never falls, to the last bit."""
        if self.at.size == 1:
            return np.full(scores.shape, self.probability[0])
        x = np.clip(scores, self.at[0], self.at[-1])
        k = np.clip(np.searchsorted(self.at, x, "right") - 1, 0, self.at.size - 2)
        x0, x1, p0, p1 = self.at[k], self.at[k + 1], self.probability[k], self.probability[k + 1]
        with np.errstate(over="ignore"):
            unit = np.where(np.isinf(x1 - x0), 0.25, 1.0)  # such a difference is one of quarters
        share = (x * unit - x0 * unit) / (x1 * unit - x0 * unit)
        return np.minimum(p0 + share * (p1 - p0), p1)


def fit_steps(scores: np.ndarray, positive: np.ndarray) -> Steps:
    """Return the isotonic regression of the labels on the scores; without rows it is 1/2 everywhere."""
    if not scores.size:
        return Steps(np.zeros(1), np.full(1, 0.5))
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))  # equal scores are one point
    weight = np.diff(np.append(first, ranked.size))
    hits = np.add.reduceat(positive[order].astype(np.int64), first)
    starts = _blocks(*alike(hits, weight))
    total, count = np.add.reduceat(hits, starts), np.add.reduceat(weight, starts)
    ends = np.append(starts[1:], first.size) - 1
    corners = np.unique(np.concatenate([starts, ends]))  # a block is level from its first score to its last
    block = np.searchsorted(starts, corners, "right") - 1
    if corners.size > MOST_POINTS:
        some = np.unique(np.linspace(0, corners.size - 1, MOST_POINTS).round().astype(np.int64))
        corners, block = corners[some], block[some]
    return Steps(ranked[first][corners], total[block] / count[block])


@kernel
def _blocks(hits, weight):  # type: ignore[no-untyped-def]
    """Return where the blocks begin; their means are compared as whole numbers, h/w <= H/W where h W <= H w."""
    starts, h, w, n = np.empty(hits.size, np.int64), np.empty(hits.size, np.int64), np.empty(hits.size, np.int64), 0
    for i in range(hits.size):
        starts[n], h[n], w[n] = i, hits[i], weight[i]
        n += 1
        while n > 1 and h[n - 2] * w[n - 1] >= h[n - 1] * w[n - 2]:
            h[n - 2] += h[n - 1]
            w[n - 2] += w[n - 1]
            n -= 1
    return starts[:n].copy()
