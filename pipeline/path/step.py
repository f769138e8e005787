"""One step of the path: predict, screen, solve, certify.

    reference point at C_ref -> verdicts and working set at C -> reduced problem over the working set, all other rows
    frozen and folded -> one pass over all rows certifies -> done, or again with the ball of what was found

Whatever the working set was, the certificate is over all rows: a step ends when that holds, and not before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import field, replace

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.rules import rule_named
from pipeline.maths.verdicts import UPPER, ZERO
from pipeline.maths.working_set import Outlook, classify, expect, gap_outside, surprise
from pipeline.path.clock import Clock
from pipeline.path.space import Earlier, Point, Proof, Space
from pipeline.path.stall import Stall, stalled
from pipeline.runs.records import StepRecord
from pipeline.spec import PathSpec
from pipeline.working.lead import Lead
from pipeline.working.state import ByRow, RowState

MOST_ROUNDS = 1000  # for ever; times the rounds that a sweep takes
# Of tol, over the working set; the rest is for rows outside. Beside 0.5 dcd's visits on paths and grids of nine
# data sets are 0.52 to 1.20 times as many, 0.88 in the mean, passes 1.02 times; 0.65 and 0.85 do hardly worse:
SHARE_FOR_SOLVER = 0.75
LEAST_BAND = 0.25  # of what was bet on (url-like at 1/120, 6 C: 13.1 reads of the data; at 1 and 1/16 14.6 and 14.5)
LEAST_DUAL = 1e-6  # of the primal value


@dataclass(frozen=True)
class Start:
    """Where a step starts: a point, the one before it if there was one, and what may be expected.

    ``follows``: the point is that of the step before; ``carried``: it is that of a model of another run. Then ``moved``
    is how the margins of such a model at the C before moved, from where and to where, if that is known.
    """

    point: Point
    before: Earlier | None = None
    outlook: Outlook = field(default_factory=Outlook)
    follows: bool = False
    carried: bool = False
    moved: tuple[ByRow, ByRow] | None = None

    def trend(self, c: float) -> tuple[float, ByRow, ByRow] | None:
        """Return what margins on the way to C are expected to move by: so many times from these to those.

        New rows, and rows that went, are expected to move margins as far as they did at the C before.
        """
        if self.moved is not None:
            return 1.0, *self.moved
        stretch = self.outlook.stretch(self.point.c, c)
        return None if stretch == 0.0 or self.before is None else (stretch, self.before.margins, self.point.margins)

    def lead(self) -> Lead | None:
        """Return where alphas lead from the two points."""
        point, before = self.point, self.before
        if before is None or before.c == point.c:
            return None
        return Lead(point.c, point.pair.alpha, before.c, before.alpha)

    def earlier(self, point: Point) -> Earlier | None:
        """Return this start as what came before ``point``; None if it is not there any more when a run goes on."""
        if not (self.follows or self.carried):
            return None
        ref = self.point
        return Earlier(ref.c, ref.pair.alpha, ref.margins if point.before is None else point.before)


@dataclass(frozen=True)
class Step:
    """A finished step: what the next one starts from, and what ``steps.jsonl`` says of it."""

    point: Point
    before: Earlier | None
    facts: StepRecord


class Stepper:
    """Takes steps in a space."""

    def __init__(self, space: Space, spec: PathSpec) -> None:
        self.space, self.state, self.spec = space, space.state, spec

    def step(
        self,
        start: Start,
        c: float,
        enough: Callable[[Point], bool],
        report: Callable[[StepRecord], None],
    ) -> Step:
        """Go from a point to C = ``c``. ``enough`` may ask for a smaller gap than ``tol`` (see ``next_c``)."""
        clock, begun, ref, outlook = Clock(), self.space.reading(), start.point, start.outlook
        with clock("screen"):
            expected = self._expected(start, c)
            pair = self.space.scaled(ref, c)
            proven = ref.proof(c, self.spec.rule)
            counts, rules = self._screen(ref, c, pair.alpha, outlook, proven, expected)
        verdicts, self.state.verdicts = self.state.verdicts, self.state.empty(np.int8)
        target = SHARE_FOR_SOLVER * self.spec.tol * _worth(ref, c)
        tol, largest, solvers, stall = self.spec.tol, 0, Counter[str](), Stall()
        lead, rounds = start.lead(), 0
        while True:
            rounds += 1
            pair = self.space.solve(c, pair, self.state.chosen, target, clock, lead if rounds == 1 else None)
            largest = max(largest, self.space.solved_for(self.state.chosen))
            solvers[pair.solver] += 1
            with clock("certify"):
                point = self.space.certify(c, pair, tol, ref if start.follows else None)
                outside, sides = self._gap_outside(point)
            found = point.certificate
            if found.primal > 0:
                outlook = outlook.after_pass(outside / (tol * found.primal))
            facts = self.facts(ref, point, counts, sides, begun, working_set=largest, rounds=rounds, rules=rules)
            if found.relative_gap <= tol:
                if enough(point):
                    self.state.verdicts = verdicts
                    found_by, seconds = solvers.most_common(1)[0][0], clock.seconds()
                    error = self._surprise(point, expected)
                    facts = replace(facts, solver=found_by, seconds=seconds, theta=outlook.theta, error=error)
                    return Step(point, start.earlier(point), facts)
                tol *= 0.3
            report(facts)
            sweep = self._sweep()
            if stall.noted(found, tol, sweep):
                raise stalled(found, self.spec, "rounding allows no more, or the solver makes no progress")
            if rounds >= MOST_ROUNDS * sweep:
                raise stalled(found, self.spec, f"after {rounds} rounds")
            with clock("screen"):
                self._screen_again(point, outlook)
            pair = point.pair
            del point  # its products, before others are made
            target = min(target, SHARE_FOR_SOLVER * tol * found.primal) * (0.5 if rounds > 1 else 1.0)

    def closed_form(self, c: float) -> Step:
        """Return the step at C <= C_min, which needs no solver."""
        clock, begun = Clock(), self.space.reading()
        with clock("certify"):
            point = self.space.certify(c, self.space.first(c))
        self.state.verdicts = self.state.empty(np.int8)  # KEEP
        facts = self.facts(point, point, Counter(), self._gap_outside(point)[1], begun)
        return Step(point, None, replace(facts, seconds=clock.seconds()))

    def _screen(
        self, ref: Point, c: float, alpha: ByRow, outlook: Outlook, proven: Proof, centre: ByRow
    ) -> tuple[Counter[int], dict[str, list[int]] | None]:
        """Write verdicts and working set at C from the reference's ball; return how many rows have which verdict.

        And how many rows each rule that the run's is made of proves to be ZERO and UPPER, by the same reference.

        A working set that does not fit into memory is chosen again with a narrower band: the rows least likely to move
        wait, frozen, until a certificate asks for them. If a quarter of the band is still too much, blocks of rows are
        swept in turn: a certificate of too few rows costs more than reading twice those that were bet on.
        """
        band = full = outlook.band(ref.proof(c, "bt1").radius)
        while True:
            self.state.chosen = self.state.empty(np.bool_)
            found = self._classify(proven, band, c, alpha, centre)
            if not self.spec.predict or band <= LEAST_BAND * full or self.space.fits(self.state.chosen):
                return found
            band /= 2

    def _classify(
        self, proven: Proof, band: float, c: float, alpha: ByRow, centre: ByRow
    ) -> tuple[Counter[int], dict[str, list[int]] | None]:
        """Write verdicts and working set by a region, for alphas in the box of C = ``c``; return as ``_screen``."""
        rows, modes = self.state, (proven.proves, self.spec.predict)
        found = rows.each(_classify, proven, (band, c), alpha, centre, modes, rows)
        counts = Counter({verdict: sum(part[0][k] for part in found) for k, verdict in enumerate((ZERO, UPPER))})
        rules = rule_named(self.spec.rule).made_of if found[0][1] else ()
        alone = {rule: [sum(part[1][k][side] for part in found) for side in (0, 1)] for k, rule in enumerate(rules)}
        return counts, alone or None

    def _expected(self, start: Start, c: float) -> ByRow:
        """Return where the margins are expected at C."""
        f, trend = start.point.margins, start.trend(c)
        if trend is None:
            return f
        expected = self.state.empty()
        self.state.later(_expect, expected, f, trend)
        return expected

    def _surprise(self, point: Point, expected: ByRow) -> float | None:
        """Return how far, on average, margins near 1 are from where the step expected them."""
        parts = self.state.each(_surprise, self.state, point.margins, expected)
        count = sum(part[1] for part in parts)
        return math.sqrt(math.fsum(part[0] for part in parts) / count) if count else None

    def _screen_again(self, point: Point, outlook: Outlook) -> None:
        """Add to the working set, if it fits, what the point's own ball leaves open or shows on the wrong side."""
        before = self.state.chosen
        proven = point.proof(point.c, rule_named(self.spec.rule).at_its_own_c)
        self._screen(point, point.c, point.pair.alpha, outlook, proven, point.margins)
        both = self.state.joined(before, self.state.chosen)
        if self.space.fits(both):
            self.state.chosen = both

    def _sweep(self) -> int:
        """Return how many rounds it takes to solve for all chosen rows once."""
        return -(-self.state.count(self.state.chosen) // max(1, self.space.solved_for(self.state.chosen))) or 1

    def _gap_outside(self, point: Point) -> tuple[float, tuple[int, int]]:
        """Return what part of the gap rows outside the working set have; how many rows are free, and at their bound."""
        parts = self.state.each(_outside, self.state, point.c, point.margins, point.pair.alpha)
        return math.fsum(part[0] for part in parts), (sum(part[1] for part in parts), sum(part[2] for part in parts))

    def facts(
        self,
        ref: Point,
        point: Point,
        counts: Counter[int],
        sides: tuple[int, int],
        begun: tuple[int, int],
        working_set: int = 0,
        rounds: int = 0,
        rules: dict[str, list[int]] | None = None,
    ) -> StepRecord:
        """Return what ``steps.jsonl`` says of a point, as one in closed form.

        ``sides``: how many rows are free and at their bound; ``begun``: what had been read before.
        """
        rows, found, (free, upper) = self.state, point.certificate, sides
        passes, read = self.space.reading()
        return StepRecord(
            c=point.c,
            c_ref=ref.c,
            rule=self.spec.rule,
            solver="closed form",
            n_rows=rows.trained,
            screened_zero=counts[ZERO],
            screened_upper=counts[UPPER],
            survivors=rows.trained - counts[ZERO] - counts[UPPER],
            rules=rules,
            working_set=working_set,
            rounds=rounds,
            passes=passes - begun[0] + (read - begun[1]) / max(1, self.space.data.nnz),
            read=point.read,
            primal=found.primal,
            dual=found.dual,
            relative_gap=found.relative_gap,
            n_free=free,
            n_upper=upper,
            drift=point.drift,
            theta=Outlook().theta,
            error=None,
            seconds={},
        )


def _classify(
    part: slice,
    proven: Proof,
    at: tuple[float, float],
    alphas: ByRow,
    centre: ByRow,
    modes: tuple[bool, bool],
    rows: RowState,
) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Write verdicts and working set for some rows, ``at`` a band and a C; return how many are ZERO and UPPER.

    And how many each ball of two proves to be alone.
    """
    (band, c), (lower, upper, alone) = at, proven.for_verdicts(part)
    about = (band, rows.norms[part]), alphas[part], (c, rows.costs[part])
    return classify((lower, upper), centre[part], *about, modes, rows.verdicts[part], rows.chosen[part]), alone


def _expect(part: slice, expected: ByRow, f: ByRow, trend: tuple[float, ByRow, ByRow]) -> None:
    stretch, before, now = trend
    expect(f[part], now[part], before[part], stretch, expected[part])


def _surprise(part: slice, rows: RowState, f: ByRow, expected: ByRow) -> tuple[float, int]:
    return surprise(f[part], expected[part], rows.norms[part], rows.costs[part])


def _outside(part: slice, rows: RowState, c: float, f: ByRow, alphas: ByRow) -> tuple[float, int, int]:
    """Return the gap outside the working set, how many rows are inside their box, and how many at its top."""
    return gap_outside(f[part], alphas[part], c, rows.costs[part], rows.chosen[part])


def _worth(ref: Point, c: float) -> float:
    """Guess the optimum at C, which lies between the best dual value at hand and the primal value of the reference.

    The dual value of a reference from other data or another C may be negative; scaled by t it is t S - t^2 A/2, at best
    S^2/(2 A). A guess too low has the solver do more than is asked for, one too high costs a round.
    """
    found, reach = ref.reach.model_at(c).certificate, ref.reach
    shrunk = reach.alpha * min(1.0, reach.alpha / reach.dual_square) / 2 if reach.dual_square > 0.0 else 0.0
    return math.sqrt(max(found.dual, shrunk, LEAST_DUAL * found.primal) * found.primal) * ref.unit**2
