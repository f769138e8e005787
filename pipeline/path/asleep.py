"""Rows that need not be read: what is known of them is enough for a certificate over all rows.

Let the products of all rows with some vectors be known since the last pass over all of them (``Look.base``), and those
of some rows with the vectors of the point before, which had read them (``Look.own``). From these follow intervals of
z_i . w for a new w (``maths.estimate``). A row whose interval lies above 1 with alpha_i = 0, or below 1 with
alpha_i = u_i, adds exactly nothing to the gap, wherever in its interval the margin is:

    P - D = sum_i [u_i max(0, 1 - f_i) - alpha_i (1 - f_i)] + |w - w_alpha|^2/2,    D = sum alpha - |w_alpha|^2/2,

so both values are known without it (``certificate.hinge_by_gap``). Only the others are read. The certificate does not
rely on their choice: every row's part of the gap is that of the worst margin in its interval. Rules take the products
of rows that were not read for what they are, inexact ones, each ball by its own centre (``Seen.terms``).

Which rows are read is settled by the point before and the new pair alone. So a run that goes on makes the points since
the last pass over all rows again, and has the same bits.

Disks are read by pages, on which rows that are read lie among others: where the page cache cannot keep the data, rows
that will be read again are copied (``soon``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.ball import Combination
from pipeline.maths.estimate import Estimate, KnownVectors, Measured, add_doubt, expected, find_awake, padded
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
        cls, state: RowState, vectors: Sequence[Measured], look: Look, weights: np.ndarray, weighted: ByRow
    ) -> Doubt | None:
        """Express a pair's vectors by those that are known; None where numbers are beyond float64's range."""
        first, every = len(look.base.vectors), len(look.own.vectors)
        far = [look.own.estimate(one, weights, first) for one in vectors]
        near = far if look.read is None else [look.own.estimate(one, weights, every) for one in vectors]
        if not all(math.isfinite(each.apart + each.norm + each.size) for each in (*far, *near)):
            return None
        return cls(state, weighted, tuple(far), tuple(near), look.read, state.empty(np.bool_))

    def _read(self, part: slice) -> np.ndarray:
        """Tell which of some rows were read by the point before."""
        return np.zeros(self.awake[part].size, np.bool_) if self.read is None else self.read[part]

    def _about(self, part: slice) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return norms, weighted norms and lengths of some rows, and which of them were read by the point before."""
        rows = self.state
        return (rows.norms[part], self.weighted[part], rows.lengths[part]), self._read(part)

    def products(self, k: int, part: slice, known: Sequence[ByRow]) -> np.ndarray:
        """Return some rows' products with the k-th vector, as those with the vectors of ``Look`` have them expected.

        ``known`` are those of ``Look.own``, of which the first are the base's.
        """
        read, far, near = self._read(part), self.far[k].coefficients, self.near[k].coefficients
        found, some = np.empty(read.size), padded([each[part] for each in known[: len(near)]])
        expected(read, np.array((*far, *([0.0] * (len(near) - len(far))))), np.array(near), some, found)
        return found

    def wake(self, f: np.ndarray, alpha: np.ndarray, box: tuple[float, np.ndarray], part: slice) -> int:
        """Mark those of some rows, with estimates f, that have to be read; return how many nonzeros they have."""
        shapes = self.far[0].shape, self.near[0].shape
        return int(find_awake(f, alpha, box, *self._about(part), shapes, self.awake[part]))

    def terms(self, part: slice, combinations: Sequence[Combination]) -> list[np.ndarray]:
        """Return of how many terms products are that are as inexact as some rows' with combinations of the vectors.

        A vector counts by its share in sum_k |a_k| |v_k|.
        """
        if not combinations:  # of a rule that proves nothing
            return []
        about, read = self._about(part)
        sizes = [[abs(a) * each.norm for a, each in zip(one, self.far, strict=True)] for one in combinations]
        shares = np.array([[a / sum(size) if a > 0.0 else 0.0 for a in size] for size in sizes])
        shapes = tuple(np.array([each.shape for each in some]) for some in (self.far, self.near))
        found = np.empty((len(combinations), read.size))
        found[:] = about[2]
        add_doubt(about, self.awake[part], read, shapes, shares, found)
        return list(found)
