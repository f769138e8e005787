"""A model for other programs: LIBLINEAR's text, arrays for scikit-learn, plain arrays. No pickle anywhere.

LIBLINEAR's ``-B`` is our bias column: a last feature of constant value B. It reads a negative B as none; where ours is
negative, both it and its weight change sign. The first of its two labels is the positive class. Where the features have
names, scikit-learn gets them, and refuses a frame whose columns are others or stand in another order.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pipeline.errors import RunError
from pipeline.events import Listener, Note, silent
from pipeline.files import replacing
from pipeline.scoring.linear_model import SIGNS, LinearModel

CHUNK = 1 << 16
_INTEGER = re.compile(r"[+-]?[0-9]+")


def export(model: LinearModel, out: Path, kind: str, listen: Listener = silent) -> None:
    """Write a model as ``kind``: liblinear, sklearn or npz."""
    with replacing(out) as stream:
        WRITERS[kind](model, stream, listen)


def load_sklearn(path: str | Path) -> Any:
    """Return the fitted ``sklearn.svm.LinearSVC`` of a file that ``svmsieve export --as sklearn`` wrote."""
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - slow to import, needed here only

    try:
        with np.load(path, allow_pickle=False) as stored:
            c, bias = float(stored["C"]), float(stored["bias"])
            fitted = {name: stored[name] for name in ("coef_", "intercept_", "classes_")}
            fitted["n_features_in_"] = int(stored["n_features_in_"])
            if "feature_names_in_" in stored:
                fitted["feature_names_in_"] = stored["feature_names_in_"].astype(object)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise RunError(f"{path}: no file of svmsieve export --as sklearn ({error}); export it again") from error
    found = LinearSVC(loss="hinge", C=c, fit_intercept=bias != 0, intercept_scaling=abs(bias) or 1.0)
    vars(found).update(fitted)
    return found


def _write_liblinear(model: LinearModel, stream: BinaryIO, listen: Listener) -> None:
    """Write the text that LIBLINEAR's train would have written; its labels are C integers."""
    names = model.names
    if not all(_INTEGER.fullmatch(name) and abs(int(name)) < 2**31 for name in names):
        listen(Note(f"LIBLINEAR's labels are integers: {names[1]} is written as 1 and {names[0]} as -1"))
        names = SIGNS
    lines = [
        "solver_type L2R_L1LOSS_SVC_DUAL",
        "nr_class 2",
        f"label {int(names[1])} {int(names[0])}",
        f"nr_feature {model.weights.size}",
        f"bias {abs(model.bias) if model.bias else -1.0:.17g}",
        "w",
    ]
    stream.write("".join(f"{line}\n" for line in lines).encode())
    w = model.w if model.bias >= 0 else np.append(model.weights, -model.w[-1])
    for first in range(0, w.size, CHUNK):
        stream.write("".join(f"{value:.17g} \n" for value in w[first : first + CHUNK].tolist()).encode())


def _write_sklearn(model: LinearModel, stream: BinaryIO, listen: Listener) -> None:
    """Write what ``load_sklearn`` reads: the fitted attributes of a LinearSVC, and the parameters it stands for."""
    whole = all(_INTEGER.fullmatch(name) and abs(int(name)) < 2**63 for name in model.names)
    arrays: dict[str, Any] = {
        "coef_": model.weights[None, :],
        "intercept_": np.array([model.intercept]),
        "classes_": np.array([int(name) for name in model.names] if whole else model.names),
        "C": model.c,
        "n_features_in_": model.weights.size,
        "bias": model.bias,
    }
    if model.columns is not None:
        arrays["feature_names_in_"] = np.array(model.columns)
    np.savez(stream, **arrays)


def _write_npz(model: LinearModel, stream: BinaryIO, listen: Listener) -> None:
    """Write C, weights (the last is the bias column's unless ``bias`` is 0), and the names of classes and features."""
    arrays: dict[str, Any] = {"c": model.c, "w": model.w, "bias": model.bias, "labels": np.array(model.names)}
    if model.columns is not None:
        arrays["columns"] = np.array(model.columns)
    np.savez(stream, **arrays)


WRITERS: dict[str, Callable[[LinearModel, BinaryIO, Listener], None]] = {
    "liblinear": _write_liblinear,
    "sklearn": _write_sklearn,
    "npz": _write_npz,
}
