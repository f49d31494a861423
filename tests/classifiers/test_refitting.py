"""Parts of classifiers that are fitted again are those of a fit on all examples."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import unit_rows, with_rows
from labelspace.classifiers.naive_bayes import Shortlister, label_weights, likeliest_examples
from labelspace.classifiers.one_vs_rest import UNSEEN, LinearRanker
from labelspace.classifiers.tree_weights import (
    lay_out,
    lay_out_children,
    numbers_of_weights,
    replaced_children,
    weights_of_children,
    with_chunks,
)
from labelspace.labels.tree import LabelTree, level_order
from support.planted import planted


def test_rows_are_replaced_and_appended():
    rng = np.random.default_rng(0)
    matrix = csr_matrix(rng.random((6, 5)) * (rng.random((6, 5)) < 0.5), dtype=np.float32)
    found = csr_matrix(rng.random((3, 5)), dtype=np.float32)
    for rows in ([0, 2, 5], [1, 6, 8], [6, 7, 8], [3, 4, 5]):
        wanted = np.zeros((9, 5), np.float32)
        wanted[:6] = matrix.toarray()
        wanted[rows] = found.toarray()
        got = with_rows(matrix, np.array(rows), found, 9)
        np.testing.assert_array_equal(got.toarray(), wanted)
    none = with_rows(matrix, np.zeros(0, np.int64), found[:0], 6)
    np.testing.assert_array_equal(none.toarray(), matrix.toarray())


def test_classifiers_fitted_again_are_those_of_all_examples():
    X, Y = planted(200, n_labels=10)
    Y = Y[:, :9]  # the last label has no example
    settings = {"prune": 0.0, "tolerance": 1e-4, "passes": 1000}
    first = LinearRanker.fit(X[:100], Y[:100, :7], **settings)
    labels = np.array([0, 3, 7])
    grown = first.refitted(X, Y, labels, **settings)
    whole = LinearRanker.fit(X, Y, **settings)
    assert grown.weights.shape == whole.weights.shape
    np.testing.assert_allclose(
        grown.weights[labels].toarray(), whole.weights[labels].toarray(), atol=1e-2
    )
    assert (grown.weights[[1, 2, 4, 5, 6]] != first.weights[[1, 2, 4, 5, 6]]).nnz == 0
    # The ninth label was not fitted.
    assert grown.weights[8].nnz == 1
    assert grown.weights[8, -1] == UNSEEN


def test_a_shortlister_updated_for_all_labels_is_that_of_all_examples():
    X, Y = planted(200)
    X = unit_rows(X)
    labels = np.arange(Y.shape[1])
    grown = Shortlister.fit(X[:100], Y[:100, :8]).updated(Y, labels, label_weights(X, Y))
    whole = Shortlister.fit(X, Y)
    np.testing.assert_array_equal(grown.postings.toarray(), whole.postings.toarray())
    np.testing.assert_array_equal(grown.offsets, whole.offsets)


def test_the_likeliest_examples_of_a_label_have_the_largest_sums():
    X, Y = planted(300)
    X = unit_rows(X)
    labels = np.array([2, 5])
    weights = label_weights(X, Y[:, labels])
    found = likeliest_examples(X.T.tocsr(), Y, labels, weights, 3).toarray()
    counts = np.bincount(Y.indices, minlength=Y.shape[1]) ** 1.17
    sums = (X @ weights.T).toarray()
    for place, label in enumerate(labels):
        wanted = int(np.ceil(3 * 300 * counts[label] / counts.sum()))
        taken = found[:, place] > 0
        assert taken.sum() == min(wanted, np.count_nonzero(sums[:, place]))
        assert sums[taken, place].min() >= sums[~taken, place].max() - 1e-6


def test_weights_of_a_grown_tree_are_laid_out_as_if_it_had_been_so_from_the_start():
    rng = np.random.default_rng(3)
    parent = np.array([-1, 0, 0, 0, 1, 1, 2, 2, 3])
    label = np.array([-1, -1, -1, -1, 0, 1, 2, 3, 4])
    tree = LabelTree.from_parents(parent, label, 5)
    weights = rng.standard_normal((9, 8)) * (rng.random((9, 8)) < 0.6)
    weights[0] = 0.0
    before = lay_out(tree, csr_matrix(weights, dtype=np.float32))
    order = level_order(np.concatenate([parent, [1, 3]]))
    number = np.empty(11, np.int64)
    number[order] = np.arange(11)
    grown = LabelTree.from_parents(
        np.concatenate([parent, [1, 3]]), np.concatenate([label, [5, 6]]), 7
    )
    wanted = np.zeros((11, 8), np.float32)
    wanted[number[:9]] = weights
    wanted[number[9:]] = rng.standard_normal((2, 8))
    wanted[number[8]] = rng.standard_normal(8)
    children = [*grown.children(1), *grown.children(3)]
    first_row = np.array([0, 3, 5])
    own = lay_out_children(first_row, csr_matrix(wanted[children]))
    got = with_chunks(before, grown, number[:9], np.array([1, 3]), own)
    for one, other in zip(got, lay_out(grown, csr_matrix(wanted)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_children_are_replaced_as_if_all_were_laid_out_again():
    rng = np.random.default_rng(5)
    parent = np.array([-1, 0, 0, 0, 1, 1, 2, 2, 3])
    tree = LabelTree.from_parents(parent, np.array([-1, -1, -1, -1, 0, 1, 2, 3, 4]), 5)
    weights = rng.standard_normal((9, 8)) * (rng.random((9, 8)) < 0.6)
    weights[[0, 5]] = 0.0
    before = lay_out(tree, csr_matrix(weights, dtype=np.float32))
    parents, first_row = np.array([0, 1, 3]), np.array([0, 3, 6, 8])  # two have another child
    rows = np.array([1, 2, 5, 6])  # the third of node 1 is new, and node 3's first has no weights
    found = rng.standard_normal((4, 8)) * (rng.random((4, 8)) < 0.7)
    found[3] = 0.0
    old = weights_of_children(before, first_row, parents, 7).toarray()
    bias = rng.standard_normal(8).astype(np.float32)
    wanted = old.copy()
    wanted[:, -1] = bias
    wanted[rows] = found
    own = csr_matrix(found, dtype=np.float32)
    got = replaced_children(before, first_row, parents, rows, own, bias)
    for one, other in zip(got, lay_out_children(first_row, csr_matrix(wanted)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    counts = numbers_of_weights(before, first_row, parents)
    np.testing.assert_array_equal(counts, np.count_nonzero(old, axis=1))
