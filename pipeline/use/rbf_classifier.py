"""An RBF machine as scikit-learn's estimators are: what ``load_sklearn`` makes of an exported kernel model.

    f(x) = sum_j a_j exp(-gamma |x_j - x|^2) + b,    the second of ``classes_`` where f(x) > 0

Of three classes or more each has its a and b, and the largest f(x) says which, of equal ones the first.

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
    """``support_vectors_`` (sparse), ``dual_coef_`` (1, support rows) and ``intercept_`` (1,) are as in an SVC.

    Of three classes or more ``dual_coef_`` and ``intercept_`` have a row a class.
    """

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
        """Return f(x) of every row, of three classes or more a column each."""
        check_is_fitted(self, "dual_coef_")
        x = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        models, support = self.dual_coef_.shape
        found = np.empty((x.shape[0], models))
        for part in gen_batches(x.shape[0], max(1, VALUES // max(1, support))):
            found[part] = rbf_kernel(x[part], self.support_vectors_, self.gamma) @ self.dual_coef_.T
        found += self.intercept_
        return found if models > 1 else found[:, 0]

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the class of every row; of two, f(x) = 0 is the first."""
        found = self.decision_function(X)
        return self.classes_[np.argmax(found, axis=1) if found.ndim > 1 else (found > 0).astype(int)]
