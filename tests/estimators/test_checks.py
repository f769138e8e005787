"""scikit-learn's own checks of estimators, all of them, with no expected failure.

``tol`` is 1e-10, as two of them compare scores to nine digits (rows of weight 2 with rows that stand twice); all else
is the default, but for the number of folds, which no check is about: with two they take half the time. The two hold for
an RBF kernel where gamma is a number: scale is that of the rows as they stand, whatever they weigh (as for
scikit-learn's SVC). With probability=True the most probable class may be another than that of ``predict``, as SVC says
of itself, which ``check_classifiers_train`` does not allow.
"""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipeline.estimators import SieveSVC, SieveSVCCV

# arrays of a few rows get fewer folds, with a warning; what a scikit-learn of another version deprecates is its own
pytestmark = [
    pytest.mark.filterwarnings("ignore:no class has more than"),
    pytest.mark.filterwarnings("ignore::FutureWarning:sklearn"),
]


@parametrize_with_checks(
    [SieveSVC(tol=1e-10), SieveSVCCV(cv=2, tol=1e-10), SieveSVC(kernel="rbf", gamma=0.1, tol=1e-8)]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
