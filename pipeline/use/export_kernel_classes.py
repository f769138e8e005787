"""A kernel's models of several classes for other programs: one set of support rows, and a coefficient a class for each.

    f_k(x) = sum_j a_kj exp(-gamma |x_j - x|^2) + b_k,    b_k = B^2 sum_j a_kj,    a_kj = y_kj alpha_kj

Rows that are support rows of several classes, or are equal, are written once: their coefficients are added up. LIBSVM's
text is for classes against one another, not against the rest, so that there is none here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from pipeline.events import Listener
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.kernel_model import KernelModel
from pipeline.scoring.kernel_scores import Support
from pipeline.use.export_names import columns_as
from pipeline.use.label_values import label_array


def _write_sklearn(model: ClassesModel, stream: BinaryIO, listen: Listener) -> None:
    """Write what ``load_sklearn`` reads: the fitted attributes of an RbfClassifier, and its parameters."""
    arrays, coefficients, intercepts = _together(_parts(model))
    about: dict[str, Any] = {
        "dual_coef_": coefficients,
        "intercept_": intercepts,
        "classes_": label_array(model.names),
        "C": model.c,
        "n_features_in_": model.known,
    }
    np.savez(stream, **arrays, **about, **columns_as(model, "feature_names_in_", listen))


def _write_npz(model: ClassesModel, stream: BinaryIO, listen: Listener) -> None:
    """Write C, gamma, bias, the support rows as CSR arrays, coefficients (a row a class), and the names."""
    arrays, coefficients, _ = _together(_parts(model))
    about: dict[str, Any] = {
        "coefficients": coefficients,
        "n_features": model.known,
        "c": model.c,
        "bias": model.bias,
        "labels": np.array(model.names),
    }
    np.savez(stream, **arrays, **about, **columns_as(model, "columns", listen))


def _parts(model: ClassesModel) -> list[Support]:
    return [part.support for part in model.parts if isinstance(part, KernelModel)]


def _together(parts: Sequence[Support]) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Return the support rows of all classes as arrays, coefficients (classes, rows), and what the bias adds."""
    place: dict[tuple[bytes, bytes], int] = {}
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    at = [[_placed(part, j, place, rows) for j in range(part.coefficients.size)] for part in parts]
    coefficients = np.zeros((len(parts), len(rows)))
    for k, part in enumerate(parts):
        np.add.at(coefficients[k], at[k], part.coefficients)
    kernel = parts[0].kernel
    found = {
        "gamma": kernel.gamma,
        "support_indptr": np.cumsum([0, *(indices.size for indices, _ in rows)]),
        "support_indices": np.concatenate([parts[0].indices[:0], *(indices for indices, _ in rows)]),
        "support_values": np.concatenate([np.empty(0), *(values for _, values in rows)]),
    }
    return found, coefficients, np.array([kernel.shift * math.fsum(row) for row in coefficients.tolist()])


def _placed(
    part: Support, j: int, place: dict[tuple[bytes, bytes], int], rows: list[tuple[np.ndarray, np.ndarray]]
) -> int:
    """Return which of the rows so far is the j-th of a class; a new one is added."""
    entries = slice(part.indptr[j], part.indptr[j + 1])
    indices, values = part.indices[entries], part.values[entries].astype(np.float64)
    found = place.setdefault((indices.tobytes(), values.tobytes()), len(rows))
    if found == len(rows):
        rows.append((indices, values))
    return found


KERNEL_CLASSES_WRITERS: dict[str, Callable[[ClassesModel, BinaryIO, Listener], None]] = {
    "sklearn": _write_sklearn,
    "npz": _write_npz,
}
