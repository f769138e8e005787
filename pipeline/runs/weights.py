"""The largest weights of linear models, by the names of their features.

A bucket of hashed values stands for the names that are known to be in it; they collide if there are several. A name
whose hash has the sign -1 has the value -1 there: its weight is -w_j. What is shown is the weight of the most frequent
name, and others of the opposite sign have a minus before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import RunError, SpecError, shown
from pipeline.runs.feature_names import FeatureNames, feature_names

if TYPE_CHECKING:
    from pipeline.runs.run import StepView

NAMES_SHOWN = 3  # of those that share a bucket


@dataclass(frozen=True)
class Weight:
    """A weight of w: ``feature`` is its number there, counted from 0; ``colliding`` names, if any, share it."""

    name: str
    feature: int
    weight: float
    colliding: int = 0


@dataclass(frozen=True)
class TopWeights:
    """The largest weights of a model, |w_j| descending, of equal ones the first; none of them is 0.

    A positive weight speaks for ``positive``. The bias column's weight stands apart: its value is that of the bias in
    every row. ``nonzero`` weights of ``features`` are not 0, the bias left out.
    """

    step: int
    c: float
    positive: str
    negative: str
    largest: tuple[Weight, ...]
    bias: Weight | None
    nonzero: int
    features: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def top_weights(step: StepView, top: int = 20) -> TopWeights:
    """Return the largest weights of a step of two classes; a kernel's model has none."""
    about, run = step.data, step.model.path.parents[1]
    check_linear(step.spec.kernel, run)
    if not isinstance(top, int) or top < 1:
        raise SpecError(f"the number of weights is a whole number of at least 1, not {shown(top)}")
    names, w = feature_names(about, run), step.w
    own = w[: names.own]
    bias = Weight(names.of(names.own), names.own, float(w[names.own])) if names.has_bias else None
    sides = _side(about.positive, "+1"), "the rest" if about.one_against_rest else _side(about.negative, "-1")
    largest = tuple(_largest(own, top, names))
    return TopWeights(step.step, step.c, *sides, largest, bias, int(np.count_nonzero(own)), names.own)


def check_linear(kernel: str, run: Path) -> None:
    """Raise RunError if a run has models of a kernel."""
    if kernel != "linear":
        problem = f"a model of kernel {kernel} has no weights of features, but support rows with an alpha each"
        raise RunError(f"{run}: {problem}; svmsieve export {run} --out support.npz writes these")


def _largest(w: np.ndarray, top: int, names: FeatureNames) -> list[Weight]:
    at = np.flatnonzero(w)
    size = np.abs(w[at])
    if at.size > top:
        least = np.partition(size, at.size - top)[at.size - top]
        at, size = at[size >= least], size[size >= least]
    at = at[np.argsort(-size, kind="stable")[:top]]
    return [_named(j, float(w[j]), names) for j in at.tolist()]


def _named(j: int, w: float, names: FeatureNames) -> Weight:
    inside = names.in_bucket(j)
    if not inside:
        return Weight(names.of(j), j, w)
    sign = inside[0][1]
    some = " or ".join(name if own == sign else f"-{name}" for name, own in inside[:NAMES_SHOWN])
    more = f" or {len(inside) - NAMES_SHOWN} more" if len(inside) > NAMES_SHOWN else ""
    return Weight(some + more, j, sign * w, len(inside) if len(inside) > 1 else 0)


def _side(labels: Sequence[str], sign: str) -> str:
    return labels[0] if len(labels) == 1 else sign
