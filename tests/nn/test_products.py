"""Dense products: those of numpy, with the same bits for a row alone and in a batch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.nn.products import dense_times_dense, sparse_times_dense


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(with_bias):
    rng = np.random.default_rng(0)
    h = np.maximum(rng.standard_normal((100, 30)), 0.0).astype(np.float32)
    weight = rng.standard_normal((30, 17)).astype(np.float32)
    bias = rng.standard_normal(17).astype(np.float32) if with_bias else None
    found = dense_times_dense(h, weight, bias)
    expected = h.astype(np.float64) @ weight + (0.0 if bias is None else bias)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    alone = np.vstack([dense_times_dense(h[row : row + 1], weight, bias) for row in range(100)])
    assert np.array_equal(found, alone)
    if bias is None:
        assert np.array_equal(found, sparse_times_dense(csr_matrix(h), weight))


def test_what_is_not_a_number_is_passed_on():
    h = np.array([[np.nan, 1.0]], np.float32)
    assert np.isnan(dense_times_dense(h, np.ones((2, 3), np.float32))).all()
