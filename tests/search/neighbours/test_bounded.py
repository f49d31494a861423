"""Neighbours that are found by reading a part of the index."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.search.neighbours.bounded import BoundedNeighbours
from labelspace.search.neighbours.sparse import SparseNeighbours
from labelspace.search.neighbours.voting import rank_votes
from search.neighbours.test_sparse import words

ALL = 10**9


def recall(found, exact):
    return np.mean([len(set(a) & set(b)) / len(set(b)) for a, b in zip(found, exact, strict=True)])


@pytest.mark.parametrize("k", [1, 5, 40, 900])
@pytest.mark.parametrize("kind", ["words", "signed"])
def test_without_limits_they_are_the_exact_ones_to_the_bit(k, kind):
    X, Q = words(800, 0), words(60, 1)
    if kind == "signed":
        X, Q = (np.where(rows % 0.7 < 0.2, -rows, rows) for rows in (X, Q))
    X, Q = csr_matrix(X), csr_matrix(Q)
    found = BoundedNeighbours.of(X, ALL, candidates=ALL).search(Q, k)
    for one, other in zip(found, SparseNeighbours.of(X).search(Q, k), strict=True):
        np.testing.assert_array_equal(one, other)


def test_common_features_are_left_out():
    X, Q = csr_matrix(words(800, 0)), csr_matrix(words(60, 1))
    found = BoundedNeighbours.of(X, ALL, 0.05, candidates=ALL).search(Q, 9)
    for one, other in zip(found, SparseNeighbours.of(X, 0.05).search(Q, 9), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_small_part_of_the_index_has_nearly_all_neighbours():
    X, Q = csr_matrix(words(5000, 0, 3000)), csr_matrix(words(100, 1, 3000))
    exact, _ = SparseNeighbours.of(X).search(Q, 10)
    lists = np.diff(csr_matrix(X.T).indptr)
    limit = int(0.2 * np.mean([lists[row.indices].sum() for row in Q]))
    found, cosines = BoundedNeighbours.of(X, limit).search(Q, 10)
    assert recall(found, exact) > 0.9
    # A tenth of that, with few candidates, loses more: the limits act.
    fewer, _ = BoundedNeighbours.of(X, limit // 10, candidates=10).search(Q, 10)
    assert recall(fewer, exact) < recall(found, exact)
    assert (np.diff(cosines, axis=1) <= 0).all()


def test_cosines_are_exact_whatever_was_read():
    X, Q = words(800, 0), words(60, 1)
    found, cosines = BoundedNeighbours.of(csr_matrix(X), 1000, candidates=30).search(
        csr_matrix(Q), 8
    )
    length = [np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (Q, X)]
    dense = (Q / length[0]) @ (X / length[1]).T
    for row in range(len(Q)):
        listed = found[row] >= 0
        np.testing.assert_allclose(cosines[row, listed], dense[row, found[row, listed]], atol=2e-6)


def test_a_query_has_the_same_neighbours_alone_and_in_a_batch():
    index = BoundedNeighbours.of(csr_matrix(words(800, 0)), 1000, candidates=20)
    Q = csr_matrix(words(70, 3))
    near, cosines = index.search(Q, 7)
    for row in range(70):
        alone = index.search(Q[row], 7)
        np.testing.assert_array_equal(alone[0][0], near[row])
        np.testing.assert_array_equal(alone[1][0], cosines[row])


def test_more_examples_and_a_restored_index_find_the_same():
    X = csr_matrix(words(300, 0))
    whole = BoundedNeighbours.of(X, 1500)
    grown = BoundedNeighbours.of(X[:200], 1500).extended(X[200:])
    restored = BoundedNeighbours.restore(whole.state(), 1500)
    expected = whole.search(X, 5)
    for index in (grown, restored):
        for one, other in zip(index.search(X, 5), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("power", [0.0, 2.0])
def test_they_vote_as_those_that_search_finds(power):
    index = BoundedNeighbours.of(csr_matrix(words(800, 0)), 2000)
    Q, Y = csr_matrix(words(70, 3)), csr_matrix((words(800, 5) > 0).astype(np.float32))
    near, cosines = index.search(Q, 12)
    expected = rank_votes(near[:, None], cosines[:, None], power, Y, 6)
    labels, shares = index.votes(Q, 12, power, Y, 6)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(shares, expected[1])


def test_queries_and_examples_without_features_have_no_neighbours():
    empty = csr_matrix((3, 5), dtype=np.float32)
    near, cosines = BoundedNeighbours.of(empty, 1000).search(csr_matrix(np.eye(2, 5)), 2)
    assert (near == -1).all()
    assert (cosines == 0).all()
    index = BoundedNeighbours.of(csr_matrix(np.eye(4, 5, dtype=np.float32)), 1000)
    assert (index.search(empty, 2)[0] == -1).all()
