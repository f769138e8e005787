"""An RBF machine as scikit-learn's estimators are: what ``load_sklearn`` makes of an exported kernel model.

    f(x) = sum_j a_j exp(-gamma |x_j - x|^2) + b,    the second of ``classes_`` where f(x) > 0

It predicts, scores and goes through scikit-learn's and dask-ml's wrappers; it is trained by ``svmsieve path``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

VALUES = 1 << 20  # kernel values in memory at a time


class RbfClassifier(ClassifierMixin, BaseEstimator):
    """``support_vectors_`` (sparse), ``dual_coef_`` (1, support rows) and ``intercept_`` (1,) are as in an SVC."""

    support_vectors_: sp.csr_array
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray

    def __init__(self, gamma: float = 1.0, C: float = 1.0) -> None:  # noqa: N803 - scikit-learn's name
        self.gamma, self.C = gamma, C

    def __sklearn_tags__(self) -> Any:
        """Tell that sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> RbfClassifier:  # noqa: N803
        """Raise: there is no training here."""
        raise NotImplementedError("an exported model is not trained again here; use svmsieve path --kernel rbf")

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return f(x) of every row."""
        check_is_fitted(self, "dual_coef_")
        x = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        found, rows = np.empty(x.shape[0]), max(1, VALUES // max(1, self.dual_coef_.size))
        for part in gen_batches(x.shape[0], rows):
            found[part] = rbf_kernel(x[part], self.support_vectors_, self.gamma) @ self.dual_coef_[0]
        return found + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the class of every row; f(x) = 0 is the first."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
