"""Where a step of the path starts, and what it may expect: a pure function of what the run directory holds.

A step starts from the step before it, or from a reference (a step of another run, trained on these data or on others)
whose C is nearer. Both kinds teach the next step of their kind how far margins move. All of that is read off
steps.jsonl, so that a run that was interrupted goes on as if it had not been. A reference is carried over and certified
once, however many C it is the nearest to. What new rows, and rows that went, did to the margins at a reference's own C
is what they are expected to do at the next one (nights on url-like: one round a step where there were two). What a
reference on these data has taught its own run holds here, too: margins move as far from one C to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pipeline.events import Listener, Note
from pipeline.maths.working_set import Outlook
from pipeline.path.space import Earlier, Point, Space, follows
from pipeline.path.step import Start, Step
from pipeline.runs.contract import StepWriter
from pipeline.runs.run import StepView
from pipeline.spec import PathSpec


class Starts:
    """The starts of a run's steps."""

    def __init__(self, space: Space, writer: StepWriter, spec: PathSpec, references: Sequence[StepView]) -> None:
        self.space, self.writer, self.spec, self.references = space, writer, spec, references
        these = writer.header.data.fingerprint
        self.of_these_data = all(each.fingerprint == these for each in references)  # whatever rows are left out
        self._kept: tuple[StepView, Point] | None = None

    def at(self, c: float, last: Step | None) -> Start | None:
        """Return where to start for C, the last step or a reference, certified; None if there is neither."""
        near = self._nearest(c)
        if near is not None and (last is None or _distance(near.c, c) < _distance(last.point.c, c)):
            moved = None if last is None else _moved(last)
            return Start(self._certified(near, c), None, self._outlook_from(near), carried=True, moved=moved)
        return None if last is None else Start(last.point, last.before, self._outlook(), follows=True)

    def _nearest(self, c: float) -> StepView | None:
        return min(self.references, key=lambda each: _distance(each.c, c), default=None)

    def _certified(self, near: StepView, c: float) -> Point:
        """Return a reference's point on these rows; it is kept if a later C of the grid may start there, too."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] is near:
            point = kept[1]
        else:
            del kept  # its arrays, before others are made
            point = self.space.certify(float(near.c), self.space.carried(near, self.spec))
        if any(self._nearest(later) is near for later in self.spec.grid or () if later > c):
            self._kept = near, point
        return point

    def resumed(self, listen: Listener) -> Step:
        """Return the last finished step, from the models and few passes."""
        facts = self.writer.steps[-1]
        listen(Note(f"continuing after step {facts.step} (C = {facts.c:.6g})"))
        reference = None if facts.reference is None else self._nearest(facts.c_ref)
        carried = None if reference is None else self._certified(reference, facts.c)
        point, before = self.space.resumed(self.writer.steps, self.writer.model)
        if carried is not None:
            before = Earlier(carried.c, carried.pair.alpha, carried.margins)
        return Step(point, before, facts)

    def _outlook(self) -> Outlook:
        """Return what the last step has taught for a step from there."""
        facts = self.writer.steps[-1]
        if self._came_from_the_step_before():
            return Outlook(facts.theta, facts.error, facts.c_ref)
        return Outlook(facts.theta, facts.error if self.of_these_data else None)

    def _outlook_from(self, reference: StepView) -> Outlook:
        """Return what the last step from a reference has taught: in this run, or in the reference's own."""
        if self.writer.steps and not self._came_from_the_step_before():
            facts = self.writer.steps[-1]
        elif self.of_these_data or reference.c_ref in [each.c for each in reference.data.reference]:
            facts = reference
        else:
            return Outlook()
        return Outlook(facts.theta, facts.error)

    def _came_from_the_step_before(self) -> bool:
        """Whether the last step started from the one before it."""
        return follows(self.writer.steps, len(self.writer.steps) - 1)


def _moved(last: Step) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the margins before and after a step that started from a reference of its own C: only rows are others."""
    if last.before is None or last.facts.reference is None or last.facts.c_ref != last.facts.c:
        return None
    return last.before.margins, last.point.margins


def _distance(c: float, other: float) -> float:
    return abs(math.log(c / other))
