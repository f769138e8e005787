"""``--gamma``: the number of an RBF kernel, as people write it.

    0.05       the number itself
    0.1/d      a number over d, the number of features without the bias
    scale      1/(d v), v being the variance of all n d entries, zeros included: scikit-learn's own default, and ours

What a run stores is the number: 1/d of data that have got more features since would be another kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, SpecError, shown
from pipeline.jit import alike
from pipeline.maths.rounding import UNIT, nearest
from pipeline.maths.spread import sums_of_values
from pipeline.runs.classes import AnyStep
from pipeline.runs.run import StepView
from pipeline.spec import PathSpec

SCALE = "scale"
_FORM = re.compile(r"\s*([0-9.eE+-]+)\s*(/\s*d)?\s*", re.ASCII)


@dataclass(frozen=True)
class Gamma:
    """What was asked for: ``number``, over ``unit``: nothing, d, or (scale) d times the variance."""

    number: float
    unit: str = ""

    def on(self, engine: Engine, data: Dataset) -> float:
        """Return the number for these data; scale takes a pass."""
        if not self.unit:
            return self.number
        features = data.own_features
        if not features:
            raise DataError("has no feature for gamma to be divided by; give gamma as a number", path=data.path)
        size = Fraction(features) * (_variance(engine, data, features) if self.unit == SCALE else 1)
        if not size:
            problem = "the variance of its entries is 0 in float64, and gamma scale has none; give gamma as a number"
            raise DataError(problem, path=data.path)
        found = nearest(Fraction(self.number) / size)
        if not (math.isfinite(found) and found > 0):
            problem = f"gamma {self} is {found:g} in float64; scale the features, or give gamma as a number"
            raise DataError(problem, path=data.path)
        return found

    def __str__(self) -> str:
        return SCALE if self.unit == SCALE else f"{self.number:g}{'/d' if self.unit else ''}"


def asked_gamma(given: object) -> Gamma:
    """Read what a user gave; None is scale. SpecError says what a gamma may be."""
    if given is None or given == SCALE:
        return Gamma(1.0, SCALE)
    form = _FORM.fullmatch(str(given))
    try:
        number = float(form[1]) if form else math.nan
    except ValueError:  # such as 1e or 1.2.3
        number = math.nan
    if not (form and math.isfinite(number) and number > 0):
        raise SpecError(f"gamma is a positive number, or one over d such as 0.1/d, or scale, not {shown(given)}")
    return Gamma(number, "d" if form[2] else "")


@dataclass(frozen=True)
class AskedKernel:
    """The kernel that was asked for, whose ``gamma`` is settled once the data are open; None for linear."""

    kernel: str
    gamma: Gamma | None

    @property
    def provisional(self) -> dict[str, Any]:
        """What a PathSpec needs, so that all else can be checked before the data are opened."""
        return {"kernel": self.kernel, "gamma": None if self.gamma is None else self.gamma.number}

    def settled(self, spec: PathSpec, engine: Engine, data: Dataset) -> PathSpec:
        """Return the settings with the number for these data."""
        return spec if self.gamma is None else replace(spec, gamma=self.gamma.on(engine, data))


def asked_kernel(kernel: str | None, gamma: object, references: Sequence[AnyStep] = ()) -> AskedKernel:
    """Return the kernel that is meant: what is not said is as it was in the first reference, if there is any."""
    known = references[0].spec if references else PathSpec()
    if kernel is None:
        kernel = known.kernel
    if kernel == "linear":
        PathSpec(gamma=gamma)  # type: ignore[arg-type]  # refuses any but None
        return AskedKernel(kernel, None)
    return AskedKernel(kernel, asked_gamma(known.gamma if gamma is None else gamma))


def check_references(spec: PathSpec, references: Sequence[StepView]) -> None:
    """Raise SpecError for a reference of another kernel: its alpha would be feasible, but prove next to nothing."""
    for each in references:
        if (each.spec.kernel, each.spec.gamma) != (spec.kernel, spec.gamma):
            here, there = (said_of(one) for one in (spec, each.spec))
            run = each.model.path.parents[1]
            raise SpecError(f"{run}: has {there}, this run {here}; give a reference of the same kernel and gamma")


def said_of(spec: PathSpec) -> str:
    """Name a kernel in a few words."""
    return f"kernel {spec.kernel}" if spec.gamma is None else f"kernel {spec.kernel} with gamma {spec.gamma!r}"


def _variance(engine: Engine, data: Dataset, features: int) -> Fraction:
    """Return the variance of all entries, from sums of about twice float64's digits; 0 where it is lost in these."""
    total, squares = Fraction(0), Fraction(0)
    for part in engine.stream(_shard_sums, data.shards, features):
        if not np.isfinite(part).all():
            problem = "has values whose squares are beyond float64's range; scale them, or give gamma as a number"
            raise DataError(problem, path=data.path)
        one, two = ((Fraction(high) + Fraction(low)) for high, low in part.tolist())
        total, squares = total + one, squares + two
    count = data.n_rows * features
    found = squares / count - (total / count) ** 2
    longest = max(shard.nnz for shard in data.shards)
    return found if found > 4 * Fraction((longest + 4) * UNIT) ** 2 * squares / count else Fraction(0)


def _shard_sums(shard: Shard, features: int) -> np.ndarray:
    rows = shard.load()
    found = np.zeros((2, 2))
    sums_of_values(*alike(rows.indices, rows.values), features, found)
    return found
