"""Votes of neighbours against plain loops."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.search.neighbours.voting import (
    SHARPNESS,
    rank_votes,
    softmax_weights,
    votes_by_label,
)


def test_votes_are_mean_shares_of_learners():
    rng = np.random.default_rng(2)
    Y = csr_matrix((rng.random((50, 9)) < 0.3).astype(np.float32))
    near = np.stack([rng.permutation(50)[:12].reshape(2, 6) for _ in range(30)])
    near[4, 1, 3:] = -1
    near[5] = -1
    similarity = -np.sort(-rng.uniform(0.2, 1.0, near.shape).astype(np.float32), axis=2)
    labels, shares = rank_votes(near, similarity, 3.0, Y, 9)
    dense = Y.toarray()
    for row in range(30):
        expected = np.zeros(9)
        learners_with_votes = 0
        for learner in range(2):
            there = near[row, learner] >= 0
            if not there.any():
                continue
            weights = (similarity[row, learner][there] / similarity[row, learner, 0]) ** 3.0
            expected += weights / weights.sum() @ dense[near[row, learner][there]]
            learners_with_votes += 1
        expected /= max(1, learners_with_votes)
        given = labels[row] >= 0
        assert set(labels[row][given].tolist()) == set(np.flatnonzero(expected).tolist())
        np.testing.assert_allclose(shares[row][given], expected[labels[row][given]], atol=1e-5)
        assert (np.diff(shares[row]) <= 0).all()


def test_power_0_gives_equal_weights_and_negative_similarities_have_none():
    Y = csr_matrix(np.eye(3, dtype=np.float32)[[0, 0, 1, 2]])
    near = np.array([[[2, 0, 1, 3]]])
    similarity = np.array([[[0.9, 0.5, 0.5, -0.2]]], np.float32)
    labels, shares = rank_votes(near, similarity, 0.0, Y, 3)
    np.testing.assert_array_equal(labels, [[0, 1, 2]])
    np.testing.assert_allclose(shares, [[0.5, 0.25, 0.25]])
    labels, shares = rank_votes(near, similarity, 8.0, Y, 3)
    assert labels[0, 0] == 1
    np.testing.assert_array_equal(labels[0, 2:], [-1])
    labels, shares = rank_votes(near, np.zeros_like(similarity), 8.0, Y, 1)  # all equally far
    np.testing.assert_allclose(shares, [[0.5]])


def test_learners_have_weights():
    Y = csr_matrix(np.eye(2, dtype=np.float32))
    near, similarity = np.array([[[0], [1]]]), np.ones((1, 2, 1), np.float32)
    labels, shares = rank_votes(near, similarity, 1.0, Y, 2, learner_weights=np.array([0.2, 0.8]))
    assert labels.tolist() == [[1, 0]]
    np.testing.assert_allclose(shares, [[0.8, 0.2]], rtol=1e-6)


def test_votes_by_label_are_those_of_a_dense_product():
    rng = np.random.default_rng(0)
    Y = csr_matrix((rng.random((40, 12)) < 0.2).astype(np.float32))
    for _ in range(20):
        near, cosines = rng.permutation(40)[:7], -np.sort(-rng.random(7))
        near[5:] = -1
        weights = softmax_weights(near, cosines)
        expected = np.exp(SHARPNESS * cosines[:5])
        np.testing.assert_allclose(weights[:5], expected / expected.sum(), rtol=1e-12)
        assert (weights[5:] == 0).all()
        others = np.array([3, -1, 8])
        labels, votes = votes_by_label(near, weights, others, Y.indptr, Y.indices)
        dense = weights[:5] @ Y[near[:5]].toarray()
        assert labels.tolist() == sorted({*np.flatnonzero(dense).tolist(), 3, 8})
        np.testing.assert_allclose(votes, dense[labels], rtol=1e-6, atol=1e-12)


def test_no_neighbours_have_no_votes():
    Y = csr_matrix((5, 3), dtype=np.float32)
    near, none = np.full(4, -1), np.empty(0, np.int64)
    weights = softmax_weights(near, np.full(4, -np.inf))
    assert weights.tolist() == [0.0] * 4
    assert len(votes_by_label(near, weights, none, Y.indptr, Y.indices)[0]) == 0


def test_no_array_of_all_labels_is_made():
    """With 2**31 - 1 labels it would take 8 GB."""
    last = 2**31 - 2
    Y = csr_matrix(
        (np.ones(4, np.float32), np.array([0, last, 7, last]), np.array([0, 2, 4])),
        shape=(2, last + 1),
    )
    near, similarity = np.array([[[0, 1]]]), np.ones((1, 1, 2), np.float32)
    labels, shares = rank_votes(near, similarity, 1.0, Y, 4)
    assert labels.tolist() == [[last, 0, 7, -1]]
    assert shares.tolist() == [[1.0, 0.5, 0.5, 0.0]]
