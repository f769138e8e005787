"""What ``fit`` is given, as a data set: arrays and frames in memory, or a data set and what ``open_dataset`` opens.

    arrays    X, y, weights -> scikit-learn's checks -> rows of weight 0 dropped -> costs -> rows in memory
    files     a path, a URL or a ``Dataset``: opened as it is; labels and weights are in it

The costs of rows are their weights times those of their classes. Balanced, the rows of class k weigh W/(K W_k) each,
W_k being the sum of their weights: so a row of weight 2 is two rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from pipeline.collections.kinds import is_dask
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import in_memory
from pipeline.data.ingest.ingest import reading_spec
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.labels import LONGEST_LABEL, MISSING, LabelMap, label_text
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, SpecError, shown
from pipeline.estimators.odd import explained
from pipeline.events import Listener
from pipeline.path.gamma import AskedKernel, asked_gamma, asked_kernel
from pipeline.use.label_values import label_array

BALANCED = "balanced"


@dataclass(frozen=True)
class TrainingRows:
    """The rows to train on; ``rows`` are their numbers in X if some of X's are left out.

    ``class_weight`` is what the path is to make of it: None where it is in the rows' costs.
    """

    data: Dataset
    classes: np.ndarray
    rows: np.ndarray | None = None
    class_weight: Any = None


def is_named(x: Any) -> bool:
    """Tell data that are named or opened from arrays."""
    return isinstance(x, str | Path | Dataset)


def training_of(estimator: Any, x: Any, y: Any, sample_weight: Any, listen: Listener) -> TrainingRows:
    """Return what an estimator is to be trained on, and have it know its features."""
    bias = bias_of(estimator)
    if is_dask(x):
        from pipeline.estimators.dask_inputs import dask_training  # noqa: PLC0415 - Dask is slow to import

        return dask_training(estimator, x, y, sample_weight, bias, listen)
    if is_named(x):
        return _named(estimator, x, y, sample_weight, bias, listen)
    return _arrays(estimator, x, y, sample_weight, bias)


def bias_of(estimator: Any) -> float:
    """Return the value of the bias column; 0 means that there is none."""
    if estimator.fit_intercept not in (True, False):
        raise SpecError(f"fit_intercept must be True or False, not {shown(estimator.fit_intercept)}")
    if not estimator.fit_intercept:
        return 0.0
    scaling = estimator.intercept_scaling
    if not (isinstance(scaling, Real) and math.isfinite(scaling) and float(scaling) > 0):
        raise SpecError(f"intercept_scaling must be a positive finite number, not {shown(scaling)}")
    return float(scaling)


def kernel_of(estimator: Any) -> AskedKernel:
    """Return the kernel. A linear one leaves gamma aside, for a search may set both; what is no gamma is refused."""
    asked_gamma(estimator.gamma)
    return asked_kernel(estimator.kernel, None if estimator.kernel == "linear" else estimator.gamma)


def _named(estimator: Any, x: Any, y: Any, sample_weight: Any, bias: float, listen: Listener) -> TrainingRows:
    for what, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise SpecError(f"{what} belongs to arrays; data in files have labels and weights in them: leave it out")
    data = x if isinstance(x, Dataset) else open_dataset(x, reading_spec(bias=bias), listen, given=("bias",))
    if data.bias != bias:
        asked = f"fit_intercept={bool(bias)}, intercept_scaling={estimator.intercept_scaling}"
        raise SpecError(f"{data.path}: has bias {data.bias:g}, not what {asked} say; set these, or ingest it again")
    estimator.n_features_in_ = data.own_features
    estimator.__dict__.pop("feature_names_in_", None)
    if data.columns is not None:
        estimator.feature_names_in_ = np.array(data.columns, dtype=object)
    sides = data.labels.negative, data.labels.positive
    names = data.classes or tuple(side[0] if len(side) == 1 else sign for side, sign in zip(sides, "-+", strict=True))
    return TrainingRows(data, label_array(names), None, estimator.class_weight)


def _arrays(estimator: Any, x: Any, y: Any, sample_weight: Any, bias: float) -> TrainingRows:
    with explained(x):
        x, y = validate_data(estimator, x, y, accept_sparse="csr", dtype=np.float64, accept_large_sparse=True)
    try:
        check_classification_targets(y)
    except TypeError as error:  # of labels that cannot be sorted, None among them
        raise DataError(f"the labels are no classes ({error}); make them all numbers or all text", path="y") from error
    weights = None if sample_weight is None else weights_given(sample_weight, x)
    rows = None if weights is None or weights.all() else np.flatnonzero(weights)
    if rows is not None and weights is not None:
        x, y, weights = x[rows], y[rows], weights[rows]
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        found = f"there is only one class, {shown(classes.tolist()[0])}"
        raise DataError(f"{found}{'' if rows is None else ' among rows of weight above 0'}; an SVM needs two classes")
    costs = costs_of(estimator.class_weight, y, weights)
    if costs is not None and not costs.all():
        raise SpecError("a class weight is 0; leave the rows of that class out, or give it a positive weight")
    names = getattr(estimator, "feature_names_in_", None)
    columns = None if names is None else tuple(map(str, names))
    data = in_memory(x, codes, labels_of(classes), costs, bias=bias, columns=columns, name="X")
    return TrainingRows(data, classes, rows)


def weights_given(sample_weight: Any, x: Any) -> np.ndarray:
    """Return the weights of rows, checked: none below 0, and not all 0."""
    given = np.asarray(sample_weight)
    if given.size and not given.any():  # newer versions of scikit-learn say so in other words
        raise DataError("all sample weights are zero, so that there is no row to train on; give some rows a weight")
    found: np.ndarray = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        raise DataError(f"weight {found[row]:g} is negative; drop the row or correct it", path="sample_weight", row=row)
    return found


def costs_of(class_weight: Any, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
    """Return the costs of rows: their weights times those of their classes; None: all are 1."""
    if class_weight is None:
        return weights
    classes, codes = np.unique(y, return_inverse=True)
    rows = np.ones(codes.size) if weights is None else weights
    if isinstance(class_weight, str) and class_weight == BALANCED:
        by_class = rows.sum() / (classes.size * np.bincount(codes, rows))
    elif isinstance(class_weight, Mapping):
        by_class = compute_class_weight(dict(class_weight), classes=classes, y=classes[codes])
    else:
        wanted = "class_weight is 'balanced' or weights by label such as {0: 1, 1: 5}"
        raise SpecError(f"{wanted}, not {shown(class_weight)}")
    found: np.ndarray = rows * by_class[codes]
    return found


def labels_of(classes: np.ndarray) -> LabelMap:
    """Return what runs and models call the classes: their labels, or their numbers where labels will not do."""
    plain = (label if isinstance(label, str | float | int) else str(label) for label in classes.tolist())
    names = tuple(map(label_text, plain))
    usable = all(name not in MISSING and len(name) <= LONGEST_LABEL for name in names)
    if len(set(names)) < len(names) or not usable:
        names = tuple(map(str, range(len(names))))
    return LabelMap((), (), classes=names) if len(names) > 2 else LabelMap(names[:1], names[1:])
