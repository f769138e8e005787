"""What rows say of many models at once, whatever their space: sums, counts and verdicts, and what these come to.

Whoever knows the space computes margins f_i, in two parts and with what bounds their error; the rest is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.verify import judge_rows, twofold
from pipeline.verify.enclosure import Enclosure, TwofoldSums
from pipeline.verify.stored_model import Entries, Model

BATCH_BYTES = 256_000_000  # for the models of a pass, or one model, if that is more
HINGE, ALPHA, PAIRS = slice(0, 2), slice(2, 4), 4  # where the sums that come in two parts are
PLAIN = ("blur", "rounding", "reach")  # and those that do not


@dataclass(frozen=True)
class Worth:
    """What a model is worth. ``outside`` is the first row whose alpha is not in its box, with alpha and C c_i.

    ``apart`` is |w_alpha as stored - w_alpha|, ``between`` |w - w_alpha|. What plain float64 is judged by:
    ``rounding`` is what it can do to P by the margins; ``reach`` = sum alpha_i |z_i| is the magnitude of w_alpha's
    terms, most of which cancel. ``furthest`` is the row with the falsest verdict, and how false (see ``judge_rows``).
    ``margins`` are those of the rows left out, and what plain float64 can do to each.
    """

    enclosure: Enclosure | None
    apart: float
    between: float
    rounding: float
    reach: float
    n_free: int
    n_upper: int
    outside: tuple[int, float, float] | None
    screened_zero: int
    screened_upper: int
    furthest: tuple[int, float]
    margins: tuple[np.ndarray, np.ndarray]


class Models(NamedTuple):
    """The models of a pass, column by column, and the rows' costs."""

    alpha: np.ndarray
    c: np.ndarray
    zero: np.ndarray
    upper: np.ndarray
    costs: np.ndarray


class Margins(NamedTuple):
    """f_i of some rows (by model) in two parts, of ``lengths`` terms, and the sum of the terms' sizes.

    ``share`` is how far terms are off, ``plain`` what plain float64 may do to f_i, both as shares of that; and whatever
    the size, ``lost`` (by model) may be lost.
    """

    high: np.ndarray
    low: np.ndarray
    size: np.ndarray
    lengths: np.ndarray
    share: np.ndarray
    plain: np.ndarray
    lost: np.ndarray


@dataclass(frozen=True)
class Contribution:
    """What some rows contribute."""

    pairs: np.ndarray
    plain: np.ndarray
    counts: np.ndarray
    screened: np.ndarray
    furthest: np.ndarray
    margins: tuple[np.ndarray, np.ndarray]


def models_of(models: Sequence[Model], costs: np.ndarray) -> Models:
    """Lay models out column by column."""
    zero, upper = np.array([m.zero for m in models]), np.array([m.upper for m in models])
    return Models(columns([m.alpha for m in models], costs.size), np.array([m.c for m in models]), zero, upper, costs)


def columns(vectors: Sequence[Entries], size: int) -> np.ndarray:
    """Return sparse vectors as the columns of a dense array."""
    full = np.zeros((size, len(vectors)))
    for k, (index, value) in enumerate(vectors):
        full[index, k] = value
    return full


def part_of(models: Models, first: int, norms: np.ndarray, f: Margins, alpha_sum: np.ndarray) -> Contribution:
    """Return what the rows from ``first`` on contribute, with their norms, margins and sum of alpha in two parts.

    Margins become what they round to, and their second parts bounds of the error.
    """
    mine, count = slice(first, first + norms.size), models.c.size
    costs, alpha = models.costs[mine], models.alpha[mine]
    pairs, plain, hinge = np.zeros((PAIRS, count)), np.zeros((len(PLAIN), count)), np.zeros((3, count))
    counts, furthest, screened = _no_counts(models), _nothing_far(models), np.zeros((2, count), np.int64)
    twofold.hinges(f.lengths, costs, f.share, f.high, f.low, f.size, hinge)
    pairs[HINGE], pairs[ALPHA], plain[0] = hinge[:2], alpha_sum, hinge[2]
    judge_rows.rounding_of_margins(f.lengths, costs, f.high, f.size, plain[1])
    judge_rows.boxes(first, costs, models.c, alpha, norms, plain[2], counts)
    judge_rows.count_verdicts(first, costs, norms, f.high, f.low, models.zero, models.upper, screened, furthest)
    held = np.flatnonzero(costs == 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        doubt = f.plain[held][:, None] * f.size[held] + f.lost
    return Contribution(pairs, plain, counts, screened, furthest, (f.high[held], doubt))


class Tally:
    """The sums over all rows, in the order in which their parts come."""

    def __init__(self, models: Models) -> None:
        self.models, self.parts = models, 0
        self.pairs, self.plain = np.zeros((PAIRS, models.c.size)), np.zeros((len(PLAIN), models.c.size))
        self.counts, self.screened = _no_counts(models), np.zeros((2, models.c.size), np.int64)
        self.furthest = _nothing_far(models)
        self.margins: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, part: Contribution) -> None:
        """Add what some rows contribute."""
        for pair in (HINGE, ALPHA):
            twofold.add_to(*self.pairs[pair], *part.pairs[pair])
        self.plain += part.plain
        self.screened += part.screened
        self.counts[:2] += part.counts[:2]
        self.counts[2] = np.minimum(self.counts[2], part.counts[2])
        self.furthest = np.where(part.furthest[0] > self.furthest[0], part.furthest, self.furthest)
        self.margins.append(part.margins)
        self.parts += 1

    def sums(self, k: int) -> TwofoldSums:
        """Return the sums of a model."""
        hinge, alpha = (tuple(self.pairs[pair, k].tolist()) for pair in (HINGE, ALPHA))
        blur, _, reach = (float(x) for x in self.plain[:, k])
        return TwofoldSums(hinge, alpha, blur, reach, self.models.costs.size + self.parts)

    def values(self, k: int, enclosure: Enclosure | None, apart: float, between: float) -> Worth:
        """Return what a model is worth."""
        models, first = self.models, int(self.counts[2, k])
        _, rounding, reach = (float(x) for x in self.plain[:, k])
        c, outside = float(models.c[k]), None
        if first < models.costs.size:
            outside = first, float(models.alpha[first, k]), c * float(models.costs[first])
        f, doubt = (np.concatenate([part[n][:, k] for part in self.margins]) for n in (0, 1))
        return Worth(
            enclosure=enclosure,
            apart=apart,
            between=between,
            rounding=c * rounding,
            reach=reach,
            n_free=int(self.counts[0, k]),
            n_upper=int(self.counts[1, k]),
            outside=outside,
            screened_zero=int(self.screened[0, k]),
            screened_upper=int(self.screened[1, k]),
            furthest=(int(self.furthest[1, k]), float(self.furthest[0, k])),
            margins=(f, doubt),
        )


def _no_counts(models: Models) -> np.ndarray:
    return np.array([[0] * models.c.size, [0] * models.c.size, [models.costs.size] * models.c.size])


def _nothing_far(models: Models) -> np.ndarray:
    return np.full((2, models.c.size), -1.0)
