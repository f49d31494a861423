"""Dense rows of length 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace._core.sparse import unit_rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_rows_have_length_1_and_rows_of_zeros_stay(dtype):
    rows = unit_array(np.array([[3, 4], [0, 0]], dtype))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0]], rtol=1e-6)


def test_short_rows_have_length_1_too():
    np.testing.assert_allclose(unit_array(np.array([[3e-9, 4e-9]], np.float32)), [[0.6, 0.8]])


def test_sparse_and_dense_rows_agree():
    rows = np.random.default_rng(0).standard_normal((20, 7)).astype(np.float32)
    np.testing.assert_allclose(unit_rows(csr_matrix(rows)).toarray(), unit_array(rows), rtol=1e-6)


def test_the_given_array_stays():
    rows = np.full((2, 2), 2.0, np.float32)
    unit_array(rows)
    assert (rows == 2).all()
