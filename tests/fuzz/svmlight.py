"""svmlight text: whole files in every spelling, one token of which is hostile, or a few bytes."""

from __future__ import annotations

import re
from random import Random

from pipeline.data.reading.base import MAX_LINE, ReadOptions, Source
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.svmlight import SvmlightSource
from tests.fuzz.mutate import NUMBERS, mutated
from tests.fuzz.reading import CannotBeReadError, Case, FileTarget, packed, random_rules
from tests.fuzz.rows import Row, label_of

FEATURES = 9
TOKENS = tuple(
    token.encode()
    for token in (
        *NUMBERS,
        *("1:1", "1:", ":1", "1:1:1", "0:1", "-1:1", "1:nan", "3:1e400", "2147483647:1", "2147483648:1"),
        *("99999999999:1",),
        *("qid:3", "qid:", "#", "# x", "#:", "\n", "\r", "\r\n", "\n\n", "\t", "\x0b", "\0", "a", "+1 ", "é", "\ufeff"),
    )
)
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_PAIR = re.compile(rb"(-?\d+):(.*)", re.DOTALL)


class Svmlight(FileTarget):
    """``label [qid:Q] index:value ... [# comment]``."""

    name = "svmlight"
    share = 4

    def make(self, chance: Random) -> Case:
        """Make a file."""
        whole, text = chance.random() < 0.1, whole_text(chance)
        if not whole:
            text = (
                mutated(chance, text, TOKENS) if chance.random() < 0.98 else chance.randbytes(chance.randrange(1, 200))
            )
        rules = ReadRules() if whole else random_rules(chance, FEATURES)
        name, content, same = packed(chance, "rows.svm", text)
        reading = ReadOptions(rules=rules, max_line=60 if not whole and chance.random() < 0.03 else MAX_LINE)
        rows = (lambda: slow_rows(text, rules.unlabelled)) if same else None
        return Case(name, content, rows, reading, whole and same, rules.base)

    def open(self, path: str, options: ReadOptions, chance: Random) -> Source:
        """Open it, cut into ranges of any size."""
        if chance.random() < 0.5:
            return super().open(path, options, chance)
        return SvmlightSource(path, options, block_bytes=chance.choice((1, 7, 50, 200)))


def whole_text(chance: Random) -> bytes:
    """Write a few rows in one of the many ways."""
    labels = chance.choice(
        (
            ("1", "-1"),
            ("+1", "-1"),
            ("0", "1"),
            ("1.0", "2"),
            ("spam", "ham"),
            ("1", "-1.0e0"),
            ("é", "a"),
            ("3", "1", "x"),
        )
    )
    blank, end = chance.choice((" ", " ", "  ", "\t")), chance.choice(("\n", "\n", "\r\n", " \n", "\n\n"))
    base = chance.choice((0, 1, 1))
    lines = []
    for number in range(chance.randrange(2, 8)):
        words = [labels[number % len(labels)]]
        if chance.random() < 0.1:
            words.append(f"qid:{number}")
        indices = sorted(chance.sample(range(FEATURES), chance.randrange(FEATURES)))
        words += [f"{index + base}:{_spelled(chance)}" for index in indices]
        if chance.random() < 0.1:
            words.append("# said: 1:2")
        lines.append(blank.join(words))
    text = end.join(lines) + ("" if chance.random() < 0.2 else end)
    return (b"\xef\xbb\xbf" if chance.random() < 0.03 else b"") + text.encode()


def _spelled(chance: Random) -> str:
    value = chance.choice(
        (chance.gauss(0, 1), chance.gauss(0, 1e30), float(chance.randrange(-3, 4)), chance.random() * 1e-300)
    )
    return chance.choice((repr, "{:.3f}".format, "{:g}".format, "{:.25e}".format, "{:+.0f}".format))(value)


def noisy_rows(chance: Random, count: int, features: int = 5) -> str:
    """Write rows whose label is a noisy linear function of their features: something to train on."""
    lines = []
    for _ in range(count):
        x = [chance.gauss(0, 1) for _ in range(features)]
        label = 1 if sum(x) + chance.gauss(0, 1) > 0 else -1
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)))
    return "\n".join(lines) + "\n"


def slow_rows(text: bytes, unlabelled: bool) -> list[Row]:
    """Read svmlight text line by line, token by token; a row to be scored (``unlabelled``) needs no label."""
    rows = []
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        tokens = [token for token in re.split(rb"[ \t\r]+", line.partition(b"#")[0]) if token]
        if not tokens:
            continue
        if b":" in tokens[0] and unlabelled:
            tokens.insert(0, b"")
        if b":" in tokens[0]:
            raise CannotBeReadError(f"line {number}: no label")
        pairs = []
        for token in tokens[1:]:
            if token.startswith(b"qid:"):
                continue
            pair = _PAIR.fullmatch(token)
            if not pair or not _NUMBER.fullmatch(pair[2]):
                raise CannotBeReadError(f"line {number}: {token!r}")
            pairs.append((int(pair[1]), float(pair[2])))
        try:
            rows.append(Row(label_of(tokens[0].decode()), pairs))
        except UnicodeDecodeError as error:
            raise CannotBeReadError(f"line {number}: {tokens[0]!r}") from error
    return rows
