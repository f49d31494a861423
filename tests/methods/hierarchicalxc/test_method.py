"""HierarchicalXC: search compared with brute force, training problems, trees of any shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_matrix

from labelspace._core.sparse import unit_rows
from labelspace.classifiers.tree_edges import edge_tasks, reached, train_edges
from labelspace.classifiers.tree_networks import NO_NETWORKS
from labelspace.classifiers.tree_search import Classifiers, Search, averaged, find_labels
from labelspace.classifiers.tree_weights import lay_out
from labelspace.data.taxonomy import Taxonomy
from labelspace.labels.clustering import TREE_KINDS
from labelspace.labels.tree import LabelTree
from labelspace.methods.hierarchicalxc.method import SEARCHES, HierarchicalXC
from labelspace.metrics.ranking import evaluate
from support.planted import planted

N_FEATURES = 15


def grown_tree(rng, n_inner, n_labels):
    """Return a random tree with labels on all its leaves."""
    inner = np.array([-1, *(rng.integers(0, node) for node in range(1, n_inner))])
    bare = np.setdiff1d(np.arange(n_inner), inner)
    leaf_parents = np.concatenate([bare, rng.integers(0, n_inner, max(0, n_labels - len(bare)))])
    labels = rng.permutation(len(leaf_parents))
    return LabelTree.from_parents(
        np.concatenate([inner, leaf_parents]),
        np.concatenate([np.full(n_inner, -1), labels]),
        len(leaf_parents),
    )


@st.composite
def models(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tree = grown_tree(rng, draw(st.integers(1, 12)), draw(st.integers(1, 30)))
    weights = random_matrix(len(tree), N_FEATURES + 1, 0.3, "csr", np.float32, rng)
    weights.data = rng.standard_normal(weights.nnz).astype(np.float32)
    X = csr_matrix(random_matrix(6, N_FEATURES, 0.4, "csr", np.float32, rng))
    return tree, weights, X


def linear(tree, weights):
    return Classifiers.of(tree, lay_out(tree, weights), NO_NETWORKS)


def edge_logs(weights, X, hinge):
    """Return log P(node | parent, x) as an array (examples, nodes)."""
    margins = X.toarray() @ weights.toarray()[:, :-1].T + weights.toarray()[:, -1]
    return -np.logaddexp(0, -margins * (4.0 if hinge else 1.0))


def brute_force(tree, weights, X, hinge):
    """Return the log path probability of all labels as an array (examples, labels)."""
    logs = edge_logs(weights, X, hinge).astype(np.float64)
    paths = np.empty((X.shape[0], tree.n_labels))
    for label, node in enumerate(tree.node_of):
        paths[:, label] = logs[:, tree.path(int(node))[1:]].sum(axis=1)
    return paths


@settings(max_examples=60, deadline=None)
@given(models(), st.booleans(), st.integers(1, 8))
def test_best_first_search_equals_brute_force(model, hinge, k):
    tree, weights, X = model
    labels, logs, scored = find_labels(X, linear(tree, weights), Search(0, 1, 0.5, hinge), k)
    paths = brute_force(tree, weights, X, hinge)
    expected = -np.sort(-paths, axis=1)[:, :k]
    width = expected.shape[1]
    np.testing.assert_allclose(logs[:, :width], expected, atol=1e-5)
    assert (labels[:, width:] == -1).all()
    np.testing.assert_allclose(np.take_along_axis(paths, labels[:, :width], 1), expected, atol=1e-5)
    assert (scored <= (~tree.is_leaf).sum()).all()


@settings(max_examples=60, deadline=None)
@given(models(), st.booleans(), st.integers(1, 8))
def test_an_unlimited_beam_equals_best_first(model, hinge, k):
    tree, weights, X = model
    classifiers = linear(tree, weights)
    best = find_labels(X, classifiers, Search(0, 1, 0.5, hinge), k)
    beam = find_labels(X, classifiers, Search(1, 10**9, 0.5, hinge), k)
    assert np.array_equal(best[0], beam[0])
    assert np.array_equal(best[1], beam[1])
    narrow = find_labels(X, classifiers, Search(1, 1, 0.5, hinge), k)[1]
    assert (narrow <= best[1]).all()


@settings(max_examples=20, deadline=None)
@given(models(), st.integers(0, 2))
def test_search_scales_rows_to_length_1(model, kind):
    tree, weights, X = model
    classifiers = linear(tree, weights)
    long = csr_matrix(X * np.float32(7.0))
    _, logs, _ = find_labels(long, classifiers, Search(kind, 3, 0.5, True, unit=True), 4)
    expected = find_labels(unit_rows(X), classifiers, Search(kind, 3, 0.5, True), 4)
    np.testing.assert_allclose(logs, expected[1], atol=1e-4)


def traversed(tree, edges, node, limit, above=0.0):
    """Return label -> log path probability by the paper's recursion for one example."""
    found = {}
    for child in tree.children(node):
        if edges[child] < limit:
            continue
        if tree.is_leaf[child]:
            found[int(tree.label[child])] = above + edges[child]
        else:
            found |= traversed(tree, edges, child, limit, above + edges[child])
    return found


