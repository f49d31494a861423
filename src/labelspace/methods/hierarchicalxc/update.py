"""`partial_fit` of HierarchicalXC: further examples and labels for trees of classifiers.

The trees stay as they are. A new label becomes a leaf beside the labels that the tree finds for the
label's examples: the classifiers above that place already lead there. Classifiers of edges are
fitted again once so many more examples reach the child (`components/examples.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.classifiers.tree_edges import numbers_reached, reached, solve_edges
from labelspace.classifiers.tree_networks import NO_NETWORKS
from labelspace.classifiers.tree_search import Classifiers
from labelspace.classifiers.tree_weights import (
    EdgeWeights,
    numbers_of_weights,
    replaced_children,
    with_chunks,
)
from labelspace.components.examples import due_for_fit
from labelspace.labels.tree import LabelTree, level_order

if TYPE_CHECKING:
    from labelspace.components.examples import Examples
    from labelspace.methods.hierarchicalxc.method import HierarchicalXC

PLACED_BY = 20  # examples of a new label that are searched for in the tree, at most
FOUND = 10  # labels per such example


def update(model: HierarchicalXC, examples: Examples) -> None:
    """Update all trees by all examples, old and new; there may be more labels than before."""
    for member, tree in enumerate(model.trees_):
        grown, number = _with_leaves(tree, examples.Y, _parents(model, member, examples))
        _refit_edges(model, member, examples, grown, number)


def _parents(
    model: HierarchicalXC, member: int, examples: Examples
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels that have examples and no node, and the node to place each below.

    It is the parent of the labels found for the label's examples, by their path probabilities.
    """
    tree, Y = model.trees_[member], examples.Y
    known = np.zeros(Y.shape[1], np.bool_)
    known[: tree.n_labels] = tree.node_of >= 0
    labels = np.flatnonzero(~known & (np.bincount(Y.indices, minlength=Y.shape[1]) > 0))
    if len(labels) == 0:
        return labels, labels
    carrying = Y[:, labels].T.tocsr()
    firsts = [carrying[place].indices[:PLACED_BY] for place in range(len(labels))]
    rows = np.unique(np.concatenate(firsts))
    inputs = model.inputs_(examples.rows(rows))
    found, logs, _ = model.find(inputs, member, min(FOUND, tree.n_labels))
    parents = np.where(found >= 0, tree.parent[tree.node_of[found]], -1)
    fallback = tree.parent[tree.leaves[-1]]  # for examples of which the tree finds no label
    chosen = np.full(len(labels), fallback, np.int64)
    for place, own in enumerate(firsts):
        at = np.searchsorted(rows, own)
        candidates, shares = parents[at].ravel(), np.exp(logs[at]).ravel()
        nodes, of = np.unique(candidates[candidates >= 0], return_inverse=True)
        if len(nodes):
            chosen[place] = nodes[np.bincount(of, shares[candidates >= 0]).argmax()]
    return labels, chosen


def _with_leaves(
    tree: LabelTree, Y: csr_matrix, placed: tuple[np.ndarray, np.ndarray]
) -> tuple[LabelTree, np.ndarray]:
    """Return the tree with a leaf for each new label, and the number there of each node."""
    labels, parents = placed
    parent = np.concatenate([tree.parent, parents])
    label = np.concatenate([tree.label, labels])
    order = level_order(parent)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    grown = LabelTree.in_order(parent, label, Y.shape[1], order)
    return grown, number[: len(tree)]


def _refit_edges(
    model: HierarchicalXC,
    member: int,
    examples: Examples,
    tree: LabelTree,
    number: np.ndarray,
) -> None:
    """Replace a tree by the grown one, and fit the classifiers that are due."""
    before = model.classifiers_[member].linear
    counts, fitted = numbers_reached(examples.Y, tree), np.zeros(len(tree), np.int64)
    fitted[number] = model.fitted_counts_[member]
    due = due_for_fit(counts, fitted)
    due = np.union1d(due, _no_longer_certain(before, tree, number, counts))
    due = due[due > 0]
    if len(due):
        reach = reached(examples.Y, tree, np.union1d(due, tree.parent[due]))
        rows = np.unique(reach.indices)
        places = np.searchsorted(rows, reach.indices)
        own_reach = csr_matrix(
            (reach.data, places, reach.indptr), shape=(len(tree), len(rows)), copy=False
        )
        found = solve_edges(
            *(model.inputs_(examples.rows(rows)), own_reach, tree, due),
            **model.descent(member),
            seed=model.seed_of(member),
        )
        parents = np.unique(tree.parent[due])
        own = _children(before, tree, number, parents, due, found)
        weights = with_chunks(before, tree, number, parents, own)
        model.classifiers_[member] = Classifiers.of(tree, weights, NO_NETWORKS)
    fitted[due] = counts[due]
    model.trees_[member], model.fitted_counts_[member] = tree, fitted


def _no_longer_certain(
    weights: EdgeWeights, tree: LabelTree, number: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Return nodes that all examples of the parent reached when fitted, but not all do now.

    They have a positive bias and no other weights.
    """
    nodes = number[np.flatnonzero(weights.bias > 0)]
    nodes = nodes[(nodes > 0) & (counts[nodes] < counts[tree.parent[nodes]])]
    parents = np.unique(tree.parent[nodes])
    first_row = _first_rows(tree, parents)
    sizes = numbers_of_weights(weights, first_row, np.searchsorted(number, parents))
    place = np.searchsorted(parents, tree.parent[nodes])
    rows = first_row[place] + nodes - tree.first_child[tree.parent[nodes]]
    return np.asarray(nodes[sizes[rows] == 0])


def _children(
    before: EdgeWeights,
    tree: LabelTree,
    number: np.ndarray,
    parents: np.ndarray,
    due: np.ndarray,
    found: csr_matrix,
) -> EdgeWeights:
    """Return the weights of all children of the parents, those of `due` as they were found."""
    first_row = _first_rows(tree, parents)
    place = np.searchsorted(parents, tree.parent[due])
    replaced = first_row[place] + due - tree.first_child[tree.parent[due]]
    bias = np.zeros(len(tree), np.float32)
    bias[number] = before.bias
    children = np.concatenate([np.arange(*tree.first_child[[p, p + 1]]) for p in parents])
    old_parents = np.searchsorted(number, parents)
    return replaced_children(before, first_row, old_parents, replaced, found, bias[children])


def _first_rows(tree: LabelTree, parents: np.ndarray) -> np.ndarray:
    """Return where the children of each parent begin if they are listed one after the other."""
    sizes = tree.first_child[parents + 1].astype(np.int64) - tree.first_child[parents]
    return np.concatenate([[0], sizes.cumsum()])
