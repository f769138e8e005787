"""Sparse rows as three arrays: what SciPy's matrix of them gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.solve.sparse_rows import SparseRows


@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("made", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_rows_are_those_of_the_matrix(values, indices, made):
    rng = np.random.default_rng(5)
    dense = (rng.standard_normal((30, 7)) * (rng.random((30, 7)) < 0.3)).astype(values)
    dense[4] = 0.0
    matrix = made(dense)
    matrix.indptr, matrix.indices = matrix.indptr.astype(indices), matrix.indices.astype(indices)
    rows, w, alpha = SparseRows.of(matrix), rng.standard_normal(7), rng.random(30)
    assert (rows.shape, rows.nnz, rows.dtype) == (matrix.shape, matrix.nnz, matrix.dtype)
    np.testing.assert_array_equal(rows.toarray(), dense)
    np.testing.assert_array_equal(rows.scipy().toarray(), dense)
    np.testing.assert_allclose(rows.times(w), dense @ w, atol=1e-14)
    np.testing.assert_array_equal(rows.combined(alpha), matrix.T @ alpha)


def test_nothing_is_copied():
    matrix = sp.random_array((9, 5), density=0.5, format="csr", rng=np.random.default_rng(0))
    rows = SparseRows.of(matrix)
    for mine, theirs in ((rows.data, matrix.data), (rows.parts[1], matrix.indices), (rows.scipy().data, matrix.data)):
        assert np.shares_memory(mine, theirs)
