"""The path: from C_min to C_max, a certified model at every C, each step starting from the one before.

    facts of all rows -> C_min, closed-form first point -> [next C -> step -> model on disk] ... -> best step

What happens next depends only on the last finished step and the settings. So a run that was killed continues from its
run directory and ends with the same models, to the bit, as one that was not, if the shards are the same.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipeline.blas import one_thread
from pipeline.budget import Budget
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, EngineError, KeptLostError, SpecError
from pipeline.events import Listener, Note, StepProgress, silent
from pipeline.installed import version
from pipeline.maths.eps_grid import check_grid, has_ended, next_c, usual_steps_left
from pipeline.maths.row_sketch import RowSketch, SketchMaker
from pipeline.maths.score import Scores, best
from pipeline.meter import MemoryMeter
from pipeline.path.agreement import Agreement
from pipeline.path.c_range import Range
from pipeline.path.judge import Judge, mention_undefined
from pipeline.path.soon import hot_rows
from pipeline.path.space import Point, Space
from pipeline.path.spaces import make_space, projected
from pipeline.path.starts import Starts
from pipeline.path.step import Start, Step, Stepper
from pipeline.runs.contract import StepWriter
from pipeline.runs.data_record import DataRecord, ReferenceRecord
from pipeline.runs.directory import open_path
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.records import RunHeader, StepRecord
from pipeline.runs.run import Run, StepView
from pipeline.runs.writer import writing
from pipeline.scoring.linear_model import trained_on
from pipeline.scoring.seen import mention_rows_seen
from pipeline.spec import PathSpec
from pipeline.working.facts import collect
from pipeline.working.state import RowState
from pipeline.working.with_shards import collect_there, kept_with_shards

T = TypeVar("T")

MOST_LOSSES = 8  # of workers in one step, before they are no bad luck


def run_path(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: str | Place,
    validation: Dataset | None = None,
    listen: Listener = silent,
    references: Sequence[StepView] = (),
    memory: int | None = None,
    inner: bool = False,
) -> Run:
    """Train along the path into the run directory ``out``, or continue what is there; or in memory.

    A step starts from the step before it, or from that of ``references`` (steps of any run) whose C is nearer; the
    first one, without references, from C_min. ``memory`` is this run's part of ``spec.memory`` if others run beside it.
    A run that is ``inner`` is part of another (a fold), which knows the rows that were trained on: it keeps no sketch.
    """
    projection = projected(engine, data, spec, memory, carried=bool(references))
    about = _about(data, validation, references)
    data.expect_two_classes("a path")
    if validation is not None:
        validation.expect_two_classes("a run of two classes")
        trained_on(data, Path(str(out)), 0.0, np.zeros(data.n_features)).weights_on(validation, listen)
    with writing(out, spec, about, versions()) as writer:
        if writer.header.is_finished:
            Agreement(engine, spec).again(writer.steps, ended=True)
        else:
            in_memory = isinstance(out, MemoryPlace)
            with nullcontext() if in_memory else MemoryMeter() as meter, one_thread():
                run = PathRun(engine, data, spec, validation, writer, projection, listen, references)
                run.run(meter, inner or in_memory)
    return open_path(out)


def begin_path(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    out: str | Place,
    validation: Dataset | None,
    references: Sequence[StepView],
) -> RunHeader:
    """Begin a run, or see that one may go on, and find C_min if the grid needs it; return what run.json says then."""
    projection = projected(engine, data, spec, carried=bool(references))
    with writing(out, spec, _about(data, validation, references), versions()) as writer:
        if spec.grid_in_c_min and writer.header.class_weights is None:
            with one_thread():
                PathRun(engine, data, spec, validation, writer, projection, silent, references).begin()
        return writer.header


def _about(data: Dataset, validation: Dataset | None, references: Sequence[StepView]) -> DataRecord:
    others = tuple(ReferenceRecord(each.c, each.fingerprint, each.model.digest()) for each in references)
    return DataRecord.of(data, validation, others)


def versions() -> dict[str, str]:
    """Return the versions that can change a run's bits."""
    names = ("svmsieve", "numpy", "scipy", "numba", "liblinear-official")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


class Losses:
    """Tells when workers that keep arrays are lost too often for it to be chance."""

    def __init__(self, writer: StepWriter, listen: Listener) -> None:
        self.writer, self.listen = writer, listen
        self.count = self.in_a_row = self.steps = 0

    def noted(self, error: KeptLostError) -> None:
        """Take note of a loss; raise EngineError if no step was finished since several."""
        self.count += 1
        self.in_a_row = self.in_a_row + 1 if len(self.writer.steps) == self.steps else 1
        self.steps = len(self.writer.steps)
        if self.in_a_row >= MOST_LOSSES:
            problem = f"workers were lost {MOST_LOSSES} times in the same step, with what they kept of the rows"
            raise EngineError(f"{problem}; give them more memory, and run the same command again") from error
        self.listen(Note(f"{error}: what it kept is made again"))


