"""A kernel's model for other programs: LIBSVM's text, arrays for scikit-learn, plain arrays.

All of them have the support rows x_j without a bias column, and y_j alpha_j for each. LIBSVM decides by

    sum_j y_j alpha_j exp(-gamma |x_j - x|^2) - rho,    rho = -B^2 sum_j y_j alpha_j,

rows of the first label, the positive class, standing first. scikit-learn's SVC cannot be put together from such numbers
without writing to what is private in it, so that its file is read as an estimator of our own (``rbf_classifier``).

Several classes have one set of support rows, and a coefficient a class for each:

    f_k(x) = sum_j a_kj exp(-gamma |x_j - x|^2) + b_k,    b_k = B^2 sum_j a_kj,    a_kj = y_kj alpha_kj

Rows that are support rows of several of them, or are equal, are written once: their coefficients are added up. LIBSVM's
text is for classes against one another, not against the rest, so that there is none of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from pipeline.events import Listener
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.kernel_model import KernelModel
from pipeline.scoring.kernel_scores import Support
from pipeline.use.export_names import columns_as, integers_of
from pipeline.use.label_values import label_array

AnyKernel = KernelModel | ClassesModel


def _write_libsvm(model: KernelModel, stream: BinaryIO, listen: Listener) -> None:
    """Write the text that LIBSVM's svm-train would have written."""
    negative, positive = integers_of(model, "LIBSVM", listen)
    support = model.support
    order = np.concatenate([np.flatnonzero(support.coefficients > 0), np.flatnonzero(support.coefficients < 0)])
    first = int(np.count_nonzero(support.coefficients > 0))
    lines = [
        "svm_type c_svc",
        "kernel_type rbf",
        f"gamma {support.kernel.gamma:.17g}",
        "nr_class 2",
        f"total_sv {order.size}",
        f"rho {0.0 - _intercept(model):.17g}",
        f"label {positive} {negative}",
        f"nr_sv {first} {order.size - first}",
        "SV",
    ]
    stream.write("".join(f"{line}\n" for line in lines).encode())
    for j in order.tolist():
        entries = slice(support.indptr[j], support.indptr[j + 1])
        pairs = zip((support.indices[entries] + 1).tolist(), support.values[entries].tolist(), strict=True)
        text = "".join(f"{index}:{value:.17g} " for index, value in pairs)
        stream.write(f"{support.coefficients[j]:.17g} {text}\n".encode())


def _intercept(model: KernelModel) -> float:
    """Return B^2 sum_j y_j alpha_j, what the bias adds to every score."""
    return model.support.kernel.shift * math.fsum(model.support.coefficients.tolist())


def _write_sklearn(model: AnyKernel, stream: BinaryIO, listen: Listener) -> None:
    """Write what ``load_sklearn`` reads: the fitted attributes of an RbfClassifier, and its parameters."""
    arrays, coefficients, intercepts = _arrays(model)
    about: dict[str, Any] = {
        "dual_coef_": coefficients,
        "intercept_": intercepts,
        "classes_": label_array(model.names),
        "C": model.c,
        "n_features_in_": model.known,
    }
    np.savez(stream, **arrays, **about, **columns_as(model, "feature_names_in_", listen))


def _write_npz(model: AnyKernel, stream: BinaryIO, listen: Listener) -> None:
    """Write C, gamma, bias, the support rows as CSR arrays, y_j alpha_j of each, and names of classes and features.

    Of several classes the coefficients have a row a class.
    """
    arrays, coefficients, _ = _arrays(model)
    about: dict[str, Any] = {
        "coefficients": coefficients if isinstance(model, ClassesModel) else coefficients[0],
        "n_features": model.known,
        "c": model.c,
        "bias": model.bias,
        "labels": np.array(model.names),
    }
    np.savez(stream, **arrays, **about, **columns_as(model, "columns", listen))


def _arrays(model: AnyKernel) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Return the support rows as arrays, coefficients (classes, rows), and what the bias adds to scores."""
    if isinstance(model, ClassesModel):
        return _together([part.support for part in model.parts if isinstance(part, KernelModel)])
    support = model.support
    arrays = {f"support_{name}": getattr(support, name) for name in ("indptr", "indices", "values")}
    intercepts = np.array([_intercept(model)])
    return {"gamma": support.kernel.gamma, **arrays}, support.coefficients[None, :], intercepts


def _together(parts: Sequence[Support]) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Do so for several classes, whose support rows are written once each."""
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


def rbf_classifier(stored: Any) -> Any:
    """Return the RbfClassifier of what ``_write_sklearn`` wrote."""
    from pipeline.use.rbf_classifier import RbfClassifier  # noqa: PLC0415 - scikit-learn is slow to import

    found = RbfClassifier(gamma=float(stored["gamma"]), C=float(stored["C"]))
    parts = tuple(stored[f"support_{name}"] for name in ("values", "indices", "indptr"))
    shape = stored["dual_coef_"].shape[1], int(stored["n_features_in_"])
    found.support_vectors_ = sp.csr_array(parts, shape=shape)
    found.support_vectors_.check_format()
    found.dual_coef_, found.intercept_ = stored["dual_coef_"], stored["intercept_"]
    return found


KERNEL_WRITERS: dict[str, Callable[..., None]] = {
    "libsvm": _write_libsvm,
    "sklearn": _write_sklearn,
    "npz": _write_npz,
}
