"""Margins of validation rows in a kernel's space, as ``verify`` needs them: with what float64 can do to each.

Features that the validation data do not have get numbers beyond theirs; columns whose names the model does not know are
no part of a distance.
"""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.spec import PathSpec
from pipeline.verify.kernel_rows import GONE, KernelRows, Piece, margins, pieces_of, totals
from pipeline.verify.recompute_kernel import kernel_rows, lost_in_sums, plain_error

Margins = tuple[np.ndarray, np.ndarray, np.ndarray]


def kernel_validation(
    engine: Engine, data: Dataset, trained: Dataset, spec: PathSpec, places: np.ndarray, alpha: np.ndarray
) -> list[Margins]:
    """Return margins (by model), doubts and labels of the rows of ``data``, piece after piece.

    ``places`` are the features of ``data`` as numbers of the training data's (see ``TrainedModel.places_on``).
    """
    known = trained.own_features
    numbers = np.append(np.arange(known) + data.n_features, [GONE] * (trained.n_features - known))
    found = np.flatnonzero((places != GONE) & (places < known))
    numbers[places[found]] = found
    theirs = np.full(data.n_features, GONE)
    theirs[: places.size] = np.where(places == GONE, GONE, np.arange(places.size))
    rows = kernel_rows(engine, trained, spec, numbers)
    coefficients = alpha * _labels(engine, trained)[:, None]
    shared = theirs, rows, coefficients, totals(coefficients)
    return list(engine.stream(_piece_margins, pieces_of(data), *shared))


def _labels(engine: Engine, data: Dataset) -> np.ndarray:
    return np.concatenate(list(engine.stream(_shard_labels, data.shards)))


def _shard_labels(shard: Shard) -> np.ndarray:
    return np.array(shard.load().labels)


def _piece_margins(
    piece: Piece, numbers: np.ndarray, rows: KernelRows, coefficients: np.ndarray, sums: np.ndarray
) -> Margins:
    shard, start, stop = piece
    here, some = shard.load(), slice(start, stop)
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd alpha is a finding, not a warning
        found = margins(here, some, numbers, rows, coefficients, sums)
        doubt = plain_error(rows, coefficients.shape[0], found.norms)[:, None] * found.size
        doubt += lost_in_sums(rows, coefficients, np.abs(coefficients).max(axis=0, initial=0.0))
        return found.high + found.low, doubt, np.array(here.labels[some])
