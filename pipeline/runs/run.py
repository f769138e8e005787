"""A run as a reader has it: its steps, each with its model, and how one of them is chosen.

``directory`` reads it from disk; a run of several classes (``classes``) is chosen from in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.events import Listener, Note, silent
from pipeline.maths.score import Scores, best
from pipeline.runs.contract import KeptModel
from pipeline.runs.data_record import DataRecord
from pipeline.runs.records import RunHeader, StepRecord
from pipeline.runs.tables import frame_of, html_of
from pipeline.spec import PathSpec

if TYPE_CHECKING:
    from pipeline.runs.weights import TopWeights

MOST_C_SHOWN = 8  # of a run in one line


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StepView(StepRecord):
    """A finished step: its record, and its model on disk."""

    model: KeptModel
    """The model file; what is in it is read when it is asked for."""
    header: RunHeader
    """What run.json says of the run."""
    home: object = None
    """Keeps a temporary run directory alive."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    @property
    def spec(self) -> PathSpec:
        """The run's settings."""
        return self.header.spec

    @property
    def data(self) -> DataRecord:
        """What run.json says of the data."""
        return self.header.data

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data."""
        return self.header.data.fingerprint

    @property
    def class_weights(self) -> tuple[float, float]:
        """What the costs of negative and positive rows were multiplied by."""
        return self.header.class_weights or (1.0, 1.0)

    @property
    def scored(self) -> Scores:
        """The scores, where there must be some; else RunError."""
        if self.scores is None:
            raise RunError(f"{self.model.path}: nothing was scored; train with --holdout, --cv or --validation")
        return self.scores

    @property
    def w(self) -> np.ndarray:
        """The weights, dense; RunError for a kernel's model, which has none."""
        if self.spec.kernel != "linear":
            problem = f"a model of kernel {self.spec.kernel} has no weights w"
            raise RunError(f"{self.model.path}: {problem}; use its alpha, or predict with the run")
        return self.model.w()

    @property
    def alpha(self) -> np.ndarray:
        """The dual variables, dense, in row order."""
        return self.model.alpha()

    @property
    def verdicts(self) -> np.ndarray:
        """0 KEEP, 1 ZERO, 2 UPPER by row, as screened before the solve."""
        return self.model.verdicts()

    def __repr__(self) -> str:
        return f"<step {self.step}: C = {self.c:g}, relative gap {self.relative_gap:.1e}>"


class AtC(Protocol):
    """What is there for one C: a step, or those of several classes."""

    @property
    def step(self) -> int: ...  # noqa: D102
    @property
    def c(self) -> float: ...  # noqa: D102
    @property
    def scores(self) -> Scores | None: ...  # noqa: D102


S = TypeVar("S", bound=AtC)


