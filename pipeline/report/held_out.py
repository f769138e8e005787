"""What the histogram of scores on rows left out says: ROC, precision and recall, reliability, confusion.

From bins (``maths.histogram``): points of ROC and precision-recall are exact at every edge, straight between them.
"""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.histogram import ScoreHistogram

GROUPS = 12  # of bins, for reliability
BARS = 40  # of the histogram that is drawn
Z = 1.96  # 95 %


@dataclass(frozen=True)
class Curves:
    """Points over falling thresholds: false positive rate, recall (true positive rate), precision."""

    fpr: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    thresholds: np.ndarray

    @property
    def auc(self) -> float:
        """The area under the ROC, by trapezoids."""
        return float(np.sum(np.diff(self.fpr) * (self.recall[1:] + self.recall[:-1]) / 2))

    @property
    def average_precision(self) -> float:
        """The mean precision over recall, by steps."""
        return float(np.sum(np.diff(self.recall) * self.precision[1:]))


@dataclass(frozen=True)
class Groups:
    """Neighbouring bins put together: their middle score, their rows, the share of positive ones, its 95 % interval."""

    score: np.ndarray
    rows: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def curves(found: ScoreHistogram) -> Curves | None:
    """Return the curves; None where a class has no row."""
    negative, positive = int(found.negative.sum()), int(found.positive.sum())
    if not (negative and positive):
        return None
    hits = np.concatenate([[0], np.cumsum(found.positive[::-1])])
    alarms = np.concatenate([[0], np.cumsum(found.negative[::-1])])
    said = hits + alarms
    precision = np.divide(hits, said, out=np.ones(hits.size), where=said > 0)
    if said[1:].any():
        precision[: np.argmax(said > 0)] = precision[np.argmax(said > 0)]
    thresholds = np.concatenate([[np.inf], found.edges[::-1], [-np.inf]])
    return Curves(alarms / negative, hits / positive, precision, thresholds)


def groups(found: ScoreHistogram, count: int = GROUPS) -> Groups:
    """Put bins together so that each group has about as many rows; the outermost bins take the nearest edge's score."""
    rows = found.negative + found.positive
    edges = np.concatenate([found.edges[:1], found.edges, found.edges[-1:]])
    middle = (edges[:-1] + edges[1:]) / 2
    place = np.minimum((np.cumsum(rows) - rows / 2) * count // max(1, rows.sum()), count - 1).astype(int)
    total = np.bincount(place, rows, count)
    there = total > 0
    score = np.bincount(place, rows * middle, count)[there] / total[there]
    share = np.bincount(place, found.positive, count)[there] / total[there]
    low, high = _wilson(share, total[there])
    return Groups(score, total[there], share, low, high)


def confusion_counts(found: ScoreHistogram) -> np.ndarray:
    """Return the counts [[negative called negative, called positive], [positive called negative, called positive]]."""
    above = int(np.searchsorted(found.edges, 0.0)) + 1
    return np.array([[side[:above].sum(), side[above:].sum()] for side in (found.negative, found.positive)])


def bars(found: ScoreHistogram, count: int = BARS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bars of equal width for a picture: their edges, and rows of either class, spread over their bin."""
    span = found.edges[-1] - found.edges[0] or 1.0
    inner = np.concatenate([[found.edges[0] - span / count], found.edges, [found.edges[-1] + span / count]])
    at = np.linspace(inner[0], inner[-1], count + 1)
    sides = [np.interp(at, inner, np.concatenate([[0], np.cumsum(side)])) for side in (found.negative, found.positive)]
    return at, np.diff(sides[0]), np.diff(sides[1])


def _wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's interval of a share of n rows."""
    centre = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * np.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return centre - half, centre + half
