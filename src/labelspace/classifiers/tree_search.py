"""Search for the best labels in a tree of classifiers, in compiled loops without recursion.

The score of a label is the product of the probabilities along its path, computed as a sum of
logarithms so that it does not underflow in deep trees:

    log p(l | x) = sum over edges of log P(child | parent, x)
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part
from labelspace._core.sorting import stable_order
from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best, pop, push
from labelspace.classifiers.tree_networks import Networks, network_margins
from labelspace.classifiers.tree_weights import (
    HINGE_SLOPE,
    EdgeWeights,
    FeatureBuckets,
    edge_margins,
)
from labelspace.labels.tree import LabelTree


class Classifiers(NamedTuple):
    """A tree and the classifiers of its edges, linear or networks; the other part is empty.

    Attributes
    ----------
    first_child : ndarray of shape (n_nodes + 1,)
        The children of node i are first_child[i] to first_child[i + 1] - 1.
    label : ndarray of shape (n_nodes,)
        Label of each leaf.
    linear : EdgeWeights
    places : FeatureBuckets
        Of `linear`.
    networks : Networks
    inner : int
        Number of nodes that have children.
    widest : int
        Largest number of children.
    """

    first_child: np.ndarray
    label: np.ndarray
    linear: EdgeWeights
    places: FeatureBuckets
    networks: Networks
    inner: int
    widest: int

    @classmethod
    def of(cls, tree: LabelTree, linear: EdgeWeights, networks: Networks) -> Self:
        """Return the classifiers of a tree."""
        widths = np.diff(tree.first_child)
        inner, widest = int(np.count_nonzero(widths)), int(widths.max(initial=0))
        places = FeatureBuckets.of(linear)
        return cls(tree.first_child, tree.label, linear, places, networks, inner, widest)


class Search(NamedTuple):
    """How a tree is searched.

    Attributes
    ----------
    kind : int
        0: best first; 1: beam search; 2: every edge above the threshold.
    beam : int
        Nodes per level that beam search expands.
    threshold : float
        Least probability of an edge, with kind 2.
    hinge : bool
        Whether margins are those of a squared hinge.
    unit : bool
        Whether rows are scaled to length 1.
    """

    kind: int
    beam: int
    threshold: float
    hinge: bool
    unit: bool = False


def find_labels(
    X: csr_matrix, model: Classifiers, search: Search, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the k best labels of each row.

    Parameters
    ----------
    X : csr_matrix
        Inputs of the classifiers.
    model : Classifiers
    search : Search
    k : int

    Returns
    -------
    labels : ndarray of shape (n, k)
        -1 pads.
    logs : ndarray of shape (n, k)
        Logarithms of the path probabilities; -inf pads.
    expanded : ndarray of shape (n,)
        Number of nodes whose children were scored.
    """
    n = X.shape[0]
    labels, logs = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf)
    scored = np.zeros(n, np.int64)

    def block(start: int, stop: int) -> None:
        _find(
            *(X.indptr[start : stop + 1], X.indices, X.data, model, search),
            *(labels[start:stop], logs[start:stop], scored[start:stop]),
        )

    parallel_blocks(n, block, block=64, least=8)
    return labels, logs, scored


