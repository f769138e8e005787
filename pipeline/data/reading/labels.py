"""Labels: whatever two values the source uses, mapped to -1 and +1 while the rows stream by.

Of two labels the larger (as numbers if both are, else as text) is +1. Until the second one turns up the first has a
provisional sign; if that proves wrong, ``LabelCoder.flipped_rows`` says how many leading rows have to be turned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from pipeline.data.reading.decimals import NUMBER
from pipeline.errors import DataError, SpecError

_NUMBER = re.compile(NUMBER, re.IGNORECASE)
LONGEST_LABEL = 1 << 12  # characters; label maps are kept in manifests and run.json
_EXACT = 2**53  # below this float64 tells all whole numbers apart
MISSING = ("", "nan", "inf", "-inf")
NO_LABEL = (*MISSING, "?")  # of a row to be scored; to train on, ? is a label as any other


def label_text(value: float | Decimal | str | bytes | None) -> str:
    """Return the one spelling of a label: ``1.0``, ``+1`` and ``"1"`` are all ``1``; None is empty text.

    Whole numbers keep every digit, however many: as float64, 9007199254740992 and ...993 would be one class.
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")  # what is no text stays distinct
    if isinstance(value, str):
        value = value.strip()
        if not _NUMBER.fullmatch(value):
            return value
    number = float(value)
    if not math.isfinite(number):
        return repr(number)
    if abs(number) >= _EXACT:
        exact = Decimal(value.item() if isinstance(value, np.generic) else value)
        if exact == exact.to_integral_value():
            return str(int(exact))
    return str(int(number)) if number.is_integer() else repr(number)


@dataclass(frozen=True)
class RawLabels:
    """The labels of some rows as the source has them: ``values[codes[i]]`` is the text of row i's label."""

    codes: np.ndarray
    values: tuple[str, ...]

    @classmethod
    def of(cls, labels: np.ndarray) -> RawLabels:
        """Encode an array of numbers or of text."""
        values, codes = np.unique(labels, return_inverse=True)
        return cls.coded(codes.reshape(-1), values.tolist())

    @classmethod
    def coded(cls, codes: np.ndarray, values: Sequence[float | Decimal | str | bytes | None]) -> RawLabels:
        """Take labels ``values[codes[i]]``; spellings of the same label become one, values no row has are left out."""
        texts = {k: label_text(values[k]) for k in np.unique(codes).tolist()}
        distinct = sorted(set(texts.values()))
        position = {text: k for k, text in enumerate(distinct)}
        remap = np.zeros(len(values), dtype=np.int32)
        for k, text in texts.items():
            remap[k] = position[text]
        return cls(remap[codes], tuple(distinct))

    def first_too_long(self) -> int | None:
        """Return the first row whose label is longer than labels may be."""
        long = [k for k, value in enumerate(self.values) if len(value) > LONGEST_LABEL]
        return int(np.flatnonzero(np.isin(self.codes, long))[0]) if long else None

    def first_missing(self) -> int | None:
        """Return the first row whose label is none: empty text, nan or an infinity."""
        missing = [k for k, value in enumerate(self.values) if value in MISSING]
        return int(np.flatnonzero(np.isin(self.codes, missing))[0]) if missing else None


@dataclass(frozen=True)
class LabelMap:
    """Which of the source's labels mean -1 and which mean +1."""

    negative: tuple[str, ...]
    positive: tuple[str, ...]
    one_against_rest: bool = False

    def signs(self) -> dict[str, int]:
        """Return the sign of every label, by its one spelling (older manifests spell some large numbers otherwise)."""
        negative, positive = (map(label_text, side) for side in (self.negative, self.positive))
        return dict.fromkeys(negative, -1) | dict.fromkeys(positive, 1)

    def to_json(self) -> dict[str, object]:
        """Return the form kept in the manifest."""
        return {"-1": list(self.negative), "+1": list(self.positive), "one_against_rest": self.one_against_rest}

    @classmethod
    def from_json(cls, item: dict) -> LabelMap:
        """Read the form kept in the manifest."""
        return cls(tuple(item["-1"]), tuple(item["+1"]), bool(item["one_against_rest"]))


def _order(label: str) -> tuple[bool, Decimal, str]:
    """Return what sorts labels: numbers by value, then text. Manifests may have labels that no file could have."""
    number = float(label) if _NUMBER.fullmatch(label) else math.nan
    if not math.isfinite(number):
        return (True, Decimal(0), label)
    return (False, Decimal(label if abs(number) >= _EXACT else number), label)


