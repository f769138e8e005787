"""One step of the path: predict, screen, solve, certify.

    reference point at C_ref -> verdicts and working set at C -> reduced problem over the working set, all other rows
    frozen and folded -> one pass over all rows certifies -> done, or again with the ball of what was found

Whatever the working set was, the certificate is over all rows: a step ends when that holds, and not before.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pipeline.errors import SolverError
from pipeline.maths.certificate import Certificate
from pipeline.maths.rounding import UNIT
from pipeline.maths.rules import rule_named
from pipeline.maths.verdicts import UPPER, ZERO
from pipeline.maths.working_set import Outlook, classify, expect, gap_outside, surprise
from pipeline.path.certify import Certifier, Point, Proof
from pipeline.spec import PathSpec
from pipeline.working.solver import Pair, RowSolver
from pipeline.working.state import RowArrays

MOST_ROUNDS, STALLED_ROUNDS = 1000, 8
SHARE_FOR_SOLVER = 0.5
TINY_BAND = 1e-5  # of the radius
LEAST_DUAL = 1e-6  # of the primal value
WORTH_LIFTING = 0.05  # of the gap: below that, lifting w cannot help


@dataclass(frozen=True)
class Step:
    """A finished step: what ``steps.jsonl`` says of it, and what the next one starts from."""

    point: Point
    outlook: Outlook
    facts: dict[str, object]


class Stepper:
    """Takes steps; holds what they share."""

    def __init__(self, arrays: RowArrays, certifier: Certifier, solver: RowSolver, spec: PathSpec) -> None:
        self.arrays, self.certifier, self.solver, self.spec = arrays, certifier, solver, spec

    def step(
        self,
        ref: Point,
        c: float,
        outlook: Outlook,
        enough: Callable[[Point], bool],
        report: Callable[[dict[str, object]], None],
    ) -> Step:
        """Go from a point to C = ``c``. ``enough`` may ask for a smaller gap than ``tol`` (see ``next_c``)."""
        clock = Clock()
        begun = self.reading()
        with clock("screen"):
            self._expect(ref, c, outlook)
            pair = self._start(ref, c)
            counts = self._screen(ref, c, outlook, self.spec.rule, self.arrays.expected)
            self.arrays.before[:] = ref.margins
        verdicts = self.arrays.verdicts.copy()
        target = SHARE_FOR_SOLVER * self.spec.tol * _worth(ref, c)
        tol, largest, solvers, progress = self.spec.tol, 0, Counter[str](), Progress()
        for round_ in range(MOST_ROUNDS):
            largest = max(largest, int(np.count_nonzero(self.arrays.chosen)))
            pair = self.solver.solve(c, pair, target, clock)
            solvers[pair.solver] += 1
            with clock("certify"):
                point = self._certified(c, pair, tol)
                outside = self._gap_outside(point)
            found = point.certificate
            if found.primal > 0:
                outlook = outlook.after_pass(outside / (tol * found.primal))
            facts = self.facts(ref, point, counts, begun) | {"working_set": largest, "rounds": round_ + 1}
            if found.relative_gap <= tol:
                if enough(point):
                    break
                tol *= 0.3
            report(facts)
            if progress.stalled(found):
                raise _stalled(found, tol, "rounding allows no more, or the solver makes no progress")
            with clock("screen"):
                self._screen_again(point, outlook)
            target = min(target, SHARE_FOR_SOLVER * tol * found.primal) * (0.5 if round_ else 1.0)
        else:
            raise _stalled(found, tol, f"after {MOST_ROUNDS} rounds")
        self.arrays.verdicts[:] = verdicts
        outlook = Outlook(outlook.theta, self._surprise(point), ref.c)
        facts |= {"solver": solvers.most_common(1)[0][0], "seconds": clock.seconds()}
        return Step(point, outlook, facts | {"theta": outlook.theta, "error": outlook.error})

    def _certified(self, c: float, pair: Pair, tol: float) -> Point:
        """Certify a pair, or (1 + delta) w with its alpha, where float64 keeps rows that are on the margin inside it.

        Such rows have slacks of about their rounding, and C times that may exceed ``tol``. Longer by a delta of a few
        roundings, w has them outside, and hardly costs more: delta |w|^2.
        """
        point = self.certifier.point(c, pair.w, pair.w_alpha, pair.drift)
        found = point.certificate
        if found.relative_gap <= tol or found.unattainable < WORTH_LIFTING * found.gap:
            return point
        return self.certifier.point(c, (1 + point.lift) * pair.w, pair.w_alpha, pair.drift)

    def _start(self, ref: Point, c: float) -> Pair:
        """Bring alpha to C by the better of two feasible ways: scaled with C (bounds stay bounds), or as it is."""
        rows, old, rho = self.arrays, ref.alpha, ref.reach.model_at(c).alpha_scale
        if rho == 1.0:
            return Pair(ref.w_alpha, ref.w_alpha, ref.drift, "")
        now = rows.change_alpha()
        for part in rows.chunks():
            alpha, bound, u = old[part], ref.c * rows.costs[part], c * rows.costs[part]
            now[part] = np.where(alpha == bound, u, np.minimum(alpha * rho, u))
        w_alpha = ref.w_alpha * rho
        size = math.sqrt(ref.reach.dual_square) * ref.reference.span.unit
        return Pair(w_alpha, w_alpha, ref.drift * rho + 4 * UNIT * rho * (size + float(ref.reference.sums.reach)), "")

    def _screen(self, ref: Point, c: float, outlook: Outlook, rule: str, centre: np.ndarray) -> Counter[int]:
        """Write verdicts and working set at C from the reference's ball; return how many rows have which verdict.

        A working set that does not fit into memory is chosen again with a smaller theta: the rows least likely to move
        wait, frozen, until a certificate asks for them.
        """
        proven, radius = ref.proof(c, rule), ref.proof(c, "bt1").region.radius
        band = outlook.band(radius)
        while True:
            counts = self._classify(proven, band, c, centre)
            if not self.spec.predict or band < TINY_BAND * radius or self.solver.working.fits(self.arrays.chosen):
                return counts
            band /= 2

    def _classify(self, proven: Proof, band: float, c: float, centre: np.ndarray) -> Counter[int]:
        """Write verdicts and working set by a region, for alphas in the box of C = ``c``."""
        counts = Counter[int]()
        rows, modes = self.arrays, (proven.proves, self.spec.predict)
        for part in rows.chunks():
            bounds, widths = proven.bounds(part), (band, rows.norms[part])
            alpha, u = rows.alpha[part], c * rows.costs[part]
            verdicts, chosen = rows.verdicts[part], rows.chosen[part]
            classify(bounds, centre[part], widths, alpha, u, modes, verdicts, chosen)
            for verdict in (ZERO, UPPER):
                counts[verdict] += int(np.count_nonzero((verdicts == verdict) & (u > 0.0)))
        return counts

    def _expect(self, ref: Point, c: float, outlook: Outlook) -> None:
        rows, f, stretch = self.arrays, ref.margins, outlook.stretch(ref.c, c)
        for part in rows.chunks():
            expect(f[part], rows.before[part], stretch, rows.expected[part])

    def _surprise(self, point: Point) -> float | None:
        """Return how far, on average, margins near 1 are from where the step expected them."""
        rows, f = self.arrays, point.margins
        parts = [surprise(f[p], rows.expected[p], rows.norms[p], rows.costs[p]) for p in rows.chunks()]
        count = sum(part[1] for part in parts)
        return math.sqrt(math.fsum(part[0] for part in parts) / count) if count else None

    def _screen_again(self, point: Point, outlook: Outlook) -> None:
        """Add to the working set, if it fits, what the point's own ball leaves open or shows on the wrong side."""
        before = self.arrays.chosen.copy()
        rule = rule_named(self.spec.rule).at_its_own_c
        self._screen(point, point.c, outlook, rule, point.margins)
        before |= self.arrays.chosen
        if self.solver.working.fits(before):
            self.arrays.chosen[:] = before

    def _gap_outside(self, point: Point) -> float:
        rows, f, alpha = self.arrays, point.margins, point.alpha
        parts = ((f[p], alpha[p], point.c * rows.costs[p], rows.chosen[p]) for p in rows.chunks())
        return math.fsum(gap_outside(*part) for part in parts)

    def reading(self) -> tuple[int, int]:
        """Return the passes so far, and the nonzeros read besides."""
        return self.certifier.passes, self.solver.working.host.read

    def facts(self, ref: Point, point: Point, counts: Counter[int], begun: tuple[int, int]) -> dict[str, object]:
        """Return what ``steps.jsonl`` says of a point; ``begun`` is what had been read before it."""
        rows, all_alpha = self.arrays, point.alpha
        free = upper = 0
        for part in rows.chunks():
            alpha, u = all_alpha[part], point.c * rows.costs[part]
            free += int(np.count_nonzero((alpha > 0.0) & (alpha < u)))
            upper += int(np.count_nonzero((alpha == u) & (u > 0.0)))
        read = (self.solver.working.host.read - begun[1]) / max(1, self.certifier.data.nnz)
        found = point.certificate
        return {
            "c": point.c,
            "c_ref": ref.c,
            "rule": self.spec.rule,
            "n_rows": rows.trained,
            "screened_zero": counts[ZERO],
            "screened_upper": counts[UPPER],
            "survivors": rows.trained - counts[ZERO] - counts[UPPER],
            "passes": self.certifier.passes - begun[0] + read,
            "primal": found.primal,
            "dual": found.dual,
            "relative_gap": found.relative_gap,
            "n_free": free,
            "n_upper": upper,
            "drift": point.drift,
        }


