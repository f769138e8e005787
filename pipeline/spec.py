"""What a path run was asked to do: every setting that can change its result, and nothing else."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from pipeline.errors import SpecError

RULES = ("it", "bt1", "bt2", "gap", "none")
SOLVERS = ("auto", "dcd", "newton", "liblinear")
SCORES = ("accuracy", "balanced_accuracy", "auc", "f1")


@dataclass(frozen=True)
class PathSpec:
    """Settings of a path; two runs on the same data with equal specs have equal models, to the bit.

    ``grid`` replaces the eps-path (``epsilon``, ``c_max``) by a list of C, in multiples of C_min if ``grid_in_c_min``.
    ``class_weight`` multiplies the costs of negative and positive rows. ``holdout`` leaves that share of the rows out
    of training, chosen by a hash of what is in the row; ``fold`` = (k, K) leaves out part k of K in the same way, and
    ``cv`` = K trains K such runs beside the main one. ``predict`` solves over the rows that are likely to move and
    freezes the other undecided ones until the certificate asks for them; without it every undecided row is solved for.
    ``shrink`` is dcd's own heuristic. ``memory`` is in bytes.
    """

    c_max: float = 1e4
    epsilon: float = 1e-3
    grid: tuple[float, ...] | None = None
    grid_in_c_min: bool = False
    tol: float = 1e-4
    rule: str = "it"
    solver: str = "auto"
    memory: int = 2 * 10**9
    class_weight: tuple[float, float] | str | None = None
    holdout: float = 0.0
    fold: tuple[int, int] | None = None
    cv: int = 0
    select: str = "accuracy"
    predict: bool = True
    shrink: bool = True

    def __post_init__(self) -> None:
        for name in ("c_max", "epsilon", "tol"):
            _positive(name, getattr(self, name))
        if not self.tol < 1:
            raise SpecError(f"tol is a relative gap below 1, not {self.tol!r}")
        if self.grid is not None:
            if not self.grid:
                raise SpecError("the grid has no C in it; write for example 0.01,0.1,1")
            for c in self.grid:
                _positive("C", c)
        _one_of("rule", self.rule, RULES)
        _one_of("solver", self.solver, SOLVERS)
        _one_of("select", self.select, SCORES)
        if not 0 <= self.holdout < 1:
            raise SpecError(f"holdout is a share of the rows from 0 to below 1, not {self.holdout!r}")
        if self.fold is not None and not 0 <= self.fold[0] < self.fold[1]:
            raise SpecError(f"fold {self.fold[0]} of {self.fold[1]} does not exist")
        if self.cv and (self.cv < 2 or self.holdout):
            raise SpecError("cross-validation needs at least 2 folds, and no hold-out beside it")
        if isinstance(self.class_weight, str):
            _one_of("class_weight", self.class_weight, ("balanced",))
        elif self.class_weight is not None:
            for weight in self.class_weight:
                _positive("a class weight", weight)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> PathSpec:
        """Read what ``to_json`` wrote; lists become tuples again."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(item) - known)
        if unknown:
            raise SpecError(f"unknown setting {unknown[0]!r} (written by a newer svmsieve?)")
        settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in item.items()}
        return cls(**settings)

    def costs(self) -> tuple[object, ...]:
        """Return what settles the rows' costs."""
        return self.class_weight, self.holdout, self.fold

    def difference(self, other: PathSpec) -> str:
        """Name the first setting in which two specs differ, with both values; empty if there is none."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if mine != theirs:
                return f"{field.name} was {theirs!r} and is now {mine!r}"
        return ""


def _positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise SpecError(f"{name} must be a positive finite number, not {value!r}")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SpecError(f"unknown {name} {value!r}; there are {', '.join(choices)}")
