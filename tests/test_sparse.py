"""Helpers around CSR."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix, random

from labelspace.errors import InputError, ModelFormatError
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


def packed():
    X = random(7, 4, 0.5, format="csr", dtype=np.float32, random_state=0)
    return {name: np.array(array) for name, array in pack_csr("X", X).items()}


def damaged(part, place, value):
    arrays = packed()
    arrays[f"X.{part}"][place] = value
    return arrays


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        ("indices", 0, 4), ("indices", -1, -1), ("indices", 0, 2**30),
        ("indptr", 0, 1), ("indptr", 0, -1), ("indptr", -1, 10**6), ("indptr", -1, 0),
        ("indptr", 3, 0), ("shape", 0, 8), ("shape", 0, -1), ("shape", 1, 1), ("shape", 1, 2**62),
    ],
)  # fmt: skip
def test_arrays_that_are_no_matrix_are_refused(part, place, value):
    with pytest.raises(ModelFormatError, match="X"):
        unpack_csr("X", damaged(part, place, value))


@pytest.mark.parametrize(
    "change",
    [
        {"indices": lambda a: a.astype(float)},
        {"indices": lambda a: a.astype(np.uint8)},
        {"indices": lambda a: a[:-1]},
        {"indices": lambda a: a[:, None]},
        {"data": lambda a: a[:-1]},
        {"indptr": lambda a: a[:-1]},
        {"indptr": lambda a: a.astype(np.float32)},
        {"indptr": lambda a: a[:0]},
        {"shape": lambda a: a[:1]},
        {"shape": lambda a: a.astype(float)},
    ],
)
def test_arrays_of_other_types_and_lengths_are_refused(change):
    arrays = packed()
    for part, do in change.items():
        arrays[f"X.{part}"] = do(arrays[f"X.{part}"])
    with pytest.raises(ModelFormatError, match="X"):
        unpack_csr("X", arrays)


def test_a_matrix_of_another_shape_than_expected_is_refused():
    arrays = packed()
    assert unpack_csr("X", arrays, (7, None)).shape == (7, 4)
    for shape in ((8, None), (None, 5), (4, 7)):
        with pytest.raises(ModelFormatError, match="shape"):
            unpack_csr("X", arrays, shape)
