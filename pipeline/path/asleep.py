"""Rows that need not be read: what is known of them is enough for a certificate over all rows.

Let the products of all rows with some vectors be known since the last pass over all of them (``Look.base``), and those
of some rows with the vectors of the point before, which had read them (``Look.own``). From these follow intervals of
z_i . w for a new w (``maths.estimate``). A row whose interval lies above 1 with alpha_i = 0, or below 1 with
alpha_i = u_i, adds exactly nothing to the gap, wherever in its interval the margin is:

    P - D = sum_i [u_i max(0, 1 - f_i) - alpha_i (1 - f_i)] + |w - w_alpha|^2/2,    D = sum alpha - |w_alpha|^2/2,

so both values are known without it (``certificate.hinge_by_gap``). Only the others are read. The certificate does not
rely on their choice: every row's part of the gap is that of the worst margin in its interval. Rules take the products
of rows that were not read for what they are, inexact ones, each ball by its own centre (``CertifiedPoint.terms``).

Which rows are read is settled by the point before and the new pair alone. So a run that goes on makes the points since
the last pass over all rows again, and has the same bits.

Disks are read by pages, on which rows that are read lie among others: where the page cache cannot keep the data, rows
that will be read again are copied (``soon``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.maths.ball import Combination
from pipeline.maths.estimate import Estimate, KnownVectors, find_asleep, terms_of_rows
from pipeline.working.state import ByRow, RowState

# Plain choices, replayed on finished paths of five data sets (0.5 to 0.9, and 0.7 to 3: within 5 % of each other):
MOST_READ = 0.7  # of the nonzeros: where more are asked for, all rows are read, and known from then on
MOST_SINCE = 1.0  # reads of the data since all rows were read: then they are again


@dataclass(frozen=True)
class Look:
    """What a point knows of the rows: ``base`` of all, ``own`` (base, and its own vectors) of those it has ``read``.

    ``read`` None: it has read all rows, and own is base. ``since`` counts reads of the data since that was so, of which
    the point's own are ``share``.
    """

    base: KnownVectors
    own: KnownVectors
    read: ByRow | None = None
    since: float = 0.0
    share: float = 1.0


@dataclass(frozen=True)
class Doubt:
    """How well the products of rows that are asleep are known, vector by vector of a point's span.

    ``far`` are estimates by what is known of all rows, ``near`` by what is known of those that ``read`` marks, too.
    ``awake`` marks the rows that were read for the point itself. ``weighted`` are the rows' norms |z_i/D|.
    """

    state: RowState
    weighted: ByRow
    far: tuple[Estimate, ...]
    near: tuple[Estimate, ...]
    read: ByRow | None
    awake: ByRow

    @classmethod
    def of(
        cls, state: RowState, vectors: Sequence[np.ndarray], look: Look, weights: np.ndarray, weighted: ByRow
    ) -> Doubt | None:
        """Express a pair's vectors by those that are known; None where numbers are beyond float64's range."""
        far, near, first = [], [], len(look.base.vectors)
        for v in vectors:
            dots = look.own.dots(v)
            far.append(look.own.estimate(v, dots, weights, first))
            near.append(far[-1] if look.read is None else look.own.estimate(v, dots, weights, len(dots)))
        if not all(math.isfinite(each.apart + each.norm + each.size) for each in (*far, *near)):
            return None
        return cls(state, weighted, tuple(far), tuple(near), look.read, state.empty(np.bool_))

    @cached_property
    def _shapes(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([each.shape for each in self.far]), np.array([each.shape for each in self.near])

    def _about(self, part: slice) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return norms, weighted norms and lengths of some rows, and which of them were read by the point before."""
        rows = self.state
        read = np.zeros(rows.norms[part].size, np.bool_) if self.read is None else self.read[part]
        return (rows.norms[part], self.weighted[part], rows.lengths[part]), read

    def products(self, k: int, part: slice, base: Sequence[ByRow], own: Sequence[ByRow]) -> np.ndarray:
        """Return some rows' products with the k-th vector, as those with the vectors of ``Look`` have them expected."""
        found = self.far[k].products([p[part] for p in base])
        if self.read is None:
            return found
        return np.where(self.read[part], self.near[k].products([p[part] for p in own]), found)

    def asleep(self, f: np.ndarray, alpha: np.ndarray, u: np.ndarray, part: slice) -> np.ndarray:
        """Tell which of some rows, with estimates f, are where they belong for certain; rows left out never are."""
        (about, read), found = self._about(part), np.empty(f.size, np.bool_)
        find_asleep(f, alpha, u, about, read, self._shapes, found)
        return found

    def terms(self, part: slice, combination: Combination) -> np.ndarray:
        """Return of how many terms a product is that is as inexact as some rows' with a combination of the vectors."""
        sizes = np.array([abs(a) * each.norm for a, each in zip(combination, self.far, strict=True)])
        total, awake = float(sizes.sum()), self.awake[part]
        (about, read), found = self._about(part), np.empty(awake.size)
        shares = sizes / total if total > 0.0 else sizes
        terms_of_rows(about, awake, read, self._shapes, shares, found)
        return found
