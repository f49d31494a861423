"""DeepWalk: nodes of a group are similar, the same seed gives the same bits, nothing is printed."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_matrix

from labelspace.labels.deepwalk import _skip_gram, deepwalk
from labelspace.labels.walks import RandomWalks


@pytest.fixture(scope="module")
def two_groups():
    """Two groups of ten, all linked within and by one edge across, and two nodes without edges."""
    group = np.ones((10, 10), np.float32) - np.eye(10, dtype=np.float32)
    graph = block_diag([group, group, np.zeros((2, 2))]).tolil()
    graph[0, 10] = graph[10, 0] = 1
    found = csr_matrix(graph, dtype=np.float32)
    found.eliminate_zeros()
    return found


@pytest.fixture(scope="module")
def vectors(two_groups):
    return deepwalk(two_groups, 16, walks=40, length=10)


def test_vectors_are_similar_within_groups(vectors):
    similarity = vectors[:20] @ vectors[:20].T
    within = similarity[:10, :10].mean() + similarity[10:, 10:].mean()
    across = 2 * similarity[:10, 10:].mean()
    assert within > across + 0.5


def test_every_node_has_a_vector_of_length_1(vectors):
    assert vectors.shape == (22, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[20] @ vectors[21] < 0.9  # nodes without edges differ


def test_same_seed_same_bits(two_groups, vectors):
    np.testing.assert_array_equal(vectors, deepwalk(two_groups, 16, walks=40, length=10))
    other = deepwalk(two_groups, 16, walks=40, length=10, seed=1)
    assert not np.array_equal(vectors, other)


def test_a_graph_without_edges():
    found = deepwalk(csr_matrix((5, 5), dtype=np.float32), 8)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)


def test_nothing_is_printed(two_groups, capfd, caplog):
    with caplog.at_level(logging.WARNING):
        deepwalk(two_groups, 4, walks=2, length=5)
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def star():
    """Node 4 is linked to 0, 1, 2, 3 and 6; nodes 5 and 7 have no edges."""
    graph = np.zeros((8, 8), np.float32)
    graph[4, [0, 1, 2, 3, 6]] = graph[[0, 1, 2, 3, 6], 4] = 1
    return csr_matrix(graph)


def test_negatives_are_drawn_and_codes_are_made_by_the_nodes_own_frequencies(star):
    walks = RandomWalks(star, per_node=10, length=10)
    drawn = np.diff(_skip_gram(walks, 4, 2, 5, 0).cum_table.astype(float), prepend=0)
    expected = np.array([1, 1, 1, 1, 5, 1]) ** 0.75  # word2vec's power of the degree
    np.testing.assert_allclose(drawn / drawn.sum(), expected / expected.sum(), atol=1e-3)
    by_softmax = _skip_gram(walks, 4, 2, 0, 0)
    lengths = [len(code) for code in by_softmax.wv.expandos["code"]]
    assert np.argmin(lengths) == 4  # the most frequent has the shortest Huffman code
    assert sum(2.0**-length for length in lengths) == 1.0
    assert not hasattr(by_softmax, "syn1neg")


def test_hierarchical_softmax_finds_the_groups(two_groups):
    vectors = deepwalk(two_groups, 16, walks=40, length=10, negatives=0)[:20]
    similarity = vectors @ vectors.T
    assert similarity[:10, :10].mean() > similarity[:10, 10:].mean() + 0.25


def test_vectors_as_they_are_have_the_same_directions(two_groups, vectors, star):
    plain = deepwalk(two_groups, 16, walks=40, length=10, unit=False)
    lengths = np.linalg.norm(plain, axis=1)
    assert np.ptp(lengths) > 0.01
    np.testing.assert_allclose(plain / lengths[:, None], vectors, atol=1e-5)
    # Nodes without edges stay where training starts, near 0.
    assert (lengths[20:] < 0.5).all()
    assert np.isfinite(deepwalk(star, 4, walks=2, length=5, negatives=0, unit=False)).all()
