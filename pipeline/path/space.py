"""The seam between a path and its geometry: what a step needs to know of the space that w lives in.

A path goes from pair to pair. A pair is a w with a feasible ``alpha``, and says which ``solver`` found them; certified
at C by one look at all rows it is a point, which owns what it proves: the certificate, every row's margin, and bounds
of the margins at any other C. Who knows what w is (a vector, or coefficients of the rows in a kernel's space) makes
pairs and points; the step, the choice of rows and the run are the same for all. ``LinearSpace`` is one such space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.maths.certificate import Certificate
from pipeline.maths.eps_grid import Reach
from pipeline.runs.contract import KeptModel, StepWriter
from pipeline.runs.records import StepRecord
from pipeline.runs.run import StepView
from pipeline.spec import PathSpec
from pipeline.working.lead import Lead
from pipeline.working.solver import Timer
from pipeline.working.state import ByRow, RowState


@dataclass(frozen=True)
class Earlier:
    """The point before a point of the path, as far as the next step goes by it."""

    c: float
    alpha: ByRow
    margins: ByRow


class Proof(Protocol):
    """What a rule proves at some C: a region that holds w*, ``radius`` being that of its first ball."""

    @property
    def proves(self) -> bool: ...  # noqa: D102
    @property
    def radius(self) -> float: ...  # noqa: D102
    def for_verdicts(self, part: slice) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
        """Return lower and upper bounds of z_i . w* for some rows, as sharp as verdicts need them.

        Of two balls also how many rows that are trained on each alone proves to be ZERO, and how many UPPER.
        """
        ...


class Point(Protocol):
    """A certified pair; ``reach`` is measured in ``unit``, and ``drift`` bounds what rounding has done to w_alpha.

    ``read`` is the share of the data that it took, ``before`` the margins of the point before if they were made again.
    """

    @property
    def c(self) -> float: ...  # noqa: D102
    @property
    def pair(self) -> Any: ...  # noqa: D102
    @property
    def margins(self) -> ByRow: ...  # noqa: D102
    @property
    def certificate(self) -> Certificate: ...  # noqa: D102
    @property
    def reach(self) -> Reach: ...  # noqa: D102
    @property
    def unit(self) -> float: ...  # noqa: D102
    @property
    def drift(self) -> float: ...  # noqa: D102
    @property
    def read(self) -> float | None: ...  # noqa: D102
    @property
    def before(self) -> ByRow | None: ...  # noqa: D102
    def proof(self, c: float, rule: str) -> Proof:
        """Return what ``rule`` proves about the rows at C = ``c``."""
        ...


def follows(steps: Sequence[StepRecord], k: int) -> bool:
    """Tell whether step k of a run started from the one before it."""
    return k > 0 and steps[k - 1].c == steps[k].c_ref


class Space(Protocol):
    """Makes pairs and points over the rows of ``data``; ``state`` is what is known of every row."""

    data: Dataset
    state: RowState

    def c_min(self) -> float:
        """Return the largest C below which alpha_i = u_i for all rows; infinite if w* = 0 at every C."""
        ...

    @property
    def starts_anywhere(self) -> bool:
        """Whether C_min costs more than a guess to start from does."""
        ...

    def start(self, c: float, c_min: float) -> Any:
        """Return the point to start from for C if there is no other; C_min is 0 where a space starts without it."""
        ...

    def first(self, c: float) -> Any:
        """Return the pair with alpha_i = u_i for all rows: the solution at C <= C_min."""
        ...

    def scaled(self, point: Any, c: float) -> Any:
        """Bring a point's pair to C by the better of two feasible ways: scaled with C, or as it is."""
        ...

    def stored(self, model: KeptModel, drift: float) -> Any:
        """Return the pair that a step of this run has written, with the bits that it had."""
        ...

    def carried(self, step: StepView, spec: PathSpec) -> Any:
        """Return the pair that a step of any run makes on these rows; nothing that the run says is relied on."""
        ...

    def certify(self, c: float, pair: Any, tol: float = ..., ref: Any = None) -> Any:
        """Return a pair's point at C: one look at all rows, and another where rounding alone keeps it from ``tol``.

        ``ref`` is the point of the step before, if there is one: rows that it knows well enough need no look.
        """
        ...

    def resumed(self, steps: Sequence[StepRecord], model: Callable[[int], KeptModel]) -> tuple[Any, Earlier | None]:
        """Return the point of the last finished step, with the bits that it had, and the one that it came from.

        None unless that was the step before.
        """
        ...

    def solve(self, c: float, pair: Any, chosen: ByRow, target: float, clock: Timer, lead: Lead | None = None) -> Any:
        """Return the pair after solving to an absolute gap of ``target`` over the rows that ``chosen`` marks.

        ``lead`` says where alphas may be expected.
        """
        ...

    def fits(self, chosen: ByRow) -> bool:
        """Tell whether some rows can be solved for all at once."""
        ...

    def solved_for(self, chosen: ByRow) -> int:
        """Return how many of some rows the last round solved for."""
        ...

    def margins_again(self, model: KeptModel) -> ByRow:
        """Return the margins of a step of this run, with the bits they had."""
        ...

    def margins_on(self, pair: Any, c: float, other: Dataset) -> np.ndarray:
        """Return the margins of the rows of another data set."""
        ...

    def write(self, writer: StepWriter, facts: StepRecord, point: Any) -> StepRecord:
        """Write a finished step with its model; return its line."""
        ...

    def reading(self) -> tuple[int, int]:
        """Return the passes so far, and the nonzeros read besides."""
        ...

    def release(self) -> None:
        """Let go of the rows that are held."""
        ...
