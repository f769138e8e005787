"""The sum of some values and the sum of their squares, almost exactly: what a variance is made of.

Where values are far from 0 and near each other, mean(x^2) - mean(x)^2 cancels. So sums and squares keep what each
operation has lost (Ogita, Rump, Oishi, "Accurate sum and dot product", 2005): with k values a sum in two parts is off
by about k^2 u^2 of its terms' sizes, u = 2^-53, and how rows are cut into shards does not show in 53 digits.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import kernel
from pipeline.maths.slack import two_product, two_sum


@kernel
def sums_of_values(indices, values, features, out):  # type: ignore[no-untyped-def]
    """Add x to out[0] and x^2 to out[1], each in two parts, over the entries of features below ``features``."""
    for k in range(values.size):
        if indices[k] < features:
            x = np.float64(values[k])
            out[0, 0], lost = two_sum(out[0, 0], x)
            out[0, 1] += lost
            square, rest = two_product(x, x)
            out[1, 0], lost = two_sum(out[1, 0], square)
            out[1, 1] += lost + rest
