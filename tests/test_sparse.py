"""Helpers around CSR."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix, random

from labelspace.errors import InputError
from labelspace.sparse import (
    checked_features,
    checked_labels,
    digest,
    pack_csr,
    unit_rows,
    unpack_csr,
)


def test_features_come_out_canonical_and_the_input_stays():
    twice = csr_matrix((np.ones(3), [2, 0, 2], [0, 3]), shape=(1, 3))
    found = checked_features(twice)
    assert found.toarray().tolist() == [[1, 0, 2]]
    assert found.dtype == np.float32
    assert twice.nnz == 3
    ready = random(5, 5, 0.5, format="csr", dtype=np.float32, random_state=0)
    assert checked_features(ready) is ready
    assert checked_features(csc_matrix(ready)).toarray().tolist() == ready.toarray().tolist()


def test_duplicates_in_a_float32_matrix_do_not_change_the_callers():
    twice = csr_matrix((np.ones(2, np.float32), [1, 1], [0, 2]), shape=(1, 3))
    assert checked_features(twice).nnz == 1
    assert twice.nnz == 2


def test_features_that_are_none():
    with pytest.raises(InputError, match="array of numbers"):
        checked_features([["a"]])
    with pytest.raises(InputError, match="has 2 features; the model was fitted on 3"):
        checked_features(np.ones((1, 2)), 3)


def test_labels_are_ones_without_stored_zeros():
    given = csr_matrix((np.array([2.0, 0.0, 5.0]), [1, 0, 2], [0, 2, 3]), shape=(2, 3))
    found = checked_labels(given, 2)
    assert found.toarray().tolist() == [[0, 1, 0], [0, 0, 1]]
    assert found.nnz == 2
    with pytest.raises(InputError, match="no columns"):
        checked_labels(csr_matrix((2, 0)), 2)


def test_unit_rows():
    X = csr_matrix(np.array([[3, 4], [0, 0], [-2, 0]], np.float32))
    np.testing.assert_allclose(unit_rows(X).toarray(), [[0.6, 0.8], [0, 0], [-1, 0]])
    assert unit_rows(X[:0]).shape == (0, 2)


def test_pack_and_unpack():
    X = random(7, 4, 0.3, format="csr", dtype=np.float32, random_state=0)
    found = unpack_csr("a", pack_csr("a", X))
    assert found.shape == X.shape
    assert (found != X).nnz == 0


def test_digest_sees_every_part():
    X = csr_matrix(np.eye(3, dtype=np.float32))
    wider = csr_matrix((X.data, X.indices, X.indptr), shape=(3, 4))
    changed = X.copy()
    changed.data[1] = 2
    assert digest(X, 1) == digest(X.copy(), 1)
    assert len({digest(X, 1), digest(X, 2), digest(wider, 1), digest(changed, 1)}) == 4
