"""Labels: whatever values the source uses, mapped to -1 and +1, or to the codes of classes, while the rows stream by.

Of two labels the larger (as numbers if both are, else as text) is +1. Three or more are classes: code k is the k-th in
that order. What a label becomes can change with every new one that turns up, so rows that stream by have its number in
the order of appearance, and ``LabelCoder.values`` says what a number stands for as far as is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from pipeline.data.reading.decimals import NUMBER
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, SpecError

_NUMBER = re.compile(NUMBER, re.IGNORECASE)
LONGEST_LABEL = 1 << 12  # characters; label maps are kept in manifests and run.json
_EXACT = 2**53  # below this float64 tells all whole numbers apart
MISSING = ("", "nan", "inf", "-inf")
NO_LABEL = (*MISSING, "?")  # of a row to be scored; to train on, ? is a label as any other
MOST_CLASSES = 10_000  # more labels are a column of measurements, not of classes
UNKNOWN = -1  # the code of a row to be scored whose label is no class of the model


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
    """Which of the source's labels mean -1 and which mean +1; or three ``classes`` or more, the k-th having code k."""

    negative: tuple[str, ...]
    positive: tuple[str, ...]
    one_against_rest: bool = False
    classes: tuple[str, ...] = ()

    def signs(self) -> dict[str, int]:
        """Return the sign of every label, by its one spelling (older manifests spell some large numbers otherwise)."""
        negative, positive = (map(label_text, side) for side in (self.negative, self.positive))
        return dict.fromkeys(negative, -1) | dict.fromkeys(positive, 1)

    def to_json(self) -> dict[str, object]:
        """Return the form kept in the manifest, where there are two classes."""
        return {"-1": list(self.negative), "+1": list(self.positive), "one_against_rest": self.one_against_rest}

    @classmethod
    def from_json(cls, item: dict) -> LabelMap:
        """Read the form kept in the manifest."""
        return cls(tuple(item["-1"]), tuple(item["+1"]), bool(item["one_against_rest"]))


