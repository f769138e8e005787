"""The hot loops of the stand-ins: counter-based random numbers, Zipf ranks, the hidden linear rule."""

from __future__ import annotations

import math

import numpy as np

from pipeline.jit import inline, kernel

_GOLDEN, _K0, _K1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_PRESENT, _VALUE, _REAL, _NOISE, _WEIGHT, _IMPORTANCE = (np.uint64(k << 40) for k in range(1, 7))
_UNIT = 1.0 / (1 << 53)
_SURE_RANKS = 64  # the most frequent features all have a weight in the rule that labels follow, ...
_RARE_SHARE = 0.1  # ... and of the others that share


@inline
def _uniform(key, counter):  # type: ignore[no-untyped-def]
    """Return the number in [0, 1) that belongs to (key, counter)."""
    x = key + counter * _GOLDEN
    x = (x ^ (x >> _S30)) * _K0
    x = (x ^ (x >> _S27)) * _K1
    return np.float64((x ^ (x >> _S31)) >> _S11) * _UNIT


@inline
def _key(seed, stream):  # type: ignore[no-untyped-def]
    x = (np.uint64(seed) + np.uint64(1)) * _K1 + np.uint64(stream) * _GOLDEN
    x = (x ^ (x >> _S30)) * _K0
    x = (x ^ (x >> _S27)) * _K1
    return x ^ (x >> _S31)


@inline
def _bell(key, counter):  # type: ignore[no-untyped-def]
    """Return a number of mean 0 and variance 1, nearly normal: the sum of four uniform ones."""
    total = 0.0
    for k in range(4):
        total += _uniform(key, counter + (np.uint64(k) << np.uint64(50)))
    return (total - 2.0) * 1.7320508075688772


@inline
def _zipf(u, size, exponent):  # type: ignore[no-untyped-def]
    """Return the rank in 0..size-1 at quantile u of the law p(rank) ~ (rank + 1)^-exponent (continuous form)."""
    power = 1.0 - exponent
    if abs(power) < 1e-9:
        rank = math.exp(u * math.log(size + 1.0)) - 1.0
    else:
        rank = math.exp(math.log(1.0 + u * (math.exp(power * math.log(size + 1.0)) - 1.0)) / power) - 1.0
    return min(np.int64(rank), np.int64(size) - 1)


@inline
def _weight(rule_key, field, rank):  # type: ignore[no-untyped-def]
    """Return the hidden rule's weight of a value: every frequent one has some, of the rare ones one in ten."""
    at = (np.uint64(field) << np.uint64(32)) + np.uint64(rank)
    if rank >= _SURE_RANKS and _uniform(rule_key, _PRESENT + at) >= _RARE_SHARE:
        return 0.0
    return _bell(rule_key, _WEIGHT + at) * (0.1 + 0.9 * _uniform(rule_key, _IMPORTANCE + np.uint64(field)) ** 4)


@inline
def _draw(key, rule_key, fields, real_columns, presence, indices, values, start):  # type: ignore[no-untyped-def]
    """Write one row's indices and unscaled values from ``start`` on; return (end, score)."""
    end, score = start, 0.0
    for j in range(real_columns):
        if _uniform(key, _PRESENT + np.uint64(j)) < 0.5:
            x = _uniform(key, _REAL + np.uint64(j)) ** 2 + 0.01
            indices[end] = j
            values[end] = x
            end += 1
            score += x * _bell(rule_key, _REAL + np.uint64(j))
    for f in range(fields.shape[0]):
        if _uniform(key, _PRESENT + np.uint64(real_columns + f)) < presence:
            size = np.int64(fields[f, 1])
            rank = _zipf(_uniform(key, _VALUE + np.uint64(f)), size, fields[f, 3])
            indices[end] = np.int64(fields[f, 0]) + (rank * np.int64(fields[f, 2]) + f) % size
            values[end] = 1.0
            end += 1
            score += _weight(rule_key, f, rank)
    return end, score


@kernel
def score_rows(first, seed, fields, real_columns, presence, scores):  # type: ignore[no-untyped-def]
    """Return, in ``scores``, what the hidden rule says of rows from ``first`` on, without noise."""
    indices = np.empty(real_columns + fields.shape[0], np.int32)
    values = np.empty(real_columns + fields.shape[0], np.float32)
    rule_key = _key(seed, 0)
    for i in range(scores.size):
        _, scores[i] = _draw(_key(seed, first + i + 1), rule_key, fields, real_columns, presence, indices, values, 0)


@kernel
def fill_rows(first, seed, fields, real_columns, presence, rule, out):  # type: ignore[no-untyped-def]
    """Make rows from ``first`` on into (indptr, indices, values, labels, norms); return the number of nonzeros."""
    threshold, noise = rule
    indptr, indices, values, labels, norms = out
    rule_key = _key(seed, 0)
    end = 0
    for i in range(labels.size):
        start = end
        key = _key(seed, first + i + 1)
        end, score = _draw(key, rule_key, fields, real_columns, presence, indices, values, start)
        labels[i] = 1 if score + noise * _bell(key, _NOISE) > threshold else -1
        squares = 0.0
        for k in range(start, end):
            squares += np.float64(values[k]) ** 2
        scale = 1.0 / math.sqrt(squares) if end > start else 0.0
        squares = 0.0
        for k in range(start, end):
            values[k] = np.float32(values[k] * scale)
            squares += np.float64(values[k]) ** 2
        norms[i] = math.sqrt(squares)
        indptr[i + 1] = end
    return end
