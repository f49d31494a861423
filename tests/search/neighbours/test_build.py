"""Neighbours in clusters against exact search, and votes against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from labelspace.errors import InputError, ParameterError, StoreError
from labelspace.search.exact import ExactIndex
from labelspace.search.neighbours import clusters as neighbours
from labelspace.search.neighbours.clusters import (
    ClusterIndex,
    assign,
    build_neighbours,
    extend_neighbours,
    k_means,
    neighbour_bytes,
    rank_votes,
    restore_neighbours,
)
from labelspace.search.neighbours.sparse import SparseNeighbours


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def blobs(n=3000, dim=24, centres=30, seed=0):
    rng = np.random.default_rng(seed)
    middle = rng.standard_normal((centres, dim))
    rows = middle[rng.integers(centres, size=n)] + 0.5 * rng.standard_normal((n, dim))
    return unit(rows)


@pytest.fixture(scope="module")
def vectors():
    return blobs()


@pytest.fixture(scope="module")
def queries():
    return blobs(400, seed=1)  # other centres: a hard case


def found_share(index, exact, queries, k):
    wanted = exact.search(queries, k)[1][:, -1:]
    return (index.search(queries, k)[1] >= wanted).mean()


@pytest.mark.parametrize("kind", ["clusters", "quantised"])
def test_recall_is_reached_on_other_queries_and_kept(vectors, queries, kind):
    index = build_neighbours(vectors, 20, kind=kind, recall=0.95, queries=queries[:200])
    exact = build_neighbours(vectors, 20, kind="exact")
    assert index.kind == kind
    assert index.recall >= 0.95
    assert found_share(index, exact, queries[200:], 20) > 0.92


def test_all_clusters_searched_is_exact(vectors, queries):
    index = build_neighbours(vectors, 10, kind="clusters", clusters=20, probes=20)
    exact = ExactIndex(vectors)
    for one, other in zip(index.search(queries, 10), exact.search(queries, 10), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_cluster_searched_is_the_paper(vectors, queries):
    index = build_neighbours(vectors, 10, kind="clusters", clusters=15, probes=1)
    closest = assign(queries, index.centres)
    cluster_of = assign(vectors, index.centres)
    found = index.search(queries, 10)[0]
    for row in range(len(queries)):
        inside = np.flatnonzero(cluster_of == closest[row])
        best = inside[np.argsort(-(vectors[inside] @ queries[row]), kind="stable")[:10]]
        assert set(found[row].tolist()) - {-1} == set(best.tolist())


def test_auto_is_exact_for_few_and_quantised_for_many(vectors, monkeypatch):
    assert build_neighbours(vectors, 5).kind == "exact"
    monkeypatch.setattr(neighbours, "is_large", lambda n, dim: n * dim > 10_000)
    assert build_neighbours(vectors, 5).kind == "quantised"
    assert build_neighbours(vectors, 5, clusters=20).kind == "clusters"
    noise = unit(np.random.default_rng(0).standard_normal((600, 64)))
    assert build_neighbours(noise, 5, recall=1.0).kind == "exact"  # no short list finds all there


def test_one_query_is_like_many(vectors, queries):
    index = build_neighbours(vectors, 7, kind="clusters")
    labels, scores = index.search(queries[:50], 7)
    for row in range(50):
        one = index.search(queries[row : row + 1], 7)
        np.testing.assert_array_equal(one[0][0], labels[row])
        np.testing.assert_array_equal(one[1][0], scores[row])


@pytest.mark.parametrize("kind", ["exact", "clusters", "quantised"])
def test_state_and_back(vectors, queries, kind):
    index = build_neighbours(vectors, 7, kind=kind)
    again = restore_neighbours(vectors, index.state())
    assert (again.kind, again.recall, again.settings) == (index.kind, index.recall, index.settings)
    np.testing.assert_array_equal(again.search(queries, 7)[0], index.search(queries, 7)[0])


def test_clusters_that_do_not_fit_are_refused(vectors):
    state = build_neighbours(vectors, 7, kind="clusters").state()
    for name, wrong in (
        ("members", state["members"][::-1].copy()[:-1]),
        ("members", np.zeros_like(state["members"])),
        ("indptr", state["indptr"][:-1]),
        ("centres", state["centres"][:, :-1]),
    ):
        with pytest.raises(StoreError, match="do not fit"):
            restore_neighbours(vectors, {**state, name: wrong})


@pytest.mark.parametrize("kind", ["exact", "clusters", "quantised"])
def test_further_examples_are_found(vectors, kind):
    index = build_neighbours(vectors[:2000], 5, kind=kind)
    index = extend_neighbours(index, vectors)
    assert index.kind == kind
    own = index.search(vectors[2000:], 1)[0][:, 0]
    assert (own == np.arange(2000, len(vectors))).mean() > 0.98
    if kind == "clusters":
        np.testing.assert_array_equal(np.sort(index.members), np.arange(len(vectors)))


def test_k_means_finds_what_is_there():
    rng = np.random.default_rng(3)
    middle = unit(np.eye(8)[:4])
    truth = rng.integers(4, size=400)
    rows = unit(middle[truth] + 0.05 * rng.standard_normal((400, 8)))
    centres = k_means(rows, 40, seed=0)  # more clusters than groups: some begin anew
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1.0, atol=1e-5)
    cluster_of = assign(rows, centres)
    assert all(len(set(truth[cluster_of == c].tolist())) <= 1 for c in range(40))
    np.testing.assert_array_equal(centres, k_means(rows, 40, seed=0))


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
        said = 0
        for learner in range(2):
            there = near[row, learner] >= 0
            if not there.any():
                continue
            weights = (similarity[row, learner][there] / similarity[row, learner, 0]) ** 3.0
            expected += weights / weights.sum() @ dense[near[row, learner][there]]
            said += 1
        expected /= max(1, said)
        given = labels[row] >= 0
        assert set(labels[row][given].tolist()) == set(np.flatnonzero(expected).tolist())
        np.testing.assert_allclose(shares[row][given], expected[labels[row][given]], atol=1e-5)
        assert (np.diff(shares[row]) <= 0).all()


def test_power_0_counts_heads_and_distance_beyond_right_angles_says_nothing():
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


def test_wrong_questions(vectors):
    with pytest.raises(ParameterError, match="kind='tree'"):
        build_neighbours(vectors, 5, kind="tree")
    with pytest.raises(InputError, match="none are in them"):
        build_neighbours(vectors, 5, kind="clusters", queries=vectors[:0])
    assert build_neighbours(vectors[:0], 5).search(vectors[:2], 3)[0].tolist() == [[-1] * 3] * 2


def test_memory_grows():
    assert neighbour_bytes(100, 10) <= neighbour_bytes(10**6, 300)
    assert neighbour_bytes(10**6, 300, "clusters") > 10**6 * 20


def test_a_cluster_index_knows_its_settings(vectors):
    index = ClusterIndex.build(vectors, 11, seed=0)
    index.set_probes(40, recall=1.0)
    assert index.settings == {"clusters": 11, "probes": 11}


def test_a_learner_with_more_to_say_counts_more():
    Y = csr_matrix(np.eye(2, dtype=np.float32))
    near, similarity = np.array([[[0], [1]]]), np.ones((1, 2, 1), np.float32)
    labels, shares = rank_votes(near, similarity, 1.0, Y, 2, says=np.array([0.2, 0.8]))
    assert labels.tolist() == [[1, 0]]
    np.testing.assert_allclose(shares, [[0.8, 0.2]], rtol=1e-6)


def test_sparse_neighbours_grow():
    X = random(60, 30, 0.2, format="csr", random_state=0, dtype=np.float32)
    whole = SparseNeighbours.of(X).search(X, 7)
    grown = SparseNeighbours.of(X[:40]).extended(X[40:]).search(X, 7)
    for one, other in zip(whole, grown, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("density", [0.01, 0.05, 0.6])  # few meet, both ways, all meet
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


@pytest.mark.parametrize("power", [0.0, 4.0])
def test_clusters_vote_as_the_examples_they_find(vectors, queries, power):
    index = build_neighbours(vectors, 10, kind="clusters", clusters=20, probes=5)
    Y = random(len(vectors), 40, 0.1, format="csr", random_state=0, dtype=np.float32)
    near, similarities = index.search(queries, 10)
    expected = rank_votes(near[:, None], similarities[:, None], power, Y, 6)
    labels, shares = index.votes(queries, 10, power, Y, 6)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(shares, expected[1])