def named_classes(names: Sequence[str]) -> LabelMap:
    """Return the map of three classes or more that are named before any row is read, in the order of their codes."""
    texts = list(map(label_text, names))
    if len(set(texts)) < len(texts) or not 3 <= len(texts) <= MOST_CLASSES or set(texts).intersection(MISSING):
        raise SpecError(f"classes are 3 to {MOST_CLASSES:,} different labels, not {_listed(texts)}; two need no naming")
    return LabelMap((), (), classes=tuple(sorted(texts, key=_order)))


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
    """Numbers labels as blocks arrive in source order, and fails as soon as no classes can come of them.

    ``positive`` makes two classes of any number of labels, ``fixed`` is the map of a data set that is there already,
    and ``only_two`` refuses a third label.
    """

    def __init__(self, positive: str | None = None, fixed: LabelMap | None = None, only_two: bool = False) -> None:
        self.positive = None if positive is None else label_text(positive)
        self.fixed, self.only_two = fixed, only_two
        self.signs: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        if fixed is not None:
            self.positive = label_text(fixed.positive[0]) if fixed.one_against_rest else None
            self.signs = fixed.signs()
            self.numbers = {label: k for k, label in enumerate((*self.signs, *map(label_text, fixed.classes)))}

    def numbered(self, labels: RawLabels, where: str) -> np.ndarray:
        """Return the numbers of the labels of a block of the file ``where``."""
        self.admit(labels.values, where)
        table = np.array([self.numbers[label] for label in labels.values], dtype=np.int32)
        return table[labels.codes]

    def encode(self, labels: RawLabels, where: str) -> np.ndarray:
        """Return what the labels of a block of the file ``where`` mean as far as is known: signs or codes."""
        numbers = self.numbered(labels, where)
        return self.values[numbers]

    @property
    def values(self) -> np.ndarray:
        """What each number means as far as is known: signs (int8), or codes of three classes or more (int32)."""
        labels = list(self.numbers)
        if self.signs:
            return np.array([self.signs[label] for label in labels], np.int8)
        if len(labels) == 1:
            return np.array([-1 if _order(labels[0]) <= (False, Decimal(0), labels[0]) else 1], np.int8)
        code = {label: k for k, label in enumerate(sorted(labels, key=_order) if self.fixed is None else labels)}
        if len(labels) == 2:
            return np.array([2 * code[label] - 1 for label in labels], np.int8)
        return np.array([code[label] for label in labels], np.int32)

    def admit(self, labels: tuple[str, ...], where: str) -> None:
        """Take note of labels that occur next in the file ``where``."""
        for label in sorted(labels, key=_order):
            if label not in self.numbers:
                self._admit(label, where)

    def finish(self, where: str = "") -> LabelMap:
        """Return the map, once every row of the files ``where`` has been seen."""
        found = list(self.numbers)
        if self.positive is not None and self.positive not in self.numbers:
            raise DataError(
                f"no row is labelled {self.positive}; found: {_listed(found)}; choose --positive from these", path=where
            )
        if len(found) < 2:
            problem = f"a single class was found: {_listed(found) or 'none'}"
            raise DataError(f"{problem}; an SVM needs rows of two classes", path=where)
        if self.fixed is not None and self.fixed.classes:
            return self.fixed
        values = dict(zip(found, self.values.tolist(), strict=True))
        if len(found) > 2 and not self.signs:
            return LabelMap((), (), classes=tuple(sorted(found, key=_order)))
        sides = {s: tuple(sorted((k for k, v in values.items() if v == s), key=_order)) for s in (-1, 1)}
        return LabelMap(sides[-1], sides[1], self.positive is not None)

    def _admit(self, label: str, where: str) -> None:
        if self.positive is not None:
            self.signs[label] = 1 if label == self.positive else -1
        elif self.fixed is not None:
            known = _listed(list(self.numbers))
            raise DataError(f"label {label} is new: this data set has {known}; correct the file's labels", path=where)
        elif self.only_two and len(self.numbers) == 2:
            found = [*self.numbers, label]
            cure = "pass --positive LABEL for one against the rest, or name all of them as classes in job.yaml"
            raise DataError(f"more than two labels: {_listed(found)}; {cure}", path=where)
        elif len(self.numbers) == MOST_CLASSES:
            problem = (
                f"more than {MOST_CLASSES:,} labels ({_listed(list(self.numbers))}), which is no column of classes"
            )
            raise DataError(
                f"{problem}; name another with --label-column, or pass --positive LABEL for one against the rest",
                path=where,
            )
        self.numbers[label] = len(self.numbers)


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


class KnownClasses:
    """Codes for rows to be scored, by the classes a model knows; ``UNKNOWN`` for a row whose label says none of them.

    ``unknown`` counts rows by label, those without any left out.
    """

    def __init__(self, classes: Sequence[str], positive: str | None = None) -> None:
        if positive is not None:
            raise SpecError(f"--positive {positive} makes two classes, and the run has {len(classes):,}; leave it out")
        self.codes = {label_text(name): k for k, name in enumerate(classes)}
        self.unknown: dict[str, int] = {}

    def signs_of(self, labels: RawLabels) -> np.ndarray:
        """Return the codes of some rows."""
        return np.array([self._code(label) for label in labels.values], dtype=np.int32)[labels.codes]

    def count(self, labels: RawLabels) -> None:
        """Count rows whose label says nothing although there is one."""
        counts = np.bincount(labels.codes, minlength=len(labels.values)).tolist()
        for label, rows in zip(labels.values, counts, strict=True):
            if label not in NO_LABEL and self._code(label) == UNKNOWN:
                self.unknown[label] = self.unknown.get(label, 0) + rows

    def _code(self, label: str) -> int:
        return UNKNOWN if label in NO_LABEL else self.codes.get(label, UNKNOWN)
