"""Every edge of a label tree as a binary problem: of those who reach the parent, who goes on?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, vstack

from labelspace.classifiers.dual_descent import Loss, Tasks, solve
from labelspace.classifiers.tree_weights import HINGE_SLOPE
from labelspace.labels.tree import LabelTree

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

_SURE = 30.0  # log odds
CELLS_AT_A_TIME = 1 << 25  # examples of tasks that are solved together, 5 bytes each


def train_edges(
    X: csr_matrix,
    Y: csr_matrix,
    tree: LabelTree,
    *,
    loss: Loss,
    C: float,
    prune: float,
    seed: int,
    progress: Callable[[int], None] | None = None,
    blocks: Callable[[int], Blocks | None] = lambda _: None,
) -> csr_matrix:
    """Weights (nodes, features + 1) of P(node | parent, x); the last column is the bias.

    An example reaches a node if it carries a label below. A node's classifier is trained on the
    examples that reach its parent, so that none, some or all children of a node may be right.
    The root's row is empty, as every example is there. `blocks` keeps the weights of the n-th range
    of nodes as they are done.
    """
    reach = reached(Y, tree)
    parts = [csr_matrix((1, X.shape[1] + 1), dtype=np.float32)]
    for number, (start, stop) in enumerate(_blocks(tree, np.diff(reach.indptr))):
        tasks = edge_tasks(reach, tree, start, stop)
        found = solve(
            *(X, tasks),
            loss=loss, C=C, prune=prune, seed=seed + 1_000_003 * number,
            progress=progress, blocks=blocks(number),
        )  # fmt: skip
        parts.append(found)
    weights = csr_matrix(vstack(parts, "csr"))
    return weights + _certain(reach, tree, weights.shape[1], loss)


def reached(Y: csr_matrix, tree: LabelTree) -> csr_matrix:
    """(nodes, examples): who has a label at or below each node."""
    lengths = np.zeros(Y.shape[0] + 1, np.int64)
    nodes = np.empty(0, np.int32)
    _climb(Y.indptr, Y.indices, tree.node_of, tree.parent, lengths[1:], nodes)
    indptr = lengths.cumsum()
    nodes = np.empty(int(indptr[-1]), np.int32)
    _climb(Y.indptr, Y.indices, tree.node_of, tree.parent, lengths[1:], nodes)
    ones = np.ones(len(nodes), np.bool_)
    by_example = csr_matrix((ones, nodes, indptr), shape=(Y.shape[0], len(tree)), copy=False)
    return csr_matrix(by_example.T)


def edge_tasks(reach: csr_matrix, tree: LabelTree, start: int, stop: int) -> Tasks:
    """The binary problems of nodes start to stop - 1; nodes that all go on to have no examples."""
    counts = np.diff(reach.indptr)
    parents = tree.parent[start:stop]
    open_ones = counts[start:stop] < counts[parents]
    indptr = np.concatenate([[0], np.where(open_ones, counts[parents], 0).cumsum()])
    rows, positive = np.empty(int(indptr[-1]), np.int32), np.zeros(int(indptr[-1]), np.bool_)
    _fill(reach.indptr, reach.indices, tree.parent, start, indptr, rows, positive)
    return Tasks(indptr, rows, positive)


def _blocks(tree: LabelTree, counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of nodes whose tasks fit into memory together."""
    sizes = np.concatenate([[0], counts[tree.parent[1:]]]).cumsum()
    start = 1
    while start < len(tree):
        limit = sizes[start - 1] + CELLS_AT_A_TIME
        stop = max(start + 1, int(np.searchsorted(sizes, limit, side="right")))
        yield start, min(stop, len(tree))
        start = stop


def _certain(reach: csr_matrix, tree: LabelTree, width: int, loss: Loss) -> csr_matrix:
    """Biases of the nodes that all who reach the parent go on to."""
    counts = np.diff(reach.indptr)
    nodes = 1 + np.flatnonzero(counts[1:] == counts[tree.parent[1:]])
    # Squared hinge takes them for sure; logistic is as sure as it has examples.
    sure = np.full(len(nodes), _SURE / HINGE_SLOPE)
    bias = sure if loss == "squared_hinge" else np.log1p(counts[nodes])
    cells = (bias.astype(np.float32), (nodes, np.full(len(nodes), width - 1)))
    return csr_matrix(cells, shape=(len(tree), width))


@njit(cache=True, nogil=True)
def _climb(indptr, indices, node_of, parent, lengths, nodes):  # type: ignore[no-untyped-def]
    """The nodes each example reaches, every one once; only counted if `nodes` has no room."""
    last = np.full(len(parent), -1, np.int64)  # the last example that came by
    filled = 0
    for row in range(len(indptr) - 1):
        before = filled
        for cell in range(indptr[row], indptr[row + 1]):
            node = node_of[indices[cell]]
            while node >= 0 and last[node] != row:
                last[node] = row
                if filled < len(nodes):
                    nodes[filled] = node
                filled += 1
                node = parent[node]
        lengths[row] = filled - before


@njit(cache=True, nogil=True)
def _fill(reach_indptr, examples, parent, start, indptr, rows, positive):  # type: ignore[no-untyped-def]
    for task in range(len(indptr) - 1):
        if indptr[task] == indptr[task + 1]:
            continue
        mine, end = reach_indptr[start + task], reach_indptr[start + task + 1]
        at = indptr[task]
        above = parent[start + task]
        for cell in range(reach_indptr[above], reach_indptr[above + 1]):
            rows[at] = examples[cell]
            if mine < end and examples[mine] == examples[cell]:
                positive[at] = True
                mine += 1
            at += 1