@settings(max_examples=60, deadline=None)
@given(models(), st.booleans(), st.sampled_from([0.1, 0.4, 0.9]))
def test_hard_search_equals_the_papers_recursion(model, hinge, threshold):
    tree, weights, X = model
    search = Search(2, 1, threshold, hinge)
    labels, logs, _ = find_labels(X, linear(tree, weights), search, tree.n_labels)
    edges = edge_logs(weights, X, hinge)
    for row in range(X.shape[0]):
        expected = traversed(tree, edges[row], 0, np.log(threshold))
        found = dict(zip(labels[row].tolist(), logs[row].tolist(), strict=True))
        found.pop(-1, None)
        assert found.keys() == expected.keys()
        for label, log in expected.items():
            assert found[label] == pytest.approx(log, abs=1e-5)


def test_a_label_that_a_tree_did_not_find_has_probability_zero_there():
    one = np.array([[4, 2, -1]]), np.log([[0.8, 0.4, 1e-300]])
    other = np.array([[2, 7, 4]]), np.log([[0.6, 0.5, 0.1]])
    labels, scores = averaged([one, other], 4)
    assert labels.tolist() == [[2, 4, 7, -1]]
    np.testing.assert_allclose(scores, [[0.5, 0.45, 0.25, 0.0]])


def test_examples_of_a_classifier_are_those_that_reach_its_parent():
    rng = np.random.default_rng(5)
    tree = grown_tree(rng, 8, 20)
    Y = csr_matrix((rng.random((30, tree.n_labels)) < 0.08).astype(np.float32))
    reach = reached(Y, tree)
    expected = np.array(
        [
            np.asarray(Y[:, tree.labels_below(node)].sum(axis=1)).ravel() > 0
            for node in range(len(tree))
        ]
    )
    assert np.array_equal(reach.toarray(), expected)
    tasks = edge_tasks(reach, tree, np.arange(3, len(tree)))
    for task, node in enumerate(range(3, len(tree))):
        rows = tasks.rows[tasks.indptr[task] : tasks.indptr[task + 1]]
        positive = tasks.positive[tasks.indptr[task] : tasks.indptr[task + 1]]
        above = np.flatnonzero(expected[tree.parent[node]])
        certain = expected[node].sum() == len(above)
        assert rows.tolist() == ([] if certain else above.tolist())
        assert rows[positive].tolist() == (
            [] if certain else np.flatnonzero(expected[node]).tolist()
        )


@pytest.fixture(scope="module")
def data():
    X, Y = planted(500, n_features=60, n_labels=20, seed=3)
    return (X[:400], Y[:400]), (X[400:], Y[400:])


def precision(model, data, k=1, **options):
    (X, Y), (X_test, Y_test) = data
    return evaluate(model.fit(X, Y, **options).predict(X_test, 5), Y_test, bands=False)[f"P@{k}"]


TAXONOMY = Taxonomy.from_names(
    [(str(n), str(n // 3)) for n in range(3, 20)], [str(n) for n in range(20)]
)


@pytest.mark.parametrize("tree", TREE_KINDS)
def test_planted_labels_are_predicted_by_every_kind_of_tree(data, tree):
    model = HierarchicalXC(tree=tree, fanout=2, leaf_size=4, ensemble=1)
    assert precision(model, data, taxonomy=TAXONOMY) > 75
    assert model.trees_[0].depth.max() > 1


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "logistic"},
        {"loss": "squared_hinge"},
        {"ensemble": 3},
        {"inputs": "code", "layers": (40,)},
        {"inputs": "both", "layers": (10,)},
        *({"search": search} for search in SEARCHES),
    ],
)
def test_planted_labels_are_predicted_with_every_option(data, options):
    assert precision(HierarchicalXC(**{"leaf_size": 4, "fanout": 3, **options}), data) > 75


def test_best_first_search_has_a_higher_p3_than_the_papers_search(data):
    options = {"tree": "complete", "fanout": 2, "leaf_size": 2, "ensemble": 1}
    hard = precision(HierarchicalXC(**options, search="hard"), data, k=3)
    assert precision(HierarchicalXC(**options, search="best-first"), data, k=3) > hard


def test_a_chain_five_thousand_deep_is_trained_and_searched():
    n = 5000
    inner = np.arange(-1, n - 1)
    leaves = np.concatenate([np.arange(n), [n - 1]])
    tree = LabelTree.from_parents(
        np.concatenate([inner, leaves]), np.concatenate([np.full(n, -1), np.arange(n + 1)]), n + 1
    )
    assert tree.depth.max() == n
    used_labels = [3, 100, n - 1, n]
    Y = csr_matrix((np.ones(8), ([*range(8)], used_labels * 2)), shape=(8, n + 1), dtype=np.float32)
    X = csr_matrix(np.tile(np.eye(4, dtype=np.float32), (2, 1)))
    assert reached(Y, tree)[0].nnz == 8
    used = LabelTree.from_parents(
        tree.parent, np.where(np.isin(tree.label, used_labels), tree.label, -1), n + 1
    ).trimmed()
    assert used.depth.max() == n
    weights = train_edges(X, Y, used, loss="squared_hinge", C=100.0, prune=0.0, seed=0)
    for kind in range(3):
        labels, logs, _ = find_labels(X, linear(used, weights), Search(kind, 10, 0.5, True), 1)
        assert labels.ravel().tolist() == used_labels * 2
        assert (logs > -1).all()


def test_precision_on_bibtex(shared_data):
    from labelspace.data import read

    data = read(shared_data("bibtex") / "train.txt.gz")
    rest, cut = data.split(0.1)
    model = HierarchicalXC(ensemble=1, loss="squared_hinge").fit(rest.features, rest.labels)
    found = evaluate(model.predict(cut.features, 5), cut.labels, bands=False)
    assert found["P@1"] > 58
    assert found["P@5"] > 26
