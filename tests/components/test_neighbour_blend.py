"""The blend of scores and votes: its share is the best, and probabilities mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.neighbour_blend import SHARES, UNTRIED_SHARE, NeighbourBlend
from labelspace.metrics.ranking import evaluate
from labelspace.ranking import Ranking
from labelspace.search.build import build_index
from labelspace.search.neighbours.compressed import CompressedExamples
from labelspace.search.neighbours.voting import SHARPNESS

DIM, LABELS, NEIGHBOURS = 12, 20, 8


def dense(X):
    return np.asarray(X.toarray(), np.float32)


def make(n, seed, signal):
    """Points, queries and labels: a label is likely where its direction is.

    signal  how well queries know of the labels; points always do
    """
    rng = np.random.default_rng(seed)
    vectors = np.random.default_rng(1).standard_normal((LABELS, DIM))
    points = rng.standard_normal((n, DIM))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    chance = 1 / (1 + np.exp(-(3 * points @ vectors.T - 4)))
    Y = csr_matrix((rng.random((n, LABELS)) < chance).astype(np.float32))
    queries = signal * points + (1 - signal) * rng.standard_normal((n, DIM))
    return points.astype(np.float32), queries.astype(np.float32), Y, vectors.astype(np.float32)


def fitted(signal, neighbours=NEIGHBOURS):
    points, _, Y, vectors = make(2000, 2, signal)
    held, queries, Y_held, _ = make(1500, 3, signal)
    voters = CompressedExamples.build(dense, csr_matrix(points), Y, seed=0) if neighbours else None
    blend = NeighbourBlend(build_index(vectors, kind="exact"), voters, neighbours)

    def score(labels, scores):
        return evaluate(Ranking(labels, scores), Y_held, Y, ks=(5,), bands=False)["nDCG@5"]

    blend.fit(held, queries, Y_held, score)
    return blend, held, queries, score


@pytest.mark.parametrize("signal", [0.0, 0.6, 1.0])
def test_the_share_maximises_the_score(signal):
    blend, held, queries, score = fitted(signal)
    chosen, found = blend.numbers[2], {}
    for share in SHARES:
        blend.numbers[2] = share
        found[share] = score(*blend.rank(held, queries, 5))
    assert found[chosen] == pytest.approx(max(found.values()), abs=1e-9)
    if signal == 0.0:
        assert found[chosen] > 1.2 * found[0.0]  # scores know nothing here
    if signal == 1.0:
        assert found[0.0] > 0.9 * found[chosen]


def test_probabilities_are_how_often_the_labels_are_right():
    blend, *_ = fitted(0.8)
    points, queries, Y, _ = make(3000, 4, 0.8)
    labels, p = blend.rank(points, queries, 10)
    hits = Y.toarray()[np.arange(3000)[:, None], labels]
    assert abs(hits.mean() - p.mean()) < 0.02
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1.0)):
        among = (p >= low) & (p < high)
        if among.sum() > 200:
            assert abs(hits[among].mean() - p[among].mean()) < 0.06
    assert (np.diff(p, axis=1) <= 0).all()
    assert p.dtype == np.float32


def test_without_voters_it_is_the_index_alone():
    blend, held, queries, _ = fitted(0.6, neighbours=0)
    labels, p = blend.rank(held, queries, 7)
    expected, logits = blend.index.search(queries, 7)
    assert np.array_equal(labels, expected)
    a, b, share, slope, offset = blend.numbers
    assert share == 0
    line = slope * (a * logits.astype(np.float64) + b) + offset
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-line)), atol=1e-6)


def test_a_share_of_zero_is_the_index_alone():
    with_voters, held, queries, _ = fitted(1.0)
    with_voters.numbers[2] = 0.0
    alone = NeighbourBlend(with_voters.index, None, 0, with_voters.numbers)
    for one, other in zip(
        with_voters.rank(held, queries, 5), alone.rank(held, queries, 5), strict=True
    ):
        assert np.array_equal(one, other)


def test_what_has_no_validation_cut_votes_a_little():
    points, queries, Y, vectors = make(300, 2, 1.0)
    index = build_index(vectors, kind="exact")
    assert NeighbourBlend(index, None, 0).numbers[2] == 0
    blend = NeighbourBlend(
        index, CompressedExamples.build(dense, csr_matrix(points), Y, seed=0), NEIGHBOURS
    )
    assert blend.numbers[2] == UNTRIED_SHARE
    labels, p = blend.rank(points[:3], queries[:3], 4)
    near, cosines = blend.voters.nearest(points[:3], NEIGHBOURS)
    weights = np.exp(20 * cosines) / np.exp(20 * cosines).sum(axis=1, keepdims=True)
    votes = np.einsum("rn,rnl->rl", weights, Y.toarray()[near])
    own = 1 / (1 + np.exp(-queries[:3] @ vectors.T))
    raw = np.sort((1 - UNTRIED_SHARE) * own + UNTRIED_SHARE * votes, axis=1)[:, ::-1][:, :4]
    np.testing.assert_allclose(p, raw, atol=1e-4)
    assert labels.shape == (3, 4)


def test_pads_get_no_probability_and_count_as_no_hit():
    points, queries, Y, vectors = make(200, 2, 1.0)
    few = build_index(vectors[:3], kind="exact")
    blend = NeighbourBlend(few, None, 0)
    labels, p = blend.rank(points[:4], queries[:4], 5)
    assert (labels[:, 3:] == -1).all()
    assert (p[:, 3:] == 0).all()
    everyone = csr_matrix(np.hstack([Y[:, :2].toarray(), np.ones((200, 1))]).astype(np.float32))
    blend.fit(points, queries, everyone, lambda *_: 0.0)
    assert np.isfinite(blend.numbers).all()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense_blend(examples, vectors, numbers, logits):
    """All probabilities of all labels, from brute-force cosines."""
    a, b, share, c, d = numbers
    known = examples.state()["codes"].astype(np.float64) / 127
    projected = vectors.astype(np.float64) @ examples.directions.T.astype(np.float64)
    cosines = projected / np.linalg.norm(projected, axis=1, keepdims=True) @ known.T
    scores = (1 - share) * sigmoid(a * logits + b)
    Y = examples.Y.toarray()
    for row in range(len(vectors)):
        near = np.argsort(-cosines[row], kind="stable")[:NEIGHBOURS]
        weights = np.exp(SHARPNESS * cosines[row, near])
        scores[row] += share * (weights @ Y[near] / weights.sum())
    scores = np.clip(scores, 1e-9, 1 - 1e-9)
    return sigmoid(c * np.log(scores / (1 - scores)) + d)


@pytest.mark.parametrize("share", [0.15, 0.6, 0.95])
@pytest.mark.parametrize("outer", [(1.0, 0.0), (1.7, -0.4)])
def test_blend_is_the_dense_one(share, outer):
    points, _, Y, _ = make(700, 2, 1.0)
    rng, held = np.random.default_rng(7), make(60, 3, 1.0)[0]
    examples = CompressedExamples.build(dense, csr_matrix(points), Y, seed=0)
    examples.probes = len(examples.centres)
    queries = rng.standard_normal((len(held), 9), np.float32)
    label_vectors = rng.standard_normal((LABELS, 9), np.float32)
    numbers, k = np.array([0.7, -1.5, share, *outer]), 4
    index = build_index(label_vectors, kind="exact")
    labels, scores = NeighbourBlend(index, examples, NEIGHBOURS, numbers).rank(held, queries, k)
    logits = queries.astype(np.float64) @ label_vectors.T
    expected = dense_blend(examples, held, numbers, logits)
    np.testing.assert_allclose(scores, np.sort(expected, axis=1)[:, ::-1][:, :k], atol=3e-3)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, labels, 1), atol=3e-3)
    assert all(len(set(row)) == k for row in labels)


def test_without_neighbours_the_blend_is_the_scores_alone():
    points, _, Y, _ = make(100, 2, 1.0)
    examples = CompressedExamples.build(dense, csr_matrix(points), Y[:, :3], seed=0)
    index = build_index(np.eye(3, dtype=np.float32), kind="exact")
    queries = np.array([[3.0, 2.0, 1.0]], np.float32)
    numbers = np.array([1.0, 0.0, 0.5, 1.0, 0.0])
    blend = NeighbourBlend(index, examples, 5, numbers)
    labels, scores = blend.rank(np.zeros((1, DIM), np.float32), queries, 4)
    assert labels.tolist() == [[0, 1, 2, -1]]
    np.testing.assert_allclose(scores[0, :3], 0.5 / (1 + np.exp(-queries[0])), rtol=1e-6)
    assert scores[0, 3] == 0
