"""Linear classifiers of the edges of a label tree, as binary problems.

An example reaches a node if it has a label at or below it. The problem of an edge is: of the
examples that reach the parent, which reach the child?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.compiled import loop
from labelspace.classifiers.dual_descent import (
    PASSES,
    TOLERANCE,
    Loss,
    Tasks,
    keep_whole,
    kept_whole,
    solve,
)
from labelspace.classifiers.dual_descent_loops import Settings
from labelspace.classifiers.siblings import solve_sibling_edges
from labelspace.classifiers.tree_weights import HINGE_SLOPE
from labelspace.engine import current
from labelspace.labels.tree import LabelTree

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

SEED_STEP = 1_000_003  # between the seeds of two ranges of nodes
_MAX_LOG_ODDS = 30.0  # of an edge that all examples take
CELLS_AT_A_TIME = 1 << 25  # training examples of the edges that are solved together, 5 bytes each


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
    """Fit a linear classifier P(node | parent, x) per edge of a tree.

    Parameters
    ----------
    X : csr_matrix of shape (n, n_features)
        Inputs of length 1.
    Y : csr_matrix of shape (n, n_labels)
    tree : LabelTree
    loss : {"logistic", "squared_hinge"}
    C : float
        Weight of the losses against the size of the weights.
    prune : float
        Weights below this absolute value are set to zero.
    seed : int
    progress : callable, optional
        Called with the number of edges that are done since the last call.
    blocks : callable, optional
        Returns where the weights of the n-th range of nodes are kept, for checkpoints.

    Returns
    -------
    csr_matrix of shape (n_nodes, n_features + 1)
        The last column is the bias. The root's row is empty.
    """
    root = csr_matrix((1, X.shape[1] + 1), dtype=np.float32)
    weights = solve_edges(
        *(X, reached(Y, tree), tree, np.arange(1, len(tree))),
        loss=loss, C=C, prune=prune, seed=seed, progress=progress, blocks=blocks,
    )  # fmt: skip
    return csr_matrix(vstack([root, weights], "csr"))


def solve_edges(
    X: csr_matrix,
    reach: csr_matrix,
    tree: LabelTree,
    nodes: np.ndarray,
    *,
    loss: Loss,
    C: float,
    prune: float,
    seed: int,
    progress: Callable[[int], None] | None = None,
    blocks: Callable[[int], Blocks | None] = lambda _: None,
) -> csr_matrix:
    """Fit the classifiers of the edges above some nodes, of which none is the root.

    Parameters
    ----------
    X : csr_matrix of shape (n, n_features)
        Inputs of length 1.
    reach : csr_matrix of shape (n_nodes, n)
        What `reached` returns.
    tree : LabelTree
    nodes : ndarray
        At least one node, sorted.
    loss, C, prune, seed, progress, blocks
        As of `train_edges`.

    Returns
    -------
    csr_matrix of shape (len(nodes), n_features + 1)
    """
    counts = np.diff(reach.indptr)
    ranges = list(_blocks(counts[tree.parent[nodes]]))
    settings: dict[str, Any] = {"loss": loss, "C": C, "prune": prune}
    if loss == "squared_hinge":
        given = Settings(float(C), TOLERANCE, PASSES, float(prune), seed)
        parts = [solve_sibling_edges(X, reach, tree, nodes, given, progress, blocks(0))]
    elif len(ranges) > 1 and current().shards > 1:
        kept = [blocks(number) for number in range(len(ranges))]
        parts = _solve_elsewhere(X, reach, tree, nodes, ranges, kept, progress, seed, settings)
    else:
        parts = [
            solve(
                *(X, edge_tasks(reach, tree, nodes[start:stop])),
                **settings,
                seed=seed + SEED_STEP * number,
                progress=progress,
                blocks=blocks(number),
            )
            for number, (start, stop) in enumerate(ranges)
        ]
    weights = csr_matrix(vstack(parts, "csr"))
    return weights + _certain(counts, tree, nodes, weights.shape[1], loss)


def _solve_elsewhere(
    X: csr_matrix,
    reach: csr_matrix,
    tree: LabelTree,
    nodes: np.ndarray,
    ranges: list[tuple[int, int]],
    kept: list[Blocks | None],
    progress: Callable[[int], None] | None,
    seed: int,
    settings: dict[str, Any],
) -> list[csr_matrix]:
    """Return the weights of ranges of nodes, each range a task of the engine.

    The arrays of all ranges are sent to the nodes of a cluster once.
    """
    sizes = [stop - start for start, stop in ranges]
    found = {
        number: kept_part
        for number, size in enumerate(sizes)
        if (kept_part := kept_whole(kept[number], size, X.shape[1] + 1)) is not None
    }

    def keep(place: int, weights: csr_matrix) -> None:
        number = missing[place][0]
        found[number] = weights
        keep_whole(kept[number], weights)
        if progress is not None:
            progress(sizes[number])

    if progress is not None:
        progress(sum(sizes[number] for number in found))
    missing = [(number, *bounds) for number, bounds in enumerate(ranges) if number not in found]
    current().map(
        _solve_range,
        missing,
        shared={"X": X, "reach": reach, "tree": tree, "nodes": nodes, "seed": seed, **settings},
        on_result=keep,
    )
    return [found[number] for number in range(len(ranges))]


def _solve_range(
    task: tuple[int, int, int],
    *,
    X: csr_matrix,
    reach: csr_matrix,
    tree: LabelTree,
    nodes: np.ndarray,
    seed: int,
    **settings: Any,
) -> csr_matrix:
    number, start, stop = task
    tasks = edge_tasks(reach, tree, nodes[start:stop])
    return solve(X, tasks, **settings, seed=seed + SEED_STEP * number)


def reached(Y: csr_matrix, tree: LabelTree, of: np.ndarray | None = None) -> csr_matrix:
    """Return the examples that have a label at or below each node, a matrix (nodes, examples).

    With `of`, only these nodes have examples.
    """
    wanted = np.full(len(tree), of is None)
    if of is not None:
        wanted[of] = True
    lengths = np.zeros(Y.shape[0] + 1, np.int64)
    nodes = np.empty(0, np.int32)
    _climb(Y.indptr, Y.indices, tree.node_of, tree.parent, wanted, lengths[1:], nodes)
    indptr = lengths.cumsum()
    nodes = np.empty(int(indptr[-1]), np.int32)
    _climb(Y.indptr, Y.indices, tree.node_of, tree.parent, wanted, lengths[1:], nodes)
    ones = np.ones(len(nodes), np.bool_)
    by_example = csr_matrix((ones, nodes, indptr), shape=(Y.shape[0], len(tree)), copy=False)
    return csr_matrix(by_example.T)


def numbers_reached(Y: csr_matrix, tree: LabelTree) -> np.ndarray:
    """Return the number of examples that have a label at or below each node."""
    counts = np.zeros(len(tree), np.int64)
    _count_climbs(Y.indptr, Y.indices, tree.node_of, tree.parent, counts)
    return counts


def edge_tasks(reach: csr_matrix, tree: LabelTree, nodes: np.ndarray) -> Tasks:
    """Return the binary problems of the nodes.

    A node that all examples of its parent reach has no examples: see `_certain`.
    """
    counts = np.diff(reach.indptr)
    parents = tree.parent[nodes]
    uncertain = counts[nodes] < counts[parents]
    indptr = np.concatenate([[0], np.where(uncertain, counts[parents], 0).cumsum()])
    rows, positive = np.empty(int(indptr[-1]), np.int32), np.zeros(int(indptr[-1]), np.bool_)
    _fill(reach.indptr, reach.indices, tree.parent, nodes, indptr, rows, positive)
    return Tasks(indptr, rows, positive)


def _blocks(counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of problems, of so many examples, with at most CELLS_AT_A_TIME together."""
    sizes = np.concatenate([[0], counts]).cumsum()
    start = 0
    while start < len(counts):
        limit = sizes[start] + CELLS_AT_A_TIME
        stop = max(start + 1, int(np.searchsorted(sizes, limit, side="right")) - 1)
        yield start, stop
        start = stop