class Progress:
    """Tells when rounds no longer help: for a while neither the gap has fallen nor the dual value risen, by its share.

    The gap at w = w_alpha goes up and down while the dual value rises: blocks that are solved in turn need both.
    """

    def __init__(self) -> None:
        self.gap, self.dual, self.quiet = math.inf, -math.inf, 0

    def stalled(self, found: Certificate) -> bool:
        """Take note of a round's certificate."""
        better = found.gap < 0.98 * self.gap or found.dual > self.dual + 0.001 * found.gap
        self.quiet = 0 if better else self.quiet + 1
        self.gap, self.dual = min(self.gap, found.gap), max(self.dual, found.dual)
        return self.quiet >= STALLED_ROUNDS


class Clock:
    """Seconds by what they were spent on."""

    def __init__(self, *parts: str) -> None:
        self.begun = time.perf_counter()
        self.spent = dict.fromkeys(parts or ("screen", "gather", "solve", "certify"), 0.0)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Add the time of a block to ``what``."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent[what] += time.perf_counter() - begun

    def seconds(self) -> dict[str, float]:
        """Return all, with the total."""
        return {**self.spent, "total": time.perf_counter() - self.begun}


def _worth(ref: Point, c: float) -> float:
    """Guess the optimum at C, which lies between the best dual value at hand and the primal value of the reference.

    The dual value of a reference from other data or another C may be negative; scaled by t it is t S - t^2 A/2, at best
    S^2/(2 A). A guess too low has the solver do more than is asked for, one too high costs a round.
    """
    found, reach = ref.reach.model_at(c).certificate, ref.reach
    shrunk = reach.alpha * min(1.0, reach.alpha / reach.dual_square) / 2 if reach.dual_square > 0.0 else 0.0
    return math.sqrt(max(found.dual, shrunk, LEAST_DUAL * found.primal) * found.primal) * ref.reference.span.unit**2


def _stalled(found: Certificate, tol: float, why: str) -> SolverError:
    if found.unattainable >= WORTH_LIFTING * found.gap:
        why = "float64 cannot tell on which side of the margin some rows are"
    stays = f"at C = {found.c:.6g} the relative gap stays at {found.relative_gap:.2e}, above {tol:.1e}"
    return SolverError(f"{stays} ({why}); scale the features, for example to [-1, 1], or use a larger --tol")
