"""Labels come back as they went in: whole numbers, numbers or text, by one rule for all outputs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline.use.label_values import label_array, label_values


@pytest.mark.parametrize(
    ("names", "kind", "values"),
    [
        (("0", "1"), pa.int64(), [0, 1]),
        (("-1", "+1"), pa.int64(), [-1, 1]),
        (("-7", "3", "10"), pa.int64(), [-7, 3, 10]),
        (("-9223372036854775808", "9223372036854775807"), pa.int64(), [-(2**63), 2**63 - 1]),
        (("0.5", "1"), pa.float64(), [0.5, 1.0]),
        (("-0.1", "1e-300"), pa.float64(), [-0.1, 1e-300]),
        (("1", "9223372036854775808"), pa.string(), ["1", "9223372036854775808"]),
        (("0.5", "9007199254740993"), pa.string(), ["0.5", "9007199254740993"]),
        (("ham", "spam"), pa.string(), ["ham", "spam"]),
        (("1", "spam"), pa.string(), ["1", "spam"]),
        (("1", "1_0"), pa.string(), ["1", "1_0"]),
        (("1", "²"), pa.string(), ["1", "²"]),
        (("True", "nan"), pa.string(), ["True", "nan"]),
    ],
)
def test_numbers_stay_numbers(names, kind, values):
    found = label_values(names)
    assert found.type == kind
    assert found.to_pylist() == values
    array = label_array(names)
    assert array.tolist() == values
    assert array.dtype.kind == {"int64": "i", "double": "f", "string": "U"}[str(kind)]
    assert isinstance(array, np.ndarray)
