"""The label graph against its definition on sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.data.taxonomy import Taxonomy
from labelspace.labels.cooccurrence import CooccurrenceTarget
from labelspace.labels.graph import cooccurrence_graph, taxonomy_graph


@pytest.fixture
def Y():
    labels = np.random.default_rng(0).random((40, 15)) < 0.15
    labels[:, 3] = False  # no example
    labels[:, 4] = False
    labels[5] = False
    labels[5, 4] = True  # one example, alone in it
    return csr_matrix(labels.astype(np.float32))


def edges(graph):
    return set(zip(*(ends.tolist() for ends in graph.nonzero()), strict=True))


def test_an_edge_where_two_labels_ever_share_an_example(Y):
    together = set()
    for row in range(Y.shape[0]):
        for one, other in combinations(Y[row].indices.tolist(), 2):
            together |= {(one, other), (other, one)}
    graph = cooccurrence_graph(Y)
    assert edges(graph) == together
    assert (graph.data == 1).all()
    assert graph.has_sorted_indices
    assert graph[3].nnz == graph[4].nnz == 0


def test_weights_are_the_measure_off_the_diagonal(Y):
    graph = cooccurrence_graph(Y, weights="jaccard").toarray()
    measure = CooccurrenceTarget(Y, "jaccard").U.toarray()
    np.fill_diagonal(measure, 0.0)
    np.testing.assert_array_equal(graph, measure)


def test_a_taxonomy_links_child_and_parent_both_ways():
    pairs = [("cat", "animal"), ("dog", "animal"), ("animal", "thing")]
    taxonomy = Taxonomy.from_names(pairs, ["cat", "dog", "stone"])
    graph = taxonomy_graph(taxonomy)
    number = {name: i for i, name in enumerate(taxonomy.node_names)}
    expected = {(number[a], number[b]) for a, b in pairs}
    assert edges(graph) == expected | {(b, a) for a, b in expected}
    assert graph.shape == (5, 5)
    assert graph[number["stone"]].nnz == 0


def test_the_estimate_covers_what_is_kept(Y):
    graph = cooccurrence_graph(Y)
    kept = graph.data.nbytes + graph.indices.nbytes
    assert 12 * Shape.of(Y, Y).cooccurrences() >= kept
