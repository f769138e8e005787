"""Gates: conditions on today's scores, such as ``accuracy >= yesterday - 0.002``, that a model must meet.

A log-loss is better the smaller it is: ``log_loss <= yesterday + 0.01``. ``yesterday`` is the score of the published
model on the same rows held out of both trainings. On the first night there is none, and such a gate is open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipeline.dataclass import dataclass
from pipeline.maths.score import LOG_LOSS, gain
from pipeline.spec import SCORES
from pipeline.yaml_values import brief

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+"
_FORM = re.compile(rf"\s*(\w+)\s*([<>]=?)\s*(?:(yesterday)\s*(?:([+-])\s*({_NUMBER}))?|({_NUMBER}))\s*")


@dataclass(frozen=True)
class Verdict:
    """What a gate says: today's value (None: not defined), the limit it was held against (None: there is none)."""

    gate: str
    value: float | None
    limit: float | None
    passed: bool

    @property
    def why(self) -> str:
        """What was held against what."""
        if self.value is None:
            return "it is not defined: a class is missing"
        if self.limit is None:
            return "no yesterday to compare with" if self.passed else "yesterday's is not defined"
        return f"{self.value:.6g} against {self.limit:.6g}"

    def __str__(self) -> str:
        return f"{self.gate}: {'passed' if self.passed else 'NOT passed'} ({self.why})"


@dataclass(frozen=True)
class Gate:
    """One condition: ``score`` above (a log-loss: below) ``number``, or yesterday's plus ``number``."""

    text: str
    score: str
    strict: bool
    relative: bool
    number: float

    def judge(self, today: Mapping[str, float | None], yesterday: Mapping[str, float | None] | None) -> Verdict:
        """Hold today's scores against the limit; a score that is not defined passes nothing."""
        value = today[self.score]
        if value is None or (self.relative and yesterday is None):
            return Verdict(self.text, value, None, passed=value is not None)
        before = yesterday[self.score] if self.relative and yesterday else 0.0
        if before is None:
            return Verdict(self.text, value, None, passed=False)
        limit = self.number + before
        ahead = gain(self.score, value) - gain(self.score, limit)
        return Verdict(self.text, value, limit, ahead > 0 if self.strict else ahead >= 0)


def read_gate(text: object) -> Gate:
    """Read a gate as people write it."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{brief(text)} is not a gate; write for example accuracy >= yesterday - 0.002, or auc >= 0.7")
    score, relation, relative, sign, offset, absolute = found.groups()
    if score not in SCORES:
        raise ValueError(f"there is no score {score!r}; there are {', '.join(SCORES)}")
    if (score == LOG_LOSS) != relation.startswith("<"):
        size, right = ("smaller", "<=") if score == LOG_LOSS else ("larger", ">=")
        raise ValueError(f"{brief(text)} is the wrong way round: {score} is better the {size} it is; write {right}")
    number = float(f"{sign or ''}{offset or absolute or 0}")
    return Gate(" ".join(found[0].split()), score, relation in (">", "<"), relative is not None, number)
