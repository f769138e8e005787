"""A model for other programs: LIBLINEAR's or LIBSVM's text, arrays for scikit-learn, plain arrays. No pickle anywhere.

What a linear model becomes is in ``export_linear``, a kernel's in ``export_kernel``, of two classes or more. Where
the features have names, scikit-learn gets them, and refuses a frame whose columns are others or stand in another order.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import RunError
from pipeline.events import Listener, silent
from pipeline.files import replacing
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.linear_model import LinearModel
from pipeline.scoring.models import AnyModel
from pipeline.use.export_kernel import KERNEL_WRITERS, rbf_classifier
from pipeline.use.export_linear import LINEAR_WRITERS, linear_svc


def export(model: AnyModel, out: Path, kind: str, listen: Listener = silent) -> None:
    """Write a model as ``kind``: liblinear or libsvm, sklearn or npz."""
    what, writers = _writers(model)
    if kind not in writers:
        raise RunError(f"{model.run}: {what} cannot be written as {kind}; there are {', '.join(writers)}")
    with replacing(out) as stream:
        writers[kind](model, stream, listen)


def _writers(model: AnyModel) -> tuple[str, dict[str, Callable[..., None]]]:
    """Return what a model is, and what it can be written as."""
    if isinstance(model.parts[0] if isinstance(model, ClassesModel) else model, LinearModel):
        return "a linear model", dict(LINEAR_WRITERS)
    if not isinstance(model, ClassesModel):
        return "a kernel's model", dict(KERNEL_WRITERS)
    several = {kind: write for kind, write in KERNEL_WRITERS.items() if kind != "libsvm"}
    return "a kernel's model of several classes", several


def load_sklearn(path: str | Path) -> Any:
    """Return the estimator of a file that ``svmsieve export --as sklearn`` wrote.

    A fitted ``sklearn.svm.LinearSVC``, or for a kernel ``pipeline.use.rbf_classifier.RbfClassifier``.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            kind = rbf_classifier if "gamma" in stored else linear_svc
            found = kind(stored)
            fitted = {"classes_": stored["classes_"], "n_features_in_": int(stored["n_features_in_"])}
            if "feature_names_in_" in stored:
                fitted["feature_names_in_"] = stored["feature_names_in_"].astype(object)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise RunError(f"{path}: no file of svmsieve export --as sklearn ({error}); export it again") from error
    vars(found).update(fitted)
    return found