def _listed(labels: list[str]) -> str:
    shown = ", ".join(sorted(labels, key=_order)[:12])
    return shown + (f" and {len(labels) - 12} more" if len(labels) > 12 else "")


class LabelCoder:
    """Maps labels to -1/+1 as blocks arrive in source order, and fails as soon as that cannot work."""

    def __init__(self, positive: str | None = None, fixed: LabelMap | None = None) -> None:
        self.positive = None if positive is None else label_text(positive)
        self.fixed = fixed
        if fixed is not None:
            self.positive = label_text(fixed.positive[0]) if fixed.one_against_rest else None
        self.signs: dict[str, int] = {}
        if fixed is not None:
            self.signs = fixed.signs()
        self.rows = 0
        self.flipped_rows = 0

    def encode(self, labels: RawLabels, where: str) -> np.ndarray:
        """Return the signs of a block of the file ``where``."""
        self.admit(labels.values, where)
        table = np.array([self.signs[label] for label in labels.values], dtype=np.int8)
        self.rows += labels.codes.size
        return table[labels.codes]

    def admit(self, labels: tuple[str, ...], where: str) -> None:
        """Take note of labels that occur next in the file ``where``."""
        for label in sorted(labels, key=_order):
            if label not in self.signs:
                self._admit(label, where)

    def finish(self, where: str = "") -> LabelMap:
        """Return the map, once every row of the files ``where`` has been seen."""
        found = list(self.signs)
        if self.positive is not None and self.positive not in self.signs:
            raise DataError(
                f"no row is labelled {self.positive}; found: {_listed(found)}; choose --positive from these", path=where
            )
        if len(found) < 2:
            problem = f"a single class was found: {_listed(found) or 'none'}"
            raise DataError(f"{problem}; an SVM needs rows of two classes", path=where)
        sides = {s: tuple(sorted((k for k, v in self.signs.items() if v == s), key=_order)) for s in (-1, 1)}
        return LabelMap(sides[-1], sides[1], self.positive is not None)

    def _admit(self, label: str, where: str) -> None:
        if self.positive is not None:
            self.signs[label] = 1 if label == self.positive else -1
        elif self.fixed is not None:
            known = _listed(list(self.signs))
            raise DataError(f"label {label} is new: this data set has {known}; correct the file's labels", path=where)
        elif not self.signs:
            self.signs[label] = -1 if _order(label) <= (False, Decimal(0), label) else 1
        elif len(self.signs) == 1:
            ((other, sign),) = self.signs.items()
            wanted = 1 if _order(other) > _order(label) else -1
            if wanted != sign:
                self.flipped_rows = self.rows
            self.signs = {other: wanted, label: -wanted}
        else:
            found = [*self.signs, label]
            raise DataError(
                f"more than two labels: {_listed(found)}; pass --positive LABEL for one against the rest", path=where
            )


class KnownLabels:
    """Signs for rows to be scored, by the labels a model knows: -1, +1, or 0 for a row whose label says nothing.

    A label that is missing (empty, ``?``, nan, infinite) or new to the model says nothing; where the model tells one
    class from the rest, or ``positive`` asks for that, every other label is the rest. ``unknown`` counts rows by label.
    """

    def __init__(self, labels: LabelMap, positive: str | None = None) -> None:
        self.signs = labels.signs()
        if positive is not None and self.signs.get(label_text(positive), 1) != 1:
            problem = f"--positive {positive} is not {_listed(list(labels.positive))}, the run's positive class"
            raise SpecError(f"{problem}; leave it out")
        if positive is not None:
            self.signs[label_text(positive)] = 1
        self.other = -1 if labels.one_against_rest or positive is not None else 0
        self.unknown: dict[str, int] = {}

    def signs_of(self, labels: RawLabels) -> np.ndarray:
        """Return the signs of some rows."""
        return np.array([self._sign(label) for label in labels.values], dtype=np.int8)[labels.codes]

    def count(self, labels: RawLabels) -> None:
        """Count rows whose label says nothing although there is one."""
        counts = np.bincount(labels.codes, minlength=len(labels.values)).tolist()
        for label, rows in zip(labels.values, counts, strict=True):
            if label not in NO_LABEL and self._sign(label) == 0:
                self.unknown[label] = self.unknown.get(label, 0) + rows

    def _sign(self, label: str) -> int:
        return 0 if label in NO_LABEL else self.signs.get(label, self.other)
