"""Exact neighbours on sparse features are those that a dense product finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.search.neighbours.clusters import rank_votes
from labelspace.search.neighbours.sparse import SparseNeighbours


def words(n, seed, n_words=300, length=12):
    """Texts whose words are as unequal as those of a language, weighted by how rare they are."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_words + 1)
    X = np.zeros((n, n_words), np.float32)
    for row in X:
        drawn = rng.choice(n_words, rng.integers(0, length), p=share / share.sum())
        row[drawn] = 1 - np.log(share[drawn])
    return X


def cosines_of(Q, X):
    unit = [
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (Q, X)
    ]
    return unit[0].astype(np.float64) @ unit[1].T


@pytest.mark.parametrize("k", [1, 5, 40, 900])
@pytest.mark.parametrize("kind", ["words", "signed", "dense"])
def test_they_are_those_of_a_dense_product(k, kind):
    X, Q = words(800, 0), words(60, 1)
    if kind == "signed":
        X, Q = (np.where(rows % 0.7 < 0.2, -rows, rows) for rows in (X, Q))
    if kind == "dense":
        rng = np.random.default_rng(2)
        X, Q = rng.random((500, 30), np.float32), rng.random((20, 30), np.float32)
    index = SparseNeighbours.of(csr_matrix(X))
    near, cosines = index.search(csr_matrix(Q), k)
    exact = cosines_of(Q, X)
    for row in range(len(Q)):
        order = np.sort(exact[row][exact[row] > 1e-6])[::-1][:k]
        count = np.count_nonzero(near[row] >= 0)
        assert count == len(order)
        np.testing.assert_allclose(cosines[row, :count], order, atol=2e-6)
        np.testing.assert_allclose(exact[row, near[row, :count]], cosines[row, :count], atol=2e-6)
        assert (near[row, count:] == -1).all()
        assert len(set(near[row, :count])) == count


def test_a_query_has_the_same_neighbours_alone_and_in_a_batch():
    index = SparseNeighbours.of(csr_matrix(words(800, 0)))
    Q = csr_matrix(words(70, 3))
    near, cosines = index.search(Q, 7)
    for row in range(70):
        alone = index.search(Q[row], 7)
        np.testing.assert_array_equal(alone[0][0], near[row])
        np.testing.assert_array_equal(alone[1][0], cosines[row])


def test_more_examples_stand_behind_the_first():
    X = csr_matrix(words(300, 0))
    grown = SparseNeighbours.of(X[:200]).extended(X[200:])
    whole = SparseNeighbours.of(X)
    for one, other in zip(grown.search(X, 5), whole.search(X, 5), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("power", [0.0, 2.0])
def test_they_vote_as_those_that_search_finds(power):
    index = SparseNeighbours.of(csr_matrix(words(800, 0)))
    Q, Y = csr_matrix(words(70, 3)), csr_matrix((words(800, 5) > 0).astype(np.float32))
    near, cosines = index.search(Q, 12)
    expected = rank_votes(near[:, None], cosines[:, None], power, Y, 6)
    labels, shares = index.votes(Q, 12, power, Y, 6)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(shares, expected[1])
