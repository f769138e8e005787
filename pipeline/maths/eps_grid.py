"""How far one solution reaches along the path: the next C of the eps-path, explicit grids, models between steps.

With (w, alpha) at C0, W = |w|^2, A = |w_alpha|^2, S = sum alpha and xi the hinge sum, two duals are feasible at
C = rho C0 >= C0 without any work:

    scaled   (w, rho alpha):  primal W/2 + C xi,    dual rho S - rho^2 A/2
    as it is (w, alpha):      primal W/2 + C xi,    dual D_0 = S - A/2

and the next C is the largest for which one of them has a gap of at most eps times its dual. The scaled one gives the
larger root of

    (1+eps) A/2 rho^2 - ((1+eps) S - C0 xi) rho + W/2 = 0

(with w = w_alpha and g0 the gap at C0 the middle term is W - g0 + eps S); the other C = ((1+eps) D_0 - W/2)/xi, which
is infinite when no row is inside the margin: then no alpha has to be at its bound, w no longer changes with C, and the
path has ended. No C beyond C0 means: solve C0 tighter first.
"""

from __future__ import annotations

import math

from pipeline.dataclass import dataclass
from pipeline.maths.certificate import Certificate

STEPS = 5.0  # of a path times sqrt(eps): 2.2 to 10 on fifteen real paths to 10^4, with a kernel or without
FEWEST = 0.15  # of the steps so far: where a path has more than is usual, some are still to come


@dataclass(frozen=True)
class Reach:
    """A solution at C = ``c``: ``square`` = |w|^2, ``alpha`` = sum alpha, ``hinge`` = xi(w).

    ``alpha_square`` = |w_alpha|^2 is given where w is not w_alpha.
    """

    c: float
    square: float
    alpha: float
    hinge: float
    alpha_square: float | None = None

    @property
    def dual_square(self) -> float:
        """|w_alpha|^2."""
        return self.square if self.alpha_square is None else self.alpha_square

    @property
    def gap(self) -> float:
        """The gap at C itself."""
        return (self.square + self.dual_square) / 2 + self.c * self.hinge - self.alpha

    @property
    def dual(self) -> float:
        """The dual value at C itself."""
        return self.alpha - self.dual_square / 2

    def model_at(self, c: float) -> ModelAt:
        """Return the certified answer at another C: w with the better of the duals (for C < c only the scaled one)."""
        rho = c / self.c
        primal = self.square / 2 + c * self.hinge
        scaled = Certificate(c, primal, rho * self.alpha - rho * rho * self.dual_square / 2)
        as_it_is = Certificate(c, primal, self.dual)
        if c >= self.c and as_it_is.dual > scaled.dual:
            return ModelAt(as_it_is, 1.0)
        return ModelAt(scaled, rho)


@dataclass(frozen=True)
class ModelAt:
    """The same w at another C, with its certificate; its dual is ``alpha_scale`` times the reference's alpha."""

    certificate: Certificate
    alpha_scale: float


def next_c(reach: Reach, eps: float, c_max: float) -> float | None:
    """Return the next C of the eps-path, at most ``c_max``; None if C0 must be solved tighter first.

    The result is ``c_max`` also where the path has ended: from there on the same model is within eps at every C.
    """
    candidates = (_scaled(reach, eps), _as_it_is(reach, eps))
    furthest = max(candidates)
    if not furthest > reach.c * (1 + 1e-12):
        return None
    return min(furthest, c_max)


def _scaled(reach: Reach, eps: float) -> float:
    w, s, gap = reach.square, reach.alpha, max(0.0, reach.gap)
    a, b = (1 + eps) * reach.dual_square, (w + reach.dual_square) / 2 - gap + eps * s
    if a == 0.0:
        return math.inf if gap <= eps * s else 0.0
    discriminant = b * b - a * w
    return reach.c * (b + math.sqrt(discriminant)) / a if discriminant >= 0.0 and b > 0.0 else 0.0


def _as_it_is(reach: Reach, eps: float) -> float:
    room = (1 + eps) * reach.dual - reach.square / 2
    if reach.hinge <= 0.0:
        return math.inf if room >= 0.0 else 0.0
    return room / reach.hinge


def has_ended(reach: Reach, eps: float) -> bool:
    """Tell whether this model is within eps at every larger C: no row is inside the margin."""
    return math.isinf(_as_it_is(reach, eps))


def usual_steps_left(eps: float, done: int) -> float:
    """Return how many steps are usually to come on an eps-path of which some are done.

    A step in log C goes with sqrt(eps), as the root above does, and so their number with 1/sqrt(eps): on dna_scale it
    is 6.5, 6.3, 6.1 of that for eps = 1e-2, 1e-3, 1e-4.
    """
    return max(STEPS / math.sqrt(eps) - done, FEWEST * done)


def check_grid(grid: list[float]) -> list[float]:
    """Return an explicit grid of C in ascending order without repeats, or raise ValueError."""
    for c in grid:
        if not (math.isfinite(c) and c > 0):
            raise ValueError(f"C = {c!r} is not a positive finite number")
    return sorted(set(grid))


def log_grid(low: float, high: float, count: int) -> list[float]:
    """Return ``count`` values of C from low to high with equal ratios."""
    if count < 2:
        raise ValueError("a grid from low to high needs at least two points")
    check_grid([low, high])
    if math.isinf(high / low):
        start, distance = math.log(low), math.log(high) - math.log(low)
        return [low, *(math.exp(start + distance * k / (count - 1)) for k in range(1, count - 1)), high]
    return [low * (high / low) ** (k / (count - 1)) for k in range(count - 1)] + [high]