def _certain(
    counts: np.ndarray, tree: LabelTree, nodes: np.ndarray, width: int, loss: Loss
) -> csr_matrix:
    """Return the biases of those of the nodes that all examples of the parent reach."""
    rows = np.flatnonzero(counts[nodes] == counts[tree.parent[nodes]])
    # By the squared hinge they are certain; by the logistic loss the more so, the more examples.
    certain = np.full(len(rows), _MAX_LOG_ODDS / HINGE_SLOPE)
    bias = certain if loss == "squared_hinge" else np.log1p(counts[nodes[rows]])
    cells = (bias.astype(np.float32), (rows, np.full(len(rows), width - 1)))
    return csr_matrix(cells, shape=(len(nodes), width))


@loop
def _count_climbs(indptr, indices, node_of, parent, counts):  # type: ignore[no-untyped-def]
    last = np.full(len(parent), -1, np.int64)  # the last example that reached each node
    for row in range(len(indptr) - 1):
        for cell in range(indptr[row], indptr[row + 1]):
            node = node_of[indices[cell]]
            while node >= 0 and last[node] != row:
                last[node] = row
                counts[node] += 1
                node = parent[node]


@loop
def _climb(indptr, indices, node_of, parent, wanted, lengths, nodes):  # type: ignore[no-untyped-def]
    """Write the wanted nodes that each example reaches; only count them if `nodes` is empty."""
    last = np.full(len(parent), -1, np.int64)  # the last example that reached each node
    filled = 0
    for row in range(len(indptr) - 1):
        before = filled
        for cell in range(indptr[row], indptr[row + 1]):
            node = node_of[indices[cell]]
            while node >= 0 and last[node] != row:
                last[node] = row
                if wanted[node]:
                    if filled < len(nodes):
                        nodes[filled] = node
                    filled += 1
                node = parent[node]
        lengths[row] = filled - before


@loop
def _fill(reach_indptr, examples, parent, nodes, indptr, rows, positive):  # type: ignore[no-untyped-def]
    """Write the examples of each problem, and whether they are positive."""
    for task in range(len(indptr) - 1):
        if indptr[task] == indptr[task + 1]:
            continue
        mine, end = reach_indptr[nodes[task]], reach_indptr[nodes[task] + 1]
        at = indptr[task]
        above = parent[nodes[task]]
        for cell in range(reach_indptr[above], reach_indptr[above + 1]):
            rows[at] = examples[cell]
            if mine < end and examples[mine] == examples[cell]:
                positive[at] = True
                mine += 1
            at += 1
