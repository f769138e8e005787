"""What a path run was asked to do: every setting that can change its result, and nothing else.

Settings come from people, from Python and from run.json, where lists stand for tuples and whole numbers for floats. A
``PathSpec`` holds each in one form, so that equal settings are equal, and has none that cannot be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, fields
from itertools import islice
from numbers import Integral, Real
from typing import Any

from pipeline.dataclass import dataclass
from pipeline.errors import SpecError, shown
from pipeline.maths.rules import RULES
from pipeline.sizes import MOST_SIZE
from pipeline.solve import GRAM_SOLVERS, SOLVERS

__all__ = ["GRAM_SOLVERS", "KERNELS", "MOST_C", "PATIENCE", "RULES", "SCORES", "SOLVERS", "PathSpec"]

KERNELS = ("linear", "rbf")

SCORES = ("accuracy", "balanced_accuracy", "auc", "f1", "log_loss", "weighted_accuracy")
MOST_C = 10_000  # of a grid: a model is a file, and what a run says of itself is read as a whole
LEAST_TOL = 1e-15  # float64 has no smaller difference between a primal and a dual value
LEAST_EPSILON, MOST_EPSILON = 1e-12, 1e6  # 1.6 million steps from C to 10 C; one step
PATIENCE = 4  # of tuning: values of C without a better score, two decades
MOST_SEED = 2**63 - 1  # an int64
MOST_LABELS = 10_000  # that have a weight


ClassWeight = tuple[float, float] | tuple[tuple[str, float], ...] | str | None


@dataclass(frozen=True)
class PathSpec:
    """Settings of a path. Two runs on the same shards with equal specs and versions have equal models, to the bit,
    whatever the scheduler and however many workers; the same rows cut into other shards are added up in another order:
    the same fingerprint, and certificates within the same ``tol``, but other last bits.

    ``grid`` replaces the eps-path (``epsilon``, ``c_max``) by a list of C, in multiples of C_min if ``grid_in_c_min``.
    ``class_weight`` multiplies the costs of negative and positive rows. ``holdout`` leaves that share of the rows out
    of training, chosen by a hash of what is in the row; ``fold`` = (k, K) leaves out part k of K in the same way, and
    ``cv`` = K trains K such runs beside the main one; ``stratified`` makes such parts of each class's rows equally
    large, and another ``seed`` makes other parts. With ``patience`` K the path ends when the score (``select``) has not
    improved for K values of C; 0 waits for ever. ``predict`` solves over the rows that are likely to move and freezes
    the other undecided ones until the certificate asks for them; without it every undecided row is solved for.
    ``shrink`` is dcd's own heuristic. ``memory`` is in bytes. ``kernel`` is linear, or rbf with its number ``gamma``;
    solvers of a kernel's problem are others (``GRAM_SOLVERS``). ``class_weight`` may also be pairs (label, weight).
    With ``every_row`` every certificate reads every row; without it those of an eps-path read what they need.
    """

    c_max: float = 1e4
    epsilon: float = 1e-3
    grid: tuple[float, ...] | None = None
    grid_in_c_min: bool = False
    tol: float = 1e-4
    rule: str = "it"
    solver: str = "auto"
    memory: int = 2 * 10**9
    class_weight: ClassWeight = None
    holdout: float = 0.0
    fold: tuple[int, int] | None = None
    cv: int = 0
    select: str = "accuracy"
    patience: int = 0
    predict: bool = True
    shrink: bool = True
    kernel: str = "linear"
    gamma: float | None = None
    stratified: bool = False
    seed: int = 0
    every_row: bool = False

    def __post_init__(self) -> None:
        for name in ("c_max", "epsilon", "tol"):
            self._set(name, _positive(name, getattr(self, name)))
        if not LEAST_TOL <= self.tol < 1:
            raise SpecError(f"tol is a relative gap below 1, and of at least {LEAST_TOL:g}, not {self.tol!r}")
        if not LEAST_EPSILON <= self.epsilon <= MOST_EPSILON:
            raise SpecError(
                f"epsilon is a relative gap from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, not {self.epsilon!r}"
            )
        if self.grid is not None:
            self._set("grid", _grid(self.grid))
        for name in ("grid_in_c_min", "predict", "shrink", "stratified", "every_row"):
            _flag(name, getattr(self, name))
        _one_of("rule", self.rule, RULES)
        _one_of("kernel", self.kernel, KERNELS)
        _one_of("solver", self.solver, SOLVERS if self.kernel == "linear" else GRAM_SOLVERS)
        self._set("gamma", _gamma(self.kernel, self.gamma))
        _one_of("select", self.select, SCORES)
        self._set("memory", _whole("memory", self.memory, 1, MOST_SIZE))
        self._set("class_weight", _class_weight(self.class_weight))
        self._set("holdout", _share("holdout", self.holdout))
        if self.fold is not None:
            self._set("fold", _fold(self.fold))
        self._set("cv", _whole("cv", self.cv, 0))
        self._set("seed", _whole("seed", self.seed, 0, MOST_SEED))
        self._set("patience", _whole("patience", self.patience, 0))
        if self.cv and (self.cv < 2 or self.holdout):
            raise SpecError("cross-validation needs at least 2 folds, and no hold-out beside it")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, item: Any) -> PathSpec:
        """Read what ``to_json`` wrote."""
        if not isinstance(item, dict):
            raise SpecError(f"settings are an object, not {shown(item)}")
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(item) - known)
        if unknown:
            raise SpecError(f"unknown setting {shown(unknown[0])} (written by a newer svmsieve?)")
        return cls(**item)

    @property
    def sign_weights(self) -> tuple[float, float]:
        """The weights of negative and positive rows, where they are given as numbers; 1 each if there are none."""
        weights = self.class_weight or (1.0, 1.0)
        if isinstance(weights, str) or isinstance(weights[0], tuple) or isinstance(weights[1], tuple):
            raise SpecError(f"class_weight {shown(weights)} is not that of a negative and a positive class")
        return weights[0], weights[1]

    def costs(self) -> tuple[object, ...]:
        """Return what settles the rows' costs."""
        return self.class_weight, self.holdout, self.fold, self.stratified, self.seed

    @property
    def reads_less(self) -> bool:
        """Whether certificates leave out rows that cannot matter: where steps are as short as those of an eps-path."""
        return self.grid is None and self.kernel == "linear" and not self.every_row

    @property
    def splits(self) -> bool:
        """Whether rows are left out of training."""
        return bool(self.holdout or self.fold)

    def difference(self, other: PathSpec) -> str:
        """Name the first setting in which two specs differ, with both values; empty if there is none."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if mine != theirs:
                return f"{field.name} was {shown(theirs)} and is now {shown(mine)}"
        return ""


def _number(value: object) -> float:
    """Return a number as float64; nan for what is none or too large for one."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _positive(name: str, value: object) -> float:
    number = _number(value)
    if not (math.isfinite(number) and number > 0):
        raise SpecError(f"{name} must be a positive finite number, not {shown(value)}")
    return number


