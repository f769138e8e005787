"""CSV: whole tables, one cell, name or line of which is hostile, or a few bytes."""

from __future__ import annotations

import csv
import io
import math
import re
from random import Random

from pipeline.data.reading.base import ReadOptions, Source
from pipeline.data.reading.csv import CsvSource
from tests.fuzz.mutate import NUMBERS, TEXTS, mutated
from tests.fuzz.reading import CannotBeReadError, Case, FileTarget, packed, random_rules
from tests.fuzz.rows import Row, label_of

TOKENS = tuple(
    token.encode()
    for token in (
        *NUMBERS,
        *(",", ",,", '"', '""', '"\n"', "\n", "\r", "\r\n", "\n\n", ";", "NA", "null", "NULL", "N/A", "#N/A"),
        *("-nan", "TRUE"),
        *("true", " ", "label", "weight", "f0", "label,", "indices", "values", "\0", "\ufeff", "'1'", '"1"'),
        *('"1"1', '1"1'),
    )
)


class Csv(FileTarget):
    """A header and one column a feature."""

    name = "csv"
    share = 2

    def make(self, chance: Random) -> Case:
        """Make a file."""
        table = _table(chance)
        names = [name for name in table[0] if name not in ("label", "weight")]
        if chance.random() < 0.1:
            return self._packed(chance, _written(chance, table), ReadOptions(), whole=True)
        if chance.random() < 0.5:
            cells = chance.choice(table)
            cells[chance.randrange(len(cells))] = chance.choice((*NUMBERS, *TEXTS, "label", "weight", "f0", "NA"))
        text = _written(chance, table)
        text = mutated(chance, text, TOKENS) if chance.random() < 0.6 else text
        label = "label" if chance.random() < 0.95 else chance.choice(TEXTS)
        columns = tuple(table[0]) if chance.random() < 0.05 else None
        rules = random_rules(chance, len(table[0]))
        wanted = tuple(chance.sample(names, len(names))) if rules.unlabelled else None
        reading = ReadOptions(rules=rules, label_column=label, columns=columns, wanted=wanted)
        return self._packed(chance, text, reading)

    def _packed(self, chance: Random, text: bytes, options: ReadOptions, whole: bool = False) -> Case:
        name, content, same = packed(chance, "rows.csv", text)
        return Case(name, content, (lambda: slow_rows(text, options)) if same else None, options, whole and same)

    def open(self, path: str, options: ReadOptions, chance: Random) -> Source:
        """Open it, read a few lines at a time or all at once."""
        if chance.random() < 0.5:
            return super().open(path, options, chance)
        return CsvSource(path, options, block_bytes=chance.choice((1, 100, 1000)))


def _table(chance: Random) -> list[list[str]]:
    features, weighted = chance.randrange(1, 6), chance.random() < 0.3
    names = [f"f{k}" for k in range(features)] + (["weight"] if weighted else []) + ["label"]
    chance.shuffle(names)
    labels = chance.choice((("1", "-1"), ("0", "1.0"), ("yes", "no"), ("a b", "é"), ("2", "x", "10")))
    table = [names]
    for number in range(chance.randrange(2, 7)):
        cells = []
        for name in names:
            value = chance.choice((chance.gauss(0, 1), float(chance.randrange(-2, 3)), chance.gauss(0, 1e20)))
            spelled = chance.choice((repr, "{:g}".format, "{:.30f}".format))(value)
            weight = repr(chance.random() + 0.5)
            cells.append(labels[number % len(labels)] if name == "label" else weight if name == "weight" else spelled)
        table.append(cells)
    return table


def _written(chance: Random, table: list[list[str]]) -> bytes:
    stream = io.StringIO(newline="")
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    separator, end = chance.choice((",", ",", ";", "\t", "|")), chance.choice(("\n", "\n", "\r\n"))
    csv.writer(stream, quoting=quoting, delimiter=separator, lineterminator=end).writerows(table)
    text = stream.getvalue()
    return ("\ufeff" if chance.random() < 0.03 else "").encode() + text.encode("utf-8", "surrogatepass")


def slow_rows(text: bytes, options: ReadOptions) -> list[Row]:
    """Read CSV cell by cell with the standard library."""
    try:
        plain = text.decode("utf-8-sig", "strict" if options.wanted is None else "replace")
        lines = list(csv.reader(io.StringIO(plain, newline=""), delimiter=separator_of(plain), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise CannotBeReadError(str(error)) from error
    lines = [line for line in lines if line]
    header = list(options.columns) if options.columns else lines.pop(0)
    wanted = options.wanted
    if len(set(header)) < len(header) or not set(wanted or [options.label_column]) <= set(header):
        raise CannotBeReadError(f"header {header}")
    rows = []
    for line in lines:
        if len(line) != len(header):
            raise CannotBeReadError(f"{len(line)} cells instead of {len(header)}: {line}")
        cells = dict(zip(header, line, strict=True))
        if wanted is not None:
            rows.append(Row("", [(index, _number(cells[name])) for index, name in enumerate(wanted)]))
            continue
        label, weight = cells.pop(options.label_column), cells.pop("weight", "1")
        values = [(index, _number(cell)) for index, cell in enumerate(cells.values())]
        rows.append(Row(label_of(label), values, _number(weight)))
    return rows


def separator_of(text: str) -> str:
    """Return what stands most often in the first line with anything in it, but for what is quoted."""
    counts, quotes, before = dict.fromkeys(",;\t|", 0), 0, ","
    for letter in next((line for line in re.split("[\r\n]+", text) if line), ""):
        if letter == '"' and (quotes or before in counts):  # one within a name that none begins is a letter
            quotes += 1
        elif letter in counts and quotes % 2 == 0:
            counts[letter] += 1
            quotes = 0
        before = letter
    return max(counts, key=lambda letter: counts[letter])


def _number(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise CannotBeReadError(str(error)) from error
    if "_" in cell or not math.isfinite(value):
        raise CannotBeReadError(f"{cell!r} is no finite number")
    return value
