"""Networks at the nodes of a tree: forward pass, gradients by differences, what they fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_matrix

import labelspace._core.threads
from labelspace.classifiers.tree_edges import reached
from labelspace.classifiers.tree_networks import _add_gradients, _fresh, train_networks
from labelspace.classifiers.tree_search import Classifiers, Search, find_labels
from labelspace.classifiers.tree_weights import NO_EDGE_WEIGHTS
from labelspace.errors import ParameterError
from labelspace.labels.tree import LabelTree
from labelspace.methods.hierarchicalxc.method import SEARCHES, HierarchicalXC
from support.planted import planted

CODE, WIDTH = 6, 5


def bushy_tree(rng, n_labels=9):
    """Return a tree of a root, three inner nodes and labels below these."""
    homes = 1 + np.concatenate([[0, 1, 2], rng.integers(0, 3, n_labels - 3)])
    parent = np.concatenate([[-1, 0, 0, 0], homes])
    label = np.concatenate([np.full(4, -1), rng.permutation(n_labels)])
    return LabelTree.from_parents(parent, label, n_labels)


def fresh(rng, tree):
    number = np.where(tree.is_leaf, -1, (~tree.is_leaf).cumsum() - 1).astype(np.int32)
    networks = _fresh(number, CODE, WIDTH, rng)
    networks.hidden[:, -1] = rng.standard_normal((4, WIDTH))
    networks.outputs[:, -1] = rng.standard_normal(len(tree))
    return networks


def margins_of(networks, tree, X, node):
    """Return the margins of a node's children in float64, an array (examples, children)."""
    dense = np.hstack([X.toarray(), np.ones((X.shape[0], 1))])
    active = np.maximum(dense @ networks.hidden[networks.number[node]].astype(np.float64), 0)
    outputs = networks.outputs[list(tree.children(node))].astype(np.float64)
    return active @ outputs[:, :-1].T + outputs[:, -1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([0, 1]))
def test_search_scores_equal_a_dense_forward_pass(seed, hinge, kind):
    rng = np.random.default_rng(seed)
    tree = bushy_tree(rng)
    networks = fresh(rng, tree)
    X = csr_matrix(random_matrix(7, CODE, 0.7, "csr", np.float32, rng))
    model = Classifiers.of(tree, NO_EDGE_WEIGHTS, networks)
    labels, logs, _ = find_labels(X, model, Search(kind, 10, 0.5, hinge), tree.n_labels)
    edges = np.zeros((7, len(tree)))
    for node in np.flatnonzero(~tree.is_leaf):
        margins = margins_of(networks, tree, X, node)
        log = -np.logaddexp(0, -margins * (4.0 if hinge else 1.0))
        edges[:, list(tree.children(node))] = log
    for label, node in enumerate(tree.node_of):
        found = logs[np.arange(7), np.argmax(labels == label, axis=1)]
        np.testing.assert_allclose(found, edges[:, tree.path(int(node))].sum(axis=1), atol=1e-4)


def mean_loss(networks, tree, X, targets, node, hinge):
    margins = margins_of(networks, tree, X, node)
    if hinge:
        losses = np.maximum(0, 1 - np.where(targets, margins, -margins)) ** 2
    else:
        losses = np.logaddexp(0, np.where(targets, -margins, margins))
    return losses.sum(axis=1).mean()


@pytest.mark.parametrize("hinge", [False, True])
@pytest.mark.parametrize("node", [0, 2])
def test_gradients_equal_finite_differences_of_the_loss(hinge, node):
    rng = np.random.default_rng(8)
    tree = bushy_tree(rng)
    networks = fresh(rng, tree)
    X = csr_matrix(random_matrix(40, CODE, 0.7, "csr", np.float32, rng))
    Y = csr_matrix((rng.random((40, tree.n_labels)) < 0.2).astype(np.float32))
    reach = reached(Y, tree)
    batch = reach[node].indices
    paths = csr_matrix(reach.T)
    first, last = tree.first_child[node : node + 2]
    hidden, outputs = networks.hidden[networks.number[node]], networks.outputs[first:last]
    gradients = np.zeros_like(hidden), np.zeros_like(outputs)
    _add_gradients(
        *((X.indptr, X.indices, X.data), (paths.indptr, paths.indices), batch),
        *(first, hidden, outputs, gradients, hinge),
    )
    targets = reach[first:last].toarray().T[batch]

    def loss():
        return mean_loss(networks, tree, X[batch], targets, node, hinge)

    step = 1e-3
    for weights, gradient in zip((hidden, outputs), gradients, strict=True):
        for place in np.ndindex(weights.shape):
            before = weights[place]
            weights[place] = before + step
            above = loss()
            weights[place] = before - step
            below = loss()
            weights[place] = before
            # float32 weights: the distance between the two is not quite twice the step.
            assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=6e-3)


def exclusive_or(n=400, seed=0):
    """Return two bits as one-hot pairs, with label 0 where exactly one is set, else label 1."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, 2))
    X = np.eye(2, dtype=np.float32)[bits].reshape(n, 4)
    Y = np.eye(2, dtype=np.float32)[(bits[:, 0] == bits[:, 1]).astype(int)]
    return csr_matrix(X), csr_matrix(Y)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_a_network_learns_exclusive_or_and_a_linear_classifier_does_not(loss):
    X, Y = exclusive_or()
    truth = Y.toarray().argmax(axis=1)
    options = {"inputs": "code", "layers": (4,), "loss": loss, "C": 100.0, "ensemble": 1}
    deep = HierarchicalXC(**options, node_hidden=8).fit(X, Y).predict(X, 1).labels[:, 0]
    flat = HierarchicalXC(**options).fit(X, Y).predict(X, 1).labels[:, 0]
    assert (deep == truth).all()
    assert (flat == truth).mean() < 0.8


@pytest.mark.parametrize("search", SEARCHES)
def test_networks_predict_planted_labels_with_every_search(search):
    X, Y = planted(400, n_features=60, n_labels=20, seed=3)
    model = HierarchicalXC(
        inputs="code", layers=(40,), node_hidden=16, search=search, leaf_size=4, fanout=3
    ).fit(X[:300], Y[:300])
    best = model.predict(X[300:], 1).labels[:, 0]
    assert Y[300:].toarray()[np.arange(100), best].mean() > 0.75


def test_threads_do_not_change_the_weights_and_seeds_do(monkeypatch):
    rng = np.random.default_rng(2)
    tree = bushy_tree(rng)
    X = csr_matrix(random_matrix(60, CODE, 0.7, "csr", np.float32, rng))
    Y = csr_matrix((rng.random((60, tree.n_labels)) < 0.2).astype(np.float32))

    def hidden(cores, seed=0):
        monkeypatch.setattr(labelspace._core.threads, "cores", lambda: cores)
        return train_networks(X, Y, tree, width=WIDTH, loss="logistic", C=1.0, seed=seed).hidden

    assert np.array_equal(hidden(1), hidden(3))
    assert not np.array_equal(hidden(1), hidden(1, seed=1))


@pytest.mark.parametrize("inputs", ["raw", "both"])
def test_networks_need_a_code(inputs):
    with pytest.raises(ParameterError, match=r"node_hidden=8.*inputs=code"):
        HierarchicalXC(inputs=inputs, node_hidden=8).check_parameters()
