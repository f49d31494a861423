"""Classifiers of siblings, side by side, against those of one edge after another."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from labelspace._core import threads
from labelspace.classifiers.dual_descent import solve
from labelspace.classifiers.dual_descent_loops import Settings
from labelspace.classifiers.lanes import LANES
from labelspace.classifiers.siblings import solve_sibling_edges
from labelspace.classifiers.tree_edges import edge_tasks, reached
from labelspace.labels.tree import LabelTree

EXACT = Settings(1.0, 1e-6, 5000, 0.0, 0)
USUAL = EXACT._replace(tolerance=0.1, passes=20, prune=0.1)


@pytest.fixture(scope="module")
def problem():
    """Return X, the examples of each node, and a tree: more siblings than lanes, and few."""
    rng = np.random.default_rng(0)
    X = random(300, 60, 0.2, format="csr", random_state=0, dtype=np.float32)
    n_labels = LANES + 9
    # Two inner nodes below the root, one with most of the labels; label 0 is a child of its own.
    parent = np.array([-1, 0, 0, *np.where(np.arange(n_labels) < LANES + 4, 1, 2)])
    label = np.array([-1, -1, -1, *range(n_labels)])
    tree = LabelTree.from_parents(parent, label, n_labels)
    scores = X @ rng.standard_normal((60, n_labels)).astype(np.float32)
    Y = csr_matrix((scores >= np.sort(scores, axis=1)[:, -2:-1]).astype(np.float32))
    return X, reached(Y, tree), tree


def test_weights_are_those_of_one_edge_after_another(problem):
    X, reach, tree = problem
    nodes = np.arange(1, len(tree))
    found = solve_sibling_edges(X, reach, tree, nodes, EXACT)
    expected = solve(
        X, edge_tasks(reach, tree, nodes), C=1.0, tolerance=1e-6, passes=5000, prune=0.0
    )
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    assert found.has_sorted_indices
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-3)


def test_weights_depend_neither_on_threads_nor_on_other_parents(problem, monkeypatch):
    X, reach, tree = problem
    nodes = np.arange(1, len(tree))
    whole = solve_sibling_edges(X, reach, tree, nodes, USUAL)
    below = nodes[tree.parent[nodes] == 2]
    for n_threads in (1, 7):
        monkeypatch.setattr(threads, "cores", lambda n=n_threads: n)
        monkeypatch.setattr(threads, "_pool", None)
        assert (solve_sibling_edges(X, reach, tree, nodes, USUAL) != whole).nnz == 0
        part = solve_sibling_edges(X, reach, tree, below, USUAL)
        assert (part != whole[below - 1]).nnz == 0
    assert part.nnz
    assert (solve_sibling_edges(X, reach, tree, nodes, USUAL._replace(seed=1)) != whole).nnz


def test_a_node_that_all_examples_of_its_parent_reach_has_no_weights():
    X = csr_matrix(np.eye(4, dtype=np.float32))
    tree = LabelTree.from_parents(np.array([-1, 0, 0]), np.array([-1, 0, 1]), 2)
    Y = csr_matrix(np.array([[1, 0], [1, 1], [1, 0], [1, 1]], np.float32))
    found = solve_sibling_edges(X, reached(Y, tree), tree, np.array([1, 2]), USUAL)
    assert np.diff(found.indptr)[0] == 0
    assert (np.sign(found.toarray()[1, :4]) == [-1, 1, -1, 1]).all()


def test_small_weights_are_dropped_but_not_biases(problem):
    X, reach, tree = problem
    nodes = np.arange(1, len(tree))
    found = solve_sibling_edges(X, reach, tree, nodes, USUAL)
    exact = solve_sibling_edges(X, reach, tree, nodes, USUAL._replace(prune=0.0)).toarray()
    kept = np.abs(exact) >= 0.1
    kept[:, -1] = True
    np.testing.assert_array_equal(found.toarray(), np.where(kept, exact, 0.0))