def _gamma(kernel: str, value: object) -> float | None:
    if kernel == "linear":
        if value is not None:
            raise SpecError(f"gamma {shown(value)} belongs to a kernel; add kernel rbf, or leave gamma out")
        return None
    if value is None:
        raise SpecError(f"kernel {kernel} needs gamma, a positive number")
    return _positive("gamma", value)


def _share(name: str, value: object) -> float:
    share = _number(value)
    if not 0 <= share < 1:
        raise SpecError(f"{name} is a share of the rows from 0 to below 1, not {shown(value)}")
    return share


def _whole(name: str, value: object, least: int, most: int | None = None) -> int:
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else least - 1
    if number < least or (most is not None and number > most):
        upto = f" to {most}" if most else ""
        raise SpecError(f"{name} must be a whole number from {least}{upto}, not {shown(value)}")
    return number


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SpecError(f"{name} must be True or False, not {shown(value)}")


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not (isinstance(value, str) and value in choices):
        raise SpecError(f"unknown {name} {shown(value)}; there are {', '.join(choices)}")


def _items(value: object, most: int) -> tuple[Any, ...] | None:
    """Return up to ``most`` + 1 items of what can be gone through; None for text and for what cannot."""
    if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        return None
    try:
        return tuple(islice(value, most + 1))
    except TypeError:  # an array of no dimension says that it can be gone through
        return None


def _grid(value: object) -> tuple[float, ...]:
    grid = _items(value, MOST_C)
    if grid is None:
        raise SpecError(f"grid is a list of C, for example [0.01, 0.1, 1], not {shown(value)}")
    if not grid:
        raise SpecError("the grid has no C in it; write for example 0.01,0.1,1")
    if len(grid) > MOST_C:
        raise SpecError(f"the grid has more than {MOST_C:,} values of C; train at fewer")
    return tuple(_positive("C", c) for c in grid)


def _fold(value: object) -> tuple[int, int]:
    fold = _items(value, 2) or ()
    if len(fold) != 2:
        raise SpecError(f"fold is a pair (number of the fold, number of folds), not {shown(value)}")
    k, folds = (_whole("fold", item, 0) for item in fold)
    if not k < folds:
        raise SpecError(f"fold {k} of {folds} does not exist")
    return k, folds


def _class_weight(value: object) -> ClassWeight:
    """Return balanced, a pair (negative, positive), or pairs (label, weight) by label."""
    if value is None:
        return None
    if isinstance(value, str):
        _one_of("class_weight", value, ("balanced",))
        return value
    weights = _items(value.items() if isinstance(value, dict) else value, MOST_LABELS) or ()
    if weights and all(isinstance(each, tuple | list) and len(each) == 2 for each in weights):
        return _weights_by_label(weights)
    if len(weights) != 2 or isinstance(value, dict):
        raise SpecError(
            f"class_weight is 'balanced', a pair (negative, positive) or weights by label, not {shown(value)}"
        )
    negative, positive = (_positive("a class weight", weight) for weight in weights)
    return negative, positive


def _weights_by_label(pairs: tuple[Any, ...]) -> tuple[tuple[str, float], ...]:
    named = [(str(label).strip(), _positive(f"the weight of class {label}", weight)) for label, weight in pairs]
    if len(dict(named)) < len(pairs) or len(pairs) > MOST_LABELS:
        raise SpecError("class_weight has a label twice, or too many of them; name each once")
    return tuple(sorted(named))
