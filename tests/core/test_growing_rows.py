"""Rows that are appended one by one, and matrices that share memory with them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, random, vstack

from labelspace._core.growing_rows import GrowingRows


def drawn(n, seed):
    return random(n, 30, 0.2, format="csr", random_state=seed, dtype=np.float32)


def test_rows_appended_one_by_one_are_those_of_the_whole_matrix():
    X = drawn(200, 0)
    rows = GrowingRows.of(X[:3])
    for row in range(3, 200):
        rows = rows.plus(X[row])
    assert (rows.matrix(30) != X).nnz == 0
    assert (len(rows), rows.nnz) == (200, X.nnz)


def test_what_was_returned_before_stays_as_it_was():
    X = drawn(50, 1)
    first = GrowingRows.of(X[:20])
    one, other = first.plus(X[20:30]), first.plus(X[30:50])
    for found, expected in (
        (first.matrix(30), X[:20]),
        (one.matrix(30), X[:30]),
        (other.matrix(30), vstack([X[:20], X[30:50]], "csr")),
    ):
        assert (found != expected).nnz == 0


def test_appending_seldom_copies():
    X = drawn(2000, 2)
    rows, arrays = GrowingRows.of(X[:1]), set()
    for row in range(1, 2000):
        rows = rows.plus(X[row])
        arrays.add(rows.matrix(30).indices.ctypes.data)
    assert len(arrays) < 30


def test_read_only_arrays_and_rows_without_entries_can_be_extended():
    X = drawn(10, 3)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    empty = csr_matrix((2, 30), dtype=np.float32)
    grown = GrowingRows.of(X).plus(empty).plus(drawn(1, 4))
    assert (grown.matrix(30) != vstack([X, empty, drawn(1, 4)], "csr")).nnz == 0
    assert grown.matrix(31).shape == (13, 31)