class PathRun:
    """One run: what its steps share, and the loop over C."""

    def __init__(
        self,
        engine: Engine,
        data: Dataset,
        spec: PathSpec,
        validation: Dataset | None,
        writer: StepWriter,
        projection: Budget,
        listen: Listener,
        references: Sequence[StepView],
    ) -> None:
        self.engine, self.data, self.spec, self.validation = engine, data, spec, validation
        self.references = references
        self.writer, self.projection, self.listen = writer, projection, listen
        self.begun = time.perf_counter()
        self.unsaid: StepRecord | None = None

    def begin(self) -> None:
        """Find C_min and the classes' weights."""

        def found(again: bool) -> None:
            del again
            self._collect(inner=False)
            self.space.release()

        self._whatever_is_lost(found)

    def _whatever_is_lost(self, work: Callable[[bool], T]) -> T:
        """Return what ``work`` returns, which is told whether this is ``again``.

        Where arrays by row are with the shards, a worker that is lost takes some with it: then all are made again from
        the last finished step, as by a command that goes on.
        """
        losses = Losses(self.writer, self.listen)
        while True:
            try:
                return work(losses.count > 0)
            except KeptLostError as error:
                losses.noted(error)

    def _collect(self, inner: bool) -> RowSketch | None:
        scratch = self.writer.scratch() if self.projection.scratch else None
        maker = None if inner else SketchMaker()
        kept = kept_with_shards(self.engine, self.data, self.spec, bool(self.references))
        if kept is None:
            state = collect(self.engine, self.data, self.spec, scratch, maker)
            state.hot = hot_rows(self.engine, self.data, state, self.projection, self.writer.scratch)
        else:
            state = collect_there(kept, self.data, self.spec, scratch, maker)
        trained = None if maker is None else maker.sketch()
        self._set_up(state, trained)
        return trained

    def run(self, meter: MemoryMeter | None, inner: bool = False) -> None:
        """Go along the path and finish run.json; without a meter nobody asks for the memory that it took."""
        found, chosen, held_out = self._whatever_is_lost(lambda again: self._gone_through(inner, again))
        mention_undefined(found, chosen, self.spec.select, self.listen)
        earlier = self.writer.header.seconds or 0.0
        self.writer.finish(
            best_step=chosen,
            held_out=held_out,
            **({"cv_scores": None} if self.spec.cv else {}),  # a run that lost steps: what its folds say is said again
            **({"stopped": "patience"} if self.agreement.peaked else {}),
            peak_memory=None if meter is None else meter.look(),
            seconds=earlier + time.perf_counter() - self.begun,
        )

    def _gone_through(self, inner: bool, again: bool) -> tuple[list[Scores | None], int | None, dict[str, Any] | None]:
        """Go along the path to its end; return all scores, the best step, and what is said of its scores."""
        trained = self._collect(inner)
        try:
            if not again and self.validation is not None:
                model = trained_on(self.data, self.writer.folder, 0.0, np.zeros(self.data.n_features))
                about = self.writer.header.data
                mention_rows_seen(self.engine, about, model, self.validation, trained, self.spec, self.listen)
            self._walk()
            found = [step.scores for step in self.writer.steps]
            chosen = best(found, self.spec.select)
            return found, chosen, None if inner or chosen is None else self.judge.held_out_of(self.writer.model(chosen))
        finally:
            self.space.release()

    def _set_up(self, state: RowState, trained: RowSketch | None) -> None:
        spec, data = self.spec, self.data
        if spec.holdout and state.trained == state.n_rows:
            problem = f"holdout {spec.holdout:g} leaves none of the {state.n_rows:,} rows out; raise --holdout"
            raise DataError(problem, path=data.path)
        self.space: Space = make_space(self.engine, data, state, spec, self.projection)
        allowed = Range(state)
        allowed.check(step.c for step in self.references)
        self.stepper = Stepper(self.space, spec)
        self.starts = Starts(self.space, self.writer, spec, self.references)
        self.judge = Judge(self.space, self.validation, spec.select)
        self.agreement = Agreement(self.engine, spec)
        elsewhere = self.space.starts_anywhere or bool(self.references)
        anywhere = elsewhere and spec.grid is not None and not spec.grid_in_c_min
        if self.writer.header.class_weights is None:  # nor is C_min known: both are written at once
            found = math.inf if anywhere else self.space.c_min()
            record = None if trained is None else self.writer.keep(trained)
            kept = {} if record is None else {"sketch": vars(record)}
            known = found if math.isfinite(found) else None
            self.writer.update(c_min=known, class_weights=state.class_weights, **kept)
        elif trained is not None and self.writer.header.sketch is not None:
            self.writer.keep(trained)
        self.c_min = 0.0 if anywhere else self.writer.header.c_min or math.inf
        if spec.grid_in_c_min and math.isinf(self.c_min):
            raise SpecError("the rows sum to zero, so that there is no C_min (w = 0 at every C); give the grid in C")
        allowed.check(self._grid() or [min(self.c_min, spec.c_max), spec.c_max])

    def _walk(self) -> None:
        last = self.starts.resumed(self.listen) if self.writer.steps else None
        self.agreement.again(self.writer.steps)
        while (c := self.agreement.next(self._next(last), self.writer.steps)) is not None:
            last = self._step(c, last)
            scores = self.judge.scores(last.point)
            facts = last.facts if scores is None else replace(last.facts, scores=scores)
            self._say_what_is_kept()
            self.unsaid = self.space.write(self.writer, facts, last.point)
            if self.writer.is_settled:
                self._say_what_is_kept()
        self._say_what_is_kept()

    def _step(self, c: float, last: Step | None) -> Step:
        """Take the step to C."""
        if c > self.c_min:
            start = self.starts.at(c, last) or Start(self.space.start(c, self.c_min))
            worth = self._worth(start.point) if start.carried else None
            step = self.stepper.step(start, c, self._enough, self._report)
            return step if worth is None else replace(step, facts=replace(step.facts, reference=worth))
        step = self.stepper.closed_form(c)
        if step.point.certificate.relative_gap <= self.spec.tol and self._enough(step.point):
            return step
        # rows that nearly cancel: rounding hides where C_min is
        return self.stepper.step(Start(step.point), c, self._enough, self._report)

    def _worth(self, point: Point) -> dict[str, Any]:
        """Return what a model of another run is worth here: its gap, its scores on rows that are left out anyway."""
        gap = point.certificate.relative_gap
        scores = self.judge.scores(point) if self.validation is None else None
        return {"relative_gap": gap if math.isfinite(gap) else None, "scores": scores}

    def _next(self, last: Step | None) -> float | None:
        """Return the C after the last finished step, None at the end."""
        grid = self._grid()
        if grid:
            return grid[len(self.writer.steps)] if len(self.writer.steps) < len(grid) else None
        if last is None:
            return min(self.c_min, self.spec.c_max)
        point = last.point
        if point.c >= self.spec.c_max or has_ended(point.reach, self.spec.epsilon):
            return None
        following = next_c(point.reach, self.spec.epsilon, self.spec.c_max)
        assert following is not None, "a step ends only where the path can go on"
        return following

    def _grid(self) -> list[float] | None:
        """Return the C to train at, ascending; None on the eps-path."""
        if self.spec.grid is None:
            return None
        unit = self.c_min if self.spec.grid_in_c_min else 1.0
        return [unit * c for c in check_grid(list(self.spec.grid))]

    def _top(self) -> float:
        grid = self._grid()
        return self.spec.c_max if grid is None else grid[-1]

    def _enough(self, point: Point) -> bool:
        """Tell whether the eps-path can go on from a point."""
        if self.spec.grid is not None or point.c >= self.spec.c_max:
            return True
        return next_c(point.reach, self.spec.epsilon, self.spec.c_max) is not None

    def _say_what_is_kept(self) -> None:
        """Say that a step is done, once it is on disk."""
        facts, self.unsaid = self.unsaid, None
        if facts is not None:
            self.writer.settle()
            self._say(facts, done=True)

    def _report(self, facts: StepRecord) -> None:
        """Say what a round of a step has come to, after all that came before."""
        self._say_what_is_kept()
        self._say(facts, done=False)

    def _say(self, facts: StepRecord, done: bool) -> None:
        grid = self._grid()
        first, top = min(self.c_min, facts.c) or (grid[0] if grid else facts.c), self._top()
        share = math.log(facts.c / first) / math.log(top / first) if top > first > 0 else 1.0
        step = len(self.writer.steps) - done
        scored = facts if done or not self.writer.steps else self.writer.steps[-1]
        select = self.spec.select
        self.listen(
            StepProgress(
                step=step,
                c=facts.c,
                share=share,
                screened=1 - facts.survivors / max(1, facts.n_rows),
                working_set=facts.working_set,
                relative_gap=facts.relative_gap,
                passes=facts.passes,
                done=done,
                scores=None if scored.scores is None else {select: scored.scores.get(select), **scored.scores},
                at_bound=math.log1p(facts.n_upper) / math.log1p(facts.n_rows) if grid is None else None,
                usual_left=usual_steps_left(self.spec.epsilon, step) if grid is None else None,
            )
        )
