"""One scan over svmlight text: ``label [qid:Q] index:value ... [# comment]``, one row a line.

scikit-learn's reader offers byte ranges too, but it holds the GIL, knows no line numbers and reads about a third as
fast; ``tests/data/test_svmlight.py`` compares the two. Numbers the fast reader cannot settle (more than 19 digits,
``nan``, labels that are text or beyond the whole numbers of float64) are listed as *deferred* spans of bytes for Python
to decide.
"""

from __future__ import annotations

import numpy as np

from pipeline.data.reading.decimals import read_number
from pipeline.jit import inline, kernel

OK, NO_LABEL, BAD_PAIR, INDEX_TOO_LARGE = range(4)
LARGEST_INDEX = 2**31 - 2  # there may be 2^31 - 1 features (``block``), the first of them 0
LARGEST_WHOLE = 2.0**53  # the float64 below tell all whole numbers apart

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _MINUS, _COLON = 9, 10, 13, 32, 35, 45, 58


@inline
def _is_blank(c):  # type: ignore[no-untyped-def]
    return c in (_SPACE, _TAB, _RETURN)


@inline
def _token_end(text, at):  # type: ignore[no-untyped-def]
    while at < text.size and text[at] > _SPACE and text[at] != _HASH:
        at += 1
    return at


@inline
def _line_end(text, at):  # type: ignore[no-untyped-def]
    while at < text.size and text[at] != _NEWLINE:
        at += 1
    return at


@inline
def _is_qid(text, at):  # type: ignore[no-untyped-def]
    return at + 3 < text.size and text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == 58


@inline
def _read_index(text, at):  # type: ignore[no-untyped-def]
    """Return (index, position after it); the position does not move where no index stands."""
    start, index = at, 0
    sign = 1
    if at < text.size and text[at] == _MINUS:
        sign = -1
        at += 1
    first = at
    while at < text.size and 48 <= text[at] <= 57:
        if index <= LARGEST_INDEX:
            index = index * 10 + (text[at] - 48)
        at += 1
    return (sign * index, at) if at > first else (0, start)


@kernel
def count(text):  # type: ignore[no-untyped-def]
    """Return upper bounds of the rows and of the pairs in the text."""
    rows, pairs = 1, 0
    for c in text:
        rows += c == _NEWLINE
        pairs += c == _COLON
    return rows, pairs


@inline
def _grown(spans):  # type: ignore[no-untyped-def]
    larger = np.empty((2 * spans.shape[0], 3), np.int64)
    for i in range(spans.shape[0]):  # assigned as a slice, this helper alone would take seconds to compile
        for k in range(3):
            larger[i, k] = spans[i, k]
    return larger


@kernel
def scan(text, labels, lines, indptr, indices, values, unlabelled):  # type: ignore[no-untyped-def]
    """Fill the arrays (sized by ``count``) from the text.

    A row that need not be labelled (``unlabelled``) may begin with a pair; its label is nan then.

    Returns (status, start and end of the offending bytes, line, rows, pairs, deferred, n_deferred). A deferred span
    is (slot, start, end): slot k >= 0 is values[k], slot -1-i is labels[i]. Lines count from 0.
    """
    at, line, row, pair, n_deferred = np.int64(0), 0, 0, 0, 0  # at a plain 0, helpers would be compiled for it, too
    deferred = np.empty((16, 3), np.int64)
    indptr[0] = 0
    while at < text.size:
        c = text[at]
        if c in (_NEWLINE, _HASH) or _is_blank(c):
            if c == _HASH:
                at = _line_end(text, at)
            elif c == _NEWLINE:
                line += 1
                at += 1
            else:
                at += 1
            continue
        end = _token_end(text, at)
        if end == at:
            return NO_LABEL, at, at + 1, line, row, pair, deferred, n_deferred
        is_pair = False
        for i in range(at, end):
            is_pair = is_pair or text[i] == _COLON
        if is_pair and not unlabelled:
            return NO_LABEL, at, end, line, row, pair, deferred, n_deferred
        if is_pair:
            labels[row], known, end = np.nan, True, at
        else:
            labels[row], known = read_number(text, at, end)
        if not known or abs(labels[row]) >= LARGEST_WHOLE:
            if n_deferred == deferred.shape[0]:
                deferred = _grown(deferred)
            deferred[n_deferred, 0], deferred[n_deferred, 1], deferred[n_deferred, 2] = -1 - row, at, end
            n_deferred += 1
        lines[row] = line
        at = end
        while at < text.size and text[at] != _NEWLINE:
            if _is_blank(text[at]):
                at += 1
                continue
            if text[at] == _HASH:
                at = _line_end(text, at)
                break
            if _is_qid(text, at):
                at = _token_end(text, at)
                continue
            start = at
            index, at = _read_index(text, at)
            end = _token_end(text, at)
            if at in (start, end) or text[at] != _COLON or at + 1 == end:
                return BAD_PAIR, start, max(end, start + 1), line, row, pair, deferred, n_deferred
            if abs(index) > LARGEST_INDEX:
                return INDEX_TOO_LARGE, start, at, line, row, pair, deferred, n_deferred
            values[pair], known = read_number(text, at + 1, end)
            indices[pair] = index
            if not known:
                if n_deferred == deferred.shape[0]:
                    deferred = _grown(deferred)
                deferred[n_deferred, 0], deferred[n_deferred, 1], deferred[n_deferred, 2] = pair, at + 1, end
                n_deferred += 1
            pair += 1
            at = end
        row += 1
        indptr[row] = pair
    return OK, 0, 0, line, row, pair, deferred, n_deferred
