"""Updates of HierarchicalXC: leaves for new labels, classifiers of what has grown."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.classifiers.tree_edges import reached, train_edges
from labelspace.classifiers.tree_weights import weights_of_children
from labelspace.errors import UnsupportedError
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from labelspace.metrics.ranking import measure
from support.fitted import restored
from support.planted import planted

SETTINGS = {"fanout": 2, "leaf_size": 3, "ensemble": 2, "keep_examples": True}


def test_new_labels_become_leaves_and_old_nodes_keep_their_places():
    X, Y = planted(300, n_labels=14, seed=2)
    model = HierarchicalXC(**SETTINGS).fit(X[:150], Y[:150, :10])
    before = [tree.parent.copy() for tree in model.trees_]
    model.partial_fit(X[150:], Y[150:])
    for tree, parents in zip(model.trees_, before, strict=True):
        used = np.flatnonzero(np.bincount(Y[150:].indices, minlength=14))
        assert (tree.node_of[used] >= 0).all()
        assert tree.is_leaf[tree.node_of[used]].all()
        assert len(tree) == len(parents) + len(used[used >= 10])
    assert measure("P@1", model.predict(X, 1), Y) > 80


def test_classifiers_that_are_due_are_those_of_a_fit_on_all_examples():
    X, Y = planted(300, seed=4)
    model = HierarchicalXC(**SETTINGS, loss="squared_hinge", validation=0.0).fit(X[:100], Y[:100])
    model.partial_fit(X[100:], Y[100:])  # three times as many: all are due
    for member, tree in enumerate(model.trees_):
        inputs = model.inputs_(model.examples_.X)
        whole = train_edges(
            *(inputs, model.examples_.Y, tree), **model.descent(member), seed=model.seed_of(member)
        )
        parents = np.arange(len(tree))
        rows = np.append(tree.first_child[:-1], len(tree))
        got = weights_of_children(model.classifiers_[member].linear, rows, parents, inputs.shape[1])
        np.testing.assert_allclose(got.toarray()[:, :-1], whole.toarray()[:, :-1], atol=0.2)
        counts = np.diff(reached(model.examples_.Y, tree).indptr)
        np.testing.assert_array_equal(model.fitted_counts_[member][1:], counts[1:])


def test_an_edge_that_was_certain_is_fitted_when_it_is_not_any_more():
    X = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]]
    Y = np.eye(3, dtype=np.float32)[[0, 0, 1, 1]]
    settings = {"tree": "kmeans", "fanout": 2, "leaf_size": 2, "keep_examples": True}
    model = HierarchicalXC(**settings, ensemble=1, validation=0.0).fit(X, Y)
    model.partial_fit(np.eye(4, dtype=np.float32)[[2, 2, 3]], Y[[0, 0, 0]] * 0 + [[0, 0, 1]])
    best = model.predict(np.eye(4, dtype=np.float32), 1).labels[:, 0]
    np.testing.assert_array_equal(best, [0, 1, 2, 2])


def test_models_that_keep_no_examples_are_not_updated_but_stay_fitted():
    X, Y = planted()
    model = HierarchicalXC(ensemble=1).fit(X, Y)
    with pytest.raises(UnsupportedError, match="keep_examples=true"):
        model.partial_fit(X, Y)
    assert model.predict(X, 1).labels.shape == (len(Y.toarray()), 1)
    networks = HierarchicalXC(ensemble=1, inputs="code", layers=(4,), node_hidden=3)
    with pytest.raises(UnsupportedError, match="node_hidden"):
        networks.fit(X, Y).partial_fit(X, Y)


def test_codes_are_updated_too_and_restored():
    X, Y = planted(200, n_labels=14, seed=2)
    model = HierarchicalXC(**SETTINGS, inputs="both", layers=(6,)).fit(X[:100], Y[:100, :12])
    model.partial_fit(X[100:], Y[100:])
    again = restored(model, model.state())
    np.testing.assert_array_equal(again.predict(X, 5).labels, model.predict(X, 5).labels)
