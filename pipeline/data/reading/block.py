"""A block: consecutive rows of one source file, checked and tidy, before labels become signs and rows become shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pipeline.data.reading import tidy as t
from pipeline.data.reading.labels import LONGEST_LABEL, RawLabels
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

LARGEST_FEATURES = 2**31 - 1  # indices are int32
SMALLEST_COST, LARGEST_COST = 1e-100, 1e100  # C c_i, and sums of it over all rows, stay within float64 for any sane C


@dataclass(frozen=True)
class Origin:
    """Where a block's rows stand in their file: ``lines[i]``, or ``first + i`` where rows are not lines.

    ``line_of`` finds the line of row ``first + i`` where that takes reading the file again. Where rows in between were
    left out, ``kept[i]`` is what i is in ``first + i``.
    """

    path: str
    first: int = 1
    lines: np.ndarray | None = None
    columns: tuple[str, ...] | None = None
    line_of: Callable[[int], int] | None = None
    kept: np.ndarray | None = None

    def named(self, index: int, base: int) -> str:
        """Name a feature (0-based here) as the file does: by its column, or by its index."""
        return f"column '{self.columns[index]}'" if self.columns else f"index {index + base}"

    def error(self, row: int, problem: str) -> DataError:
        """Return the error for a row of the block."""
        row = row if self.kept is None else int(self.kept[row])
        if self.lines is not None:
            return DataError(problem, path=self.path, row=int(self.lines[row]), unit="line")
        if self.line_of is not None:
            return DataError(problem, path=self.path, row=self.line_of(self.first + row), unit="line")
        return DataError(problem, path=self.path, row=self.first + row)


def refuse_missing(labels: RawLabels, origin: Origin, rules: ReadRules) -> RawLabels:
    """Return the labels if every row has one (or need not), else raise the error for the first without a proper one."""
    row = labels.first_too_long()
    if row is not None:
        raise origin.error(row, f"the label has more than {LONGEST_LABEL:,} characters; is it one? shorten it")
    row = None if rules.unlabelled else labels.first_missing()
    if row is not None:
        raise origin.error(row, "the label is missing (empty, nan or infinite); fill it or drop the row")
    return labels


def zero_based(indices: np.ndarray, indptr: np.ndarray, rules: ReadRules, origin: Origin) -> np.ndarray:
    """Return indices of any integer type as int32 that count from 0, or the error for one that cannot be."""
    outside = np.flatnonzero((indices < -LARGEST_FEATURES) | (indices > LARGEST_FEATURES))
    if outside.size:
        entry = int(outside[0])
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        raise origin.error(row, f"index {indices[entry]} is not within 32 bits; renumber the features")
    return (indices.astype(np.int64) - rules.assumed_base).astype(np.int32)


@dataclass(frozen=True)
class ReadRules:
    """How indices are read: ``base`` (None: 1 until a 0 is seen), how many features there may be, duplicates.

    ``unlabelled`` rows are to be scored: they need no label, and a weight that none can have counts as 1.
    """

    base: int | None = None
    features: int | None = None
    add_duplicates: bool = False
    unlabelled: bool = False

    @property
    def assumed_base(self) -> int:
        """The base that is subtracted while reading."""
        return 1 if self.base is None else self.base


@dataclass(frozen=True)
class Block:
    """Tidy CSR rows with raw labels. ``indptr`` is int64 here; ``smallest``/``largest`` are 0-based indices.

    ``values`` are float32 where every one of them is exactly that, else float64.
    """

    origin: Origin
    labels: RawLabels
    costs: np.ndarray
    norms: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    smallest: int
    largest: int
    source_bytes: int = 0
    groups: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.norms.size

    def with_source_bytes(self, count: int) -> Block:
        """Say how many bytes of the source this block stands for."""
        return replace(self, source_bytes=count)


def make_block(
    origin: Origin,
    labels: RawLabels,
    csr: tuple[np.ndarray, np.ndarray, np.ndarray],
    rules: ReadRules,
    costs: np.ndarray | None = None,
) -> Block:
    """Check and tidy (indptr, 0-based indices, values), which this function may change, into a block.

    Raises DataError with file and line or row for anything no SVM should be trained on.
    """
    indptr, indices, values = csr
    n_rows = indptr.size - 1
    refuse_missing(labels, origin, rules)
    if costs is None:
        costs = np.ones(n_rows)
    sound = (costs >= SMALLEST_COST) & (costs <= LARGEST_COST)
    if rules.unlabelled:
        costs = np.where(sound, costs, 1.0)
    elif not sound.all():
        row = int(np.argmin(sound))
        raise origin.error(row, _cost_problem(float(costs[row])))
    norms = np.empty(n_rows)
    lowest = -1 if rules.base is None else 0
    limit = LARGEST_FEATURES if rules.features is None else rules.features
    status, row, entry, kept, smallest, largest, lossless = t.tidy(
        indptr, indices, values, norms, lowest, limit, rules.add_duplicates
    )
    if status != t.OK:
        name = origin.named(int(indices[entry]), rules.assumed_base)
        raise origin.error(row, _problem(status, name, values[entry], rules))
    kept_values = values[:kept].astype(np.float32) if lossless else values[:kept]
    return Block(origin, labels, costs, norms, indptr, indices[:kept], kept_values, int(smallest), int(largest))


def _cost_problem(cost: float) -> str:
    if cost > 0 and np.isfinite(cost):
        return f"weight {cost:g} is not from {SMALLEST_COST:g} to {LARGEST_COST:g}; scale the weights or drop the row"
    return f"weight {cost:g} is not a positive finite number; drop the row or correct it"


def _problem(status: int, name: str, value: float, rules: ReadRules) -> str:
    if status == t.NOT_FINITE:
        return f"the value of {name} is {value}; values must be finite: clean or drop the row"
    if status == t.INDEX_TOO_LOW:
        hint = "; pass --index-base 0 if indices count from 0" if name == "index 0" else "; correct the row"
        return f"{name} is below {rules.base or 0}{hint}"
    if status == t.INDEX_TOO_HIGH and rules.features is not None:
        return f"{name} is beyond the {rules.features} features; raise --features or drop the entry"
    if status == t.INDEX_TOO_HIGH:
        return f"{name} is beyond {LARGEST_FEATURES - 1 + rules.assumed_base}, the most there can be; renumber them"
    if status == t.DUPLICATE:
        return f"{name} stands twice in the row; merge the two, or pass --duplicates sum to add them up"
    return f"the row's norm is above {t.LARGEST_NORM:g}; scale the features"
