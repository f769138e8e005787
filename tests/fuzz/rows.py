"""Rows as a slow reader has them, compared with the blocks and shards that the pipeline made of the same file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.reading.block import Block
from tests.fuzz.judge import WrongError

Label = int | float | str


@dataclass(frozen=True)
class Row:
    """A row of a file. ``pairs`` are (index, value) as written, in their order: with zeros and duplicates."""

    label: Label
    pairs: list[tuple[int, float]]
    cost: float = 1.0

    def summed(self, base: int) -> dict[int, float]:
        """Return the values by index from 0, duplicates added up, zeros left out."""
        found: dict[int, float] = {}
        for index, value in self.pairs:
            found[index - base] = found[index - base] + value if index - base in found else value
        return {index: value for index, value in found.items() if value != 0.0}


def label_of(text: str) -> Label:
    """Return a label by what it means: a whole number exactly, another number, or text."""
    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,400}", text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number) or not text.isascii() or "_" in text:
        return text
    return int(number) if number.is_integer() else number


def compare_blocks(blocks: list[Block], rows: list[Row], base: int, labelled: bool) -> None:
    """Raise unless the blocks have these rows; ``base`` is what the rows' indices count from.

    Rows to be scored (not ``labelled``) have neither labels nor weights that count.
    """
    found = [(block, i) for block in blocks for i in range(block.n_rows)]
    if len(found) != len(rows):
        raise WrongError("rows are missing or too many", f"{len(found)} instead of {len(rows)}")
    if labelled:
        texts = [block.labels.values[block.labels.codes[i]] for block, i in found]
        _compare_labels(texts, [row.label for row in rows])
    for number, ((block, i), row) in enumerate(zip(found, rows, strict=True)):
        part = slice(int(block.indptr[i]), int(block.indptr[i + 1]))
        _compare_row(number, block.indices[part], block.values[part], row.summed(base))
        if labelled and block.costs[i] != row.cost:
            raise WrongError("a weight is another", f"row {number}: {block.costs[i]!r} instead of {row.cost!r}")


def compare_shards(data: Dataset, rows: list[Row], base: int) -> None:
    """Raise unless the data set has these rows, without a bias; the larger of two labels is +1, more are classes."""
    loaded = [shard.load() for shard in data.shards]
    if sum(part.n_rows for part in loaded) != len(rows):
        raise WrongError("rows are missing or too many", f"{data.n_rows} instead of {len(rows)}")
    signs = np.concatenate([part.labels for part in loaded]).tolist()
    names = dict(enumerate(data.classes)) or {-1: data.labels.negative[0], 1: data.labels.positive[0]}
    _compare_labels([str(names[sign]) for sign in signs], [row.label for row in rows])
    number = 0
    for part in loaded:
        for i in range(part.n_rows):
            span = slice(int(part.indptr[i]), int(part.indptr[i + 1]))
            _compare_row(number, part.indices[span], part.values[span], rows[number].summed(base))
            number += 1


def _compare_labels(found: Iterable[str], meant: list[Label]) -> None:
    """Labels may be spelled in another way, but two that differ stay two, and a number keeps its value."""
    spelled: dict[str, Label] = {}
    for number, (text, label) in enumerate(zip(found, meant, strict=True)):
        if spelled.setdefault(text, label) != label:
            raise WrongError("two labels became one", f"row {number}: {text} is {spelled[text]!r} and {label!r}")
        again = label_of(text)
        if again != label and (isinstance(again, str) or isinstance(label, str) or not _near(again, label)):
            raise WrongError("a label is another", f"row {number}: {text!r} instead of {label!r}")


def _near(one: float, other: float) -> bool:
    try:
        return float(one) == float(other)
    except OverflowError:
        return False


def _compare_row(number: int, indices: np.ndarray, values: np.ndarray, wanted: dict[int, float]) -> None:
    found = dict(zip(indices.tolist(), values.astype(np.float64).tolist(), strict=True))
    if found != wanted or len(found) != indices.size:
        index = next((k for k in (*wanted, *found) if wanted.get(k) != found.get(k)), -1)
        detail = f"row {number}, index {index}: {found.get(index)!r} instead of {wanted.get(index)!r}"
        raise WrongError("a value is another", detail)
    if indices.tolist() != sorted(wanted):
        raise WrongError("indices are not sorted", f"row {number}")
