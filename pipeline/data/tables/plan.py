"""What a user asks to be done with the columns of a table: ``--columns auto``, or a file such as

    label: delayed                  # also weight:, group:, id: [...], drop: [...]
    numeric:     {columns: [distance, dep_delay], scale: standard, missing: mean}
    categorical: {columns: [carrier, origin, dest], encode: onehot, min_count: 5}
    text:        {columns: [title], ngrams: [1, 2], encode: hash}
    dates:       {columns: [time_hour], parts: [hour, weekday, month]}
    cross:       [[origin, dest]]
    hash_bits: 20
    bias: 1

A list of such mappings says different things of different columns. What the file does not name is treated as ``auto``
does, or left out with ``others: drop``. ``auto`` is the empty file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.dataclass import dataclass
from pipeline.errors import SpecError
from pipeline.yaml_values import brief, number, one_of, text, texts, whole

if TYPE_CHECKING:
    from pipeline.yaml_lines import Section

STANDARD, MAXABS, NONE = SCALES = ("standard", "maxabs", "none")
MEAN, ZERO, INDICATOR = GAPS = ("mean", "zero", "indicator")
ONEHOT, HASH = ENCODES = ("onehot", "hash")
PARTS = ("minute", "hour", "weekday", "day", "month")
MIN_COUNT = 5  # rarer values are one feature: what they teach is also said of values that are new tomorrow
HASH_BITS = 20  # a million buckets: 8 MB a vector, and of 100,000 names one in ten shares its bucket
MOST_HASH_BITS = 28  # 2 GB a vector
AUTO = "auto"


@dataclass(frozen=True)
class Numeric:
    """Numbers: how they are scaled, and what stands for a gap; None: as the data suggest."""

    scale: str = STANDARD
    missing: str | None = None


@dataclass(frozen=True)
class Categorical:
    """Values as they are; ``encode`` None: one feature a value, hashed where there are too many."""

    encode: str | None = None
    min_count: int = MIN_COUNT


@dataclass(frozen=True)
class Text:
    """Words and runs of words, from ``ngrams[0]`` to ``ngrams[1]`` of them, hashed."""

    ngrams: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Dates:
    """Parts of a date, each a category; None: hour (where there is a time), weekday and month."""

    parts: tuple[str, ...] | None = None


Treatment = Numeric | Categorical | Text | Dates


@dataclass(frozen=True)
class TablePlan:
    """What is asked. ``treatments`` names columns; ``crosses`` are columns whose values count together."""

    label: str | None = None
    weight: str | None = None
    group: str | None = None
    ids: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    treatments: tuple[tuple[str, Treatment], ...] = ()
    crosses: tuple[tuple[str, ...], ...] = ()
    others: str = AUTO
    hash_bits: int = HASH_BITS
    bias: float = 1.0
    source: str = AUTO

    @property
    def named(self) -> Iterator[str]:
        """Every column that the file names as a feature, an id or one to leave out."""
        yield from (name for name, _ in self.treatments)
        yield from (name for names in self.crosses for name in names)
        yield from (*self.ids, *self.drop)

    @property
    def digest(self) -> str:
        """What tells this plan from others, as far as features go; where it was read does not count."""
        plain = replace(self, label=None, weight=None, group=None, bias=0.0, source="")
        return hashlib.sha256(repr(plain).encode()).hexdigest()

    def with_bias(self, bias: float | None) -> TablePlan:
        """Return the plan with the bias that was asked for beside it, if any was."""
        return self if bias is None else replace(self, bias=bias)


def read_plan(path: str | Path) -> TablePlan:
    """Read and check a file of columns; what is wrong is a line that says where."""
    from pipeline.yaml_lines import read_yaml  # noqa: PLC0415 - YAML, which few commands need

    top = read_yaml(path, SpecError, "svmsieve datasets columns DATA prints one")
    top.only(
        *("label", "weight", "group", "id", "drop", "numeric", "categorical", "text", "dates", "cross"),
        *("others", "hash_bits", "bias"),
    )
    treatments: dict[str, Treatment] = {}
    for kind, read in _READERS.items():
        for part in _mappings(top, kind):
            known = {field.name: field for field in fields(read.kind)}
            part.only("columns", *known, *(("encode",) if kind == "text" else ()))
            treatment = read.of(part)
            for name in part.take("columns", texts):
                if name in treatments:
                    raise part.error("columns", f"{name} is named twice")
                treatments[name] = treatment
    aside = {name: top.optional(name, text) for name in ("label", "weight", "group")}
    lists = {name: top.optional(name, texts) or () for name in ("id", "drop")}
    crosses = top.optional("cross", _crosses) or ()
    taken: dict[str, str] = dict.fromkeys(treatments, "a feature")
    for heading, names in (*lists.items(), *((heading, (name,)) for heading, name in aside.items() if name)):
        for name in names:
            if name in taken:
                raise top.error(heading, f"{brief(name)} is {taken[name]} already; name it once")
            taken[name] = f"named under {heading}"
    for name in (name for names in crosses for name in names):
        if name in (*lists["drop"], *aside.values()):
            raise top.error("cross", f"{brief(name)} is {taken[name]}; name it once")
    return TablePlan(
        **aside,
        ids=lists["id"],
        drop=lists["drop"],
        treatments=tuple(treatments.items()),
        crosses=crosses,
        others=top.take("others", one_of(AUTO, "drop"), AUTO),
        hash_bits=top.take("hash_bits", whole(1, MOST_HASH_BITS), HASH_BITS),
        bias=top.take("bias", number, 1.0),
        source=str(path),
    )


@dataclass(frozen=True)
class _Reader:
    kind: type[Treatment]
    of: Callable[[Section], Treatment]


def _numeric(part: Section) -> Numeric:
    return Numeric(part.take("scale", one_of(*SCALES), STANDARD), part.optional("missing", one_of(*GAPS)))


def _categorical(part: Section) -> Categorical:
    return Categorical(part.optional("encode", one_of(*ENCODES)), part.take("min_count", whole(1), MIN_COUNT))


def _text(part: Section) -> Text:
    part.optional("encode", one_of(HASH))
    return Text(part.take("ngrams", _ngrams, (1, 1)))


def _dates(part: Section) -> Dates:
    return Dates(part.optional("parts", _parts))


_READERS = {
    "numeric": _Reader(Numeric, _numeric),
    "categorical": _Reader(Categorical, _categorical),
    "text": _Reader(Text, _text),
    "dates": _Reader(Dates, _dates),
}


def _mappings(top: Section, name: str) -> list[Section]:
    """Return the one mapping that stands under a name, or each of a list of them."""
    node = top.items.get(name)
    if node is None:
        return []
    nodes = node.value if type(node).__name__ == "SequenceNode" else [node]
    return [type(top)(top.source, each, top.kind, name, f"{name}: ") for each in nodes]


def _parts(value: Any) -> tuple[str, ...]:
    found = texts(value)
    for part in found:
        one_of(*PARTS)(part)
    return tuple(dict.fromkeys(found))


def _ngrams(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("is not two numbers such as [1, 2]")
    low, high = (whole(1, 5)(each) for each in value)
    if low > high:
        raise ValueError(f"from {low} to {high} words there are none; write the smaller number first")
    return low, high


def _crosses(value: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(each, list) for each in value):
        raise ValueError("is not a list of lists of columns such as [[origin, dest]]")
    found = tuple(texts(each) for each in value)
    for names in found:
        if len(set(names)) < max(2, len(names)):
            raise ValueError(f"{', '.join(names)}: a cross takes two columns or more, each once")
    return tuple(dict.fromkeys(found))