def averaged(found: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k labels with the highest mean probability over the trees, and these means.

    `found` holds labels and logarithms of each tree. A label that a tree did not find has
    probability 0 there.
    """
    if len(found) == 1 and found[0][0].shape[1] == k:
        return found[0][0], np.exp(found[0][1])
    candidates = np.hstack([labels for labels, _ in found])
    shares = np.hstack([np.exp(logs) for _, logs in found]) / len(found)
    labels = np.full((len(candidates), k), -1, np.int64)
    scores = np.zeros((len(candidates), k), np.float64)
    _average(candidates, shares, labels, scores)
    return labels, scores


@loop
def _find(indptr, indices, data, model, search, labels, logs, scored):  # type: ignore[no-untyped-def]
    """Search the tree for each row of a block."""
    edges = np.empty(model.widest, np.float64)
    size = min(model.inner, search.beam) if search.kind == 1 else model.inner
    nodes, sums = np.empty(size, np.int64), np.empty(size, np.float64)
    next_nodes, next_sums = np.empty(size, np.int64), np.empty(size, np.float64)
    for row in range(len(labels)):
        start, stop = indptr[row], indptr[row + 1]
        scale = inverse_length(data, start, stop) if search.unit else np.float32(1.0)
        x = indices[start:stop], scale * data[start:stop]
        if model.inner == 0:
            continue
        if search.kind == 0:
            scored[row] = _best_first(x, model, search, edges, nodes, sums, labels[row], logs[row])
        elif search.kind == 1:
            frontier = nodes, sums, next_nodes, next_sums
            scored[row] = _beams(x, model, search, edges, frontier, labels[row], logs[row])
        else:
            scored[row] = _hard(x, model, search, edges, nodes, sums, labels[row], logs[row])


@loop_part
def _best_first(x, model, search, edges, heap, sums, labels, logs):  # type: ignore[no-untyped-def]
    """Expand the most likely node until k labels are at least as likely as every node left."""
    k, filled, scored = len(labels), 0, 0
    heap[0], sums[0], size = 0, 0.0, 1
    while size and not (filled == k and sums[0] < logs[k - 1]):
        node, above = heap[0], sums[0]
        size = pop(sums, heap, size)
        scored += 1
        first = model.first_child[node]
        for n in range(_score_children(x, model, node, search.hinge, edges)):
            if filled == k and above + min(edges[n], 0.0) < logs[k - 1]:
                continue
            log = above + _log_sigmoid(edges[n])
            if log == -np.inf or (filled == k and log < logs[k - 1]):
                continue
            child = first + n
            if model.first_child[child] == model.first_child[child + 1]:
                filled = keep_best(log, model.label[child], logs, labels, filled)
            else:
                size = push(log, child, sums, heap, size)
    return scored


@loop_part
def _beams(x, model, search, edges, frontier, labels, logs):  # type: ignore[no-untyped-def]
    """Expand the most likely nodes of each level."""
    nodes, sums, next_nodes, next_sums = frontier
    k, filled, scored = len(labels), 0, 0
    nodes[0], sums[0], size = 0, 0.0, 1
    while size:
        next_size = 0
        for place in range(size):
            if filled == k and sums[place] < logs[k - 1]:
                break  # no label below it, or below the nodes after it, can be better
            scored += 1
            first = model.first_child[nodes[place]]
            for n in range(_score_children(x, model, nodes[place], search.hinge, edges)):
                child = first + n
                leaf = model.first_child[child] == model.first_child[child + 1]
                most = sums[place] + min(edges[n], 0.0)  # a bound that needs no logarithm
                full = not leaf and next_size == len(next_sums)
                if (filled == k and most < logs[k - 1]) or (full and most < next_sums[-1]):
                    continue
                log = sums[place] + _log_sigmoid(edges[n])
                if log == -np.inf or (filled == k and log < logs[k - 1]):
                    continue
                if leaf:
                    filled = keep_best(log, model.label[child], logs, labels, filled)
                else:
                    next_size = keep_best(log, child, next_sums, next_nodes, next_size)
        nodes, next_nodes = next_nodes, nodes
        sums, next_sums = next_sums, sums
        size = next_size
    return scored


@loop_part
def _hard(x, model, search, edges, stack, sums, labels, logs):  # type: ignore[no-untyped-def]
    """Expand every child whose own probability reaches the threshold, as in the paper."""
    limit = np.log(search.threshold)
    filled, scored = 0, 0
    stack[0], sums[0], size = 0, 0.0, 1
    while size:
        size -= 1
        node, above = stack[size], sums[size]
        scored += 1
        first = model.first_child[node]
        for n in range(_score_children(x, model, node, search.hinge, edges)):
            log = _log_sigmoid(edges[n])
            if log < limit:
                continue
            child = first + n
            if model.first_child[child] == model.first_child[child + 1]:
                filled = keep_best(above + log, model.label[child], logs, labels, filled)
            else:
                stack[size], sums[size] = child, above + log
                size += 1
    return scored


@loop_part
def _score_children(x, model, node, hinge, edges):  # type: ignore[no-untyped-def]
    """Write the log odds of a node's children to `edges`; return their number."""
    first = model.first_child[node]
    width = model.first_child[node + 1] - first
    if len(model.networks.hidden):
        network_margins(x, model.networks, node, first, width, edges)
    else:
        edge_margins(x, model.linear, model.places, node, first, width, edges)
    if hinge:
        for n in range(width):
            edges[n] *= HINGE_SLOPE
    return width


@loop_part
def _log_sigmoid(margin):  # type: ignore[no-untyped-def]
    """Return the logarithm of the sigmoid, which is at most the margin, and at most 0."""
    return -np.log1p(np.exp(-margin)) if margin > -30.0 else margin


@loop
def _average(candidates, shares, labels, scores):  # type: ignore[no-untyped-def]
    """Write the labels with the largest sums of `shares`, row by row."""
    for row in range(len(candidates)):
        order = stable_order(candidates[row])
        filled, place = 0, 0
        while place < len(order):
            label, score = candidates[row, order[place]], 0.0
            while place < len(order) and candidates[row, order[place]] == label:
                score += shares[row, order[place]]
                place += 1
            if label >= 0:
                filled = keep_best(score, label, scores[row], labels[row], filled)
