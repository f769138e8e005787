"""Is a step what steps.jsonl says? The numbers of a line against those of its model, recomputed; for ``verify``.

In runs of version 2 the stored primal is an upper bound of P, the stored dual a lower bound of D, and the stored gap an
upper bound of the relative gap, in exact arithmetic, and ``drift`` bounds |w_alpha as stored - w_alpha|; its square is
part of the gap. Version 1 stored what float64 makes of them: they may differ by rounding. In both the relative gap
itself, in exact arithmetic, must be within the run's ``tol``.

What rounding may do in version 1 is bounded. A margin: by its number of products; C multiplies that, so that on
separable data at C = 10^6 two honest values of P differ by 10^-9 and more. A sum over n rows: by n EPS/2 of the
magnitudes that are added up. The run then carries w_alpha from step to step, which adds up by chance: 16 EPS sqrt(n
steps) (the law is Higham's and Mary's, "A new approach to probabilistic rounding error analysis", 2019). Measured on
a9a, mushrooms and breast cancer: at most 3 % of all that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pipeline.dataclass import dataclass
from pipeline.spec import PathSpec
from pipeline.verify.enclosure import Enclosure, Interval, nearest
from pipeline.verify.judge_rows import EPS
from pipeline.verify.stored_model import Model
from pipeline.verify.tally import Worth

NUMBERS = ["c", "primal", "dual", "relative_gap", "n_rows", "n_free", "n_upper"]
NUMBERS += ["screened_zero", "screened_upper", "survivors"]
PARTS = {"it": {"bt1", "bt2"}}  # rules that are the intersection of others
UP = 1 + 1e-9  # covers the rounding of a radius


@dataclass(frozen=True)
class Claim:
    """What steps.jsonl says of a step, and what it is measured by; ``bounds`` from version 2 on."""

    facts: dict[str, Any]
    c_before: float
    trained: int
    n_rows: int
    spec: PathSpec
    bounds: bool

    @property
    def tol(self) -> float:
        """The gap that was asked for."""
        return self.spec.tol

    @property
    def rounding(self) -> float:
        """What plain float64 may do to a sum over all rows, in shares of its terms' magnitudes."""
        return EPS * (self.n_rows + 16 * math.sqrt(self.n_rows * (self.facts["step"] + 1)))

    def problems(self, model: Model, found: Worth) -> Iterator[str]:
        """Yield what is wrong with the step, given its model and its worth; causes before what follows from them."""
        said = self.facts
        for name in (*NUMBERS, "drift") if self.bounds else NUMBERS:
            if not is_number(said.get(name)):
                yield f"steps.jsonl does not say its {name}"
                return
        if said["c"] != model.c:
            yield f"the model is for C = {model.c:.12g}"
        if not said["c"] > self.c_before:
            yield f"C does not ascend: the step before has C = {self.c_before:.12g}"
        if found.outside is not None:
            row, alpha, u = found.outside
            box = f"outside its box from 0 to {u:.12g}" if u > 0 else "but the row was not trained on"
            yield f"alpha of row {row} is {alpha:.12g}, {box}"
        if found.enclosure is None:
            yield "the model has no finite primal and dual value"
            return
        yield from self._certificate(found, found.enclosure)
        if not found.apart <= self._drift(found) * UP:
            yield f"the stored w or w_alpha is {found.apart:.3g} apart from sum alpha_i z_i"
        yield from self._counts(found)
        yield from _false_verdict(model, found, found.enclosure)

    def _drift(self, found: Worth) -> float:
        """Return how far the stored w_alpha may be from sum alpha_i z_i."""
        return float(self.facts["drift"]) if self.bounds else self.rounding * found.reach

    def _certificate(self, found: Worth, worth: Enclosure) -> Iterator[str]:
        yield from self._bounds(worth) if self.bounds else self._differences(found, worth)
        gap = worth.relative_gap
        if gap.lower > self.tol:
            yield f"the relative gap {nearest(gap.lower):.6g} is above the run's tol {self.tol:g}"
        elif gap.upper > self.tol:
            yield f"the relative gap may be {nearest(gap.upper):.6g}, above tol {self.tol:g}; scale the features"

    def _bounds(self, worth: Enclosure) -> Iterator[str]:
        said, gap = {name: self.facts[name] for name in ("primal", "dual", "relative_gap")}, worth.relative_gap
        if said["primal"] < worth.primal.lower:
            yield f"the stored primal {said['primal']:.17g} is below P, {nearest(worth.primal.lower):.17g}"
        if said["dual"] > worth.dual.upper:
            yield f"the stored dual {said['dual']:.17g} is above D, {nearest(worth.dual.upper):.17g}"
        if said["relative_gap"] < gap.lower:
            yield f"the stored relative_gap {said['relative_gap']:.12g} is below the gap, {nearest(gap.lower):.12g}"
        if said["relative_gap"] > self.tol:
            yield f"the stored relative_gap {said['relative_gap']:.6g} is above the run's tol {self.tol:g}"
        if said["primal"] - said["dual"] > said["primal"] * (said["relative_gap"] + 4 * EPS):
            yield f"the stored relative_gap {said['relative_gap']:.12g} is not that of the stored primal and dual"
        if (drift := float(self.facts["drift"])) * drift / 2 > (said["primal"] - said["dual"]) * UP:
            yield f"the stored drift {drift:.6g} is more than its gap allows"

    def _differences(self, found: Worth, worth: Enclosure) -> Iterator[str]:
        primal, dual, gap = (_middle(x) for x in (worth.primal, worth.dual, worth.relative_gap))
        slack_primal, slack_dual = self.slacks(found, worth)
        slack = (slack_primal + slack_dual) / primal if primal > 0 else 0.0
        yield from self._difference("primal", primal, slack_primal)
        yield from self._difference("dual", dual, slack_dual)
        yield from self._difference("relative_gap", gap, slack)

    def slacks(self, found: Worth, worth: Enclosure) -> tuple[float, float]:
        """Return what plain float64 may do to P and to D."""
        alpha, size = nearest(worth.alpha), math.sqrt(nearest(worth.alpha_square))
        primal = self.rounding * _middle(worth.primal) + found.rounding
        return primal, self.rounding * (alpha + size * found.reach)

    def _counts(self, found: Worth) -> Iterator[str]:
        yield from self._difference("n_rows", self.trained)
        for name in ("n_free", "n_upper", "screened_zero", "screened_upper"):
            yield from self._difference(name, getattr(found, name))
        yield from self._difference("survivors", self.trained - found.screened_zero - found.screened_upper)
        if self.facts.get("rule") != self.spec.rule:
            yield f"it says rule {self.facts.get('rule')}, but the run has {self.spec.rule}"
        most = self.facts.get("working_set")
        if most is None or not is_number(most) or not 0 <= most <= self.trained:
            yield f"it says a working set of {most} rows, and {self.trained} were trained on"
        yield from self._counts_by_part(found)

    def _counts_by_part(self, found: Worth) -> Iterator[str]:
        """Yield what is wrong with the counts of the rules that the run's is made of, which it is never looser than."""
        said = self.facts.get("rules")
        if said is None:
            return
        if not isinstance(said, dict) or set(said) != PARTS.get(self.spec.rule):
            yield f"it counts by rules that {self.spec.rule} is not made of"
            return
        most = {"ZERO": found.screened_zero, "UPPER": found.screened_upper}
        for rule, counts in said.items():
            if not isinstance(counts, list) or len(counts) != 2 or not all(is_number(x) and x >= 0 for x in counts):
                yield f"its counts by {rule} are none"
                return
            for count, (verdict, proven) in zip(counts, most.items(), strict=True):
                if count > proven:
                    yield f"it says that {rule} proves {count} rows {verdict}, more than the {proven} of both together"

    def _difference(self, name: str, found: float, slack: float = 0.0) -> Iterator[str]:
        if not abs(self.facts[name] - found) <= slack:
            yield f"the stored {name} {self.facts[name]:.12g} is not {found:.12g}"


def _false_verdict(model: Model, found: Worth, worth: Enclosure) -> Iterator[str]:
    row, distance = found.furthest
    if distance > _radius(found, worth):
        zero = model.zero[row >> 3] >> (7 - (row & 7)) & 1
        yield f"row {row} was screened as {'ZERO' if zero else 'UPPER'}, but is on the other side of its margin"


def _radius(found: Worth, worth: Enclosure) -> float:
    """Return how far from w the optimum can be (see ``judge_rows``); it grows with h up to sqrt(2 gap)."""
    gap, h = max(0.0, nearest(worth.gap)) * UP, found.between / 2 * UP
    return (h + math.sqrt(gap - h * h) if 2 * h * h < gap else math.sqrt(2 * gap)) * UP


def _middle(x: Interval) -> float:
    return nearest((x.lower + x.upper) / 2)


def is_number(x: Any) -> bool:
    """Tell whether JSON had a finite number here that float64 can hold."""
    if isinstance(x, float):
        return math.isfinite(x)
    return isinstance(x, int) and not isinstance(x, bool) and abs(x) < 2**63
