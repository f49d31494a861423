"""The blend of scores and votes: its share is the best, and its probabilities are calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.neighbour_blend import (
    DEFAULT_SHARE,
    NEIGHBOUR_SHARES,
    BlendParameters,
    NeighbourBlend,
    blend,
)
from labelspace.errors import ModelFormatError
from labelspace.metrics.ranking import evaluate
from labelspace.ranking import Ranking
from labelspace.search.build import build_index
from labelspace.search.neighbours.compressed import CompressedExamples
from labelspace.search.neighbours.voting import SHARPNESS

DIM, LABELS, NEIGHBOURS = 12, 20, 8


def dense(X):
    return np.asarray(X.toarray(), np.float32)


def make(n, seed, signal):
    """Draw points, queries and labels: a point's labels are likely those of its direction.

    `signal` is the share of its point in a query; the rest is noise.
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
    model = NeighbourBlend(build_index(vectors, kind="exact"), voters, neighbours)

    def score(labels, scores):
        return evaluate(Ranking(labels, scores), Y_held, Y, ks=(5,), bands=False)["nDCG@5"]

    model.fit(held, queries, Y_held, score)
    return model, held, queries, score


@pytest.mark.parametrize("signal", [0.0, 0.6, 1.0])
def test_the_share_maximises_the_score(signal):
    model, held, queries, score = fitted(signal)
    chosen, found = model.parameters.neighbour_share, {}
    for share in NEIGHBOUR_SHARES:
        model.parameters = model.parameters._replace(neighbour_share=share)
        found[share] = score(*model.rank(held, queries, 5))
    assert found[chosen] == pytest.approx(max(found.values()), abs=1e-9)
    if signal == 0.0:
        assert found[chosen] > 1.2 * found[0.0]  # scores are noise here
    if signal == 1.0:
        assert found[0.0] > 0.9 * found[chosen]


def test_probabilities_are_how_often_the_labels_are_right():
    model, *_ = fitted(0.8)
    points, queries, Y, _ = make(3000, 4, 0.8)
    labels, p = model.rank(points, queries, 10)
    hits = Y.toarray()[np.arange(3000)[:, None], labels]
    assert abs(hits.mean() - p.mean()) < 0.02
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1.0)):
        among = (p >= low) & (p < high)
        if among.sum() > 200:
            assert abs(hits[among].mean() - p[among].mean()) < 0.06
    assert (np.diff(p, axis=1) <= 0).all()
    assert p.dtype == np.float32


def test_without_voters_it_is_the_index_alone():
    model, held, queries, _ = fitted(0.6, neighbours=0)
    labels, p = model.rank(held, queries, 7)
    expected, logits = model.index.search(queries, 7)
    assert np.array_equal(labels, expected)
    a, b, share, slope, offset = model.parameters
    assert share == 0
    line = slope * (a * logits.astype(np.float64) + b) + offset
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-line)), atol=1e-6)


def test_a_share_of_zero_is_the_index_alone():
    with_voters, held, queries, _ = fitted(1.0)
    with_voters.parameters = with_voters.parameters._replace(neighbour_share=0.0)
    alone = NeighbourBlend(with_voters.index, None, 0, with_voters.parameters)
    for one, other in zip(
        with_voters.rank(held, queries, 5), alone.rank(held, queries, 5), strict=True
    ):
        assert np.array_equal(one, other)


def test_what_has_no_validation_cut_votes_a_little():
    points, queries, Y, vectors = make(300, 2, 1.0)
    index = build_index(vectors, kind="exact")
    assert NeighbourBlend(index, None, 0).parameters.neighbour_share == 0
    model = NeighbourBlend(
        index, CompressedExamples.build(dense, csr_matrix(points), Y, seed=0), NEIGHBOURS
    )
    assert model.parameters.neighbour_share == DEFAULT_SHARE
    labels, p = model.rank(points[:3], queries[:3], 4)
    near, cosines = model.voters.nearest(points[:3], NEIGHBOURS)
    weights = np.exp(20 * cosines) / np.exp(20 * cosines).sum(axis=1, keepdims=True)
    votes = np.einsum("rn,rnl->rl", weights, Y.toarray()[near])
    own = 1 / (1 + np.exp(-queries[:3] @ vectors.T))
    raw = np.sort((1 - DEFAULT_SHARE) * own + DEFAULT_SHARE * votes, axis=1)[:, ::-1][:, :4]
    np.testing.assert_allclose(p, raw, atol=1e-4)
    assert labels.shape == (3, 4)


