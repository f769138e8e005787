"""Linear models for other programs: LIBLINEAR's text, arrays for scikit-learn, plain arrays.

LIBLINEAR's ``-B`` is our bias column: a last feature of constant value B. It reads a negative B as none; where ours is
negative, both it and its weight change sign. Of two classes there is one column of weights, and the first of the two
labels is the positive class; several have one each. All programs say the class of the largest score, of equal ones the
first, in the order of the classes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from pipeline.events import Listener
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.linear_model import LinearModel
from pipeline.use.export_names import columns_as, integers_of, label_integers
from pipeline.use.label_values import label_array

CHUNK = 1 << 16  # numbers that are made text at a time

AnyLinear = LinearModel | ClassesModel


def _write_liblinear(model: AnyLinear, stream: BinaryIO, listen: Listener) -> None:
    """Write the text that LIBLINEAR's train would have written."""
    if isinstance(model, ClassesModel):
        labels: Sequence[int] = label_integers(model.names, "LIBLINEAR", listen)
    else:
        labels = integers_of(model, "LIBLINEAR", listen)[::-1]
    w, bias = np.atleast_2d(model.w), model.bias
    lines = [
        "solver_type L2R_L1LOSS_SVC_DUAL",
        f"nr_class {len(labels)}",
        f"label {' '.join(map(str, labels))}",
        f"nr_feature {model.known}",
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


def _write_sklearn(model: AnyLinear, stream: BinaryIO, listen: Listener) -> None:
    """Write what ``load_sklearn`` reads: the fitted attributes of a LinearSVC, and the parameters it stands for."""
    w, bias = np.atleast_2d(model.w), model.bias
    arrays: dict[str, Any] = {
        "coef_": w[:, : model.known],
        "intercept_": bias * w[:, -1] if bias else np.zeros(len(w)),
        "classes_": label_array(model.names),
        "C": model.c,
        "n_features_in_": model.known,
        "bias": bias,
    }
    np.savez(stream, **arrays, **columns_as(model, "feature_names_in_", listen))


def _write_npz(model: AnyLinear, stream: BinaryIO, listen: Listener) -> None:
    """Write C, weights (the last is the bias column's unless ``bias`` is 0), and the names of classes and features.

    Of several classes the weights have a row a class.
    """
    arrays: dict[str, Any] = {"c": model.c, "w": model.w, "bias": model.bias, "labels": np.array(model.names)}
    np.savez(stream, **arrays, **columns_as(model, "columns", listen))


LINEAR_WRITERS: dict[str, Callable[[AnyLinear, BinaryIO, Listener], None]] = {
    "liblinear": _write_liblinear,
    "sklearn": _write_sklearn,
    "npz": _write_npz,
}


def linear_svc(stored: Any) -> Any:
    """Return the LinearSVC of what ``_write_sklearn`` wrote."""
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - slow to import, needed here only

    c, bias = float(stored["C"]), float(stored["bias"])
    found = LinearSVC(loss="hinge", C=c, fit_intercept=bias != 0, intercept_scaling=abs(bias) or 1.0)
    vars(found).update({name: stored[name] for name in ("coef_", "intercept_")})
    return found
