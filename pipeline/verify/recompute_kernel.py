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
from fractions import Fraction

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.jit import kernel
from pipeline.spec import PathSpec
from pipeline.verify import twofold
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
from pipeline.verify.rbf import CUT_OFF
from pipeline.verify.start import TrueStart
from pipeline.verify.stored_model import Model
from pipeline.verify.tally import BATCH_BYTES, Contribution, Margins, Models, Tally, Worth, models_of, part_of
from pipeline.verify.trained_rows import TrainedRows
from pipeline.verify.twofold import UNIT, UP


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


@dataclass(frozen=True)
class _Part:
    """What a piece contributes: to |w|^2 in two parts, to what bounds its error, and by row."""

    square: np.ndarray
    around: np.ndarray
    rows: Contribution


def recompute_kernel(
    engine: Engine,
    data: Dataset,
    spec: PathSpec,
    trained: TrainedRows,
    models: Sequence[Model],
    seen: Callable[[int], None],
) -> list[Worth]:
    """Return what each model is worth, in one pass of all rows against all; ``seen`` is told of rows that are done."""
    rows, batch = kernel_rows(engine, data, spec), models_of(models, trained.costs)
    coefficients = trained.labels[:, None] * batch.alpha
    tally, square, around = Tally(batch), np.zeros((2, len(models))), np.zeros((3, len(models)))
    pieces, shared = pieces_of(data), (coefficients, totals(coefficients), *batch)
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd alpha is a finding, not a warning
        for piece, part in zip(pieces, engine.stream(_piece_part, pieces, rows, *shared), strict=True):
            tally.add(part.rows)
            twofold.add_to(*square, *part.square)
            around += part.around
            seen(piece[2] - piece[1])
    found = []
    for k, c in enumerate(batch.c.tolist()):
        sums = tally.sums(k)
        enclosure = _enclosed(c, sums, square[:, k].tolist(), around[:, k].tolist())
        found.append(tally.values(k, enclosure, 0.0, 2 * UNIT * sums.reach))
    return found


def kernel_start(
    engine: Engine, data: Dataset, spec: PathSpec, trained: TrainedRows, seen: Callable[[int], None]
) -> TrueStart:
    """Find the start of the path, 1/max (Q c)_i, and what plain float64 may have made of it."""
    rows, costs = kernel_rows(engine, data, spec), trained.costs
    coefficients = (trained.labels * costs)[:, None]
    pieces, found = pieces_of(data), [0.0]
    shared = rows, coefficients, totals(coefficients), costs
    for piece, largest in zip(pieces, engine.stream(_piece_largest, pieces, *shared), strict=True):
        found.append(largest)
        seen(piece[2] - piece[1])
    doubt = plain_error(rows, data.n_rows, np.array([rows.largest]))[0] * float(costs.sum())
    return TrueStart(max(found), float(doubt * (1.0 + rows.bias * rows.bias)))


def plain_error(rows: KernelRows, n_rows: int, norms: np.ndarray) -> np.ndarray:
    """Bound what plain float64 does to a margin, as a share of its terms' sizes: the sum, and every distance."""
    with np.errstate(over="ignore"):  # an absurd gamma is a finding, not a warning
        exponent = rows.gamma * (norms + rows.largest) ** 2
    return 4 * UNIT * (n_rows + 8.0 + (rows.longest + 8.0) * (1.0 + exponent))


def lost_in_sums(rows: KernelRows, coefficients: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Bound what training may lose of a margin whatever its size, by model, no alpha being above its ``bound``.

    A term is rounded to a multiple of what n terms of at most that leave room for twice (2^(2m - 103) of it, n < 2^m):
    a margin that is far below has no order and no sign. And values of a kernel may be cut off.
    """
    multiple = 2.0**-100 * (coefficients.shape[0] + 1.0) ** 2 * (1.0 + rows.bias * rows.bias)
    return multiple * np.count_nonzero(coefficients, axis=0) * bound + CUT_OFF * np.abs(coefficients).sum(axis=0)


def _piece_part(
    piece: Piece, rows: KernelRows, coefficients: np.ndarray, sums: np.ndarray, *shared: np.ndarray
) -> _Part:
    """Return what some rows contribute to every model's sums."""
    models, (shard, start, stop) = Models(*shared), piece
    first, n, count = shard.first_row + start, stop - start, models.c.size
    costs, alpha = models.costs[first : first + n], models.alpha[first : first + n]
    found = margins(shard.load(), slice(start, stop), rows.numbers, rows, coefficients, sums)
    square, around, alpha_sum = np.zeros((2, count)), np.zeros((3, count)), np.zeros((2, count))
    nothing = np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.ones(n)
    twofold.row_sums(nothing, costs, models.c, alpha, *np.zeros((2, 0, count)), alpha_sum)
    terms, f = float(models.costs.size), (found.high, found.low, found.size)
    _squares((terms, found.share), costs, models.c, alpha, f, square, around)
    plain = plain_error(rows, models.costs.size, found.norms)
    lost = lost_in_sums(rows, coefficients, models.c * models.costs.max())
    norms = np.full(n, np.sqrt(1.0 + rows.bias * rows.bias) * UP)
    part = part_of(models, first, norms, Margins(*f, np.full(n, terms), found.share, plain, lost), alpha_sum)
    return _Part(square, around, part)


@kernel
def _squares(errors, costs, c, alpha, f, out, around):  # type: ignore[no-untyped-def]
    """Add sum alpha_i f_i to out[0] + out[1]; to ``around`` sum alpha_i err_i, sum alpha_i size_i and -2 sum e_i f_i.

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
                around[0, k] += abs(a) * (scale * (1.0 + size[i, k]) + share[i] * size[i, k])
                around[1, k] += abs(a) * size[i, k]
                if a == u and excess < 0.0:
                    around[2, k] += 2.0 * excess * high[i, k]


def _enclosed(c: float, sums: TwofoldSums, square: list[float], around: list[float]) -> Enclosure | None:
    if not (sums.is_finite and np.isfinite([*square, *around]).all()):
        return None
    off, sizes, excess = (Fraction(x) for x in around)
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