class RunOf(Generic[S]):
    """A run directory as it is on disk, and how a model of it is chosen."""

    path: Path
    """The run directory."""
    header: Any
    """What run.json says."""
    steps: list[S]
    """The finished steps, by ascending C."""

    @property
    def spec(self) -> PathSpec:
        """The settings."""
        found: PathSpec = self.header.spec
        return found

    @property
    def is_finished(self) -> bool:
        """Whether all steps are there, and the folds' scores where there are folds."""
        return self.header.is_finished and (self.header.cv_scores is not None or not self.spec.cv)

    @property
    def scores(self) -> Sequence[Scores | None]:
        """What each step scored: on the folds, or on the rows left out of training; None where nothing was scored."""
        found, tuned = self.header.cv_scores, self.header.cv_c
        if found is None:
            return [step.scores for step in self.steps]
        return found if tuned is None else [found[tuned.index(step.c)] for step in self.steps]

    @property
    def best_step(self) -> int | None:
        """The number of the step with the best score so far, or of the only step; None if no step has a score."""
        count = len(self.steps)
        return 0 if count == 1 and self.header.is_finished else best(self.scores[:count], self.spec.select)

    @property
    def best(self) -> S:
        """The step with the best score (in a run that is not finished, so far), or the only step; else RunError."""
        self._check_steps()
        if self.spec.cv and self.header.cv_scores is None:
            raise RunError(f"{self.path}: its folds are not finished; run the same svmsieve path again, or name a C")
        number = self.best_step
        if number is None:
            select = self.spec.select.replace("_", " ")
            why = "nothing was scored" if not any(self.scores) else f"no step has a score ({select})"
            raise RunError(f"{self.path}: {why}, so that no step is the best; name one with --c C: {self._all_c()}")
        return self.steps[number]

    def calibration_of(self, c: float) -> Any:
        """Return what makes probabilities of the scores of the model at C, of each class if there are several."""
        found = self.header.calibration
        if found is None:
            raise RunError(f"{self.path}: has no calibration, and so no probabilities; svmsieve tune makes one")
        for each in found if isinstance(found, tuple) else (found,):
            if each.c is not None and each.c != c:
                problem = f"its calibration is of the model at C = {each.c:.6g}, not of that at C = {c:.6g}"
                raise RunError(f"{self.path}: {problem}; name that C")
        return found

    def at(self, c: float | None, listen: Listener = silent) -> S:
        """Return the step with this C, or the best one.

        A C as tables and lists show it, in four digits or six, is that of the step shown so. Any other between two
        steps, or beyond the last, belongs to the one before, and a note says so.
        """
        if not self.is_finished:
            listen(Note(f"{self.path}: the run is not finished; it has {len(self.steps)} steps so far"))
        if c is None:
            return self.best
        self._check_steps()
        if not (isinstance(c, Real) and math.isfinite(c) and c > 0):
            raise RunError(f"{self.path}: C is a positive finite number, not {c!r}; there are {self._all_c()}")
        meant = [step for step in self.steps if _is_shown_as(step.c, c)]
        if meant:
            return min(meant, key=lambda step: abs(step.c - c))
        below = [step for step in self.steps if step.c <= c]
        if not below:
            raise RunError(f"{self.path}: there is no model for C = {c:g}; the smallest C is {self.steps[0].c:.6g}")
        listen(Note(f"{self.path}: no step has C = {c!r}; the one before it has {below[-1].c:.6g}"))
        return below[-1]

    def plot(self, ax: Any = None) -> Any:
        """Draw the scores over C: their mean, folds, standard errors, and the C that are chosen by them.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        ax : matplotlib.axes.Axes
            RunError if nothing was scored.
        """
        from pipeline.runs.score_curve import plot_curve  # noqa: PLC0415 - which reads runs

        return plot_curve(self, ax)

    def to_frame(self) -> Any:
        """Return a pandas frame, a row a step: C, certificate, scores, rows, and what the step took.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by ``step``. pandas is imported here; MissingError says how to install it.
        """
        return frame_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        steps = f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        return f"<run {self.path}: {steps}{', C = ' + self._all_c() if self.steps else ''}>"

    def _all_c(self) -> str:
        """List the C there are, in a few words."""
        texts = [f"{step.c:.6g}" for step in self.steps]
        if len(texts) > MOST_C_SHOWN:
            texts = [*texts[: MOST_C_SHOWN - 2], "...", f"{texts[-1]} ({len(texts)} in all)"]
        return ", ".join(texts)

    def _check_steps(self) -> None:
        count = len(self.steps)
        if not count:
            raise RunError(f"{self.path}: the run has no finished step; run the same svmsieve path again")
        said = self.header.n_steps if self.header.is_finished else count
        if count != said:
            raise RunError(f"{self.path}: has {count} steps of {said}; run the same svmsieve path again")


@dataclass(frozen=True, repr=False)
class Run(RunOf[StepView]):
    """The run directory of one path; one that is kept in memory has no directory, and ``path`` says so."""

    path: Path
    header: RunHeader
    steps: list[StepView]
    in_memory: bool = False

    def weights(self, top: int = 20, c: float | None = None, listen: Listener = silent) -> TopWeights:
        """Return the largest weights by name, of the best step or of the step at ``c``; a kernel's run has none."""
        from pipeline.runs.weights import check_linear, top_weights  # noqa: PLC0415 - which reads steps

        check_linear(self.spec.kernel, self.path)
        return top_weights(self.at(c, listen), top)

    def kept_by(self, home: object) -> Self:
        """Return it with steps that keep a temporary folder's owner alive."""
        return replace(self, steps=[replace(step, home=home) for step in self.steps])


def _is_shown_as(exact: float, c: float) -> bool:
    return abs(exact - c) <= 1e-12 * c or c in (float(f"{exact:.6g}"), float(f"{exact:.4g}"))
