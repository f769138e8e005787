"""What a kernel's stored models are worth, from the rows alone: ``recompute`` for w = w_alpha = sum alpha_j z_j.

With f of all rows (``kernel_rows``), size_i being the sum of its terms' sizes, and f_i being off by no more than
err_i = 16 (n + 4)^2 u^2 (1 + size_i) + share_i size_i,

    P = |w|^2/2 + C sum c_i max(0, 1 - f_i),    D = sum alpha_i - |w|^2/2,    |w|^2 = sum alpha_i f_i,

the last off by sum alpha_i err_i and what the sum in two parts loses. An alpha_i = C c_i as it rounds may lie above
C c_i by e_i: D is that of alpha - e then, with |w|^2 - 2 sum e_i f_i, off by (sum e_i |z_i|)^2 more. One evaluation of
the kernel for all models of a batch, and nothing from ``maths``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.jit import kernel
from pipeline.spec import PathSpec
from pipeline.verify import judge_rows, twofold
from pipeline.verify.enclosure import Around, Enclosure, TwofoldSums, enclosed_by
from pipeline.verify.kernel_rows import (
    PIECE_ROWS,
    KernelRows,
    Piece,
    margins,
    merged_sizes,
    own_numbers,
    pieces_of,
    sizes_of,
    totals,
)
from pipeline.verify.recompute import BATCH_BYTES, Values, columns
from pipeline.verify.start import Start
from pipeline.verify.stored_model import Model
from pipeline.verify.twofold import UNIT, UP

HINGE, ALPHA, SQUARE, PAIRS = slice(0, 2), slice(2, 4), slice(4, 6), 6  # sums of a piece that come in two parts
PLAIN = ("blur", "rounding", "reach", "off", "sizes", "excess")  # and those that do not


def batch_size(data: Dataset, workers: int, held_out: int = 0) -> int:
    """Return how many models a pass may take: alpha twice, verdicts, margins of rows left out; a worker's pieces."""
    a_model = 8 * (2 * data.n_rows + 2 * held_out + 5 * workers * PIECE_ROWS) + data.n_rows // 4
    return max(1, BATCH_BYTES // a_model)


def kernel_rows(engine: Engine, data: Dataset, spec: PathSpec, numbers: np.ndarray | None = None) -> KernelRows:
    """Return the rows of a data set for a run's kernel; ``numbers`` are what its features are called elsewhere."""
    assert spec.gamma is not None
    numbers = own_numbers(data) if numbers is None else numbers
    longest, largest = merged_sizes(list(engine.stream(sizes_of, data.shards, numbers)))
    return KernelRows(data.shards, numbers, spec.gamma, data.bias, longest, largest)


class _Batch(NamedTuple):
    """The models of a pass, column by column, and the rows' costs."""

    coefficients: np.ndarray
    sums: np.ndarray
    alpha: np.ndarray
    c: np.ndarray
    zero: np.ndarray
    upper: np.ndarray
    costs: np.ndarray


@dataclass(frozen=True)
class _Part:
    """What a piece contributes."""

    pairs: np.ndarray
    plain: np.ndarray
    counts: np.ndarray
    screened: np.ndarray
    furthest: np.ndarray
    margins: tuple[np.ndarray, np.ndarray]


def recompute_kernel(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    costs: np.ndarray,
    labels: np.ndarray,
    models: Sequence[Model],
    seen: Callable[[int], None],
) -> list[Values]:
    """Return what each model is worth, in one pass of all rows against all; ``seen`` is told of rows that are done."""
    rows, alpha = kernel_rows(engine, data, spec), columns([m.alpha for m in models], data.n_rows)
    coefficients = labels[:, None] * alpha
    zero, upper = np.array([m.zero for m in models]), np.array([m.upper for m in models])
    c = np.array([model.c for model in models])
    batch = _Batch(coefficients, totals(coefficients), alpha, c, zero, upper, costs)
    parts, pieces = list[_Part](), pieces_of(data)
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd alpha is a finding, not a warning
        for piece, part in zip(pieces, engine.stream(_piece_part, pieces, rows, *batch), strict=True):
            parts.append(part)
            seen(piece[2] - piece[1])
        return _values(data, batch, parts)


def kernel_start(
    engine: Engine, data: Dataset, spec: PathSpec, costs: np.ndarray, labels: np.ndarray, seen: Callable[[int], None]
) -> Start:
    """Find the start of the path, 1/max (Q c)_i, and what plain float64 may have made of it."""
    rows, coefficients = kernel_rows(engine, data, spec), (labels * costs)[:, None]
    pieces, found = pieces_of(data), [0.0]
    shared = rows, coefficients, totals(coefficients), costs
    for piece, largest in zip(pieces, engine.stream(_piece_largest, pieces, *shared), strict=True):
        found.append(largest)
        seen(piece[2] - piece[1])
    doubt = plain_error(rows, data.n_rows, np.array([rows.largest]))[0] * float(costs.sum())
    return Start(max(found), float(doubt * (1.0 + rows.bias**2)))


def plain_error(rows: KernelRows, n_rows: int, norms: np.ndarray) -> np.ndarray:
    """Bound what plain float64 does to a margin, as a share of its terms' sizes: the sum, and every distance."""
    exponent = rows.gamma * (norms + rows.largest) ** 2
    return 4 * UNIT * (n_rows + 8.0 + (rows.longest + 8.0) * (1.0 + exponent))


def _piece_part(piece: Piece, rows: KernelRows, *shared: np.ndarray) -> _Part:
    """Return what some rows contribute to every model's sums."""
    batch, (shard, start, stop) = _Batch(*shared), piece
    first, count, models = shard.first_row + start, stop - start, batch.c.size
    mine = slice(first, first + count)
    costs, alpha = batch.costs[mine], batch.alpha[mine]
    found = margins(shard.load(), slice(start, stop), rows.numbers, rows, batch.coefficients, batch.sums)
    f, error, size, terms = found.high, found.low, found.size, np.full(count, float(batch.costs.size))
    norms = np.full(count, np.sqrt(1.0 + rows.bias**2) * UP)
    pairs, plain, screened = np.zeros((PAIRS, models)), np.zeros((len(PLAIN), models)), np.zeros((2, models), np.int64)
    counts = np.array([[0] * models, [0] * models, [batch.costs.size] * models])
    furthest, hinge, nothing = np.full((2, models), -1.0), np.zeros((3, models)), np.zeros((0, models))
    empty = np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.ones(count)
    twofold.row_sums(empty, costs, batch.c, alpha, nothing, nothing.copy(), pairs[ALPHA])
    _squares((terms[0], found.share), costs, batch.c, alpha, (f, error, size), pairs[SQUARE], plain[3:])
    twofold.hinges(terms, costs, found.share, f, error, size, hinge)
    pairs[HINGE], plain[0] = hinge[:2], hinge[2]
    judge_rows.rounding_of_margins(terms, costs, f, size, plain[1])
    judge_rows.boxes(first, costs, batch.c, alpha, norms, plain[2], counts)
    judge_rows.verdicts(first, costs, norms, f, error, batch.zero, batch.upper, screened, furthest)
    held = np.flatnonzero(costs == 0.0)
    doubt = plain_error(rows, batch.costs.size, found.norms[held])[:, None] * size[held]
    return _Part(pairs, plain, counts, screened, furthest, (f[held], doubt))


@kernel
def _squares(errors, costs, c, alpha, f, out, plain):  # type: ignore[no-untyped-def]
    """Add sum alpha_i f_i to out[0] + out[1]; to ``plain`` sum alpha_i err_i, sum alpha_i size_i and -2 sum e_i f_i.

    ``errors`` are the number of terms of a margin, and their shares; ``f`` are margins in two parts, and sizes.
    """
    terms, share = errors
    high, low, size = f
    scale = 16.0 * (terms + 4.0) ** 2 * UNIT * UNIT
    for i in range(costs.size):
        for k in range(c.size):
            a = alpha[i, k]
            if a != 0.0:
                u = c[k] * costs[i]
                excess = twofold.fma(c[k], costs[i], -u)
                p = a * high[i, k]
                s = out[0, k] + p
                lost = twofold.fma(a, high[i, k], -p) + twofold.lost_in_sum(out[0, k], p, s)
                out[1, k] += lost + a * low[i, k]
                out[0, k] = s
                plain[0, k] += abs(a) * (scale * (1.0 + size[i, k]) + share[i] * size[i, k])
                plain[1, k] += abs(a) * size[i, k]
                if a == u and excess < 0.0:
                    plain[2, k] += 2.0 * excess * high[i, k]


def _values(data: Dataset, batch: _Batch, parts: Sequence[_Part]) -> list[Values]:
    """Put the pieces together, in order."""
    pairs, n = np.zeros((PAIRS, batch.c.size)), data.n_rows
    for part in parts:
        for pair in (HINGE, ALPHA, SQUARE):
            twofold.add_to(*pairs[pair], *part.pairs[pair])
    plain, screened = (np.sum([getattr(part, name) for part in parts], axis=0) for name in ("plain", "screened"))
    counts = np.sum([part.counts[:2] for part in parts], axis=0)
    outside = np.min([part.counts[2] for part in parts], axis=0)
    furthest = np.full((2, batch.c.size), -1.0)
    for part in parts:
        furthest = np.where(part.furthest[0] > furthest[0], part.furthest, furthest)
    f, doubt = (np.concatenate([part.margins[k] for part in parts]) for k in (0, 1))
    found = []
    for k, c in enumerate(batch.c):
        blur, rounding, reach = (float(x) for x in plain[:3, k])
        hinge, alpha = (tuple(pairs[pair, k].tolist()) for pair in (HINGE, ALPHA))
        sums, row = TwofoldSums(hinge, alpha, blur, reach, n + len(parts)), int(outside[k])
        found.append(
            Values(
                enclosure=_enclosed(float(c), sums, pairs[SQUARE, k].tolist(), plain[3:, k].tolist()),
                apart=0.0,
                between=float(2 * UNIT * reach),
                rounding=float(c * rounding),
                reach=reach,
                n_free=int(counts[0, k]),
                n_upper=int(counts[1, k]),
                outside=(row, float(batch.alpha[row, k]), float(c * batch.costs[row])) if row < n else None,
                screened_zero=int(screened[0, k]),
                screened_upper=int(screened[1, k]),
                furthest=(int(furthest[1, k]), float(furthest[0, k])),
                margins=(f[:, k], doubt[:, k]),
            )
        )
    return found


def _enclosed(c: float, sums: TwofoldSums, square: list[float], plain: list[float]) -> Enclosure | None:
    if not (sums.is_finite and np.isfinite([*square, *plain]).all()):
        return None
    off, sizes, excess = (Fraction(x) for x in plain)
    value, reach = twofold.exact(*square), sums.more * Fraction(sums.reach)
    error = sums.more * off + 2 * twofold.lost(sums.terms, sums.more * sizes)
    beyond = (Fraction(UNIT) * reach) ** 2
    return enclosed_by(c, sums, Around(value, error), Around(value + excess, error + beyond))


def _piece_largest(
    piece: Piece, rows: KernelRows, coefficients: np.ndarray, sums: np.ndarray, costs: np.ndarray
) -> float:
    """Return the largest (Q c)_i of the rows that were trained on."""
    shard, start, stop = piece
    found = margins(shard.load(), slice(start, stop), rows.numbers, rows, coefficients, sums)
    used = costs[shard.first_row + start : shard.first_row + stop] > 0.0
    return float((found.high + found.low)[used].max(initial=0.0))
