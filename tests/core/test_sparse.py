"""Helpers around CSR."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, lil_matrix, random

from labelspace._core.sparse import (
    bounded_rows,
    checked_features,
    checked_labels,
    digest,
    hits_of,
    pack_csr,
    rows_of,
    unit_rows,
    unpack_csr,
    without_columns,
)
from labelspace.errors import InputError


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


def test_rows_with_huge_entries_are_scaled_down_and_no_others():
    X = csr_matrix(np.array([[3e30, -1e30, 0], [1, 2, 0], [0, 0, 0], [0, 0, -8]], np.float32))
    expected = [[4, -4 / 3, 0], [1, 2, 0], [0, 0, 0], [0, 0, -4]]
    np.testing.assert_allclose(bounded_rows(X, 4.0).toarray(), expected, rtol=1e-6)
    assert bounded_rows(X, 1e31) is X


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


def broken(matrix, **changed):
    """Return the matrix with other index arrays, which scipy does not check again."""
    matrix = matrix.copy()
    for name, value in changed.items():
        setattr(matrix, name, np.array(value, np.int32))
    return matrix


GOOD = csr_matrix(np.array([[1, 0, 2], [0, 3, 0]], np.float32))


@pytest.mark.parametrize(
    "matrix",
    [
        broken(GOOD, indices=[0, 3, 1]),
        broken(GOOD, indices=[0, -1, 1]),
        broken(GOOD, indptr=[0, 3, 2]),
        broken(GOOD, indptr=[0, 2, 9]),
        broken(GOOD, indptr=[1, 2, 3]),
        broken(GOOD, indptr=[0, 3]),
        broken(csc_matrix(GOOD), indices=[0, 2, 0]),
        broken(coo_matrix(GOOD), row=[0, 0, 2]),
        broken(coo_matrix(GOOD), col=[0, -1, 1]),
    ],
)
def test_non_zeros_outside_of_the_matrix_are_refused(matrix):
    with pytest.raises(InputError, match=r"X has non-zeros outside of its shape \(2, 3\)"):
        checked_features(matrix)
    with pytest.raises(InputError, match=r"Y has non-zeros outside of its shape \(2, 3\)"):
        checked_labels(matrix, 2)


def test_a_list_of_lists_with_a_column_out_of_range_is_refused():
    lists = lil_matrix(GOOD)
    lists.rows[0][1] = 70
    with pytest.raises(InputError, match="non-zeros outside"):
        checked_features(lists)
    assert checked_features(lil_matrix(GOOD)).toarray().tolist() == GOOD.toarray().tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([["1", "0"]]), "array of numbers"),
        (np.array([[1, None]], object), "array of numbers"),
        (np.array([["2024-01-01", "2024-01-02"]], "datetime64[D]"), "array of numbers"),
        (np.ones((1, 2), complex), "array of numbers"),
        (csr_matrix(np.ones((1, 2), complex)), "array of numbers"),
        (np.ma.masked_array(np.ones((1, 2)), [[True, False]]), "masked"),
        (np.ones((1, 2, 2)), "two dimensions"),
        (np.ones(2), "two dimensions"),
        ([[1], [1, 2]], "array of numbers"),
        ("text", "array of numbers"),
        (None, "array of numbers"),
    ],
)
def test_what_holds_no_table_of_numbers_is_refused(given, message):
    with pytest.raises(InputError, match=f"X .*{message}"):
        checked_features(given)
    with pytest.raises(InputError, match=f"Y .*{message}"):
        checked_labels(given, 1)


def test_hits_are_flat_even_where_there_are_none():
    rows, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    assert hits_of(GOOD, rows, labels).tolist() == [True, False, True, False]
    none = hits_of(GOOD, rows[:0], labels[:0])
    assert none.shape == (0,)
    assert none.dtype == bool


def test_digest_sees_the_type_of_numbers():
    ones = np.ones(4, np.float32)
    assert digest(ones) != digest(ones.view(np.int32))
    X = csr_matrix(np.eye(3, dtype=np.float32))
    assert digest(X) != digest(csr_matrix((X.data.view(np.int32), X.indices, X.indptr)))


def test_rows_of_each_stored_value():
    matrix = csr_matrix(np.array([[0, 1, 2], [0, 0, 0], [3, 0, 0]], np.float32))
    rows = rows_of(matrix)
    assert rows.tolist() == [0, 0, 2]
    assert rows.dtype == np.int64
    assert len(rows_of(csr_matrix((0, 5)))) == 0


def test_entries_of_columns_are_left_out_of_a_copy():
    given = np.array([[0, 1, 2], [4, 0, 0], [3, 0, 5]], np.float32)
    matrix = csr_matrix(given)
    found = without_columns(matrix, np.array([0, 2]))
    assert found.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert found.nnz == 1
    assert np.array_equal(matrix.toarray(), given)
    assert without_columns(matrix, np.empty(0, np.int64)) is matrix