def test_pads_get_no_probability_and_count_as_no_hit():
    points, queries, Y, vectors = make(200, 2, 1.0)
    few = build_index(vectors[:3], kind="exact")
    model = NeighbourBlend(few, None, 0)
    labels, p = model.rank(points[:4], queries[:4], 5)
    assert (labels[:, 3:] == -1).all()
    assert (p[:, 3:] == 0).all()
    everyone = csr_matrix(np.hstack([Y[:, :2].toarray(), np.ones((200, 1))]).astype(np.float32))
    model.fit(points, queries, everyone, lambda *_: 0.0)
    assert np.isfinite(model.parameters).all()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense_blend(voters, vectors, neighbours, parameters, queries, label_vectors):
    """Return the probabilities of all labels, from brute-force cosines."""
    a, b, share, c, d = parameters
    known = voters.codes_in_order().astype(np.float64) / 127
    points = vectors.astype(np.float64) @ voters.directions.T.astype(np.float64)
    cosines = points / np.linalg.norm(points, axis=1, keepdims=True) @ known.T
    own = sigmoid(a * queries.astype(np.float64) @ label_vectors.T + b)
    Y = voters.Y.toarray()
    scores = np.empty_like(own)
    for row in range(len(vectors)):
        near = np.argsort(-cosines[row], kind="stable")[:neighbours]
        weights = np.exp(SHARPNESS * cosines[row, near])
        votes = weights @ Y[near] / weights.sum()
        scores[row] = (1 - share) * own[row] + share * votes
    scores = np.clip(scores, 1e-9, 1 - 1e-9)
    return sigmoid(c * np.log(scores / (1 - scores)) + d)


@pytest.fixture(scope="module")
def voters():
    points, _, Y, _ = make(700, 0, 1.0)
    found = CompressedExamples.build(dense, csr_matrix(points), Y, seed=0)
    found.probes = len(found.centres)
    return found


@pytest.mark.parametrize("share", [0.15, 0.6, 0.95])
@pytest.mark.parametrize("final", [(1.0, 0.0), (1.7, -0.4)])
def test_blend_is_the_dense_one(voters, share, final):
    rng = np.random.default_rng(7)
    vectors = make(60, 1, 1.0)[0]
    queries = rng.standard_normal((60, 9), np.float32)
    label_vectors = rng.standard_normal((LABELS, 9), np.float32)
    parameters, k = BlendParameters(0.7, -1.5, share, *final), 4
    best = np.argsort(-queries @ label_vectors.T, axis=1)[:, :k]
    near = voters.nearest(vectors, 8)
    labels, scores = blend(near, voters.Y, parameters, queries, label_vectors, best, k)
    expected = dense_blend(voters, vectors, 8, parameters, queries, label_vectors)
    np.testing.assert_allclose(scores, np.sort(expected, axis=1)[:, ::-1][:, :k], atol=3e-3)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, labels, 1), atol=3e-3)
    assert all(len(set(row)) == k for row in labels)


def test_without_neighbours_the_blend_is_the_scores_alone(voters):
    label_vectors = np.eye(LABELS, 3, dtype=np.float32)
    queries = np.array([[3.0, 2.0, 1.0]], np.float32)
    near = voters.nearest(np.zeros((1, DIM), np.float32), 5)
    parameters, best = BlendParameters(neighbour_share=0.5), np.array([[0, 1, 2, -1]])
    labels, scores = blend(near, voters.Y, parameters, queries, label_vectors, best, 4)
    assert labels.tolist() == [[0, 1, 2, -1]]
    np.testing.assert_allclose(scores[0, :3], 0.5 / (1 + np.exp(-queries[0])), rtol=1e-6)
    assert scores[0, 3] == 0


def test_a_share_out_of_range_is_refused():
    assert BlendParameters.restore(np.array([1.0, 0, 0.3, 1, 0])).neighbour_share == 0.3
    for share in (-0.1, 1.1, 1e30):
        with pytest.raises(ModelFormatError, match="share of the votes"):
            BlendParameters.restore(np.array([1.0, 0, share, 1, 0]))
