"""A model for other programs: LIBLINEAR's or LIBSVM's text, arrays for scikit-learn, plain arrays. No pickle anywhere.

LIBLINEAR's ``-B`` is our bias column: a last feature of constant value B. It reads a negative B as none; where ours is
negative, both it and its weight change sign. The first of its two labels is the positive class; several classes have a
column of weights each. Where the features have
names, scikit-learn gets them, and refuses a frame whose columns are others or stand in another order. What a kernel's
model becomes is in ``export_kernel``.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pipeline.errors import RunError
from pipeline.events import Listener, silent
from pipeline.files import replacing
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.kernel_model import KernelModel
from pipeline.scoring.linear_model import LinearModel
from pipeline.scoring.models import AnyModel
from pipeline.use.export_classes import CLASSES_WRITERS, write_liblinear
from pipeline.use.export_kernel import KERNEL_WRITERS, rbf_classifier
from pipeline.use.export_kernel_classes import KERNEL_CLASSES_WRITERS
from pipeline.use.export_names import columns_as, integers_of
from pipeline.use.label_values import label_array


def export(model: AnyModel, out: Path, kind: str, listen: Listener = silent) -> None:
    """Write a model as ``kind``: liblinear or libsvm, sklearn or npz."""
    what, writers = _writers(model)
    if kind not in writers:
        raise RunError(f"{model.run}: {what} cannot be written as {kind}; there are {', '.join(writers)}")
    with replacing(out) as stream:
        writers[kind](model, stream, listen)


def _writers(model: AnyModel) -> tuple[str, dict[str, Callable[..., None]]]:
    """Return what a model can be written as, and what it is."""
    if isinstance(model, KernelModel):
        return "a kernel's model", dict(KERNEL_WRITERS)
    if not isinstance(model, ClassesModel):
        return "a linear model", dict(WRITERS)
    if isinstance(model.parts[0], KernelModel):
        return "a kernel's model of several classes", dict(KERNEL_CLASSES_WRITERS)
    return "a linear model", dict(CLASSES_WRITERS)


def load_sklearn(path: str | Path) -> Any:
    """Return the estimator of a file that ``svmsieve export --as sklearn`` wrote.

    A fitted ``sklearn.svm.LinearSVC``, or for a kernel ``pipeline.use.rbf_classifier.RbfClassifier``.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            kind = rbf_classifier if "gamma" in stored else _linear_svc
            found = kind(stored)
            fitted = {"classes_": stored["classes_"], "n_features_in_": int(stored["n_features_in_"])}
            if "feature_names_in_" in stored:
                fitted["feature_names_in_"] = stored["feature_names_in_"].astype(object)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise RunError(f"{path}: no file of svmsieve export --as sklearn ({error}); export it again") from error
    vars(found).update(fitted)
    return found


def _linear_svc(stored: Any) -> Any:
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - slow to import, needed here only

    c, bias = float(stored["C"]), float(stored["bias"])
    found = LinearSVC(loss="hinge", C=c, fit_intercept=bias != 0, intercept_scaling=abs(bias) or 1.0)
    vars(found).update({name: stored[name] for name in ("coef_", "intercept_")})
    return found


def _write_liblinear(model: LinearModel, stream: BinaryIO, listen: Listener) -> None:
    """Write the text that LIBLINEAR's train would have written."""
    negative, positive = integers_of(model, "LIBLINEAR", listen)
    write_liblinear(stream, [positive, negative], model.w[None, :], model.bias)


def _write_sklearn(model: LinearModel, stream: BinaryIO, listen: Listener) -> None:
    """Write what ``load_sklearn`` reads: the fitted attributes of a LinearSVC, and the parameters it stands for."""
    arrays: dict[str, Any] = {
        "coef_": model.weights[None, :],
        "intercept_": np.array([model.intercept]),
        "classes_": label_array(model.names),
        "C": model.c,
        "n_features_in_": model.weights.size,
        "bias": model.bias,
    }
    np.savez(stream, **arrays, **columns_as(model, "feature_names_in_", listen))


def _write_npz(model: LinearModel, stream: BinaryIO, listen: Listener) -> None:
    """Write C, weights (the last is the bias column's unless ``bias`` is 0), and the names of classes and features."""
    arrays: dict[str, Any] = {"c": model.c, "w": model.w, "bias": model.bias, "labels": np.array(model.names)}
    np.savez(stream, **arrays, **columns_as(model, "columns", listen))


WRITERS: dict[str, Callable[[LinearModel, BinaryIO, Listener], None]] = {
    "liblinear": _write_liblinear,
    "sklearn": _write_sklearn,
    "npz": _write_npz,
}
