"""Exact neighbours on sparse features are those that a dense product finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from labelspace.search.neighbours.sparse import SparseNeighbours
from labelspace.search.neighbours.voting import rank_votes


def words(n, seed, n_words=300, length=12):
    """Draw texts with word frequencies as in a language, weighted by how rare words are."""
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


@pytest.mark.parametrize("most", [0, 40, 10**6])
def test_examples_that_wait_beside_the_index_have_the_same_bits(monkeypatch, most):
    """They are merged when they are too many, and when the index is stored."""
    monkeypatch.setattr("labelspace.search.neighbours.sparse._MOST_PENDING", most)
    X, Q = csr_matrix(words(90, 0)), csr_matrix(words(30, 1))
    Y = csr_matrix((words(90, 5) > 0).astype(np.float32))
    whole, grown = SparseNeighbours.of(X), SparseNeighbours.of(X[:30])
    for row in range(30, 90):
        before, grown = grown, grown.extended(X[row])
    assert len(grown) == 90
    for one, other in zip(grown.votes(Q, 8, 2.0, Y, 5), whole.votes(Q, 8, 2.0, Y, 5), strict=True):
        np.testing.assert_array_equal(one, other)
    # Another index made of the one before does not change what this one holds.
    before.extended(X[0])
    for one, other in zip(grown.search(Q, 8), whole.search(Q, 8), strict=True):
        np.testing.assert_array_equal(one, other)
    for name, array in whole.state().items():
        np.testing.assert_array_equal(grown.state()[name], array)


def test_sparse_neighbours_grow():
    X = random(60, 30, 0.2, format="csr", random_state=0, dtype=np.float32)
    whole = SparseNeighbours.of(X).search(X, 7)
    grown = SparseNeighbours.of(X[:40]).extended(X[40:]).search(X, 7)
    for one, other in zip(whole, grown, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("density", [0.01, 0.05, 0.6])  # few, some and all share a feature
def test_sparse_neighbours_are_those_of_the_dense_cosines(density):
    X = random(120, 40, density, format="csr", random_state=1, dtype=np.float32)
    Q = random(50, 40, density, format="csr", random_state=2, dtype=np.float32)
    near, cosines = SparseNeighbours.of(X).search(Q, 9)
    lengths = [np.maximum(np.linalg.norm(M.toarray(), axis=1), 1e-12) for M in (Q, X)]
    dense = (Q @ X.T).toarray() / np.outer(*lengths)
    expected = -np.sort(-np.where(dense > 1e-6, dense, 0), axis=1)[:, :9]
    np.testing.assert_allclose(cosines, expected, atol=1e-5)
    found = np.take_along_axis(dense, np.maximum(near, 0), 1)
    np.testing.assert_allclose(np.where(near >= 0, found, 0), expected, atol=1e-5)


def test_no_array_of_all_examples_is_made_for_a_query_that_meets_few():
    """With 2**31 - 1 examples it would take 8 GB."""
    last = 2**31 - 2
    postings = csr_matrix(
        (np.array([1.0, 0.6, 0.8], np.float32), np.array([5, last, last]), np.array([0, 2, 3])),
        shape=(2, last + 1),
    )
    near, cosines = SparseNeighbours(postings).search(csr_matrix([[0.6, 0.8]], dtype=np.float32), 3)
    assert near.tolist() == [[last, 5, -1]]
    np.testing.assert_allclose(cosines, [[1.0, 0.6, 0.0]], rtol=1e-6)
