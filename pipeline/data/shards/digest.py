"""A digest of rows that does not depend on how they are cut into shards.

Each row has a 64-bit hash h_i of its label, cost and (index, value) pairs; n rows have the polynomial
F = sum_i h_i B^(n-1-i) mod 2^64, so that F(a then b) = F(a) B^(rows of b) + F(b): shards are digested apart and
joined in order. Two such lanes with different mixing make 128 bits. It finds changes, it does not resist an
attacker; the shards' sha256 are for that.

A row's hash without its label and cost (``feature_hashes``) is that of its features alone: rows are told by it whatever
they are called. It is a sum over the pairs, so that their order does not matter.
"""

from __future__ import annotations

import hashlib
from functools import reduce

import numpy as np

from pipeline.data.shards.rows import Rows
from pipeline.jit import alike, inline, kernel

Lanes = tuple[int, int]

_BASES = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)  # odd, so that no power of them is 0
_WORD = 2**64
_B0, _B1 = np.uint64(_BASES[0]), np.uint64(_BASES[1])
_K0, _K1, _K2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0xC2B2AE3D27D4EB4F)
_S27, _S30, _S31, _ONE = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(1)


@inline
def _mix(x):  # type: ignore[no-untyped-def]
    """Scramble 64 bits (the finaliser of SplitMix64)."""
    x = (x ^ (x >> _S30)) * _K0
    x = (x ^ (x >> _S27)) * _K1
    return x ^ (x >> _S31)


@kernel
def _hashes(indptr, indices, values, labels, costs):  # type: ignore[no-untyped-def]
    hashes = np.empty(labels.size, np.uint64)
    for row in range(labels.size):
        h = np.uint64(np.int64(labels[row]) + 2) * _K2 + _mix(np.float64(costs[row]).view(np.uint64))
        for k in range(indptr[row], indptr[row + 1]):
            h += _mix(np.uint64(indices[k]) * _K2 + np.float64(values[k]).view(np.uint64))
        hashes[row] = _mix(h)
    return hashes


@kernel
def _feature_hashes(indptr, indices, values, own, hashes):  # type: ignore[no-untyped-def]
    for row in range(hashes.size):
        start, stop = indptr[row], indptr[row + 1]
        if stop > start and indices[stop - 1] >= own:  # the bias stands last
            stop -= 1
        h = _K0
        for k in range(start, stop):
            h += _mix(np.uint64(indices[k]) * _K2 + np.float64(values[k]).view(np.uint64))
        if stop > start:
            hashes[row] = _mix(h) | _ONE


@kernel
def _placed_hashes(indptr, indices, values, places, hashes):  # type: ignore[no-untyped-def]
    for row in range(hashes.size):
        h, count = _K0, 0
        for k in range(indptr[row], indptr[row + 1]):
            place = places[indices[k]] if indices[k] < places.size else -1
            if place >= 0:
                h += _mix(np.uint64(place) * _K2 + np.float64(values[k]).view(np.uint64))
                count += 1
        if count:
            hashes[row] = _mix(h) | _ONE


@kernel
def _with_groups(hashes, groups):  # type: ignore[no-untyped-def]
    found = np.empty(hashes.size, np.uint64)
    for row in range(hashes.size):
        found[row] = _mix(hashes[row] + _mix(groups[row] + _K1))
    return found


@kernel
def _lanes(hashes):  # type: ignore[no-untyped-def]
    first, second = np.uint64(0), np.uint64(0)
    for h in hashes:
        first = first * _B0 + h
        second = second * _B1 + _mix(h + _K2)
    return first, second


def row_hashes(rows: Rows) -> np.ndarray:
    """Return h_i of some rows: the same row has the same hash wherever it stands, in whatever data set or view."""
    rows = rows.stored or rows
    return _hashes(*alike(rows.indptr, rows.indices, rows.values, rows.labels, rows.costs))


def feature_hashes(matrix: tuple[np.ndarray, np.ndarray, np.ndarray], own: int) -> np.ndarray:
    """Return a hash of each row of a CSR matrix by its features; from number ``own`` on they are the bias, left out.

    It is 0 for rows without any, which are all alike, and for no other: 63 bits are the row's.
    """
    hashes = np.zeros(matrix[0].size - 1, np.uint64)
    _feature_hashes(*alike(*matrix), own, hashes)
    return hashes


def placed_hashes(matrix: tuple[np.ndarray, np.ndarray, np.ndarray], places: np.ndarray) -> np.ndarray:
    """Return them with other numbers for the features; those below 0, or beyond (the bias), are left out."""
    hashes = np.zeros(matrix[0].size - 1, np.uint64)
    _placed_hashes(*alike(*matrix, places), hashes)
    return hashes


def digest_rows(rows: Rows) -> Lanes:
    """Return both lanes of some rows and their groups; float32 and float64 spellings of the same value agree."""
    hashes = row_hashes(rows)
    first, second = _lanes(hashes if rows.groups is None else _with_groups(hashes, *alike(rows.groups)))
    return int(first), int(second)


def digest_text(lanes: Lanes) -> str:
    """Return both lanes as 32 hexadecimal digits."""
    return "{:016x}{:016x}".format(*lanes)


def lanes_of(text: str) -> Lanes:
    """Return what ``digest_text`` wrote down."""
    return int(text[:16], 16), int(text[16:], 16)


def join_digests(parts: list[tuple[Lanes, int]]) -> Lanes:
    """Join the digests of consecutive parts, each given with its number of rows."""

    def append(left: Lanes, right: tuple[Lanes, int]) -> Lanes:
        lanes, rows = right
        first, second = ((a * pow(b, rows, _WORD) + c) % _WORD for a, b, c in zip(left, _BASES, lanes, strict=True))
        return first, second

    return reduce(append, parts, (0, 0))


def without_first(whole: Lanes, first: Lanes, rows: int) -> Lanes:
    """Return the digest of the last ``rows`` rows of a whole, given that of those before them."""
    one, other = ((a - b * pow(base, rows, _WORD)) % _WORD for a, b, base in zip(whole, first, _BASES, strict=True))
    return one, other


def fingerprint(parts: list[tuple[Lanes, int]], n_features: int) -> str:
    """Return the fingerprint of a whole data set."""
    first, second = join_digests(parts)
    n_rows = sum(rows for _, rows in parts)
    return hashlib.sha256(f"svmsieve {n_rows} {n_features} {first:016x} {second:016x}".encode()).hexdigest()
