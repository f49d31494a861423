"""Random walks: on edges only, even or by weight, and the same however many threads make them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace._core import threads as parallel
from labelspace.errors import InputError, ParameterError
from labelspace.labels import walks as walks_module
from labelspace.labels.walks import RandomWalks


def random_graph(n=30, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.2, 1)
    links[:, -1] = False  # the last node has no edge
    weights = links * (rng.uniform(0.5, 5.0, (n, n)) if weighted else 1.0)
    return csr_matrix((weights + weights.T).astype(np.float32))


def all_walks(*args, **options):
    return np.concatenate(list(RandomWalks(*args, **options).blocks()))


@pytest.mark.parametrize("weighted", [False, True])
def test_walks_follow_edges_and_begin_everywhere(weighted):
    graph = random_graph(weighted=weighted)
    found = all_walks(graph, per_node=7, length=9)
    linked = np.flatnonzero(np.diff(graph.indptr))
    assert found.shape == (7 * len(linked), 9)
    np.testing.assert_array_equal(np.bincount(found[:, 0], minlength=30)[linked], 7)
    assert (np.asarray(graph[found[:, :-1].ravel(), found[:, 1:].ravel()]) > 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_steps_are_drawn_by_weight(weighted):
    graph = random_graph(weighted=weighted)
    found = all_walks(graph, per_node=400, length=20, seed=5)
    counts = np.zeros(graph.shape)
    np.add.at(counts, (found[:, :-1].ravel(), found[:, 1:].ravel()), 1)
    dense = graph.toarray().astype(np.float64)
    linked = dense.sum(1) > 0
    expected = dense[linked] / dense[linked].sum(1, keepdims=True)
    totals = counts[linked].sum(1, keepdims=True)
    errors = np.abs(counts[linked] / totals - expected)
    assert (errors <= 5 * np.sqrt(expected * (1 - expected) / totals) + 1e-9).all()


def test_threads_change_nothing(monkeypatch):
    graph = random_graph(200)
    monkeypatch.setattr(walks_module, "_WALKS_PER_TASK", 7)
    many = all_walks(graph, per_node=3, length=12, seed=4)
    monkeypatch.setattr(walks_module, "_WALKS_PER_TASK", 10_000)
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    np.testing.assert_array_equal(many, all_walks(graph, per_node=3, length=12, seed=4))


def test_blocks_are_bounded_and_the_stream_restarts(monkeypatch):
    monkeypatch.setattr(walks_module, "WALKS_PER_BLOCK", 8)
    stream = RandomWalks(random_graph(), per_node=2, length=5)
    first = list(stream.blocks())
    assert max(len(block) for block in first) == 8
    assert sum(len(block) for block in first) == len(stream)
    for one, other in zip(first, stream.blocks(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rounds_walks_and_seeds_differ():
    found = all_walks(random_graph(), per_node=2, length=20)
    assert len(np.unique(found, axis=0)) == len(found)
    assert not np.array_equal(found, all_walks(random_graph(), per_node=2, length=20, seed=1))


def test_a_graph_without_edges_has_no_walks():
    stream = RandomWalks(csr_matrix((4, 4), dtype=np.float32))
    assert len(stream) == 0
    assert list(stream.blocks()) == []


def test_graphs_that_walks_get_stuck_in_are_refused():
    with pytest.raises(InputError, match="stuck"):
        RandomWalks(csr_matrix(np.array([[0, 1], [0, 0]], np.float32)))
    with pytest.raises(InputError, match="above 0"):
        RandomWalks(csr_matrix(np.array([[0, -1], [-1, 0]], np.float32)))
    with pytest.raises(ParameterError, match="length=0"):
        RandomWalks(random_graph(), length=0)
