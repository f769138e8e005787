"""Kernel values, their error bounds, and sums in bins: against 60 digits, and to the bit."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeline.maths.binned import Binned, bin_columns, bins_for, lost_in
from pipeline.maths.kernel import Rbf, sum_error
from pipeline.maths.kernel_values import BLOCK, TILE, Columns, _exponential, kernel_columns
from pipeline.maths.rounding import UNIT


def values_of(kernel: Rbf, x: sp.csr_array, columns: sp.csr_array) -> np.ndarray:
    """Return K of all rows of x with all columns, one array a column."""
    rows, others = Columns(x.indptr, x.indices, x.data), Columns(columns.indptr, columns.indices, columns.data)
    numbers = np.arange(columns.shape[0])
    out = np.empty((numbers.size, x.shape[0]))
    kernel_columns(
        kernel, (rows.indptr, rows.indices, rows.values), rows.squares, x.shape[1], others, numbers, out, numbers
    )
    return out


def made(seed: int, n: int, d: int, share: float, scale: float = 1.0, narrow: bool = True) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * scale * (rng.random((n, d)) < share)
    return sp.csr_array(x.astype(np.float32) if narrow else x)


def exact(kernel: Rbf, a: np.ndarray, b: np.ndarray) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        far = sum(((Decimal(float(p)) - Decimal(float(q))) ** 2 for p, q in zip(a, b, strict=True)), Decimal(0))
        return (-Decimal(kernel.gamma) * far).exp() + Decimal(kernel.bias) ** 2


def test_the_exponential_is_within_four_units():
    rng = np.random.default_rng(0)
    x = np.concatenate([-np.abs(rng.standard_normal(1500)) * rng.choice([1e-9, 1e-3, 1, 20, 200], 1500), [0.0, -707.9]])
    x = np.maximum(x, -707.9)
    found, t, p = x.copy(), np.empty(x.size), np.empty(x.size)
    _exponential(found, t, t.view(np.int64), p, p.view(np.int64), x.size)
    with localcontext() as context:
        context.prec = 40
        exact = [Decimal(float(value)).exp() for value in x]
        worst = max(abs(Decimal(float(a)) - b) / b for a, b in zip(found, exact, strict=True))
    assert worst <= 4 * Decimal(UNIT)
    assert found[-2] == 1.0


@pytest.mark.attack
def test_rows_that_are_far_from_all_others_have_no_sum_of_tiny_values():
    x = sp.csr_array(np.array([[0.0], [1.0], [26.0], [27.0], [1e6]]))
    found = values_of(Rbf(1.0, 0.0), x, x[:2])
    assert (found[:, 4] == 0.0).all()
    assert found[0, 3] == 0.0
    assert found[0, 2] == pytest.approx(np.exp(-676.0), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    d=st.sampled_from([1, 3, 30]),
    scale=st.sampled_from([1e-8, 1e-3, 1.0, 30.0, 1e4, 1e8]),
    gamma=st.sampled_from([1e-12, 1e-6, 0.03, 1.0, 50.0]),
    bias=st.sampled_from([0.0, 1.0, 30.0]),
    narrow=st.booleans(),
)
def test_values_are_within_their_bound(seed, d, scale, gamma, bias, narrow):
    x = made(seed, 6, d, 0.7, scale, narrow)
    x = sp.csr_array(sp.vstack([x, x[:2] * (1 + 2.0**-20)]))  # near duplicates: squares cancel
    kernel = Rbf(gamma, bias)
    found, dense = values_of(kernel, x, x), x.toarray().astype(np.float64)
    squares = (dense**2).sum(axis=1) * (1 + 1e-12)
    error = sum_error(kernel, int(np.diff(x.indptr).max(initial=0)), squares.max())
    assume(error.is_known)
    for j in range(x.shape[0]):
        bound = error(squares, found[j], np.arange(x.shape[0]) == j, 1.0, 0.0)
        for i in range(x.shape[0]):
            assert abs(Decimal(float(found[j, i])) - exact(kernel, dense[i], dense[j])) <= Decimal(float(bound[i]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.05, 0.5, 1.0]), d=st.sampled_from([2, 40]))
def test_a_value_has_the_same_bits_in_every_block_and_from_either_side(seed, share, d):
    rng = np.random.default_rng(seed)
    n = TILE + BLOCK + 7
    x, kernel = made(seed, n, d, share), Rbf(0.3, float(rng.choice([0.0, 2.0])))
    some = np.sort(rng.choice(n, BLOCK + 9, replace=False))
    together = values_of(kernel, x, x[some])
    assert (together[:, some] == together[:, some].T).all()
    assert (np.diag(together[:, some]) == kernel.square).all()
    for k in (0, 1, BLOCK - 1, BLOCK, some.size - 1):
        assert (values_of(kernel, x, x[some[k : k + 1]])[0] == together[k]).all()
    cut = n // 3
    assert (values_of(kernel, x[cut:], x[some]) == together[:, cut:]).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.sampled_from([1, 5, 1030]), m=st.sampled_from([1, 3, 300]))
def test_sums_in_bins_do_not_depend_on_order_nor_on_history(seed, n, m):
    rng = np.random.default_rng(seed)
    columns = rng.random((m, n))
    a = rng.choice([-1.0, 1.0], m) * rng.random(m) * 10.0 ** rng.uniform(-8, 3)
    bins = bins_for(float(np.abs(a).max()), 2 * m)

    def total(order: np.ndarray, extra: np.ndarray) -> Binned:
        sums = Binned(bins, np.zeros(n), np.zeros(n))
        for some in np.array_split(order, 3):
            bin_columns(columns, some, a[some], bins, sums.first, sums.second)
        bin_columns(columns, extra, a[extra], bins, sums.first, sums.second)
        bin_columns(columns, extra, -a[extra], bins, sums.first, sums.second)
        return sums

    one = total(np.arange(m), np.empty(0, np.int64))
    two = total(rng.permutation(m), rng.choice(m, m // 2, replace=False))
    assert (one.first == two.first).all()
    assert (one.second == two.second).all()
    i = int(rng.integers(n))
    exactly = sum((Fraction(float(x)) for x in a * columns[:, i]), Fraction(0))
    lost = Fraction(float(np.abs(a).max())) * m * m * m * Fraction(2) ** -95
    assert abs(Fraction(one.first[i]) + Fraction(one.second[i]) - exactly) <= lost


@pytest.mark.parametrize(("scale", "gamma"), [(100.0, 1e-4), (1e4, 1.0), (1e6, 1e-3)])  # the last two: near identity
def test_a_sum_of_columns_is_within_its_bound(scale, gamma):
    x, kernel = made(3, 9, 5, 1.0, scale), Rbf(gamma, 1.0)
    found, dense = values_of(kernel, x, x), x.toarray().astype(np.float64)
    a = np.array([1e6, 3.0, 2e5, 1e-9, 7e5, 0.0, 1.0, 9e5, 1e6])
    bins = bins_for(2e6, 9)
    sums = Binned(bins, np.zeros(9), np.zeros(9))
    bin_columns(found, np.arange(9), a, bins, sums.first, sums.second)
    squares, total = (dense**2).sum(axis=1) * (1 + 1e-12), sums.values(slice(None))
    bound = sum_error(kernel, 5, squares.max())(squares, total, a, float(a.sum()), lost_in(bins, 9))
    for i in range(9):
        exactly = sum((Decimal(float(a[j])) * exact(kernel, dense[i], dense[j]) for j in range(9)), Decimal(0))
        assert abs(Decimal(float(total[i])) - exactly) <= Decimal(float(bound[i]))


@pytest.mark.attack
@pytest.mark.parametrize("largest", [1.0, 1e6, 1e14])
def test_what_bins_lose_is_bounded_though_coefficients_are_far_below_the_largest_there_may_be(largest):
    rng, n = np.random.default_rng(0), 300
    columns = rng.random((n, 5))
    bins, sums = bins_for(largest, n), Binned((0.0, 0.0), np.zeros(5), np.zeros(5))
    bin_columns(columns, np.arange(n), np.ones(n), bins, sums.first, sums.second)
    off = [
        abs(Fraction(sums.first[i]) + Fraction(sums.second[i]) - sum(map(Fraction, columns[:, i].tolist())))
        for i in range(5)
    ]
    assert max(off) <= lost_in(bins, n)
    assert largest < 1e14 or max(off) > 24 * n * UNIT  # which was all that a margin was given


@pytest.mark.parametrize("largest", [0.0, 1e-300, 1e300])
def test_bins_at_any_magnitude(largest):
    bins = bins_for(largest, 10**6)
    assert np.isfinite(bins).all()
