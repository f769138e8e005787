"""From scores to labels and probabilities: of an array at once, of a lazy Dask array block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.calibration import Calibration, class_probabilities


@dataclass(frozen=True, eq=False)
class Labelling:
    """The class of every row: of two the second where the score is above 0, of several that of the largest."""

    classes: np.ndarray
    __name__ = "labels"  # in Dask's graphs

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the labels of some rows."""
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes[codes]

    def over(self, scores: Any) -> Any:
        """Return the labels of lazy scores, lazily."""
        from pipeline.collections.lazy import over_scores  # noqa: PLC0415 - Dask is slow to import

        return over_scores(scores, self, self.classes.dtype)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The probabilities of so many classes, by what was fitted to scores of training rows."""

    fitted: Calibration | Sequence[Calibration]
    classes: int
    __name__ = "probabilities"

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return a column a class."""
        if isinstance(self.fitted, Calibration):
            positive = self.fitted.probabilities(scores)
            return np.stack([1.0 - positive, positive], axis=1)
        return class_probabilities(self.fitted, scores)

    def over(self, scores: Any) -> Any:
        """Return the probabilities of lazy scores, lazily."""
        from pipeline.collections.lazy import over_scores  # noqa: PLC0415 - Dask is slow to import

        return over_scores(scores, self, np.float64, self.classes)
