"""The exact optimum of a small SVM of whole numbers, in rational arithmetic: no tolerance, no doubt.

Rows z_i (integers), boxes u_i (rationals). A row is at 0, at u_i, or free; an optimal alpha can be chosen so that the
free rows are linearly independent (a vertex of the polytope of all optimal alphas). Given the three sets,

    sum_{j free} (z_i . z_j) alpha_j = 1 - sum_{j at u} u_j z_i . z_j    for i free,

and w = sum alpha_j z_j is optimal if and only if free alphas are in their boxes, rows at 0 have z_i . w >= 1 and rows
at u_i have z_i . w <= 1. A float64 descent guesses the sets; where the guess fails all of them are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from pipeline.jit import kernel

AT_ZERO, AT_UPPER, FREE = range(3)
Rational = Fraction | int


def optimum(z: Sequence[Sequence[int]], u: Sequence[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Return w* and an optimal alpha."""
    gram = [[dot(a, b) for b in z] for a in z]
    for states in (_guess(z, u), *_all_states(len(z), len(z[0]))):
        alpha = _alpha_of(states, gram, u)
        if alpha is not None and _is_optimal(states, alpha, gram, u):
            return [dot(alpha, column) for column in zip(*z, strict=True)], alpha
    raise AssertionError("an SVM without an optimum")


def dot(a: Sequence[Rational], b: Sequence[Rational]) -> Rational:
    """Return a . b."""
    return sum((x * y for x, y in zip(a, b, strict=True)), 0)


def _guess(z: Sequence[Sequence[int]], u: Sequence[Fraction]) -> tuple[int, ...]:
    box = np.array([float(min(max(x, Fraction(1, 10**9)), 10**9)) for x in u])
    alpha = descend(np.array(z, float), box)
    return tuple(
        AT_ZERO if a <= 1e-9 * b else AT_UPPER if a >= b * (1 - 1e-9) else FREE for a, b in zip(alpha, box, strict=True)
    )


@kernel
def descend(z, u):  # type: ignore[no-untyped-def]
    alpha, w = np.zeros(u.size), np.zeros(z.shape[1])
    for _ in range(3000):
        moved = 0.0
        for i in range(u.size):
            size = z[i] @ z[i]
            new = u[i] if size == 0.0 else min(u[i], max(0.0, alpha[i] + (1.0 - z[i] @ w) / size))
            if new != alpha[i]:
                moved = max(moved, abs(new - alpha[i]) / u[i])
                w += (new - alpha[i]) * z[i]
                alpha[i] = new
        if moved < 1e-13:
            break
    return alpha


def _all_states(n: int, d: int) -> Iterator[tuple[int, ...]]:
    for k in range(min(n, d) + 1):
        for free in combinations(range(n), k):
            for rest in product((AT_ZERO, AT_UPPER), repeat=n - k):
                others = iter(rest)
                yield tuple(FREE if i in free else next(others) for i in range(n))


def _alpha_of(states: Sequence[int], gram: Sequence[Sequence[int]], u: Sequence[Fraction]) -> list[Fraction] | None:
    """Solve for the free alphas by elimination; None if the free rows are dependent."""
    free = [i for i, state in enumerate(states) if state == FREE]
    upper = [i for i, state in enumerate(states) if state == AT_UPPER]
    system = [[Fraction(gram[i][j]) for j in free] + [1 - sum(u[j] * gram[i][j] for j in upper)] for i in free]
    size = len(free)
    for k in range(size):
        pivot = next((r for r in range(k, size) if system[r][k]), None)
        if pivot is None:
            return None
        system[k], system[pivot] = system[pivot], system[k]
        row = [x / system[k][k] for x in system[k]]
        system = [
            row if r == k else [a - line[k] * b for a, b in zip(line, row, strict=True)]
            for r, line in enumerate(system)
        ]
    found = {i: line[-1] for i, line in zip(free, system, strict=True)}
    return [found.get(i, u[i] if state == AT_UPPER else Fraction(0)) for i, state in enumerate(states)]


def _is_optimal(
    states: Sequence[int], alpha: Sequence[Fraction], gram: Sequence[Sequence[int]], u: Sequence[Fraction]
) -> bool:
    for i, state in enumerate(states):
        if state == FREE:
            if not 0 <= alpha[i] <= u[i]:
                return False
            continue
        f = dot(alpha, gram[i])
        if (f < 1) if state == AT_ZERO else (f > 1):
            return False
    return True
