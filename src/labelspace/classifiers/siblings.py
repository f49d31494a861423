"""Linear classifiers of a tree's edges by the squared hinge, siblings side by side.

The problems of siblings have the same examples, those that reach the parent, so that LANES of them
are solved at once (`lanes.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.threads import parallel_blocks
from labelspace.classifiers.dual_descent import BlockWeights, fixed, in_blocks, loop_examples
from labelspace.classifiers.dual_descent_loops import Settings
from labelspace.classifiers.lanes import LANES
from labelspace.classifiers.sibling_loops import SiblingScratch, solve_siblings
from labelspace.labels.tree import LabelTree

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks


def solve_sibling_edges(
    X: csr_matrix,
    reach: csr_matrix,
    tree: LabelTree,
    nodes: np.ndarray,
    settings: Settings,
    progress: Callable[[int], None] | None = None,
    blocks: Blocks | None = None,
) -> csr_matrix:
    """Fit the classifiers of the edges above some nodes, of which none is the root.

    The same seed gives the same weights whatever the other nodes and the number of threads.

    Parameters
    ----------
    X : csr_matrix of shape (n, n_features)
    reach : csr_matrix of shape (n_nodes, n)
        The examples that reach each node, sorted.
    tree : LabelTree
    nodes : ndarray
        Sorted.
    settings : Settings
    progress, blocks
        As of `dual_descent.solve`.

    Returns
    -------
    csr_matrix of shape (len(nodes), n_features + 1), float32
        The last column is the bias. A node that all examples of its parent reach has no weights.
    """
    parents = tree.parent[nodes]
    problem = {
        "X": X,
        "reach_indptr": reach.indptr,
        "reached": reach.indices,
        "nodes": nodes,
        "bounds": (bounds := _bounds(parents)),
        "parents": parents,
        "settings": settings,
    }
    visits = np.diff(reach.indptr)[parents].sum()  # of examples, per pass
    work = float(visits) * X.nnz / max(1, X.shape[0])
    return in_blocks(
        *(solve_sibling_blocks, problem, bounds, X.shape[1] + 1, work),
        progress=progress, blocks=blocks,
    )  # fmt: skip


def solve_sibling_blocks(
    starts: Sequence[int],
    *,
    X: csr_matrix,
    reach_indptr: np.ndarray,
    reached: np.ndarray,
    nodes: np.ndarray,
    bounds: np.ndarray,
    parents: np.ndarray,
    settings: Settings,
    on_block: Callable[[int, BlockWeights], None] = lambda *_: None,
) -> dict[int, BlockWeights]:
    """Solve the problems of some groups of siblings on all cores: a task of an engine.

    Parameters
    ----------
    starts : sequence of int
        Which groups: the place of the first of each in `nodes`.
    X, nodes, settings
        As of `solve_sibling_edges`.
    reach_indptr, reached : ndarray
        Parts of `reach`.
    bounds : ndarray
        The places of the first siblings of all groups, and the number of nodes.
    parents : ndarray
        The parent of each node.
    on_block : callable, optional
        Called from any thread with the place of a group and its weights.

    Returns
    -------
    dict
        The counts, indices and values of the weights of each group, by its place.
    """
    examples = loop_examples(X)
    indptr, indices = fixed(reach_indptr, np.int64), fixed(reached, np.int32)
    stops = dict(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    children = fixed(nodes, np.int64)
    own = threading.local()
    done: dict[int, BlockWeights] = {}

    def work(first: int, last: int) -> None:
        if not hasattr(own, "scratch"):
            own.scratch = SiblingScratch.fresh(X.shape[1])
        for start in starts[first:last]:
            group, parent = children[start : stops[start]], int(parents[start])
            parts = solve_siblings(examples, indptr, indices, group, parent, settings, own.scratch)
            done[start] = parts
            on_block(start, parts)

    parallel_blocks(len(starts), work, block=1)
    return done


def _bounds(parents: np.ndarray) -> np.ndarray:
    """Return where groups of up to LANES siblings begin, and the number of nodes."""
    n = len(parents)
    begins = np.ones(n, np.bool_)
    begins[1:] = parents[1:] != parents[:-1]
    first = np.flatnonzero(begins)
    place = np.arange(n) - np.repeat(first, np.diff(np.append(first, n)))
    return np.append(np.flatnonzero(place % LANES == 0), n)
