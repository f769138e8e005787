"""svmlight / LIBSVM text, cut at line ends into byte ranges that are parsed in parallel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import IO

import numpy as np

from pipeline.data.reading import svmlight_kernel as k
from pipeline.data.reading.base import BLOCK_BYTES, BlockTask, ReadOptions
from pipeline.data.reading.block import Block, Origin, ReadRules, make_block
from pipeline.data.reading.decimals import NUMBER
from pipeline.data.reading.files import open_plain, position, size_of, too_long
from pipeline.data.reading.labels import RawLabels, label_text
from pipeline.errors import DataError

_NUMBER = re.compile(NUMBER.encode(), re.IGNORECASE)
_SEPARATOR = re.compile("[,;|]")  # what stands between the cells of CSV; between words there would be blanks


class SvmlightSource:
    """One svmlight file."""

    format = "svmlight"
    n_features: int | None = None
    columns: tuple[str, ...] | None = None

    def __init__(self, path: str, options: ReadOptions, block_bytes: int = BLOCK_BYTES) -> None:
        self.path, self.block_bytes, self.max_line = path, block_bytes, options.max_line
        known = options.text_base if options.rules.base is None else options.rules.base
        self.rules = replace(options.rules, base=known)
        self.size = size_of(path)

    def tasks(self) -> Iterator[BlockTask]:
        """Yield a parse of every byte range."""
        line = 1
        with open_plain(self.path) as stream:
            before = 0
            for text in _ranges(stream, self.block_bytes, self.max_line):
                if text is None:
                    raise too_long(self.path, line, self.max_line)
                after = position(stream, self.size)
                yield partial(_parse_range, text, self.path, line, self.rules, after - before)
                before = after
                line += text.count(b"\n")


def parse(text: bytes, path: str, first_line: int, rules: ReadRules) -> Block:
    """Parse whole lines of svmlight text into a block. Of several lines that are wrong the first is reported."""
    try:
        return _parse(text, path, first_line, rules)
    except DataError as error:
        assert error.row is not None
        before = error.row - first_line
        if before:
            parse(b"\n".join(text.split(b"\n", before)[:before]), path, first_line, rules)
        raise


def _parse(text: bytes, path: str, first_line: int, rules: ReadRules) -> Block:
    buffer = np.frombuffer(text, dtype=np.uint8)
    rows, pairs = k.count(buffer)
    labels, lines, indptr = np.empty(rows), np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    indices, values = np.empty(pairs, np.int32), np.empty(pairs)
    status, start, end, line, rows, pairs, deferred, n_deferred = k.scan(
        buffer, labels, lines, indptr, indices, values, rules.unlabelled
    )
    if status != k.OK:
        token = _shown(text[start:end])
        raise DataError(_PROBLEMS[status].format(token=token), path=path, row=first_line + line, unit="line")
    lines = lines[:rows] + first_line
    origin = Origin(path, lines=lines)
    texts = _settle(text, deferred[:n_deferred], values, indptr[: rows + 1], origin)
    indices = indices[:pairs]
    indices -= rules.assumed_base
    named = labels[:rows] if not texts else _as_text(labels[:rows], texts)
    return make_block(origin, RawLabels.of(named), (indptr[: rows + 1], indices, values[:pairs]), rules)


_PROBLEMS = {
    k.NO_LABEL: "'{token}' stands where the label belongs; write label index:value index:value ...",
    k.BAD_PAIR: "'{token}' is not a pair; write index:value with a whole number and a number",
    k.INDEX_TOO_LARGE: f"index '{{token}}' is beyond {k.LARGEST_INDEX}, the most there can be; renumber the features",
}


def _parse_range(text: bytes, path: str, first_line: int, rules: ReadRules, source_bytes: int) -> Block:
    return parse(text, path, first_line, rules).with_source_bytes(source_bytes)


def _settle(
    text: bytes, deferred: np.ndarray, values: np.ndarray, indptr: np.ndarray, origin: Origin
) -> dict[int, str]:
    """Decide the numbers the kernel left open (in place) and return the labels it left open, by row."""
    texts: dict[int, str] = {}
    for slot, start, end in deferred.tolist():
        token = text[start:end]
        number = float(token) if _NUMBER.fullmatch(token) else None
        if slot < 0:
            row = -1 - slot
            texts[row] = _text_label(token, origin, row, alone=bool(indptr[row] == indptr[row + 1]))
        elif number is None:
            row = int(np.searchsorted(indptr, slot, side="right")) - 1
            raise origin.error(row, f"'{_shown(token)}' is not a number; write pairs as index:value")
        else:
            values[slot] = number
    return texts


def _text_label(token: bytes, origin: Origin, row: int, alone: bool) -> str:
    """Return a label that is text. One that is ``alone`` in its line and has commas in it is a line of a table."""
    text = token.decode("utf-8", "replace")
    if "\ufffd" in text or not text.isprintable():
        raise origin.error(row, f"'{_shown(token)}' is no label; is this svmlight text, or does it need --format?")
    if alone and _SEPARATOR.search(text):
        problem = f"'{_shown(token)}' stands where the label belongs"
        raise origin.error(row, f"{problem}; is this a table? pass --format csv, or write label index:value ...")
    return label_text(text)


def _as_text(labels: np.ndarray, texts: dict[int, str]) -> np.ndarray:
    named = np.array([label_text(v) for v in labels.tolist()], dtype=object)
    named[list(texts)] = list(texts.values())
    return named.astype(str)


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 40 else text[:37] + "..."


def _ranges(stream: IO[bytes], size: int, max_line: int) -> Iterator[bytes | None]:
    """Cut a stream into pieces of about ``size`` bytes that end at a line end; the last is None if a line is too long.

    A line that lies within a piece is not measured: it cannot take more memory than the piece.
    """
    size = max(min(size, max_line), 3)
    kept: list[bytes] = []
    length, first = 0, True
    while piece := stream.read(size):
        if first:
            piece, first = piece.removeprefix(b"\xef\xbb\xbf"), False
        end = piece.find(b"\n")
        if length + (len(piece) if end < 0 else end) > max_line:
            yield None
            return
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            kept.append(piece)
            length += len(piece)
            continue
        yield b"".join([*kept, memoryview(piece)[:cut]])
        kept = [piece[cut:]] if cut < len(piece) else []
        length = len(piece) - cut
    if kept:
        yield b"".join(kept)
