"""Linear models of several classes for other programs: LIBLINEAR's text, arrays for scikit-learn, plain arrays.

All of them say the class of the largest score, of equal ones the first, in the order of the classes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from pipeline.events import Listener
from pipeline.scoring.classes_model import ClassesModel
from pipeline.use.export_names import columns_as, label_integers
from pipeline.use.label_values import label_array

CHUNK = 1 << 16  # numbers that are made text at a time


def write_liblinear(stream: BinaryIO, labels: Sequence[int], w: np.ndarray, bias: float) -> None:
    """Write the text that LIBLINEAR's train would have written; ``w`` has a row a class, or one for two classes.

    A negative bias, which LIBLINEAR reads as none, and its weights change sign.
    """
    lines = [
        "solver_type L2R_L1LOSS_SVC_DUAL",
        f"nr_class {len(labels)}",
        f"label {' '.join(map(str, labels))}",
        f"nr_feature {w.shape[1] - (1 if bias else 0)}",
        f"bias {abs(bias) if bias else -1.0:.17g}",
        "w",
    ]
    stream.write("".join(f"{line}\n" for line in lines).encode())
    step = max(1, CHUNK // w.shape[0])
    for first in range(0, w.shape[1], step):
        part = np.array(w[:, first : first + step].T)
        if bias < 0 and first + step >= w.shape[1]:
            part[-1] *= -1
        text = ("".join(f"{value:.17g} " for value in row) + "\n" for row in part.tolist())
        stream.write("".join(text).encode())


def _write_liblinear(model: ClassesModel, stream: BinaryIO, listen: Listener) -> None:
    write_liblinear(stream, label_integers(model.names, "LIBLINEAR", listen), model.w, model.bias)


def _write_sklearn(model: ClassesModel, stream: BinaryIO, listen: Listener) -> None:
    """Write what ``load_sklearn`` reads: the fitted attributes of a LinearSVC, and the parameters it stands for."""
    w, bias = model.w, model.bias
    arrays: dict[str, Any] = {
        "coef_": w[:, : model.known],
        "intercept_": bias * w[:, -1] if bias else np.zeros(len(model.names)),
        "classes_": label_array(model.names),
        "C": model.c,
        "n_features_in_": model.known,
        "bias": bias,
    }
    np.savez(stream, **arrays, **columns_as(model, "feature_names_in_", listen))


def _write_npz(model: ClassesModel, stream: BinaryIO, listen: Listener) -> None:
    """Write C, weights (a row a class; the last is the bias column's unless ``bias`` is 0), and the names."""
    arrays: dict[str, Any] = {"c": model.c, "w": model.w, "bias": model.bias, "labels": np.array(model.names)}
    np.savez(stream, **arrays, **columns_as(model, "columns", listen))


CLASSES_WRITERS: dict[str, Callable[[ClassesModel, BinaryIO, Listener], None]] = {
    "liblinear": _write_liblinear,
    "sklearn": _write_sklearn,
    "npz": _write_npz,
}
